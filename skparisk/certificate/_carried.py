"""What the numbers of the evidence carry of a claim, so that no more is claimed.

By the laws and rules of this package: what a law or rule of the caller's leaves to
claim is on the caller's word. No more is asked than what is necessary: calibration
rounds to the safe side, and pays for the grid of the noise, itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincc

from skparisk.core.laws import LAWS, OWN_NAMES
from skparisk.core.losses import (
    gaussian_loss_exceedance,
    gaussian_risk,
    laplace_loss_exceedance,
)
from skparisk.core.rounding import MOST_STEPS, ROUNDING, ceil_text, decimal

# Of tails, which are accurate to some digits less than sums are.
_SLACK = 1 + 2.0**-20
# Rules that certify other levels, and the most points of these.
_WITH_LEVELS = ("exchangeable", "dkw")
_SAMPLED = (*_WITH_LEVELS, "pac")
# What errors and the grid of the noise are paid for with is less of a level.
_NEAR = 1 - 2.0**-3
_CURVE_POINTS = 2048
_EXCEEDANCES: dict[str, Callable[..., Any]] = {
    "laplace": laplace_loss_exceedance,
    "gaussian": gaussian_loss_exceedance,
}


def check_carried(evidence: Any, plain: dict[str, Any], randomness: str) -> None:
    """Refuse numbers of a claim, or other levels, below what the evidence carries."""
    epsilon, delta, risk = plain["epsilon"], plain["delta"], plain["risk"]
    at_rank = 0.0
    if evidence.n_pairs is not None:
        at_rank = _check_rank(evidence, risk, plain["failure_prob"])
    if evidence.law in OWN_NAMES and randomness != "both":
        shift = _shift_of(evidence)
        if randomness == "explicit" and risk and not delta:
            exceeded = float(_exceeded(evidence, shift, np.array([epsilon]))[0])
            if risk * _SLACK < exceeded:
                raise ValueError(
                    f"risk must be at least {exceeded:.6g}, with which the loss of "
                    f"{evidence.law} noise of scale {evidence.noise_scale!r} exceeds "
                    f"{epsilon!r} at sensitivity {evidence.sensitivity!r}; got "
                    f"{risk!r}."
                )
        elif delta * _SLACK < (
            spent := float(_least_deltas(evidence.law, epsilon, shift))
        ):
            raise ValueError(
                f"epsilon={epsilon!r} takes a delta of at least {spent:.6g} with "
                f"{evidence.law} noise of scale {evidence.noise_scale!r} at "
                f"sensitivity {evidence.sensitivity!r}, and delta is {delta!r}."
            )
    known = evidence.averages and evidence.advantage is not None
    if known and evidence.law in LAWS:
        each = _least_advantage(evidence)
        if epsilon:
            each = float(gaussian_risk(epsilon, _shift_of(evidence)))
        least = _least_mean(evidence, each)
        if risk * _SLACK < least:
            raise ValueError(
                f"risk must be at least {least:.6g}, by sensitivity, noise_scale and "
                f"advantage of the evidence; got {risk!r}."
            )
    ours = evidence.law in OWN_NAMES and evidence.calibration in _SAMPLED
    if randomness == "both" and ours and 0 < epsilon < math.inf:
        _check_own_level(evidence, plain)
    if evidence.curve is not None:
        _check_levels(evidence, plain, at_rank, randomness)


def check_advantage(evidence: Any) -> None:
    """Refuse attackers who gain less than at the sensitivity, or on average.

    Nothing at the sensitivity, of a law of the caller's; the fresh pair counts for all.
    """
    known = evidence.law in LAWS and evidence.noise_scale
    measured, least = evidence.advantage, _least_advantage(evidence) if known else 0.0
    for name, bound in (("quantile", least), ("mean", _least_mean(evidence, least))):
        if getattr(measured, name) * _SLACK < bound:
            raise ValueError(
                f"advantage must have a {name} of at least {bound:.6g}, by n_pairs, "
                f"sensitivity and noise_scale of the evidence; got {measured!r}."
            )


def check_worst_loss(evidence: Any) -> None:
    """Refuse a largest loss of all pairs that is below that at the sensitivity.

    To a share of it, by which computed differences may be off.
    """
    if evidence.law not in LAWS or not evidence.noise_scale:
        return
    least = LAWS[evidence.law]().largest_loss(_shift_of(evidence))
    if evidence.worst_loss * (1 + 2.0**-10) < least:
        raise ValueError(
            f"worst_loss must be at least {least:.6g}, by sensitivity and noise_scale "
            f"of the evidence; got {evidence.worst_loss!r}."
        )


def _least_advantage(evidence: Any) -> float:
    law, on_grid = LAWS[evidence.law](), {"n_outputs": evidence.n_outputs}
    return float(law.advantage([_shift_of(evidence)], steps=MOST_STEPS, **on_grid)[0])


def _least_mean(evidence: Any, each: float) -> float:
    """Return what is certified on average, if pairs at the sensitivity count so much.

    And those that are farther apart: as many as the risk of the quantile says.
    """
    n_pairs, r = evidence.n_pairs, evidence.n_neighbors
    n_far = max(evidence.advantage.risk * (n_pairs + r) - r + 1, 0.0)
    return float((n_far * each + r) / (n_pairs + r))


def _shift_of(evidence: Any) -> float:
    """Return the sensitivity over the noise scale, no larger than it is."""
    if math.isinf(evidence.sensitivity):
        return math.inf
    return float(evidence.sensitivity / evidence.noise_scale * (1 - ROUNDING))


def _check_rank(evidence: Any, risk: float, failure_prob: float) -> float:
    """Refuse a risk that the pairs do not certify; return what they do at the least.

    Rules of this package certify no less than that, on average over samples, as a fresh
    pair is one more of the same (:ref:`thm-order-statistic`, :ref:`thm-groups`).
    """
    m, r, index = evidence.n_pairs, evidence.n_neighbors, evidence.order_index
    n_unanswered = evidence.n_unanswered or 0
    if index is not None and index > m - n_unanswered:
        raise ValueError(
            f"order_index must be at most {m - n_unanswered}, as no noise is enough "
            f"for pairs without an answer; got {index}."
        )
    if evidence.calibration == "pac":
        # P(Binomial(m, 1 - risk) >= K)
        fails = float(betaincc(m - index + 1, index, risk))
        if fails > failure_prob * _SLACK:
            raise ValueError(
                f"risk={risk!r} is exceeded by the {index}-th of {m} pairs in a share "
                f"{fails:.6g} of samples, and failure_prob is {failure_prob!r}."
            )
        return 1.0  # of other levels it certifies nothing
    n_above = n_unanswered if index is None else m - index
    least = Fraction(n_above + r, m + r)
    # Of the number, or of the decimals that it is written as.
    if max(Fraction(risk), decimal(risk)) < least:
        raise ValueError(
            f"risk must be at least {ceil_text(float(least))}, by n_pairs={m} and "
            f"order_index={index!r}, got {risk!r}."
        )
    return float(least)


def _least_deltas(name: str, levels: ArrayLike, shift: float) -> NDArray[np.float64]:
    """Return the deltas of noise at a distance over its scale; 0 or 1 if bounded."""
    law = LAWS[name]() if name in LAWS else None
    if law is None or math.isinf(shift) or not law.composes(1):
        return np.asarray(shift > np.asarray(levels), dtype=np.float64)
    return np.asarray(law.profile(levels, shift))


def _exceeded(
    evidence: Any, shift: float, levels: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the risks over the noise at which a pair exceeds levels.

    Of the worst that is known: it differs in one output only.
    """
    known = _EXCEEDANCES.get(evidence.law)
    if math.isinf(shift):
        return np.ones(len(levels))
    if known is None:
        return np.where(levels < shift, 1.0, 0.0)
    return np.asarray(known(levels, shift))


