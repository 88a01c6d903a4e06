"""Linear support vector machines as a query, of many databases at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.svm import LinearSVC

from skparisk._checks import check_flag
from skparisk.core.checks import check_choice, check_positive
from skparisk.core.release import silenced
from skparisk.core.weights import RowSums, symmetric
from skparisk.queries._base import Floats, SampleWeights
from skparisk.queries._labels import check_classes
from skparisk.queries._weighted import Answers, WeightedQuery

LOSSES = ("hinge", "squared_hinge")

_EPS = 2.0**-52
# Largest sums of squares of records, times C, whose products do not overflow.
_LARGEST_SQUARES = 2.0**500


@dataclass(frozen=True)
class LinearSVCQuery(WeightedQuery):
    r"""Coefficients and intercepts of a linear support vector machine.

    Parameters
    ----------
    classes : sequence of float
        The labels there may be, at least two; public. They are sorted.

    C : float, default=1.0
        Weight of the losses, > 0: the penalty is the smaller, the larger it is.

    loss : {"hinge", "squared_hinge"}, default="squared_hinge"
        Loss of a record within the margin.

    fit_intercept : bool, default=True
        Whether to fit and release an intercept.

    intercept_scaling : float, default=1.0
        Value s > 0 of a constant column; the intercept is s times its coefficient. The
        larger s, the less the intercept is penalized.

    Notes
    -----
    The answer holds ``coef_`` and then ``intercept_`` of scikit-learn's `LinearSVC`,
    flattened: one problem for two classes, else one against the rest for each. Each is
    the minimizer of :math:`\tfrac12\|w\|^2 + C \sum \ell(1 - y\,w \cdot x)`, the
    intercept's coefficient included.

    Hinge losses are minimized by `LinearSVC` itself, with a small tolerance. Newton
    steps minimize squared losses, which are smooth, for many databases at once, until
    the same records incur a loss. Without convergence there is no answer (NaN), as for
    features with nearly overflowing squares.

    A database without one of the classes has an answer as any other, as an error would
    say so: penalized intercepts have a minimizer. *Sampled* databases without one of
    the classes count as not answered: such a pair needs infinite noise.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.queries import LinearSVCQuery
    >>> query = LinearSVCQuery(classes=(0, 1), C=10.0, loss="hinge")
    >>> answer = query(np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1]))
    >>> np.abs(answer.round(6))
    array([1., 0.])
    """

    classes: tuple[float, ...]
    C: float = 1.0
    loss: str = "squared_hinge"
    fit_intercept: bool = True
    intercept_scaling: float = 1.0
    # Of records whose labels have weights beside them.
    sample_weights: SampleWeights | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", check_classes(self.classes))
        object.__setattr__(self, "C", check_positive(self.C, "C"))
        check_choice(self.loss, "loss", LOSSES)
        check_flag(self.fit_intercept, "fit_intercept")
        scaling = check_positive(self.intercept_scaling, "intercept_scaling")
        object.__setattr__(self, "intercept_scaling", scaling)

    @property
    def is_smooth(self) -> bool:
        return self.loss == "squared_hinge"

    @property
    def is_unordered(self) -> bool:
        """Whether no answer depends on the order, as one by descent may."""
        return self.is_smooth

    def answering(
        self, X: Floats, codes: NDArray[np.intp], offsets: Floats | None
    ) -> Answers:
        design = self._with_constant(X, self.intercept_scaling)
        products = RowSums(design, products=True)  # of which signs cancel
        positive = range(len(self.classes))[-self.n_problems :]
        signed = [design * np.where(codes == k, 1.0, -1.0)[:, None] for k in positive]

        def answers(
            weights: Floats, near: Solutions | None
        ) -> tuple[Floats, Solutions]:
            shape = (len(weights), self.n_problems, design.shape[1])
            found = np.empty(shape)
            starts = np.zeros(shape) if near is None else near.found
            with np.errstate(all="ignore"):  # a warning would be a release of its own
                for k, Z in enumerate(signed):
                    if self.is_smooth:
                        rows = _Rows(Z, products)
                        W = rows.minimize(self.C * weights, starts[:, k])
                        solved = rows.are_minimizers(self.C * weights, W)
                        found[:, k] = np.where(solved[:, None], W, np.nan)
                    else:
                        found[:, k] = minimize_hinge(Z, weights, self.C)
            answers = self._flat(found)
            answers[:, self.n_problems * X.shape[1] :] *= self.intercept_scaling
            return answers, Solutions(found)

        return answers


# Hinge losses

# Of `LinearSVC`: how far margins and duals may be off, and passes over the records. It
# descends in random order: the same records may take ten times as long in another one.
_TOLERANCE, _MOST_PASSES, _MOST_ORDERS = 1e-8, 10**6, 4


def minimize_hinge(Z: Floats, weights: Floats, C: float) -> Floats:
    """Return what `LinearSVC` learns on many databases, NaN where it stops early."""
    found = np.full((len(weights), Z.shape[1]), np.nan)
    sums = C * weights.sum(axis=1) * np.square(Z).sum(axis=1).max()
    machine = LinearSVC(
        C=C,
        loss="hinge",
        fit_intercept=False,
        tol=_TOLERANCE,
        max_iter=_MOST_PASSES,
    )
    # It wants two classes, which signed records are not: one of zeros costs the same
    # whatever the solution is.
    Z, labels = np.vstack([Z, np.zeros(Z.shape[1])]), np.append(np.ones(len(Z)), 0.0)
    # That one did not converge would be a release of its own.
    with silenced(), config_context(assume_finite=True, skip_parameter_validation=True):
        for i in np.flatnonzero(sums < _LARGEST_SQUARES):
            some = np.append(weights[i] > 0, True)
            for order in range(_MOST_ORDERS):
                machine.random_state = order
                machine.fit(Z[some], labels[some], np.append(weights[i], 1.0)[some])
                if machine.n_iter_ < _MOST_PASSES:
                    found[i] = machine.coef_[0]
                    break
    return found


# Squared hinge losses
#
# Minimize ½|w|² + Σ c max(0, 1 - z·w)² over w, with signed records z, their weights c,
# and margins 1 - z·w that are charged above 0. With the right active records a Newton
# step is exact.

_MOST_STEPS = 100
# A gradient may be such a share of the solution, which it is the rest of.
_CLOSE = 2.0**-20
# Margins closer to 0 than that share of their terms may be on either side.
_TIE = 2.0**-44


class Solutions(NamedTuple):
    """Minimizers of databases."""

    found: Floats  # (m, n_problems, q)


class _Rows:
    """Signed records of shape (n_rows, q), and the sums of their products."""

    def __init__(self, Z: Floats, products: RowSums) -> None:
        self._Z, self._products = Z, products
        self._norms = np.sqrt(np.einsum("ij,ij->i", Z, Z))

    def minimize(self, weights: Floats, starts: Floats) -> Floats:
        """Return minimizers, NaN where the active records do not stay the same."""
        W, todo = np.full_like(starts, np.nan), np.arange(len(starts))
        weights, at = 2 * weights, starts
        for _ in range(_MOST_STEPS):
            margins = self._margins(at)
            active = margins > 0
            ahead = self._step(weights * active)
            moves = self._margins(ahead)
            # On the active records the loss is quadratic: if the step keeps them, it is
            # the minimizer. Records that rounding puts on the other side do not count.
            tie = _TIE * (1 + _lengths(ahead)[:, None] * self._norms)
            changed = ((moves > 0) != active) & (np.abs(moves) > tie) & (weights > 0)
            moves -= margins
            settled = ~changed.any(axis=1) | (np.abs(moves) <= tie).all(axis=1)
            W[todo[settled]] = ahead[settled]
            go = ~settled & np.isfinite(ahead).all(axis=1)
            if not go.any():
                break
            todo, weights = todo[go], weights[go]
            at = _search_line(at[go], ahead[go], margins[go], moves[go], weights)
        return W

    def are_minimizers(self, weights: Floats, W: Floats) -> NDArray[np.bool_]:
        """Tell where the gradient is next to nothing, or no more than rounding."""
        margins, sizes = self._margins(W), _lengths(W)
        charges = 2 * weights * np.maximum(margins, 0.0)
        terms = 2 * weights * (margins > 0) * (1 + self._norms * sizes[:, None])
        allowed = _CLOSE * sizes + _TIE * (terms @ self._norms)
        return _lengths(W - charges @ self._Z) <= allowed

    def _margins(self, W: Floats) -> Floats:
        """Return 1 - z·w, of shape (m, n_rows)."""
        return 1.0 - W @ self._Z.T

    def _step(self, weights: Floats) -> Floats:
        """Minimize ½|w|² + ½ Σ weight (1 - z·w)², by normal equations."""
        q = self._Z.shape[1]
        systems = symmetric(self._products.of(weights), q) + np.eye(q)
        return _solve_positive(systems, weights @ self._Z)


def _search_line(
    W: Floats, ahead: Floats, margins: Floats, moves: Floats, weights: Floats
) -> Floats:
    """Go towards `ahead` as long as the objective decreases, to a tenth of the way."""
    # The objective is convex, so the sign of its slope along the way can be bisected,
    # and it falls all the way to `low`. Pieces are finitely many: no more precision is
    # needed than that each step gets somewhere.
    P = ahead - W
    low, high = np.zeros(len(W)), np.ones(len(W))
    tried = high.copy()
    todo = np.arange(len(W))
    pulls = weights * moves
    while len(todo):
        t = tried[todo, None]
        charged = np.maximum(margins[todo] + t * moves[todo], 0.0)
        slopes = np.einsum("ij,ij->i", P[todo], W[todo] + t * P[todo])
        down = slopes + np.einsum("ij,ij->i", charged, pulls[todo]) <= 0
        low[todo[down]] = tried[todo[down]]
        high[todo[~down]] = tried[todo[~down]]
        todo = todo[(low[todo] < 0.9 * high[todo]) & (high[todo] > _EPS)]
        tried[todo] = 0.5 * (low[todo] + high[todo])
    return W + low[:, None] * P


def _lengths(vectors: Floats) -> Floats:
    lengths: Floats = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return lengths


def _solve_positive(systems: Floats, right: Floats) -> Floats:
    """Solve positive definite systems, which rounding must not make singular."""
    scales = 1 / np.sqrt(systems.diagonal(axis1=1, axis2=2))
    scaled = systems * scales[:, :, None] * scales[:, None, :]
    # A few ulps of the diagonal, which is 1.
    scaled += 8 * _EPS * np.eye(scales.shape[1])
    solutions: Any = np.linalg.solve(scaled, (scales * right)[:, :, None])
    return scales * solutions[:, :, 0]
