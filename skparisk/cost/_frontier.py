"""What accuracy costs: budgets against errors that were measured on public records."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.core.checks import (
    IncompatibleError,
    are_inside,
    check_epsilon,
    check_probability,
)
from skparisk.cost._models import CostModel, Floats
from skparisk.model_selection._candidates import configure
from skparisk.model_selection._levels import declared_certificate
from skparisk.model_selection._simulation import simulate_scores


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
        """Points that no other one beats, of shape (n_points,).

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
    """Measure on public records what accuracy costs.

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
        If the estimator is not private, or its parameters do not tell its guarantee.

    ValueError
        If a parameter is out of range, or unknown.

    Notes
    -----
    **Guarantee**. No private record is used, so a level may be chosen by the result at
    no cost of privacy; the caller must ensure that `X` and `y` are public. The errors
    are estimates, and that of a point that was chosen by them is rather too small.

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
