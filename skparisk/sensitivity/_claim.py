"""What a release claims, and the sampled pairs that this rests on."""

from __future__ import annotations

import copy
from typing import Any, Self

from skparisk.core.calibrate import with_own_level
from skparisk.core.claim import Certificate, over_private_records
from skparisk.core.pairs import SampledPairs, Withheld


class ClaimOfPairs:
    """A certificate and the pairs that it rests on.

    If the pairs are withheld, as they came from private data, so is what the
    certificate has of them besides the noise.
    """

    def __init__(self, certificate: Certificate, pairs: SampledPairs) -> None:
        self.pairs = pairs
        self._bare = self._certificate = certificate
        if pairs.learning is not None:
            self._certificate = pairs.learning.cover(certificate)
        self._said: Withheld | None = None

    @property
    def certificate(self) -> Certificate:
        """The whole claim."""
        withheld = self.pairs.withheld
        if withheld is not None and withheld is not self._said:
            self._certificate = _over_private_data(self._certificate, withheld)
            self._said = withheld
        return self._certificate

    @property
    def charge(self) -> Certificate:
        """What a release adds to a ledger: learning the reference is paid for."""
        return self.certificate if self.pairs.learning is None else self._bare

    def stating(self, certificate: Certificate) -> Self:
        """Return it with another certificate of the same release."""
        other = copy.copy(self)
        other._certificate = certificate
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {
            "pairs": self.pairs,
            "_certificate": self.certificate,
            "_bare": self.charge,
            "_said": self._said,
        }


def _over_private_data(certificate: Certificate, withheld: Withheld) -> Certificate:
    """Return the claim over pairs from private data, without what it has of these."""
    curve = None
    if certificate.randomness == "both":  # what is claimed, and no more
        curve = with_own_level(None, certificate.epsilon, certificate.risk)
    return over_private_records(
        certificate,
        reference=withheld.reference,
        n_candidates=withheld.n_candidates,
        leaks=withheld.leaks,
        curve=curve,
    )
