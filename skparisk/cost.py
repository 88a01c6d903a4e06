"""The cost of privacy: compensation budgets, and the cheapest levels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import ArrayLike, NDArray

from skparisk.core.checks import (
    CalibrationError,
    IncompatibleError,
    are_inside,
    check_at_least,
    check_epsilon,
    check_floats,
    check_number,
    check_positive,
    check_probability,
)
from skparisk.core.claim import Claim, as_certificate
from skparisk.core.laws import Laplace
from skparisk.core.rounding import safe_root, unwrap
from skparisk.model_selection._fits import configure, declared_certificate
from skparisk.model_selection._simulation import simulate_scores

__all__ = ["CompensationModel", "CostModel", "Frontier", "frontier"]


Floats: TypeAlias = NDArray[np.float64]

_LEAST = 1e-9  # level that is searched, as a share of the largest
_NARROWEST = 1e-13  # interval that is searched, as a share of its end
_MAX_ROUNDING = 1e-14  # of the values
_N_POINTS = 33
_DEGREE = 6
_NOISE = "noise_epsilon"
_ROUNDING = 1e-12  # share by which costs may fall, of the largest
# The most that a float counts.
_MOST_PEOPLE = 2**53


def risk_function(
    noise_epsilon: float, n_outputs: int, law: Any
) -> Callable[[Floats], Floats]:
    """Return the probability that the loss exceeds a level, as a function of it."""
    k = check_at_least(n_outputs, "n_outputs", 1)
    if hasattr(law, "risk"):  # a paper's, as printed
        return lambda levels: np.asarray(law.risk(levels, noise_epsilon, k))
    if law != "exact":
        raise ValueError(
            "law must be 'exact' or an object with a risk, such as "
            f"skparisk.papers.DandekarTheorem4(), got {law!r}."
        )
    if k > 1:
        raise ValueError(
            "n_outputs must be 1 with law='exact', because the worst case for several "
            f"outputs is not known, got {k}."
        )
    return lambda levels: np.asarray(Laplace().exceedance(levels, noise_epsilon))


def _find_maximum(function: Callable[[Floats], Floats], end: float) -> float:
    """Return where a function is largest in (0, end]; `end` if it is nowhere above 0.

    Searches a grid, and then finer and finer ones around the best point. Around a
    smooth maximum the values are equal but for rounding over a share 1e-8, so the end
    is the vertex of a polynomial as soon as one explains all values of a grid.
    """
    grid = np.union1d(
        np.geomspace(_LEAST * end, end, 512), np.linspace(0.0, end, 1025)[1:]
    )
    values = function(grid)
    if values.max() <= 0:
        return end
    low, high = _around_best(grid, values)
    while high - low > _NARROWEST * high:
        grid = np.linspace(low, high, _N_POINTS)
        values = function(grid)
        fit = Polynomial.fit(grid, values, _DEGREE)
        if np.abs(fit(grid) - values).max() <= _MAX_ROUNDING * values.max():
            turns = fit.deriv().roots()
            inside = (np.isreal(turns)) & (turns.real > low) & (turns.real < high)
            grid = np.append(grid, turns.real[inside])
            return float(grid[fit(grid).argmax()])
        low, high = _around_best(grid, values)
    return float(grid[values.argmax()])


def _around_best(grid: Floats, values: Floats) -> tuple[float, float]:
    """Return the neighbors of the best point of a grid."""
    best = int(values.argmax())
    return float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)])


class CostModel(ABC):
    """Base class of all models of the cost of privacy levels.

    A subclass has `n_people`, and `per_person`: the payment for one person, any
    function that does not fall as the level rises. It is checked wherever it is used.

    Attributes
    ----------
    n_people : int
        People to pay, >= 1. Budgets are totals over them.

    Raises
    ------
    ValueError
        By all methods: if an argument is out of range, or a cost is negative, falls, or
        is infinite at a finite level.

    See Also
    --------
    CompensationModel : The costs of Dandekar, Basu and Bressan.

    Notes
    -----
    Dandekar, Basu and Bressan (2021), Section 5.2, ask for a convex cost. It need not
    be here, see :ref:`thm-cost`.

    Examples
    --------
    >>> from skparisk.cost import CostModel
    >>> class Linear(CostModel):
    ...     n_people = 10
    ...     def per_person(self, epsilon):
    ...         return 100 * epsilon
    >>> Linear().budget([0.5, 1.0]).tolist()
    [500.0, 1000.0]
    """

    n_people: int

    @abstractmethod
    def per_person(self, epsilon: Floats) -> Floats:
        """Return the payment for one person at each privacy level.

        Parameters
        ----------
        epsilon : ndarray of shape (n_levels,)
            Privacy levels, in [0, inf]; infinite also for an unknown privacy loss.

        Returns
        -------
        cost : ndarray of shape (n_levels,)
            In units of money, >= 0, finite at a finite level.
        """

    def budget(self, epsilon: ArrayLike) -> Any:
        """Return the budget of a differentially private release.

        Parameters
        ----------
        epsilon : float or array
            Privacy level, in [0, inf]. Infinite: no noise.

        Returns
        -------
        budget : float or array
            Total over all people, in units of money. A float for a scalar.
        """
        return unwrap(self._totals(check_floats(epsilon, "epsilon", "[0, inf]")))

    def budget_at_risk(
        self,
        epsilon: ArrayLike,
        noise_epsilon: float,
        n_outputs: int = 1,
        law: Any = "exact",
    ) -> Any:
        r"""Return the budget of a release that often loses less than its noise allows.

        Parameters
        ----------
        epsilon : float or array
            Privacy level to count with, in [0, inf]; at most `noise_epsilon` is used.
        noise_epsilon : float
            Privacy level of the Laplace noise: sensitivity over noise scale, in
            (0, inf).
        n_outputs : int, default=1
            Length of the query's answer, >= 1; 1 with the exact law.
        law : "exact" or object with `risk`, default="exact"
            Law of the privacy loss: the exact one at the worst pair, or one without a
            guarantee, such as :class:`skparisk.papers.DandekarTheorem4`.

        Returns
        -------
        budget : float or array
            Total over all people, in units of money; at most the budget at
            `noise_epsilon`. A float for a scalar.

        Notes
        -----
        :math:`p E_{dp}(\epsilon) + (1 - p) E_{dp}(\epsilon_0)` (Dandekar, Basu,
        Bressan 2021, Eq. 9), p the probability.

        **Guarantee** (:ref:`thm-cost`). With the exact law no less than the mean cost
        of the privacy loss, at any `epsilon` and for any pair of neighbors. The caller
        must ensure that the sensitivity holds. With another law it may well be less.
        """
        noise = check_positive(noise_epsilon, _NOISE)
        levels = np.minimum(check_floats(epsilon, "epsilon", "[0, inf]"), noise)
        risk = risk_function(noise, n_outputs, law)(levels)
        return unwrap(self._mixed(levels, risk, noise))

    def budget_of(self, release: Any) -> float:
        """Return the budget of a release, by its guarantee.

        Parameters
        ----------
        release : object with `as_certificate`, float or tuple of float
            A :class:`~skparisk.Certificate`, a mechanism, or plain numbers:
            `epsilon`, (epsilon, delta) or (epsilon, delta, risk).

        Returns
        -------
        budget : float
            Total over all people, in units of money.

        Notes
        -----
        Eq. 9 of Dandekar, Basu and Bressan (2021), with the full compensation, for an
        infinite level, in place of the compensation at the level of the noise. Risk,
        delta and `failure_prob` add up, as probabilities of an unknown loss. Without
        ``private``, a certificate costs the full compensation.

        **Guarantee** (:ref:`thm-cost`). Without a delta no less than the mean cost of
        the privacy loss, over the randomness of the risk. The caller must ensure that
        the level holds outside of the risk. With a delta the loss may exceed `epsilon`
        more often, and this is no bound.
        """
        claim = release if isinstance(release, Claim) else as_certificate(release)
        if not claim.private:
            return float(self.budget(math.inf))
        unknown = min(1.0, claim.risk + claim.delta + claim.failure_prob)
        level, risk = np.array(claim.epsilon), np.array(unknown)
        return float(self._mixed(level, risk, math.inf))

    def optimal_epsilon(
        self, noise_epsilon: float, n_outputs: int = 1, law: Any = "exact"
    ) -> float:
        """Return the privacy level at which `budget_at_risk` is least.

        Parameters
        ----------
        noise_epsilon, n_outputs, law
            As in `budget_at_risk`.

        Returns
        -------
        epsilon : float
            In (0, noise_epsilon], to ten digits for a smooth cost; `noise_epsilon`
            itself where no level costs less.

        Notes
        -----
        The best of a grid, refined. There may be several minima (:ref:`thm-cost`), and
        the grid may miss a narrow one. With Theorem 4, one output and a
        :class:`CompensationModel` it is the one root of Eq. 10 of Dandekar, Basu and
        Bressan (2021).
        """
        noise = check_positive(noise_epsilon, _NOISE)
        risk = risk_function(noise, n_outputs, law)

        def saving(levels: Floats) -> Floats:
            costs = self._totals(np.append(levels, noise))
            return (1 - risk(levels)) * (costs[-1] - costs[:-1])  # by Eq. 9

        return _find_maximum(saving, noise)

    def epsilon_range(
        self,
        budget: float,
        max_error: float,
        *,
        noise_epsilon: float,
        confidence: float,
        sensitivity: float = 1.0,
    ) -> tuple[float, float]:
        r"""Return the privacy levels within a budget and a tolerated error.

        Parameters
        ----------
        budget : float
            Budget for all people together, finite, > 0, in units of money.
        max_error : float
            Tolerated mean absolute error, finite, > 0, in units of the answer.
        noise_epsilon : float
            Privacy level that holds for sure, in (0, inf).
        confidence : float
            Probability of the level of the range, in (0, 1].
        sensitivity : float, default=1.0
            Sensitivity of the answer, finite, > 0, in its units.

        Returns
        -------
        low, high : float
            The least level with a tolerated error, in (0, inf], and the largest within
            the budget, in [low, inf]. Rounded inward.

        Raises
        ------
        CalibrationError
            If there is no such level; ``best`` is the least budget that would do.

        Notes
        -----
        Dandekar, Basu, Bressan (2021), Eq. 11, for any cost: the levels of
        :math:`\Delta/T \le \epsilon`, T the error, whose
        :math:`p E_{dp}(\epsilon) + (1 - p) E_{dp}(\epsilon_0)` is within the budget.
        The caller must ensure the confidence p at the chosen level.
        """
        money = check_positive(budget, "budget")
        error = check_positive(max_error, "max_error")
        noise = check_positive(noise_epsilon, _NOISE)
        low = _ceil_ratio(check_positive(sensitivity, "sensitivity"), error)
        risk = np.array(1.0 - check_number(confidence, "confidence", "(0, 1]"))

        def left(level: float) -> float:
            return money - float(self._mixed(np.array(level), risk, noise))

        if left(low) < 0:
            best = float(self._mixed(np.array(low), risk, noise))
            raise CalibrationError(
                f"budget must be at least {best!r}, the cost of the lowest level with "
                f"max_error={error!r}, which is {low!r}; got {money!r}.",
                money,
                best,
            )
        safe, unsafe = low, math.inf
        if left(unsafe) >= 0:
            return low, unsafe
        unsafe = 2 * safe
        while left(unsafe) >= 0:
            safe, unsafe = unsafe, 2 * unsafe
        if unsafe < math.inf:
            safe = safe_root(left, unsafe, safe, None)  # Eq. 11
        return low, safe

    def _mixed(self, epsilon: Floats, risk: Floats, otherwise: float) -> Floats:
        """Return the cost of one level and, with a risk, that of another (Eq. 9)."""
        costs = self._totals(np.append(epsilon, otherwise))
        at, plain = costs[:-1].reshape(epsilon.shape), costs[-1]
        with np.errstate(invalid="ignore"):  # the product of 0 and inf is not used
            mixed = (1 - risk) * at + risk * plain
        return np.where(risk == 0, at, np.where(risk == 1, plain, mixed))

    def _totals(self, epsilon: Floats) -> Floats:
        """Return the costs of all people together, checked."""
        levels = epsilon.ravel()
        costs = np.asarray(self.per_person(levels), dtype=np.float64)
        if costs.shape != levels.shape:
            raise ValueError(
                "per_person must return one cost for each level, got an array of "
                f"shape {costs.shape} for {len(levels)} levels."
            )
        valid = (costs >= 0) & (np.isfinite(costs) | np.isinf(levels))
        if not valid.all():
            level, cost = _first(~valid, levels, costs)
            raise ValueError(
                "cost must be a number >= 0, and finite at a finite privacy level, "
                f"got {cost!r} at {level!r}."
            )
        order = np.argsort(levels, kind="stable")
        levels, rising = levels[order], costs[order]
        slack = _ROUNDING * rising[np.isfinite(rising)].max(initial=0.0)
        falls = rising[1:] + slack < rising[:-1]
        if falls.any():
            level, cost, lower, less = _first(
                falls, levels[:-1], rising[:-1], levels[1:], rising[1:]
            )
            raise ValueError(
                "cost must not fall as the privacy level rises, got "
                f"{cost!r} at {level!r} and {less!r} at {lower!r}."
            )
        return self.n_people * costs.reshape(epsilon.shape)


def _ceil_ratio(dividend: float, divisor: float) -> float:
    """Return the least float that is not below the ratio of two floats."""
    ratio = dividend / divisor
    if ratio < math.inf and Fraction(ratio) * Fraction(divisor) < Fraction(dividend):
        ratio = math.nextafter(ratio, math.inf)
    return ratio


def _first(where: NDArray[np.bool_], *arrays: Floats) -> list[float]:
    """Return the first values that are concerned, for a message."""
    return [float(array[where.argmax()]) for array in arrays]


@dataclass(frozen=True)
class CompensationModel(CostModel):
    r"""Compensation that grows with the privacy level, up to a full one.

    Parameters
    ----------
    compensation : float
        Payment for one person without privacy, above `minimum`, finite, > 0, in units
        of money.

    n_people : int, default=1
        People to pay, in [1, 2**53]. Budgets are totals over them.

    minimum : float, default=0.0
        Payment for one person in any case, finite, >= 0, in units of money.

    rate : float, default=1.0
        How fast the compensation grows, finite, > 0, in units of the privacy level: at
        the level `rate` it is 1/e, 37 %, of the full one.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the total is not finite.

    See Also
    --------
    CostModel : Any other function.

    Notes
    -----
    :math:`E_{dp}(\epsilon) = E_{min} + E e^{-c/\epsilon}` per person (Dandekar, Basu,
    Bressan 2021, Eq. 8): `minimum`, `compensation` and `rate` are :math:`E_{min}`, E
    and c. `minimum` at level 0, ``minimum + compensation`` without noise. See
    :ref:`thm-cost`.

    Examples
    --------
    Health statistics of 100 people, released with Laplace noise of level 0.5:

    >>> from skparisk.cost import CompensationModel
    >>> model = CompensationModel(5500.0, n_people=100)
    >>> round(model.budget(0.5), 2)
    74434.41
    >>> best = model.optimal_epsilon(0.5)
    >>> round(best, 4), round(model.budget_at_risk(best, 0.5), 2)
    (0.1556, 43479.06)
    """

    compensation: float
    n_people: int = 1
    minimum: float = 0.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        plain: dict[str, Any] = {
            "compensation": check_positive(self.compensation, "compensation"),
            "n_people": check_at_least(self.n_people, "n_people", 1),
            "minimum": check_number(self.minimum, "minimum", "[0, inf)"),
            "rate": check_positive(self.rate, "rate"),
        }
        if plain["n_people"] > _MOST_PEOPLE:  # it may have thousands of digits
            raise ValueError(f"n_people must be at most 2**53, {_MOST_PEOPLE}.")
        vars(self).update(plain)  # frozen for all others
        if math.isinf(self.n_people * (self.minimum + self.compensation)):
            raise ValueError(
                "n_people times minimum and compensation, what is to be paid in all, "
                f"must be finite; got {self.n_people} times {self.minimum!r} and "
                f"{self.compensation!r}."
            )

    def per_person(self, epsilon: Floats) -> Floats:
        """Return the payment to one person at each privacy level."""
        with np.errstate(divide="ignore", over="ignore"):  # level 0, or as good as 0
            return self.minimum + self.compensation * np.exp(-self.rate / epsilon)


@dataclass(frozen=True, eq=False)
class Frontier:
    """Costs and measured errors of privacy levels and risks.

    Made by :func:`frontier`.

    Parameters
    ----------
    epsilon : array-like of shape (n_points,)
        Privacy levels, in (0, inf].

    gamma : array-like of shape (n_points,)
        Risks, in (0, 1).

    cost : array-like of shape (n_points,)
        Budgets, in units of money, in [0, inf].

    error : array-like of shape (n_points,)
        Minus the mean score, finite.

    error_std : array-like of shape (n_points,)
        Standard deviation of the score over the splits, finite, >= 0.

    Raises
    ------
    ValueError
        If they are not vectors of one length, at least 1, of numbers in their ranges.

    See Also
    --------
    CostDisplay.from_frontier : The same as a picture.

    Examples
    --------
    >>> from skparisk.cost import Frontier
    >>> points = Frontier([1, 2, 3], [0.1] * 3, [10, 20, 30], [5, 3, 4], [0, 0, 0])
    >>> points.efficient.tolist()
    [True, True, False]
    >>> points.epsilon[points.error <= 4.5].tolist()
    [2.0, 3.0]
    """

    epsilon: Floats
    gamma: Floats
    cost: Floats
    error: Floats
    error_std: Floats

    def __post_init__(self) -> None:
        allowed = {
            "epsilon": "(0, inf]",
            "gamma": "(0, 1)",
            "cost": "[0, inf]",
            "error": "(-inf, inf)",
            "error_std": "[0, inf)",
        }
        n_points = np.size(self.epsilon)
        for name, limits in allowed.items():
            values = np.array(getattr(self, name), dtype=np.float64)
            fits = values.shape == (n_points,) and n_points
            if not fits or not are_inside(values, limits).all():
                raise ValueError(
                    f"{name} must be a vector of {n_points or 'some'} numbers in "
                    f"{limits}, got {getattr(self, name)!r}."
                )
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    @property
    def efficient(self) -> NDArray[np.bool_]:
        """Mask of the points that no other point beats, of shape (n_points,).

        None costs less without a larger error, or has a smaller error without costing
        more.
        """
        cost, error = self.cost[:, np.newaxis], self.error[:, np.newaxis]
        no_worse = (self.cost <= cost) & (self.error <= error)
        better = (self.cost < cost) | (self.error < error)
        return np.logical_not((no_worse & better).any(axis=1))


def frontier(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    epsilon: ArrayLike,
    gamma: ArrayLike,
    cost: CostModel,
    epsilon_param: str = "epsilon",
    gamma_param: str = "gamma",
    n_records: int | None = None,
    scoring: Any = None,
    cv: Any = 5,
    n_jobs: int | None = None,
    random_state: Any = None,
    verbose: int = 0,
) -> Frontier:
    """Measure the cost of accuracy on public records.

    Each privacy level is tried with each risk: the score by
    :func:`~skparisk.model_selection.simulate_scores`, the cost by
    :meth:`CostModel.budget_of` of the guarantee of one fit.

    Parameters
    ----------
    estimator : estimator
        A private estimator, or a pipeline with one. It is cloned.

    X, y : array-like
        Public records, as in :func:`~skparisk.model_selection.simulate_scores`.

    epsilon : float or array-like of shape (n_levels,)
        Privacy levels to try, in (0, inf].

    gamma : float or array-like of shape (n_risks,)
        Risks to try, in (0, 1). For a known sensitivity they make no difference.

    cost : CostModel
        Cost of a release, such as a :class:`CompensationModel`.

    epsilon_param, gamma_param : str, default="epsilon", "gamma"
        Parameters of the estimator to set, such as "privateridge__epsilon".

    n_records : int, default=None
        Records of a private database, >= 1. None: as many as there are public ones.

    scoring, cv, n_jobs, random_state, verbose
        As in :func:`~skparisk.model_selection.simulate_scores`; the error is minus the
        mean score.

    Returns
    -------
    points : Frontier
        Of n_levels * n_risks points, level by level for each risk.

    Raises
    ------
    IncompatibleError
        If the estimator is not private, or its parameters do not determine its
        guarantee.

    ValueError
        If a parameter is out of range, or unknown.

    Notes
    -----
    **Guarantee**. No private record is used, so a level may be chosen by the result at
    no cost of privacy; the caller must ensure that `X` and `y` are public. The errors
    are estimates, and the error of the best point is rather too small.

    Examples
    --------
    >>> from skparisk import PrivateRidge
    >>> from skparisk.cost import CompensationModel, frontier
    >>> from skparisk.datasets import load_census
    >>> X, y = load_census(return_X_y=True)
    >>> points = frontier(
    ...     PrivateRidge(), X[:900], y[:900], epsilon=[0.1, 1.0], gamma=0.05,
    ...     cost=CompensationModel(5500.0), n_records=9000, cv=2, random_state=0)
    >>> points.cost.round(2).tolist()
    [275.24, 2197.17]
    """
    if not isinstance(cost, CostModel):
        raise ValueError(f"cost must be a CostModel, got {cost!r}.")
    levels = [check_epsilon(level) for level in _as_list(epsilon, "epsilon")]
    risks = [check_probability(risk, "gamma") for risk in _as_list(gamma, "gamma")]
    if n_records is None:
        n_records = X.shape[0] if hasattr(X, "shape") else len(X)
    points = [(level, risk) for risk, level in product(risks, levels)]
    estimators = [
        configure(estimator, {epsilon_param: level, gamma_param: risk})
        for level, risk in points
    ]
    guarantees = [declared_certificate(candidate) for candidate in estimators]
    if None in guarantees:
        raise IncompatibleError(
            f"estimator must be private, or a pipeline with a private one, got "
            f"{estimator!r}."
        )
    scores = simulate_scores(
        estimators,
        X,
        y,
        n_records=n_records,
        scoring=scoring,
        cv=cv,
        n_jobs=n_jobs,
        random_state=random_state,
        verbose=verbose,
    )
    return Frontier(
        epsilon=np.array([level for level, _ in points]),
        gamma=np.array([risk for _, risk in points]),
        cost=np.array([cost.budget_of(guarantee) for guarantee in guarantees]),
        error=-scores.mean(axis=1),
        error_std=scores.std(axis=1),
    )


def _as_list(values: ArrayLike, name: str) -> list[Any]:
    """Return one number, or a vector of them, as a list that is not empty."""
    numbers = np.atleast_1d(np.asarray(values))
    if numbers.ndim != 1 or not numbers.size:
        raise ValueError(f"{name} must be a number or a vector, got {values!r}.")
    return numbers.tolist()
