"""Numbers of private records, or of a fit without noise, that a model still holds."""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from skparisk.audit._numbers import numbers_in, places_of_numbers
from skparisk.audit._releases import (
    DESCRIBED,
    KnownNoise,
    Records,
    fit_to,
    refuse_in_ledger,
)
from skparisk.reference._records import as_records, n_rows, take_rows

_FEWEST_RECORDS = 4


@dataclass(frozen=True)
class UnnoisedNumber:
    """A number that stands on a model as it was computed, or is a private value.

    Parameters
    ----------
    place : str
        Where it is: names from the model on, or ``"pickle"`` for what only its bytes
        hold.

    value : float
        The number.

    source : str
        Of what it is: a place of the fit without noise, or ``"X"`` or ``"y"``.

    Examples
    --------
    >>> from skparisk.audit import UnnoisedNumber
    >>> UnnoisedNumber("exact_.0", 0.123, "coef_.0").place
    'exact_.0'
    """

    place: str
    value: float
    source: str


def find_unnoised(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    plain: Any = None,
    fit_params: Mapping[str, Any] | None = None,
) -> tuple[UnnoisedNumber, ...]:
    """Find numbers that a fitted model holds without noise.

    The estimator is fitted to one half of the records. All numbers that can be reached
    from it are compared with those of a fit without noise, and with the records: in
    attributes and slots, tables, texts and bytes, keys and sets, in what functions
    hold, and all doubles in the bytes of its pickle. What a fit to the other half has
    as well is public.

    Parameters
    ----------
    estimator : estimator
        It is copied.

    X : array-like of shape (n_rows, n_features)
        Records, at least four: public or simulated, as what is found is not noisy.

    y : array-like of shape (n_rows,), default=None
        Their targets or labels.

    plain : estimator, default=None
        What is fitted to the same records without noise. None: the estimator itself
        with ``epsilon=inf``, and a fit of its parameter `estimator`, if it has one.

    fit_params : dict, default=None
        Further parameters of `fit` of the private estimator, such as ``X_reference``.

    Returns
    -------
    found : tuple of UnnoisedNumber
        Each value once, in the order of places. Whole numbers, and fractions of 240,
        are left out, as they may be equal by chance. A model that cannot be pickled has
        no bytes to look at.

    Raises
    ------
    ValueError
        If there are too few records, or no fit without noise is known.

    IncompatibleError
        If a ledger is open.

    Notes
    -----
    **Guarantee**. None that there is nothing else: numbers that were changed, as by a
    factor, are not found. :func:`audit_claim` attacks what is released.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from skparisk.audit import find_unnoised
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    >>> [found.place for found in find_unnoised(Ridge(), X, y, plain=Ridge())]
    ['coef_.0', 'coef_.1', 'intercept_']
    """
    refuse_in_ledger("A search for numbers without noise")
    X = as_records(X, "X")
    half = n_rows(X) // 2
    if n_rows(X) < _FEWEST_RECORDS:
        raise ValueError(
            f"X must have at least {_FEWEST_RECORDS} records, got {n_rows(X)}."
        )
    y = None if y is None else np.asarray(y)
    rows = np.arange(half), np.arange(half, 2 * half)
    own, other = (_take(X, y, part) for part in rows)
    params = dict(fit_params or {})
    fitted, stranger = (fit_to(estimator, part, params) for part in (own, other))
    kept: dict[float, str] = dict.fromkeys(sorted(_in_pickle(fitted)), "pickle")
    kept |= places_of_numbers(fitted)
    secrets: dict[float, str] = {}
    for without in _without_noise(estimator, plain, own, params):
        exact = places_of_numbers(without)
        # Pairs that were sampled again are of the reference, and may be the same ones.
        secrets |= {
            value: place
            for value, place in exact.items()
            if place.partition(".")[0] not in DESCRIBED
        }
    known = KnownNoise.of(fitted)
    if known is not None:  # with what the fit chose, such as a penalty
        answer = places_of_numbers({"answer": known.answer(own)})
        secrets = answer | secrets
    for name, data in zip("Xy", own, strict=False):
        secrets = dict.fromkeys(places_of_numbers(np.asarray(data)), name) | secrets
    public = _in_pickle(stranger) | set(places_of_numbers(stranger))
    found = [
        UnnoisedNumber(place, value, secrets[value])
        for value, place in kept.items()
        if value in secrets and value not in public
    ]
    return tuple(sorted(found, key=lambda one: one.place))


def _in_pickle(fitted: Any) -> set[float]:
    """Return the numbers of the bytes of a pickle; none where there can be none."""
    try:
        return numbers_in(pickle.dumps(fitted))
    except (AttributeError, TypeError, pickle.PicklingError):
        return set()


def _take(X: Any, y: Any, rows: NDArray[np.intp]) -> Records:
    return (take_rows(X, rows), *(() if y is None else (y[rows],)))


def _without_noise(
    estimator: Any, plain: Any, own: Records, params: dict[str, Any]
) -> list[Any]:
    """Return fits without noise to the same records."""
    if plain is not None:
        return [fit_to(plain, own, {})]
    if "epsilon" not in estimator.get_params(deep=False):
        raise ValueError(
            f"plain must be given for a {type(estimator).__name__}, which has no "
            "parameter epsilon: what is fitted without noise."
        )
    exact = clone(estimator).set_params(epsilon=math.inf)
    fits = [fit_to(exact, own, params)]
    inner = getattr(estimator, "estimator", None)
    return fits if inner is None else [*fits, fit_to(inner, own, {})]
