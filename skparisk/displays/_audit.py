"""What an audit of a claim found for each attacked pair, as a picture."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from skparisk.audit import ClaimAudit
from skparisk.displays._steps import Display


class AuditDisplay(Display):
    """The level that was found for each attacked pair, and the one that is allowed.

    Make it with `from_audit`. A bar that ends above its mark is evidence against the
    claim; one that ends below shows nothing.

    Parameters
    ----------
    audit : ClaimAudit
        Of :func:`~skparisk.audit_claim`.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        The lower bounds of the level.

    marks_ : matplotlib PathCollection
        The levels that the claim leaves, where they are finite.

    ax_, figure_ : matplotlib Axes, Figure
        Where they are.

    Examples
    --------
    >>> from skparisk import AuditDisplay, ClaimAudit
    >>> from skparisk.audit import PairAttack
    >>> from skparisk.core import as_certificate
    >>> attack = PairAttack(1.3, 1.0, 0.0, 0.7, 0.75, "exact repeats")
    >>> audit = ClaimAudit("release", as_certificate(1.0), 0.95, 1000, (attack,))
    >>> AuditDisplay.from_audit(audit).ax_.get_title()
    'release: evidence against'
    """

    def __init__(self, audit: ClaimAudit) -> None:
        if not isinstance(audit, ClaimAudit):
            raise ValueError(f"audit must be a ClaimAudit, got {audit!r}.")
        self.audit = audit

    @classmethod
    def from_audit(cls, audit: ClaimAudit, *, ax: Any = None, **kwargs: Any) -> Self:
        """Draw what an audit found.

        Parameters
        ----------
        audit : ClaimAudit
            What was found.

        ax, **kwargs
            As in `plot`.
        """
        return cls(audit).plot(ax, **kwargs)

    def _draw(self, **kwargs: Any) -> None:
        attacks = self.audit.attacks
        at = np.arange(1, len(attacks) + 1)
        self.bars_ = self.ax_.bar(
            at,
            [one.lower_bound for one in attacks],
            **{"label": "level found, at least", **kwargs},
        )
        known = [i for i, one in enumerate(attacks) if math.isfinite(one.allowed)]
        self.marks_ = self.ax_.scatter(
            at[known],
            [attacks[i].allowed for i in known],
            color="black",
            marker="_",
            s=400,
            label="level allowed, at most",
        )
        self.ax_.set_xticks(at)
        self.ax_.set_xlabel("attacked pair")
        self.ax_.set_ylabel("privacy level ε")
        self.ax_.set_title(f"{self.audit.estimator}: {self.audit.verdict}")
