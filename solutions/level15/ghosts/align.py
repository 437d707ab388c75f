"""Known-wrong programs of level15.align. `ghost` is given when this is read."""


def _fit(name, sentence, *change, **how):
    ghost("level15.align.fit_ridge", name, sentence, change=change, **how)


def _rank(name, sentence, *change, **how):
    ghost("level15.align.rank_source_layers", name, sentence, change=change, **how)


WIDE = "X, Y = X.double(), Y.double()"
CENTRED = "X = X - mean_x"
SOLVED = "W = torch.linalg.solve(X.T @ X + lam * torch.eye(X.shape[1], dtype=X.dtype), X.T @ (Y - mean_y))"
FITTED = "return W, mean_y - mean_x @ W"
APPLIED = "return X.double() @ W + b"

# ---- fit_ridge

_fit(
    "intercept_pays_too",
    "The intercept is free: with a column of ones under the price, b is drawn to 0. Centre X and Y first.",
    (
        SOLVED,
        "X = torch.cat([X + mean_x, torch.ones(len(X), 1, dtype=X.dtype)], 1)\n"
        "    W = torch.linalg.solve(X.T @ X + lam * torch.eye(X.shape[1], dtype=X.dtype), X.T @ Y)",
    ),
    (FITTED, "return W[:-1], W[-1]"),
)
_fit(
    "price_times_rows",
    "Sums, not means: dividing the products by the number of rows makes lam count that many times.",
    (
        SOLVED,
        "n = len(X)\n    W = torch.linalg.solve(X.T @ X / n + lam * torch.eye(X.shape[1], dtype=X.dtype), "
        "X.T @ (Y - mean_y) / n)",
    ),
)
_fit(
    "no_intercept",
    "Keys have a mean far from zero: the map needs an intercept. Yours goes through the origin.",
    (
        SOLVED,
        "X = X + mean_x\n    W = torch.linalg.solve(X.T @ X + lam * torch.eye(X.shape[1], dtype=X.dtype), X.T @ Y)",
    ),
    (FITTED, "return W, torch.zeros_like(mean_y)"),
)
_fit(
    "intercept_is_the_mean",
    "b is the mean of Y less what W makes of the mean of X: yours is the mean of Y alone.",
    (FITTED, "return W, mean_y"),
)
_fit(
    "only_x_centred_at_the_end",
    "W is fitted to centred columns: without taking the mean of X out, its square counts as variance.",
    (CENTRED, "X = X.clone()"),
)
_fit(
    "no_price",
    "lam |W|² belongs to what is minimised: yours is plain least squares.",
    (SOLVED, "W = torch.linalg.lstsq(X, Y - mean_y, driver='gelsd').solution"),
)
_fit(
    "price_squared",
    "The price is lam, not its square: rows put below X carry the square root of lam.",
    ("lam * torch.eye", "lam**2 * torch.eye"),
)
_fit(
    "other_direction",
    "Fit the target from the source. A map of Y to X, inverted, is another one: noise is then paid on the other side.",
    (
        SOLVED,
        "back = torch.linalg.solve((Y - mean_y).T @ (Y - mean_y) + lam * torch.eye(Y.shape[1], dtype=X.dtype), "
        "(Y - mean_y).T @ X)\n    W = torch.linalg.pinv(back)",
    ),
)
_fit(
    "scaled_columns",
    "|W|² is of the columns as they are: standardized ones pay another price.",
    (
        SOLVED,
        "size = X.square().mean(0).sqrt().clamp_min(1e-12)\n    X = X / size\n"
        "    W = torch.linalg.solve(X.T @ X + lam * torch.eye(X.shape[1], dtype=X.dtype), X.T @ (Y - mean_y))"
        " / size[:, None]",
    ),
)
_fit(
    "sums_in_float32",
    "Columns with a large mean lose their differences in float32: compute in float64.",
    (WIDE, "X, Y = X.float(), Y.float()"),
    (FITTED, "return W.double(), (mean_y - mean_x @ W).double()"),
)
_fit(
    "narrow_map",
    "W and b come back in float64, whatever the caches are.",
    (FITTED, "return W.float(), (mean_y - mean_x @ W).float()"),
)
_fit("linear_only", "The map is affine: add b to what W makes of X.", (APPLIED, "return X.double() @ W"))
_fit(
    "intercept_first",
    "b is added after the product: before it, it would be a mean of X.",
    (APPLIED, "return (X.double() - X.double().mean(0)) @ W + b"),
)
_fit(
    "rounded_on_the_way",
    "Products are float64: in the dtype of bfloat16 rows they lose their digits.",
    (APPLIED, "return (X @ W.to(X.dtype) + b.to(X.dtype)).double()"),
)

