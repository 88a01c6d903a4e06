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

from skparisk.audit._releases import (
    DESCRIBED,
    KnownNoise,
    Records,
    fit_to,
    refuse_in_ledger,
)
from skparisk.reference._records import as_records, n_rows, take_rows

__all__ = [
    "UnnoisedNumber",
    "find_unnoised",
    "numbers_in",
    "places_of_numbers",
    "telling",
]

_FEWEST_RECORDS = 4
# Fractions of these denominators are shares and settings, and may be equal by chance.
_SHARES = 240


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
    from it, and all doubles in the bytes of its pickle, are compared with those of a
    fit without noise, and with the records. What a fit to the other half has as well is
    public.

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
        answer = _placed("answer", known.answer(own))
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


def places_of_numbers(thing: Any) -> dict[float, str]:
    """Return all telling floats that can be reached from an object, and where."""
    found: dict[float, str] = {}
    seen: dict[int, Any] = {}
    left: list[tuple[str, Any]] = [("", thing)]
    while left:
        place, value = left.pop()
        if id(value) in seen or isinstance(value, str | bytes | type):
            continue
        seen[id(value)] = value  # held, as an identity may be used again
        if isinstance(value, bool | int | float | np.generic | np.ndarray):
            array = np.asarray(value)
            if array.dtype.kind != "O":
                if array.dtype.kind in "iufb":
                    found = _placed(place, array) | found
                continue
            value = array.tolist()
        inside = [(_join(place, name), part) for name, part in _parts(value)]
        left += reversed(inside)
    return found


def _placed(place: str, array: NDArray[Any]) -> dict[float, str]:
    flat = np.ravel(array)
    known = telling(flat)
    if not array.ndim:
        return dict.fromkeys(known, place)
    return {
        float(number): _join(place, i)
        for i, number in reversed([*enumerate(flat.tolist())])
        if float(number) in known
    }


def _parts(value: Any) -> list[tuple[Any, Any]]:
    """Return what an object holds, with names."""
    if isinstance(value, dict):
        keys = [(f"key {i}", key) for i, key in enumerate(value)]
        return [*((str(key), part) for key, part in value.items()), *keys]
    if isinstance(value, list | tuple | set | frozenset):
        return list(enumerate(value))
    parts = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = getattr(kind, "__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            parts[name] = getattr(value, name, None)
    return list(parts.items())


def _join(place: str, name: Any) -> str:
    return f"{place}.{name}" if place else str(name)


def numbers_in(document: bytes) -> set[float]:
    """Return all telling doubles of a byte string, wherever they begin."""
    found: set[float] = set()
    for offset in range(8):
        whole = document[offset : offset + (len(document) - offset) // 8 * 8]
        for order in "<>":
            found |= telling(np.frombuffer(whole, f"{order}f8"))
    return found


def telling(values: Any) -> set[float]:
    """Return the finite numbers that are not equal by chance: no plain fractions."""
    numbers = np.asarray(values, dtype=np.float64).ravel()
    numbers = numbers[np.isfinite(numbers)]
    small = np.where(np.abs(numbers) < 1, numbers, np.pi)
    # No shares of records, and no thirds, which a projected release of classes may be.
    numbers = numbers[small * _SHARES != np.round(small * _SHARES)]
    return set(numbers[numbers != np.round(numbers)].tolist())
