"""Logistic regressions of the neighbors of one database, from that of the database.

Its curvature, inverted once, serves all of its neighbors: theirs differs by that of the
records that are swapped, of as many columns as there are logits, and little besides.
All of this is of single precision, and directs steps only: where they end is proven
from slopes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import spotrf, spotri

from skparisk.queries._logistic_records import SharedRecords, expected_counts
from skparisk.queries._together import Floats

Singles = NDArray[np.float32]

# Steps to where a record that is added leads, and how far each moves its scores.
_STEPS, _MOST_MOVED = 12, 2.0


@dataclass(frozen=True, eq=False)
class Inverse:
    """Inverse curvature, the same for all databases."""

    matrix: Singles

    def times(self, slopes: Floats) -> Floats:
        """Return its products with slopes of shape (m, n_logits, q)."""
        flat = slopes.reshape(len(slopes), -1).astype(np.float32)
        return np.asarray((flat @ self.matrix).reshape(slopes.shape))

    def some(self, which: NDArray[np.bool_]) -> Self:
        """Return that of some of the databases."""
        return self


def inverse_curvature(records: SharedRecords, counts: Floats, v: Floats) -> Inverse:
    """Return that of one database at v, of shape (n_logits, q).

    Raises
    ------
    LinAlgError
        If there is none in single precision.
    """
    n_logits, q = v.shape
    Z = records.single.Z
    p = expected_counts(records.minus_logits(v[None], slice(None)), 1.0)[0]
    expected = (p * counts).astype(np.float32)
    # The sum of (diag(p) - p p') x z z' over records.
    roots = (p * np.sqrt(counts)).astype(np.float32)
    weighted = (roots.T[:, :, None] * Z[:, None]).reshape(len(Z), -1)
    matrix = records.penalty.astype(np.float32) - weighted.T @ weighted
    for logit in range(n_logits):
        own = slice(logit * q, (logit + 1) * q)
        matrix[own, own] += (Z.T * expected[logit]) @ Z
    factor, failed = spotrf(matrix, lower=1)
    if failed:
        raise np.linalg.LinAlgError("the curvature of a database")
    lower = np.tril(spotri(factor, lower=1)[0])
    return Inverse(np.ascontiguousarray(lower + np.tril(lower, -1).T))


@dataclass(frozen=True, eq=False)
class Swapped:
    """Records that neighbors lack or have, one of each: z of (r, q), (r, n_logits)."""

    Z: Floats
    of_class: Floats
    # What scores are before; None: 0.
    offsets: Floats | None = None

    def scores(self, theta: Floats) -> Floats:
        """Return logits, of shape (r, n_logits)."""
        scores = self.Z @ theta.T
        return scores if self.offsets is None else scores + self.offsets


@dataclass(frozen=True, eq=False)
class InverseOfNeighbors:
    """Inverse curvature of the r neighbors of one database: a correction of its own."""

    whole: Inverse
    # Of shape (r, 1 or 2, q): what is swapped; (r, n_logits * q, c): what `whole` makes
    # of slopes of these; (r, c, c): how much of it counts.
    Z: Singles
    columns: Singles
    core: Singles

    def times(self, slopes: Floats) -> Floats:
        """Return its products with slopes of shape (r, n_logits, q)."""
        found = self.whole.times(slopes)
        scores = (self.Z @ found.swapaxes(1, 2)).reshape(len(found), -1, 1)
        return found - (self.columns @ (self.core @ scores)).reshape(found.shape)

    def some(self, which: NDArray[np.bool_]) -> Self:
        """Return that of some of the neighbors."""
        Z, columns, core = self.Z[which], self.columns[which], self.core[which]
        return replace(self, Z=Z, columns=columns, core=core)

    @classmethod
    def of(
        cls, whole: Inverse, first: Floats, removed: Swapped, added: Swapped | None
    ) -> tuple[Self, Floats]:
        """Return it, and where the neighbors' minimizers are, but for other records.

        From that of the database, of shape (n_logits, q), as if the curvature of
        records that are not swapped did not change.
        """
        n_logits, q = first.shape
        both = [removed] if added is None else [removed, added]
        Z = np.stack([swapped.Z for swapped in both], axis=1).astype(np.float32)
        r = len(Z)
        matrix = whole.matrix.reshape(-1, q)
        columns = np.concatenate(
            [
                (matrix @ Z[:, i].T)
                .reshape(n_logits * q, n_logits, r)
                .transpose(2, 0, 1)
                for i in range(len(both))
            ],
            axis=2,
        )
        # How slopes of swapped records move their scores.
        moved = Z[:, None] @ columns.reshape(r, n_logits, q, -1)
        moved = moved.swapaxes(1, 2).reshape(r, -1, moved.shape[3]).astype(float)
        weights, slopes = _of_swapped(moved, first, removed, added)
        core = np.linalg.solve(np.eye(len(moved[0])) + weights @ moved, weights)
        start = first - (columns @ slopes.astype(np.float32)).reshape(r, n_logits, q)
        return cls(whole, Z, columns, core.astype(np.float32)), start


def _of_swapped(
    moved: Floats, first: Floats, removed: Swapped, added: Swapped | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the curvature and the slopes that swapped records bring, where they lead.

    Those of a record that is removed are linear in its scores, as it is not there; one
    that is added may be far from where it leads.
    """
    k = first.shape[0]
    p = _probabilities(removed.scores(first))
    less, slopes = -_curvature(p), (removed.of_class - p)[:, :, None]
    without = np.eye(k) + less @ moved[:, :k, :k]
    if added is None:
        return less, np.linalg.solve(without, slopes)
    joined, joins = moved[:, :k, k:], moved[:, k:, :k]
    left = np.linalg.solve(without, np.concatenate([slopes, less @ joined], axis=2))
    alone, joint = left[:, :, :1], left[:, :, 1:]
    shift = -(joins @ alone)[:, :, 0]
    own = moved[:, k:, k:] - joins @ joint
    scores = added.scores(first)
    move = shift
    for _ in range(_STEPS):
        p = _probabilities(scores + move)
        gap = move - shift + (own @ (p - added.of_class)[:, :, None])[:, :, 0]
        step = np.linalg.solve(np.eye(k) + own @ _curvature(p), gap[:, :, None])[
            :, :, 0
        ]
        largest = np.abs(step).max(axis=1, keepdims=True)
        move = move - step / np.maximum(1.0, largest / _MOST_MOVED)
    p = _probabilities(scores + move)
    weights = np.zeros_like(moved)
    weights[:, :k, :k], weights[:, k:, k:] = less, _curvature(p)
    theirs = (p - added.of_class)[:, :, None]
    return weights, np.concatenate([alone - joint @ theirs, theirs], axis=1)


def _probabilities(scores: Floats) -> Floats:
    return expected_counts(-scores[:, :, None], 1.0)[:, :, 0]


def _curvature(p: Floats) -> Floats:
    return p[:, :, None] * (np.eye(p.shape[1]) - p[:, None])
