"""A map between two models' spaces in closed form, and the question from which layers to map. All in float64.

Rows are tokens, columns are features: X (n, p) of the source, Y (n, q) of the target.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

Map = tuple[Tensor, Tensor]  # W (p, q) and b (q,), float64


def fit_ridge(X: Tensor, Y: Tensor, lam: float) -> Map:
    """Return (W, b) that minimise |X W + b - Y|² + lam |W|²: the best affine map that pays for its size.

    X, Y  (n, p) and (n, q) float, as many rows; W (p, q) and b (q,) come back in float64
    lam   0 or more. Sums, not means, over the rows: dividing the first term by n would make lam count n times. The
          intercept b is free: it is not part of |W|.

    Example: X = [0, 1, 2], Y = [1, 2, 3], lam = 2: centred sums are Σx² = 2 and Σxy = 2, so W = 2 / (2 + 2) = 0.5 and
    b = 2 - 0.5 · 1 = 1.5.
    With lam = 0 and columns that depend on each other many maps are as good: which one comes then is not judged, and
    torch's solve may raise.
    ValueError: lam below 0; other than the same number of rows, at least 1. arXiv 2608.03893 uses lam = 0.01.

    ●● · about 5 lines
    """
    if lam < 0:
        raise ValueError(f"lam is a price, so it is 0 or more, not {lam}")
    if len(X) != len(Y) or not len(X):
        raise ValueError(f"one row of Y for each row of X is needed, and at least 1, not {len(Y)} for {len(X)}")
    # solution:begin what makes the intercept free? then the normal equations
    X, Y = X.double(), Y.double()
    mean_x, mean_y = X.mean(0), Y.mean(0)
    X = X - mean_x
    # subtle: only centred columns leave the intercept unpenalised
    W = torch.linalg.solve(X.T @ X + lam * torch.eye(X.shape[1], dtype=X.dtype), X.T @ (Y - mean_y))
    return W, mean_y - mean_x @ W
    # solution:end


def apply_map(X: Tensor, mapping: Map) -> Tensor:
    """Return X W + b for X (n, p) float: (n, q) float64.

    ● · about 2 lines · part of fit_ridge
    """
    # solution:begin the map is affine
    W, b = mapping
    return X.double() @ W + b
    # solution:end


def r2_score(Y: Tensor, predicted: Tensor) -> float:
    """Return R²: 1 - |Y - predicted|² / |Y - column means of Y|², each summed over all rows and columns, in float64.

    Y, predicted  (n, q) float

    1: exact; 0: no better than the means; below 0: worse than them. Example: Y = [1, 3], predicted [1, 2] -> 0.5.
    ValueError: different shapes; columns of Y that are all constant.

    ● · about 3 lines · part of rank_source_layers
    """
    if Y.shape != predicted.shape:
        raise ValueError(f"a prediction has the shape of what it predicts, {tuple(Y.shape)}")
    if not (Y[:1] != Y).any():
        raise ValueError("Y is constant: there is nothing to explain")
    # solution:begin residual over total
    Y, predicted = Y.double(), predicted.double()
    total = (Y - Y.mean(0)).square().sum()
    return 1 - ((Y - predicted).square().sum() / total).item()
    # solution:end


def rank_source_layers(sources: Sequence[Tensor], Y: Tensor, lam: float, k: int) -> list[int]:
    """Return the numbers of the k source layers from which Y is predicted best, each alone, the best one first.

    sources  one (n, p) for each source layer
    Y        (n, q) of one target layer; R² of the layer's own ridge map, on the rows that it was fitted on

    R² are compared rounded to 9 decimals; on a tie the lower number comes first.
    Example: sources [noise, Y, Y], k = 2 -> [1, 2].
    ValueError: k outside 1 .. len(sources). arXiv 2608.03893.

    ●● · about 2 lines · needs level15.align.fit_ridge
    """
    if not 1 <= k <= len(sources):
        raise ValueError(f"k lies in 1..{len(sources)}, the source layers, not {k}")
    # solution:begin a map and a score for each layer, then an order
    scores = [round(r2_score(Y, apply_map(X, fit_ridge(X, Y, lam))), 9) for X in sources]
    return sorted(range(len(sources)), key=lambda layer: -scores[layer])[:k]
    # solution:end
