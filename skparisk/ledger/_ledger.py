"""A budget that releases are charged to before their noise is drawn."""

from __future__ import annotations

import math
import os
from numbers import Real
from typing import Any, NoReturn, Self

from skparisk._validate import check_at_least
from skparisk.certificate import Certificate
from skparisk.certificate._certificate import as_certificates
from skparisk.ledger._book import Book, MemoryBook
from skparisk.ledger._budget import Budget
from skparisk.ledger._file import FileBook, LedgerError
from skparisk.ledger._history import History, LedgerEntry
from skparisk.ledger._open import charge, close_book, open_book
from skparisk.ledger._wording import Report

__all__ = ["PrivacyLedger"]


class PrivacyLedger:
    """A privacy budget: every release is recorded, and none may exceed it.

    While a ledger is open (``with ledger:``), all releases of the library are charged
    to it, in whatever thread they are made: it is not local to a thread. The one that
    does not fit is refused before its noise is drawn. Ledgers may be nested; all that
    are open are charged, or none.

    Parameters
    ----------
    epsilon : float
        Privacy level that all releases together may have, in (0, inf], rounded down to
        a float as all limits are. Infinite: no limit at all, neither of delta nor of
        risk; releases are only recorded.

    delta : float, default=0.0
        Additive relaxation that they may have together, in [0, 1).

    gamma : float, default=1.0
        Risk that they may have together, including the probability that a certificate
        fails, in [0, 1]. 1: any risk.

    composition : {"basic", "advanced", "exact"}, default="basic"
        How releases compose. "basic": levels, deltas and risks add up. "advanced":
        that, or :func:`~skparisk.composition.compose_filter`, where one half of
        `delta` is for the composition and the other for the deltas of the releases.
        "exact": "basic", or :func:`~skparisk.composition.compose_exact`; slow for
        hundreds of releases, the others are not. The last two need a `delta` above 0.

    path : str or path-like, default=None
        A new file that the ledger is kept in, which outlives a crash, and which other
        processes may use at the same time by :meth:`open`. A second file, `path` and
        ".head", belongs to it. None: it is kept in memory.

    Attributes
    ----------
    limit : tuple of (float, float, float)
        The budget: level, delta and risk; (inf, 1, 1) if it has no limit.

    spent : Certificate
        What all releases so far guarantee together, if their levels were fixed before.
        If they were chosen on the way, what holds is `limit`.

    releases : tuple of LedgerEntry
        Each release: its `guarantee`, `note` and `time`.

    head : str or None
        Hash of the last line of the file: filed elsewhere, it shows later that the
        file was not rewritten. None in memory.

    path : str or None
        The file, without links.

    Raises
    ------
    ValueError
        If a parameter is out of range, or `path` ends in ".head".

    FileExistsError
        If `path` exists and is not empty, or the head of a ledger that was there does.

    ImportError
        If `composition` is "exact", and dp-accounting is missing.

    Notes
    -----
    **Guarantee** (:ref:`thm-ledger`). Whatever is asked on the way, and with levels
    that depend on earlier releases, all releases that were charged are together
    (epsilon, delta)-differentially private, but for a risk of at most `gamma`; with
    "exact", provided that how many there are, and their levels, were fixed before. A
    risk over pairs adds up if what is asked does not depend on earlier releases. The
    caller must ensure that all releases about the same people are charged: a ledger
    knows nothing of those that were made while it was closed, on another machine, or
    without the library. A release that is made in a process that cannot record it,
    such as a worker of joblib, is refused. What is released inside of
    :func:`~skparisk.ledger.suspend_open` is not charged; what is released with
    ``charges=`` of one's own is charged as these say.

    A ledger is a handle: copies, and clones of scikit-learn, are the same ledger. It
    cannot be pickled.

    Examples
    --------
    >>> from skparisk.ledger import PrivacyLedger
    >>> ledger = PrivacyLedger(epsilon=1.0)
    >>> ledger.spend(0.4, note="mean age")
    >>> ledger.spent.epsilon, ledger.remaining()
    (0.4, 0.6)
    >>> ledger.spend(0.7)
    Traceback (most recent call last):
    skparisk.exceptions.BudgetExceededError: the budget of the ledger has no room ...
    """

    _book: Book

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        gamma: float = 1.0,
        *,
        composition: str = "basic",
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        budget = Budget(epsilon, delta, gamma, composition)
        # Imports what it will need.
        budget.spent(History().plus([Certificate(1.0)]))
        self._book = (
            MemoryBook(budget) if path is None else FileBook.create(path, budget)
        )

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, head: str | None = None
    ) -> PrivacyLedger:
        """Return the ledger that a file holds, with its budget.

        Both files are checked from the first byte to the last; later on only what is
        new. They must be writable, also to look at: what a crash left is mended.

        Parameters
        ----------
        path : str or path-like
            As it was given to the ledger.

        head : str, default=None
            The `head` that was filed at any time before. Its line must still be there.

        Returns
        -------
        ledger : PrivacyLedger

        Raises
        ------
        FileNotFoundError
            If there is no such file.

        PermissionError
            If it cannot be written to. Who may only read it can open a copy of both
            files, which is a ledger of its own.

        LedgerError
            If the file, or its head, is not as the library wrote it.
        """
        ledger = cls.__new__(cls)
        ledger._book = book = FileBook(path)
        if head is not None and head not in book.hashes:
            raise LedgerError(
                f"{book.path} has no line with the hash head={head!r}: it is not the "
                "ledger that this was filed of, or it was rewritten since."
            )
        return ledger

    @property
    def limit(self) -> tuple[float, float, float]:
        """The budget: level, delta and risk."""
        return self._book.budget.limit

    @property
    def spent(self) -> Certificate:
        """What all releases so far guarantee together."""
        return self._book.budget.spent(self._history())

    @property
    def releases(self) -> tuple[LedgerEntry, ...]:
        """Each release so far."""
        return self._history().entries

    @property
    def head(self) -> str | None:
        """Hash of the last line of the file."""
        with self._book.locked():
            return self._book.head

    @property
    def path(self) -> str | None:
        """The file."""
        return self._book.path

    def remaining(self, n: int = 1) -> float:
        """Return the largest privacy level that n more releases may have.

        Parameters
        ----------
        n : int, default=1
            Releases of that level each, without delta and risk; >= 1, and at most
            10000 with "exact".

        Returns
        -------
        epsilon : float
            Rounded down, so that they fit; in [0, inf]. 0: none of them fits.

        Raises
        ------
        ValueError
            If `n` is out of range.
        """
        n = check_at_least(n, "n", 1)
        return self._book.budget.remaining(self._history(), n)

    def spend(self, *releases: Any, note: str = "") -> None:
        """Charge this ledger for releases that are made elsewhere, open or not.

        Parameters
        ----------
        *releases : certificates, guarantees, mechanisms or tuples of float
            What :func:`~skparisk.certificate.as_certificate` takes, such as
            (epsilon, delta, risk). All of them are charged, or none.

        note : str, default=""
            What is released: it is kept in the ledger, so nothing private.

        Raises
        ------
        BudgetExceededError
            If they do not fit into the budget. Nothing was charged.

        IncompatibleError
            If their relation of neighboring databases is not that of earlier ones, or
            the ledger is that of another process. Nothing was charged.

        ValueError
            If a release is none, or several are given as numbers that are no tuples.
        """
        if len(releases) > 1 and any(isinstance(part, Real) for part in releases):
            raise ValueError(
                "several releases must not be given as bare numbers: write "
                "(epsilon, delta, risk) for one, and (epsilon,) for each of several; "
                f"got {releases!r}."
            )
        charge([self._book], as_certificates([*releases]), note)

    def __enter__(self) -> Self:
        with self._book.locked():
            pass  # refuses in a process that was forked since
        open_book(self._book)
        return self

    def __exit__(self, *error: object) -> None:
        close_book(self._book)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __sklearn_clone__(self) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a PrivacyLedger cannot be pickled: a copy in another process would not "
            "know of what is charged here. Keep it in a file (path=...), and use "
            "PrivacyLedger.open(path) there."
        )

    def __repr__(self) -> str:
        budget = self._book.budget
        limit = f"epsilon={budget.epsilon!r}"
        if math.isfinite(budget.epsilon):
            limit += f", delta={budget.delta!r}, gamma={budget.gamma!r}"
        return (
            f"PrivacyLedger({limit}, composition={budget.composition!r}, "
            f"path={self.path!r})"
        )

    def __str__(self) -> str:
        return self._report().as_text()

    def _repr_html_(self) -> str:
        return self._report().as_html()

    def _history(self) -> History:
        with self._book.locked():
            return self._book.history

    def _report(self) -> Report:
        with self._book.locked():
            history, head = self._book.history, self._book.head
        kept = {"file": self.path, "head": head}
        known = {name: text for name, text in kept.items() if text is not None}
        return Report(self._book.budget, history, known)
