"""How much errors in coefficients and intercepts weigh in predictions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def prediction_weights(
    X: NDArray[np.float64], n_outputs: int, *, fit_intercept: bool
) -> NDArray[np.float64] | None:
    """Return the mean square, over records X, of what an error does to predictions.

    A quadratic form, of shape (n_outputs, n_outputs): for coefficients of one
    prediction after the other, and then intercepts. Deviations of features from their
    means are shrunk by Ledoit and Wolf's rule, in their own units: a direction in which
    so few records do not differ is one in which others may. None if squares overflow.
    """
    n_features = X.shape[1]
    with np.errstate(all="ignore"):
        means = column_means(X)
        deviations = X - means
        spreads = np.sqrt(np.einsum("ij,ij->j", deviations, deviations) / len(X))
        deviations *= 1 / np.where(spreads > 0, spreads, 1.0)
        features = spreads[:, None] * shrunk_moments(deviations) * spreads
        features += np.outer(means, means)
        if not np.isfinite(features).all():
            return None
    size = n_features + fit_intercept
    each = np.ones((size, size))
    each[:n_features, :n_features] = features
    if fit_intercept:
        each[:n_features, -1] = each[-1, :n_features] = means
    if n_outputs == size:
        return each
    n_predictions = n_outputs // size
    places = np.arange(n_outputs).reshape(n_predictions, size)
    coefs, intercepts = places[:, :n_features], places[:, n_features:]
    order = np.concatenate([coefs.ravel(), intercepts.ravel()])
    return np.kron(np.eye(n_predictions), each)[np.ix_(order, order)]


def column_means(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of each column, to the last digit as `mean` has it."""
    if X.flags.c_contiguous and X.shape[1] > 1:  # the same sums in a third of the time
        return np.asarray(np.einsum("ij->j", X) / len(X))
    return np.asarray(X.mean(axis=0))


def shrunk_moments(
    values: NDArray[np.float64], n_independent: int | None = None
) -> NDArray[np.float64]:
    """Return second moments of rows, not centered, by the rule of Ledoit and Wolf.

    Shrunk toward a multiple of the identity, so that any rotation of the rows is one of
    these; of the size of 1, as squares must not overflow. Where rows depend on each
    other they tell no more than `n_independent` would.
    """
    n_rows, n_columns = values.shape
    moments = values.T @ values / n_rows
    mean = np.trace(moments) / n_columns
    size = np.sum(moments**2)
    spread = size - n_columns * mean**2
    n_telling = n_rows if n_independent is None else min(n_rows, max(n_independent, 1))
    lengths = np.einsum("ij,ij->i", values, values)
    error = (np.mean(lengths**2) - size) / n_telling
    share = min(1.0, max(error, 0.0) / spread) if spread > 0 else 0.0
    return (1 - share) * moments + share * mean * np.eye(n_columns)
