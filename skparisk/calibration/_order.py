"""The least noise scale that is enough for a share of the pairs, and for other levels.

Either an order statistic of what each pair needs, or the scale at which the average of
the pairs' risks is controlled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.calibration._rules import DKW, Exchangeable, Rule
from skparisk.certificate._carried import point_of_level
from skparisk.core.exceptions import CalibrationError

_Floats = NDArray[np.float64]

# Of sums and roots, on the safe side.
_ROUNDING = 2.0**-40

# Risks of all pairs together that some noise can bring them to.
_LEAST_ALLOWED = Fraction(1, 2**20)

# Points of the (epsilon, risk) curve that a certificate carries, at the most.
_ORDER_POINTS = 2048
_RISK_POINTS = 256
# Pairs for which all of these points are worked on together.
_BLOCK = 2**12


def order_statistic(
    scales: _Floats,
    index: int,
    rule: Rule,
    *,
    n_databases: int,
    n_pairs: int,
    gamma: float,
    n_still: int,
) -> float:
    """Return the K-th smallest critical scale, finite and above 0.

    `scales` are in ascending order, one for each pair, and `index` is the K among them
    that `rule` chose for the risk `gamma`; of pairs, `n_still` do not differ by
    more than rounding. If noise for one of these is all that `gamma` asks for, it asks
    for none: a CalibrationError, as where the pairs cannot certify `gamma`.

    **Guarantee** (:ref:`thm-order-statistic`, :ref:`thm-groups`): as `rule` says.
    """
    scale = float(scales[index - 1])
    if math.isinf(scale):
        n_infinite = int(np.count_nonzero(np.isinf(scales)))
        least = max(1, len(scales) - n_infinite)
        best = (
            rule.certify_risk(n_databases, least) if n_infinite < len(scales) else 1.0
        )
        raise _no_answer(n_infinite, n_pairs, gamma, best)
    n_zero = int(np.searchsorted(scales, 0, side="right"))
    n_zero = max(n_zero, n_still)
    if n_zero >= index:
        certified = rule.certify_risk(n_databases, min(n_zero + 1, len(scales)))
        raise _no_noise(gamma, certified if n_zero < len(scales) else 0.0)
    return scale


def scale_below(scales: _Floats, index: int, n_databases: int) -> float:
    """Return the scale one database below the K-th: what else is read off the pairs.

    The K-th itself depends on the same sample (:ref:`thm-other-levels`); 0 for none.
    """
    n_below = index - len(scales) // n_databases
    return float(scales[n_below - 1]) if n_below > 0 else 0.0


def order_curve(
    below: float,
    rule: Rule,
    *,
    n_databases: int,
    levels: Callable[[float], _Floats],
) -> _Floats | None:
    """Return other levels, and the risks certified for them at the K-th scale.

    They are read one database below. `levels` tells which level each pair keeps from a
    scale on.
    """
    # Proven for these rules; with a share of samples that fail, for one level only.
    if not isinstance(rule, Exchangeable | DKW) or not below > 0:
        return None
    kept = np.sort(levels(below))
    most = len(kept)
    counts = np.linspace(most, 1, min(most, _ORDER_POINTS))[::-1].astype(int)
    return as_curve(kept[counts - 1], rule.certify_risk(n_databases, counts))


def control_risk(
    risks: Callable[[float], _Floats],
    distances: _Floats,
    *,
    gamma: float,
    n_still: int = 0,
    n_neighbors: int = 1,
    name: str = "gamma",
    asked: float | None = None,
) -> tuple[float, float]:
    """Return the least scale at which the average risk of the pairs is controlled.

    And the scale that all pairs, and the fresh one, would allow: anything else is read
    there, as the scale itself depends on the same sample. 0 if that is none.

    `risks` tells what each pair counts at a scale: in [0, 1], and never more at a
    larger scale. Its average is kept at `gamma`, in (0, 1), which errors call `name`,
    and of which they say that `asked`, or more, was asked for. `distances` are infinite
    without an answer; `n_still` of these pairs do not differ by more than rounding. A
    database counts the mean of its `n_neighbors` pairs. A CalibrationError if the pairs
    cannot certify `gamma`, or it needs no noise at all.

    **Guarantee** (:ref:`thm-gaussian`, :ref:`thm-advantage`, :ref:`thm-groups`). The
    least scale with ``(sum of means + 1)/(n_databases + 1) <= gamma``: over a fresh
    pair, its noise and the sampled pairs, the risk is at most gamma. Conformal risk
    control (Angelopoulos, Bates, Fisch, Lei and Schuster 2024, Theorem 1).
    """
    n_pairs, n_databases = len(distances), len(distances) // n_neighbors
    check_risk_control(n_databases, gamma, name)
    asked = gamma if asked is None else asked
    allowed = float(_risk_allowed(n_databases, gamma))
    # All of these are in databases, of which each pair is a share.
    n_positive = int(np.count_nonzero(distances)) / n_neighbors
    n_infinite = int(np.count_nonzero(np.isinf(distances)))
    n_moving = min(n_positive, (n_pairs - n_still) / n_neighbors)
    if n_moving <= allowed:
        best = (n_moving + 1) / (n_databases + 1) if n_moving else 0.0
        raise _no_noise(asked, best, name)
    limit = allowed * (1 - _ROUNDING)
    if n_infinite / n_neighbors > limit:  # no scale is reached: others count as well
        best = (n_infinite / n_neighbors + 1) / (n_databases + 1)
        raise _no_answer(n_infinite, n_pairs, asked, best, name)

    def total(scale: float) -> float:
        together = float(risks(scale).sum()) / n_neighbors
        if math.isnan(together):
            raise ValueError("law must say the risk of each pair, got NaN.")
        return together

    start = float(np.median(distances[(distances > 0) & np.isfinite(distances)]))
    _, scale = _bracket(total, limit, start)
    if n_positive <= (allowed + 1) * (1 + 2 * _ROUNDING):
        return scale, 0.0
    below, _ = _bracket(total, (allowed + 1) * (1 + _ROUNDING), scale)
    return scale, below


def risk_curve(
    risks: Callable[[float, ArrayLike], _Floats],
    below: float,
    *,
    epsilon: float,
    n_pairs: int,
    n_neighbors: int = 1,
) -> _Floats | None:
    """Return other levels, and the risks certified for them by risk control.

    `risks` takes a scale and levels: for a column of levels, a row for each.
    """
    if not below:
        return None
    levels = epsilon * np.geomspace(2.0**-8, 2.0**8, _RISK_POINTS)
    blocks = np.array_split(levels, min(len(levels), 1 + n_pairs // _BLOCK))
    sums = [risks(below, block[:, None]).sum(axis=1) for block in blocks]
    return as_curve(levels, certified_mean(np.concatenate(sums), n_pairs, n_neighbors))


def certified_mean(sums: Any, n_pairs: int, n_neighbors: int = 1) -> Any:
    """Return the mean that is certified where the pairs add up to these sums.

    A fresh database counts as one more, at the most.
    """
    return (sums / n_neighbors + 1) * (1 + _ROUNDING) / (n_pairs // n_neighbors + 1)


def check_risk_control(n_pairs: int, gamma: float, name: str = "gamma") -> None:
    """Raise CalibrationError if so few pairs cannot control that average."""
    if _risk_allowed(n_pairs, gamma) < _LEAST_ALLOWED:
        what = "risk" if name == "gamma" else f"mean {name}"
        raise CalibrationError(
            f"n_pairs={n_pairs} pairs certify no {what} of {1 / (n_pairs + 1):.6g} or "
            f"below, but {name}={gamma!r} was requested; it needs n_pairs >= "
            f"{math.ceil((1 + _LEAST_ALLOWED) / Fraction(gamma)) - 1}.",
            target=gamma,
            best=1 / (n_pairs + 1),
        )


def _risk_allowed(n_pairs: int, gamma: float) -> Fraction:
    """Return the most that the risks of all pairs may add up to."""
    return Fraction(gamma) * (n_pairs + 1) - 1


def _bracket(
    total: Callable[[float], float], limit: float, start: float
) -> tuple[float, float]:
    """Return scales next to each other where a falling sum is above, and is not."""
    low = high = start
    while total(low) <= limit:
        low /= 2
    while total(high) > limit:
        high *= 2
    while high > low * (1 + _ROUNDING):
        middle = math.sqrt(low) * math.sqrt(high)
        if not low < middle < high:  # numbers so small that there is none between
            break
        if total(middle) > limit:
            low = middle
        else:
            high = middle
    return low, high


def as_curve(levels: ArrayLike, risks: ArrayLike) -> _Floats | None:
    """Return the points of a curve that say anything; None if none does."""
    points = np.column_stack([levels, risks])
    said = points[np.isfinite(points[:, 0]) & (points[:, 1] < 1)]
    return said if len(said) else None


def with_own_level(
    curve: _Floats | None, epsilon: float, risk: float
) -> _Floats | None:
    """Return a curve that tells of the level of the claim, which evidence is to do."""
    if curve is not None and len(point_of_level(curve, epsilon)):
        return curve
    own = as_curve(epsilon, risk)
    return own if curve is None or own is None else np.concatenate([curve, own])


def _no_answer(
    n_infinite: int, n_pairs: int, gamma: float, best: float, name: str = "gamma"
) -> CalibrationError:
    what = "risk" if name == "gamma" else f"mean {name}"
    return CalibrationError(
        f"{n_infinite} of {n_pairs} sampled pairs have a database without an answer, "
        f"so no noise keeps the {what} within {name}={gamma!r}; the lowest {what} that "
        f"any noise achieves is {best:.6g}.",
        target=gamma,
        best=best,
    )


def _no_noise(gamma: float, best: float, name: str = "gamma") -> CalibrationError:
    return CalibrationError(
        f"The sampled sensitivity at {name}={gamma!r} is 0, so no noise would be "
        "added: the query gives the same answer on both databases of most pairs. Use a "
        f"smaller {name}, or a reference whose records differ more.",
        target=gamma,
        best=best,
    )
