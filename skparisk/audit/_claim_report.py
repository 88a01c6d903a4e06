"""What an audit of a claim found, in numbers and words."""

from __future__ import annotations

import dataclasses
import html
import math
from dataclasses import dataclass
from typing import Any

from skparisk._text import floor_text, strict
from skparisk._words import void_reasons
from skparisk.audit._worst_neighbor import WorstNeighbor
from skparisk.core.claim import Certificate
from skparisk.core.rounding import ceil_text

EVIDENCE, NOTHING = "evidence against", "no evidence found"


@dataclass(frozen=True)
class PairAttack:
    """What an attack on the releases of one pair of databases found.

    Parameters
    ----------
    lower_bound : float
        Lower bound of the privacy level, in [0, inf).

    allowed : float
        Level that the claim leaves to this pair, in [0, inf]; infinite where a risk
        over pairs says nothing of single ones.

    delta : float
        The delta that both are levels at, in [0, 1].

    accuracy : float
        Lower bound of the share of right guesses which of the two databases it was,
        in [0.5, 1].

    allowed_accuracy : float
        The most that the claim leaves.

    distinguisher : str
        What gave the level away.

    Examples
    --------
    >>> from skparisk.audit import PairAttack
    >>> PairAttack(1.2, 1.0, 0.0, 0.7, 0.75, "exact repeats").contradicts
    True
    """

    lower_bound: float
    allowed: float
    delta: float
    accuracy: float
    allowed_accuracy: float
    distinguisher: str

    @property
    def contradicts(self) -> bool:
        """Whether either is more than the claim leaves."""
        return self.lower_bound > self.allowed or self.accuracy > self.allowed_accuracy

    @property
    def excess(self) -> float:
        """How far the lower bound is above the level that is allowed; may be < 0."""
        return self.lower_bound - self.allowed


@dataclass(frozen=True)
class ShareBeyond:
    """How many fresh pairs, or pairs and outputs, are beyond the level of a claim.

    Parameters
    ----------
    n_pairs, n_beyond : int
        Pairs, and those of them that are beyond it.

    risk : float
        Share that the claim allows, in [0, 1].

    p_value : float
        Probability, in [0, 1], that there are as many if the claim is right.

    alpha : float
        The p-value from which on it is no evidence, in (0, 1).

    exact : bool
        Whether pairs were judged by the exact loss at the noise that is stated, or by
        attacks on releases.
    """

    n_pairs: int
    n_beyond: int
    risk: float
    p_value: float
    alpha: float
    exact: bool

    @property
    def contradicts(self) -> bool:
        """Whether there are more than chance explains."""
        return self.p_value < self.alpha


