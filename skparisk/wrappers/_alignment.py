"""Alignment of fits that are defined up to sign or order, to a public anchor."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from skparisk.queries._state import Numbers

# Rows of these belong to a component or a center each.
_BY_COMPONENT = ("explained_variance_", "explained_variance_ratio_", "singular_values_")


def match_components(numbers: Numbers, anchor: Numbers) -> Numbers:
    """Return components in the order and with the signs that fit an anchor best.

    Parameters
    ----------
    numbers, anchor : mapping of str to ndarray
        With ``components_`` of shape (n_components, n_features), and whatever else
        belongs to components.

    Returns
    -------
    aligned : mapping of str to ndarray
        For any anchor the result is a function of `numbers` alone, the same for a
        fit and for the same fit with other signs or in another order (but for ties).

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.wrappers import match_components
    >>> flipped = {"components_": np.array([[0.6, -0.8], [0.8, 0.6]])}
    >>> match_components(flipped, {"components_": np.eye(2)})["components_"]
    array([[ 0.8,  0.6], [-0.6,  0.8]])
    """
    if "components_" not in numbers:
        return numbers
    own, wanted = numbers["components_"], anchor["components_"]
    likeness = wanted @ own.T
    _, order = linear_sum_assignment(-np.abs(likeness))
    aligned = {name: numbers[name][order] for name in _BY_COMPONENT if name in numbers}
    signs = np.where(likeness[np.arange(len(order)), order] < 0, -1.0, 1.0)
    return {**numbers, **aligned, "components_": own[order] * signs[:, None]}


def match_centers(numbers: Numbers, anchor: Numbers) -> Numbers:
    """Return cluster centers in the order that fits an anchor best.

    Parameters
    ----------
    numbers, anchor : mapping of str to ndarray
        With ``cluster_centers_`` of shape (n_clusters, n_features).

    Returns
    -------
    aligned : mapping of str to ndarray
        Least sum of squared distances to the anchor's centers.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.wrappers import match_centers
    >>> swapped = {"cluster_centers_": np.array([[9.0], [1.0]])}
    >>> anchor = {"cluster_centers_": np.array([[0.0], [8.0]])}
    >>> match_centers(swapped, anchor)["cluster_centers_"]
    array([[1.], [9.]])
    """
    if "cluster_centers_" not in numbers:
        return numbers
    own, wanted = numbers["cluster_centers_"], anchor["cluster_centers_"]
    distances = ((wanted[:, None] - own[None]) ** 2).sum(axis=2)
    _, order = linear_sum_assignment(distances)
    return {**numbers, "cluster_centers_": own[order]}
