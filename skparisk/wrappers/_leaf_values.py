"""Leaf values from noisy sums: what is released is weighed by what noise left of it.

Pure functions of the release and of public numbers (:ref:`thm-leaf-values`).
"""

from __future__ import annotations

import numpy as np

from skparisk.queries._together import Floats

# Records that a node weighs in the values of the leaves below it.
_FROM_ABOVE = 1.0
# Where nothing is known of targets: how far the means of leaves are apart, as a share
# of the variance that the schema declares.
_BETWEEN_LEAVES = 0.25


def class_shares(
    sums: Floats, deviation: Floats, public: Floats, expected: Floats, n_trees: int
) -> Floats:
    """Return the share of each class in each cell, (n_cells, n_classes).

    Of counts that were released with noise of these standard deviations (all 0: shares
    are those of the counts), and those of `public` records, all 0 if their labels mean
    nothing; each of the same shape. `expected` tells how many private records there are
    in a cell, by public numbers. With as many trees that vote as much less does the
    noise of one matter.
    """
    if not deviation.any():
        total = sums.sum(axis=1, keepdims=True)
        spare = public if public.any() else np.ones_like(public)
        return _shares(np.where(total > 0, sums, spare))
    if not public.any():
        return _shares(np.maximum(sums, 0.0) + 1.0)
    noise = (deviation**2).sum(axis=1) / n_trees
    weight = expected / (expected + noise)
    pooled = np.maximum(public + weight[:, None] * sums, 0.0)
    return _shares(np.where(pooled.any(axis=1, keepdims=True), pooled, public))


def votes(margins: Floats) -> Floats:
    """Return which of two classes has more records in each cell, (n_cells, 2).

    A tree has one vote, whatever the margin: large ones are in leaves that hold most
    records, where both classes are.
    """
    second = (1 + np.sign(margins)) / 2
    return np.column_stack([1 - second, second])


def target_means(
    sums: Floats,
    deviation: Floats,
    public: Floats,
    expected: Floats,
    n_trees: int,
    *,
    variance: Floats,
    n_records: int,
) -> Floats:
    """Return the mean of each target in each cell, (n_cells, n_targets).

    Of counts and sums of targets, (n_cells, 1 + n_targets), and else as `class_shares`.
    `variance` is that of public targets within cells, and `n_records` are private.
    """
    count, totals = sums[:, :1], sums[:, 1:]
    known = bool(public.any())
    # Sums over all cells of a tree are sums over all records.
    center = totals.sum(axis=0, keepdims=True) / (n_trees * n_records)
    if known:
        center = public[:, 1:] / public[:, :1]
    if not deviation.any():
        means = totals / np.where(count > 0, count, 1.0)
        return np.where(count > 0, means, center)
    off = totals - center * count
    noise = (deviation[:, 1:] ** 2 + (center * deviation[:, :1]) ** 2) / n_trees
    if known:
        n_private = expected[:, None]
        signal = n_private * variance
        weight = signal / np.where(signal > 0, signal + noise, 1.0)
        return np.asarray(center + weight * off / (public[:, :1] + weight * n_private))
    n_private = np.maximum(count, 0.0)
    shrunk = n_private**2 + n_private + noise / _BETWEEN_LEAVES
    return np.asarray(center + n_private * off / shrunk)


def below(values: Floats, counts: Floats, own: Floats) -> Floats:
    """Return the values of leaves below cells, in favor of what is public there.

    `values` are those of their cells, and `own` those of as many public records in the
    leaves as `counts` says.
    """
    weight = counts[:, None]
    return np.asarray((weight * own + _FROM_ABOVE * values) / (weight + _FROM_ABOVE))


def _shares(counts: Floats) -> Floats:
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))