# ---- r2_score

R2_WIDE = "Y, predicted = Y.double(), predicted.double()"
TOTAL = "total = (Y - Y.mean(0)).square().sum()"
R2 = "return 1 - ((Y - predicted).square().sum() / total).item()"
_rank(
    "total_about_zero",
    "Measure the total about the column means: that a column is far from 0 explains nothing.",
    (TOTAL, "total = Y.square().sum()"),
)
_rank(
    "one_mean_for_all",
    "Each column has its own mean: about a common one, the differences between columns count as variance.",
    (TOTAL, "total = (Y - Y.mean()).square().sum()"),
)
_rank(
    "means_of_rows",
    "The total is about the means of the columns, over the rows: yours takes those of the rows.",
    (TOTAL, "total = (Y - Y.mean(1, keepdim=True)).square().sum()"),
)
_rank(
    "mean_of_columns",
    "Sum residuals and totals over all columns, then divide once: a mean of R² gives a small column as much say.",
    (TOTAL, "total = (Y - Y.mean(0)).square().sum(0)"),
    (R2, "return (1 - ((Y - predicted).square().sum(0) / total)).mean().item()"),
)
_rank(
    "correlation",
    "A correlation forgives scale and offset, and attention does not: R² is 1 less residual over total.",
    (
        R2,
        "off = predicted - predicted.mean(0)\n    both = ((Y - Y.mean(0)) * off).sum()\n"
        "    return (both**2 / (total * off.square().sum()).clamp_min(1e-300)).item()",
    ),
)
_rank(
    "explained_share",
    "What varies in the prediction is not what is right in it: subtract the residual's share from 1.",
    (R2, "return ((predicted - Y.mean(0)).square().sum() / total).item()"),
)
_rank(
    "not_below_zero",
    "A prediction worse than the means has a negative R²: yours stops at 0.",
    (R2, "return max(0.0, 1 - ((Y - predicted).square().sum() / total).item())"),
)
_rank(
    "roots",
    "R² is a ratio of squares: yours divides their roots.",
    (R2, "return 1 - ((Y - predicted).square().sum() / total).sqrt().item()"),
)
_rank(
    "residual_alone",
    "An error has a meaning only against what there was to explain: divide by the total.",
    (R2, "return 1 - (Y - predicted).square().mean().item()"),
)
_rank(
    "narrow_sums",
    "Sums of narrow numbers lose digits: R² is computed in float64.",
    (R2_WIDE, "Y, predicted = Y.float(), predicted.float()"),
)

# ---- rank_source_layers