@dataclass(frozen=True)
class ClaimAudit:
    """What an audit of a claim found; made by :func:`audit_claim`, prints as text.

    It looks at releases and at answers without noise, so that it is no release itself:
    keep it inside, unless the records were public or simulated.

    Parameters
    ----------
    estimator : str
        Name of what was audited.

    claim : Certificate
        What it claims.

    confidence : float
        Probability, in [0.5, 1), that nothing is called evidence if the claim is right.

    n_releases : int
        Releases of each database of each attacked pair.

    attacks : tuple of PairAttack
        One for each attacked pair.

    share : ShareBeyond or None
        Of fresh pairs; None where the claim is about every pair.

    worst_neighbor : WorstNeighbor or None
        What a search found, with ``pairs="canary"``.

    n_failed : int
        Fits that failed: each of them is a release without numbers.

    failure : str
        What the first of them raised. It may show values of the records, and is not in
        the text.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk import audit_claim
    >>> from skparisk.mechanisms import LaplaceMechanism
    >>> mechanism = LaplaceMechanism(sensitivity=1.0, epsilon=1.0)
    >>> def release(database, size):
    ...     return mechanism.release(np.full((size, 1), 4 * database[0].sum()))
    >>> X = np.arange(5.0)[:, np.newaxis] % 2
    >>> found = audit_claim(release, X, claim=mechanism, n_releases=500, random_state=0)
    >>> found.verdict
    'evidence against'
    """

    estimator: str
    claim: Certificate
    confidence: float
    n_releases: int
    attacks: tuple[PairAttack, ...]
    share: ShareBeyond | None = None
    worst_neighbor: WorstNeighbor | None = None
    n_failed: int = 0
    failure: str = ""

    @property
    def worst(self) -> PairAttack:
        """The attack that went farthest beyond what the claim leaves to its pair."""
        return max(
            self.attacks,
            key=lambda one: (one.contradicts, one.excess, one.lower_bound),
        )

    @property
    def contradicted(self) -> bool:
        """Whether there is evidence against the claim."""
        found = [attack.contradicts for attack in self.attacks]
        return any(found) or (self.share is not None and self.share.contradicts)

    @property
    def verdict(self) -> str:
        """``"evidence against"``, or ``"no evidence found"``; never "private"."""
        return EVIDENCE if self.contradicted else NOTHING

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings: strict JSON, also for YAML.

        Returns
        -------
        document : dict
            All fields, infinite numbers as "inf"; the verdict and what it means.
        """
        own = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name != "claim"
        }
        return {
            "schema": "skparisk.claim_audit",
            **strict(own),
            "claim": self.claim.to_dict(),
            "verdict": self.verdict,
            "meaning": self._meaning(),
        }

    def _meaning(self) -> list[str]:
        """Return sentences for those who decide whether to believe the claim."""
        n, confidence = len(self.attacks), f"{self.confidence:g}"
        first = (
            f"There is evidence against the claim of {self.estimator} (confidence "
            f"{confidence})."
            if self.contradicted
            else f"No evidence was found against the claim of {self.estimator}. That "
            "does not show that it is right: other pairs, or other attacks, may tell "
            "more."
        )
        said = [first, f"The claim: {self.claim.guarantee}"]
        said += [f"The claim is void: {text}" for text in void_reasons(self.claim)]
        said.append(self._about_worst(n))
        if self.share is not None:
            said.append(_about_share(self.share))
        if self.n_failed:
            total = 2 * n * self.n_releases
            said.append(
                f"{self.n_failed} of the {total} fits failed (the first with "
                f"{self.failure.partition(':')[0]}), which counts as a release without "
                "numbers."
            )
        if self.worst_neighbor is not None:
            said.append(_about_neighbor(self.worst_neighbor))
        said.append(
            "An audit looks at answers without noise, and is no release: keep it "
            "inside unless the records are public."
        )
        return said

    def _about_worst(self, n: int) -> str:
        worst = self.worst
        pairs = "the attacked pair" if n == 1 else f"the worst of {n} attacked pairs"
        at = f" at delta = {worst.delta:.3g}" if worst.delta else ""
        allowed = (
            "any level is allowed to a single pair"
            if math.isinf(worst.allowed)
            else f"at most {ceil_text(worst.allowed, 3)} is allowed"
        )
        return (
            f"{self.n_releases} releases of either database of {pairs}: a privacy "
            f"level of at least {floor_text(worst.lower_bound, 3)}{at}, by "
            f"{worst.distinguisher}, where {allowed}; at least "
            f"{floor_text(worst.accuracy, 3)} of guesses are right, where at most "
            f"{ceil_text(worst.allowed_accuracy, 3)} is allowed."
        )

    def __str__(self) -> str:
        return "\n".join(self._meaning())

    def _repr_html_(self) -> str:
        first, *rest = map(html.escape, self._meaning())
        others = "".join(f"<p>{text}</p>" for text in rest)
        return f"<div><p><strong>{first}</strong></p>{others}</div>"


def _about_share(share: ShareBeyond) -> str:
    how = "by their exact loss" if share.exact else "by attacks"
    return (
        f"{share.n_beyond} of {share.n_pairs} fresh pairs are beyond the level, {how}; "
        f"the claim allows a share of {share.risk:.4g} (p-value {share.p_value:.2g})."
    )


def _about_neighbor(worst: WorstNeighbor) -> str:
    if worst.epsilon is None or math.isinf(worst.epsilon):
        level = f"the answer moves by {worst.distance:.4g}"
    else:
        level = f"epsilon = {ceil_text(worst.epsilon, 3)} at the noise that is stated"
    return f"Worst neighbor found, in {worst.n_trials} trials: {level}."