def _check_levels(
    evidence: Any, plain: dict[str, Any], at_rank: float, randomness: str
) -> None:
    """Refuse too small a risk for another level.

    For none that a pair at the sensitivity exceeds it is less than that of the claim.
    That may hold at lower levels as well, as with the textbook's Gaussian noise, or for
    pair and noise together, of which only the worst loss is told.
    """
    levels, risks = evidence.curve.T
    r, pairs, own = evidence.n_neighbors, evidence.n_pairs, evidence.law in OWN_NAMES
    if at_rank:
        every = plain["risk"] if evidence.calibration == "pac" else r / (pairs + r)
        bounds = np.full(len(levels), every)
        if randomness != "both" and own:
            lower = levels * _SLACK < plain["epsilon"]
            shift = _shift_of(evidence)
            spent = _least_deltas(evidence.law, levels[lower] * _SLACK, shift)
            lower[lower] = spent > plain["delta"] * _SLACK
            bounds[lower] = at_rank
    elif randomness == "explicit" and own:
        bounds = _exceeded(evidence, _shift_of(evidence), levels)
    else:
        return
    low = np.flatnonzero(risks * _SLACK < bounds)
    if low.size:
        level, claimed = evidence.curve[low[0]].tolist()
        raise ValueError(
            f"curve must have a risk of at least {bounds[low[0]]:.6g} for the level "
            f"{level!r}, by the other numbers of the claim; got {claimed!r}."
        )


def point_of_level(curve: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Return the point of a curve that tells most of a level, or no point."""
    near = curve[curve[:, 0] * _NEAR <= epsilon]
    return near[np.argsort(near[:, 1], kind="stable")[:1]]


def _check_own_level(evidence: Any, plain: dict[str, Any]) -> None:
    """Refuse a level that the curve, one database below, does not know.

    And a risk to the next of the points that a curve has. Whoever edits the curve as
    well is not told.
    """
    epsilon, risk = plain["epsilon"], plain["risk"]
    curve = np.empty((0, 2)) if evidence.curve is None else evidence.curve
    near = point_of_level(curve, epsilon)
    known = float(near[0, 1]) if len(near) else math.inf
    m = evidence.n_pairs
    below = evidence.n_neighbors / m + 2 / min(m, _CURVE_POINTS)
    if (risk + below) * _SLACK < known:
        raise ValueError(
            "epsilon must be a level for which the curve has a risk of at most "
            f"{risk + below:.6g}, and of {epsilon!r} it has "
            f"{known if len(near) else 'none'}."
        )
