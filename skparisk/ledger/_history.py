"""What was charged: a list that grows, with its sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from skparisk.core.claim import Claim
from skparisk.core.compose import Totals


@dataclass(frozen=True)
class LedgerEntry:
    """One release that was charged to a ledger, or a leak that it was told of.

    Parameters
    ----------
    certificate : Certificate or FiledCertificate
        What it guarantees by itself; of 0 releases for a leak. A filed one where the
        ledger is in a file.

    note : str
        What was released.

    time : str
        When it was charged: ISO 8601, UTC.
    """

    certificate: Claim
    note: str
    time: str


@dataclass(frozen=True)
class History:
    """The first entries of a list that only grows, maybe releases more, and sums.

    So one more entry costs the same however many there are.
    """

    totals: Totals = field(default_factory=Totals)
    n_entries: int = 0
    _entries: list[LedgerEntry] = field(default_factory=list)
    # Releases, and how many times each of them.
    _more: tuple[tuple[Sequence[Claim], int], ...] = ()

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """What was charged."""
        return tuple(islice(self._entries, self.n_entries))

    @property
    def parts(self) -> list[Claim]:
        """All releases."""
        more = [c for parts, times in self._more for _ in range(times) for c in parts]
        return [entry.certificate for entry in self.entries] + more

    def plus(self, releases: Sequence[Claim], times: int = 1) -> History:
        """Return it with releases, each so many times, that are not charged yet."""
        totals = self.totals
        for release in releases:
            totals = totals.plus(release, times)
        more = (*self._more, (releases, times))
        return History(totals, self.n_entries, self._entries, more)

    def extended(self, entries: Sequence[LedgerEntry]) -> History:
        """Return it with entries; for the latest history of a list alone."""
        totals = self.plus([each.certificate for each in entries]).totals
        self._entries[self.n_entries :] = entries
        return History(totals, self.n_entries + len(entries), self._entries)
