"""A policy: the limits that releases of an institution must keep."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from skparisk import _words as words
from skparisk._checks import check_flag
from skparisk.core.checks import check_number, check_relation
from skparisk.core.claim import Claim
from skparisk.core.rounding import add_up, ceil_text


@dataclass(frozen=True)
class Check:
    """The result of one rule of a policy.

    Parameters
    ----------
    rule : str
        Name of the rule.

    passed : bool
        Whether it is kept.

    found, required : str
        In words.
    """

    rule: str
    passed: bool
    found: str
    required: str

    def __str__(self) -> str:
        word = "pass" if self.passed else "FAIL"
        return f"{word}  {self.rule}: {self.found} (required: {self.required})"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Limits that a certificate must keep; None and False are no rules.

    There is always one rule more: the guarantee must stand as it is written.

    Parameters
    ----------
    epsilon : float, default=None
        Largest privacy level, in (0, inf). Unitless.

    delta, gamma : float, default=None
        Largest delta, and largest risk with the probability that the certificate fails,
        in [0, 1].

    relation : {"replace-one", "add-remove"}, default=None
        Required neighboring databases.

    reference_audited : bool, default=False
        Require an audit that supports the risk, where pairs were sampled.

    public_reference : bool, default=False
        Require pairs of a public reference, by the word of the caller, or none.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> from skparisk.core import as_certificate
    >>> from skparisk.report import Policy
    >>> for check in Policy(epsilon=1.0, gamma=0.05).check(as_certificate(2.0)):
    ...     print(check)
    pass  guarantee: it stands (required: it stands as it is written)
    FAIL  epsilon: 2 (required: at most 1)
    pass  gamma: 0 (required: at most 0.05)
    """

    epsilon: float | None = None
    delta: float | None = None
    gamma: float | None = None
    relation: str | None = None
    reference_audited: bool = False
    public_reference: bool = False

    def __post_init__(self) -> None:
        # None may be infinite, as that would be no rule.
        limits = {"epsilon": "(0, inf)", "delta": "[0, 1]", "gamma": "[0, 1]"}
        for name, allowed in limits.items():
            if getattr(self, name) is not None:
                check_number(getattr(self, name), name, allowed)
        if self.relation is not None:
            check_relation(self.relation)
        for name in ("reference_audited", "public_reference"):
            check_flag(getattr(self, name), name)

    @classmethod
    def from_toml(cls, path: Any) -> Self:
        """Return the policy of a file of TOML, with the parameters as its keys.

        Raises
        ------
        ValueError
            If a key is unknown, a value is out of range, or there is no rule.
        """
        rules = tomllib.loads(Path(path).read_text("utf-8"))
        known = [field.name for field in fields(cls)]
        unknown = [name for name in rules if name not in known]
        if unknown or not rules:
            raise ValueError(
                f"a policy must have one of the keys {known}, and no others; got "
                f"{unknown or 'none'}."
            )
        return cls(**rules)

    def check(self, certificate: Claim, *others: Claim) -> tuple[Check, ...]:
        """Return what each rule says.

        Parameters
        ----------
        certificate : Certificate
            What is checked.

        *others : Certificate
            Of other releases of the same records, such as private scores. All
            guarantees must stand, and the limits are for sums. There are no sums over
            different relations.

        Returns
        -------
        checks : tuple of Check
            Of the guarantee, and of each rule that is set, in the order of the
            parameters. Without a guarantee no limit is kept.
        """
        claim, claims = certificate, [certificate, *others]
        wrong = next((each for each in claims if not each.private), claim)
        stands = "it stands" if wrong.private else " ".join(words.void_reasons(wrong))
        leaks = "released without noise: " + " ".join(words.leaks(wrong))
        found = stands or (leaks if wrong.leaks else " ".join(words.doubts(wrong)))
        checks = [
            Check("guarantee", wrong.private, found, "it stands as it is written")
        ]
        risks = [part for each in claims for part in (each.risk, each.failure_prob)]
        numbers = {
            "epsilon": add_up([each.epsilon for each in claims]),
            "delta": add_up([each.delta for each in claims]),
            "gamma": add_up(risks),
        }
        void = any(each.void for each in claims)
        # Levels of one relation do not add up to one of another.
        void |= len({each.relation for each in claims} - {None}) > 1
        for name, number in numbers.items():
            limit = getattr(self, name)
            if limit is not None:
                kept = not void and number <= limit
                found = "none is guaranteed" if void else ceil_text(number)
                checks.append(Check(name, kept, found, f"at most {limit:g}"))
        if self.relation is not None:
            same = claim.relation == self.relation
            found = claim.relation or "none"
            checks.append(Check("relation", same, found, self.relation))
        if self.reference_audited:
            audited = "reference_audited", *_audited(claim)
            checks.append(Check(*audited, "an audit supports the risk"))
        if self.public_reference:
            public = "public_reference", *_public(claim)
            checks.append(Check(*public, "a public one, or none"))
        return tuple(checks)


def _samples(claim: Claim) -> bool:
    """Tell if a claim may rest on sampled pairs; of several releases, by the risk."""
    if claim.evidence is not None:
        return claim.evidence.n_pairs is not None
    return claim.randomness != "explicit" and bool(claim.risk or claim.failure_prob)


def _audited(claim: Claim) -> tuple[bool, str]:
    if not _samples(claim):
        return not claim.void, "nothing was sampled"
    audit = None if claim.evidence is None else claim.evidence.audit
    if audit is None:
        return False, "not audited"
    return audit.verdict == "supported" and not audit.seeded, words.audit_summary(audit)


def _public(claim: Claim) -> tuple[bool, str]:
    if claim.reference_is_private:
        return False, "the private data themselves"
    if claim.protects_membership:
        return False, "a sample of the records themselves"
    if not _samples(claim):
        return not claim.void, "nothing was sampled"
    return True, "public, by the word of the caller"
