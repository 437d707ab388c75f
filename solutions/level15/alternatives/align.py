"""Right programs, written another way, for level15.align. `alternative` is given when this is read."""

import torch

FIT, RANK = "level15.align.fit_ridge", "level15.align.rank_source_layers"


def _guard(X, Y, lam):
    if lam < 0 or len(X) != len(Y) or len(X) == 0:
        raise ValueError("rows or lam")
    return X.double(), Y.double()


def _augmented(X, Y, lam):
    """Least squares with sqrt(lam) · I below the centred rows."""
    X, Y = _guard(X, Y, lam)
    price = lam**0.5 * torch.eye(X.shape[1]).double()
    rows = torch.cat([X - X.mean(0), price])
    right = torch.cat([Y - Y.mean(0), torch.zeros(X.shape[1], Y.shape[1]).double()])
    W = torch.linalg.lstsq(rows, right, driver="gelsd").solution
    return W, (Y - X @ W).mean(0)


def _decomposed(X, Y, lam):
    """Singular values s become s / (s² + lam)."""
    X, Y = _guard(X, Y, lam)
    U, s, Vh = torch.linalg.svd(X - X.mean(0), full_matrices=False)
    W = Vh.T @ ((s / (s * s + lam).clamp_min(1e-300))[:, None] * (U.T @ (Y - Y.mean(0))))
    return W, Y.mean(0) - X.mean(0) @ W


def _column_of_ones(X, Y, lam):
    """Nothing is centred: the ones' place on the diagonal has no price."""
    X, Y = _guard(X, Y, lam)
    p = X.shape[1]
    wide = torch.cat([X, torch.ones(len(X), 1).double()], 1)
    price = torch.eye(p + 1).double() * lam
    price[p, p] = 0
    solved = torch.linalg.solve(wide.T @ wide + price, wide.T @ Y)
    return solved[:p], solved[p]


def _column_by_column(X, Y, lam):
    """By Cholesky, a target column at a time."""
    X, Y = _guard(X, Y, lam)
    centred = X - X.mean(0)
    factor = torch.linalg.cholesky(centred.T @ centred + lam * torch.eye(X.shape[1]).double())
    columns = [torch.cholesky_solve(centred.T @ (y - y.mean())[:, None], factor) for y in Y.T]
    W = torch.cat(columns, 1)
    return W, Y.mean(0) - X.mean(0) @ W


def _addmm(X, mapping):
    return torch.addmm(mapping[1], X.double(), mapping[0])


def _variances(Y, predicted):
    if Y.shape != predicted.shape:
        raise ValueError("shape")
    Y, error = Y.double(), Y.double() - predicted.double()
    total = Y.var(0, correction=0).sum().item()
    if total == 0:
        raise ValueError("constant")
    return 1.0 - error.pow(2).mean(0).sum().item() / total


def _column_sums(Y, predicted):
    if Y.shape != predicted.shape or not Y.double().std(0, correction=0).any():
        raise ValueError("Y")
    residual = total = 0.0
    for y, p in zip(Y.double().T, predicted.double().T):
        residual += float(torch.dot(y - p, y - p))
        total += float(torch.dot(y - y.mean(), y - y.mean()))
    return (total - residual) / total


def _one_at_a_time(sources, Y, lam, k):
    from level15.align import apply_map, fit_ridge, r2_score

    if k < 1 or k > len(sources):
        raise ValueError("k")
    scores = {i: round(r2_score(Y, apply_map(X, fit_ridge(X, Y, lam))), 9) for i, X in enumerate(sources)}
    best = []
    for _ in range(k):
        best.append(max(scores, key=scores.get))
        del scores[best[-1]]
    return best


def _stable_sort(sources, Y, lam, k):
    from level15.align import apply_map, fit_ridge, r2_score

    if k not in range(1, len(sources) + 1):
        raise ValueError("k")
    scores = torch.tensor([r2_score(Y, apply_map(X, fit_ridge(X, Y, lam))) for X in sources], dtype=torch.float64)
    return torch.sort(scores.round(decimals=9), descending=True, stable=True).indices[:k].tolist()


alternative(FIT, "augmented_rows", program=_augmented)
alternative(FIT, "singular_values", program=_decomposed)
alternative(FIT, "column_of_ones", program=_column_of_ones)
alternative(FIT, "column_by_column", program=_column_by_column)
alternative(FIT, "addmm", program=_addmm, part="apply_map")
alternative(RANK, "variances", program=_variances, part="r2_score")
alternative(RANK, "sums_of_columns", program=_column_sums, part="r2_score")
alternative(RANK, "one_at_a_time", program=_one_at_a_time)
alternative(RANK, "stable_sort", program=_stable_sort)