SCORES = "scores = [round(r2_score(Y, apply_map(X, fit_ridge(X, Y, lam))), 9) for X in sources]"
ORDER = "return sorted(range(len(sources)), key=lambda layer: -scores[layer])[:k]"
_rank(
    "deepest_layers", "Depth is no measure: ask which layer predicts.", (ORDER, "return list(range(len(sources)))[-k:]")
)
_rank("first_layers", "The first k layers need not be the best: ask which predict.", (ORDER, "return list(range(k))"))
_rank(
    "worst_first",
    "A high R² is a good one: yours takes the lowest.",
    (ORDER, "return sorted(range(len(sources)), key=lambda layer: scores[layer])[:k]"),
)
_rank(
    "in_ascending_order",
    "The best one comes first: yours sorts the chosen layers by number.",
    (ORDER, "return sorted(sorted(range(len(sources)), key=lambda layer: -scores[layer])[:k])"),
)
_rank(
    "best_last",
    "The best one comes first: yours ends with it.",
    (ORDER, "return sorted(range(len(sources)), key=lambda layer: -scores[layer])[:k][::-1]"),
)
_rank(
    "last_of_a_tie",
    "Among equals the lower number comes first: yours takes the higher.",
    (ORDER, "return sorted(range(len(sources)), key=lambda layer: (-scores[layer], -layer))[:k]"),
)
_rank(
    "any_of_a_tie",
    "Among equals the lower number comes first: topk, and a sort that is not stable, take any.",
    (ORDER, "import torch\n\n    return torch.tensor(scores, dtype=torch.float64).topk(k).indices.tolist()"),
)
_rank(
    "all_digits",
    "Scores are compared at 9 decimals: beyond them rounding decides, and differs from machine to machine.",
    (SCORES, "scores = [r2_score(Y, apply_map(X, fit_ridge(X, Y, lam))) for X in sources]"),
)
_rank(
    "few_digits",
    "9 decimals count: yours calls layers equal that differ in fewer.",
    (SCORES, "scores = [round(r2_score(Y, apply_map(X, fit_ridge(X, Y, lam))), 6) for X in sources]"),
)
_rank(
    "largest_numbers",
    "Large activations are not informative ones: rank by the R² of a map.",
    (SCORES, "scores = [X.double().square().sum().item() for X in sources]"),
)
_rank(
    "own_price",
    "lam is an argument: yours ranks with 0.01 whatever is asked for.",
    (SCORES, "scores = [round(r2_score(Y, apply_map(X, fit_ridge(X, Y, 0.01))), 9) for X in sources]"),
)
_rank(
    "without_the_price",
    "Each layer's map pays lam, as the one that will be used: yours ranks plain least squares.",
    (SCORES, "scores = [round(r2_score(Y, apply_map(X, fit_ridge(X, Y, 1e-9))), 9) for X in sources]"),
)
_rank(
    "what_it_adds",
    "Each layer alone: yours asks what a layer adds to those that are chosen already.",
    (
        ORDER,
        "import torch\n\n    chosen = []\n    while len(chosen) < k:\n"
        "        def gain(layer):\n"
        "            X = torch.cat([sources[i] for i in [*chosen, layer]], 1)\n"
        "            return round(r2_score(Y, apply_map(X, fit_ridge(X, Y, lam))), 9)\n"
        "        left = [layer for layer in range(len(sources)) if layer not in chosen]\n"
        "        chosen.append(max(left, key=gain))\n    return chosen",
    ),
)
_rank(
    "held_out_rows",
    "R² is of the rows that the map was fitted on: yours fits on the first half and scores on the second.",
    (
        SCORES,
        "n = (len(Y) + 1) // 2\n    left = Y[n:] if len(Y[n:].unique(dim=0)) > 1 else Y\n"
        "    scores = [round(r2_score(left, apply_map(X[-len(left) :], fit_ridge(X[:n], Y[:n], lam))), 9)"
        " for X in sources]",
    ),
)
_rank(
    "column_by_column",
    "One R² for all columns of Y together: a mean over columns gives one that hardly varies as much say.",
    (
        SCORES,
        "def score(X):\n"
        "        columns = [y[:, None] for y in Y.T if (y != y[0]).any()]\n"
        "        return sum(r2_score(y, apply_map(X, fit_ridge(X, y, lam))) for y in columns) / len(columns)\n\n"
        "    scores = [round(score(X), 9) for X in sources]",
    ),
)
_rank(
    "target_to_source",
    "Predict the target from the source: yours asks how well the source is predicted.",
    (SCORES, "scores = [round(r2_score(X, apply_map(Y, fit_ridge(Y, X, lam))), 9) for X in sources]"),
)
