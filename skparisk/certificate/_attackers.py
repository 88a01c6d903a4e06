"""What a claim leaves to attackers, measured or not (:ref:`thm-advantage`)."""

from __future__ import annotations

import math
from dataclasses import replace

from skparisk.certificate._advantage import Advantage
from skparisk.certificate._claim import Claim
from skparisk.certificate._loss import DominatingLoss
from skparisk.core.laws import Law, true_positives
from skparisk.core.rounding import MOST_STEPS, ROUNDING, add_up

_FAR = 700.0  # exp of more is no number
_CERTAIN = Advantage(1.0, 1.0, 0.0, 1.0, 1.0)


def advantage_of(claim: Claim) -> Advantage:
    """Return what an attacker gains at most, from all that a claim says."""
    if claim.void_reasons:
        return _CERTAIN
    found = _from_levels(claim)
    evidence = claim.evidence
    if evidence is None or evidence.advantage is None:
        return found
    measured = evidence.advantage
    if claim.randomness == "both" and not evidence.averages:
        return measured
    # Both bound the mean over all pairs for every sample, and so does the smaller one.
    return replace(
        measured,
        mean=min(measured.mean, found.mean),
        mean_detected=min(measured.mean_detected, found.mean_detected),
    )


def _from_levels(claim: Claim) -> Advantage:
    """Return what follows from level, delta, risk and the law of the loss alone."""
    outside = min(1.0, add_up([claim.risk, claim.failure_prob]))
    over_noise = bool(outside) and claim.randomness != "implicit"
    delta = min(1.0, add_up([claim.delta, outside])) if over_noise else claim.delta
    gain, detected = _from_delta(claim.epsilon, delta)
    for_every_pair = claim.randomness == "explicit" and not claim.failure_prob
    if claim.loss is not None and (for_every_pair or not over_noise):
        by_law = _from_loss(claim.loss)
        gain, detected = min(gain, by_law[0]), min(detected, by_law[1])
    if not outside or claim.randomness == "explicit":
        return Advantage(gain, gain, 0.0, detected, detected)
    if over_noise:  # on average over pairs: nothing is said of single ones
        return Advantage(gain, 1.0, outside, detected, 1.0)
    return Advantage(
        _mixed(gain, outside), gain, outside, _mixed(detected, outside), detected
    )


def _from_delta(epsilon: float, delta: float) -> tuple[float, float]:
    """Return advantage and true-positive rate that (epsilon, delta) leaves."""
    shrunk = math.exp(-epsilon)
    gain = (-math.expm1(-epsilon) + 2 * delta * shrunk) / (1 + shrunk)
    detected = true_positives(epsilon, delta, Advantage.false_positive_rate)
    exact = not epsilon  # then it is delta itself
    return gain if exact else _rounded(gain), _rounded(float(detected))


def _from_loss(loss: DominatingLoss) -> tuple[float, float]:
    """Return what a law that the loss stays below leaves; 1 if only its name is known.

    A loss that is larger by the excess is worth as many more false positives.
    """
    if not isinstance(loss.law, Law):
        return 1.0, 1.0
    law, known = loss.law, {"n_outputs": 1, "steps": MOST_STEPS}
    more = Advantage.false_positive_rate * math.exp(min(loss.excess, _FAR))
    gain = law.advantage([loss.shift], **known)[0] + loss.excess
    detected = law.true_positive_rate([loss.shift], min(1.0, more), **known)[0]
    return _rounded(float(gain)), _rounded(float(detected))


def _mixed(bound: float, outside: float) -> float:
    """Return a bound on average, where it does not hold for a share of pairs."""
    return _rounded((1 - outside) * bound + outside)


def _rounded(bound: float) -> float:
    return min(1.0, bound * (1 + ROUNDING))
