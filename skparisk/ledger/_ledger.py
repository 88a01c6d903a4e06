"""A budget that releases are charged to before their noise is drawn."""

from __future__ import annotations

import html
import math
import os
from functools import partial
from numbers import Real
from typing import Any, NoReturn, Self, TextIO

from skparisk._text import printable
from skparisk.core.checks import check_at_least
from skparisk.core.claim import Certificate, Claim, as_certificates
from skparisk.ledger._book import (
    COMPOSITIONS,
    Book,
    Budget,
    FileBook,
    History,
    LedgerEntry,
    LedgerError,
    MemoryBook,
    budget_line,
    in_words,
    left_in_words,
    limit_in_words,
    to_jsonl,
    triple,
)
from skparisk.ledger._open import charge, close_book, open_book


class PrivacyLedger:
    """Record every release, and refuse those beyond a privacy budget.

    While a ledger is open (``with ledger:``), all releases of the library are charged
    to it, from any thread. A release that does not fit is refused before its noise is
    drawn. Ledgers may be nested; all open ones are charged, or none.

    Parameters
    ----------
    epsilon : float
        Privacy level of all releases together, in (0, inf], rounded down to a float as
        all limits are. Infinite: releases are only recorded, whatever delta and risk.

    delta : float, default=0.0
        Additive relaxation of all releases together, in [0, 1).

    gamma : float, default=1.0
        Risk of all releases together, including the probability that a certificate
        fails, in [0, 1]. 1: any risk.

    composition : {"basic", "advanced"}, default="basic"
        "basic": levels, deltas and risks add up. "advanced": that, or a privacy filter
        (:ref:`thm-filter`), with half of `delta`, above 0, for the composition and half
        for the releases.

    path : str or path-like, default=None
        A new file for the ledger: a SQLite database on a local disk, which outlives a
        crash, and which other processes may use by :meth:`open`. None: in memory.

    Raises
    ------
    ValueError
        If a parameter is out of range, of `remaining` as well. If `path` is on a
        network file system, or has an ending that SQLite uses, such as "-journal".

    OSError
        If `path` exists and is not an empty file (FileExistsError), or cannot be
        written, as on a full disk.

    Notes
    -----
    **Guarantee** (:ref:`thm-ledger`). All charged releases together are (epsilon,
    delta)-differentially private, but for a risk of at most `gamma`, even if levels and
    queries depend on earlier releases. A risk over pairs adds up if queries do not
    depend on earlier releases.

    The caller must ensure that all releases about the same people are charged. A ledger
    misses releases made while it was closed, on another machine, without the library,
    or inside :func:`~skparisk.ledger.suspend_open`. Releases with their own
    ``charges=`` are charged accordingly. A process that cannot record a release, such
    as a worker of joblib, refuses it.

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
        line = budget_line(Budget(epsilon, delta, gamma, composition))
        self._book = MemoryBook(line) if path is None else FileBook.create(path, line)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, head: str | None = None
    ) -> PrivacyLedger:
        """Return the ledger that a file holds, with its budget.

        The whole file is checked now, and only new entries later.

        Parameters
        ----------
        path : str or path-like
            File of the ledger.

        head : str, default=None
            A `head` filed before; the file must still contain it.

        Raises
        ------
        LedgerError
            If the library did not write it so.

        ValueError
            If it is on a network file system.

        OSError
            If it is not there, or cannot be read. A read-only file can be looked at.
        """
        ledger = cls.__new__(cls)
        ledger._book = book = FileBook(path)
        if head is not None and head not in book.hashes:
            raise LedgerError(
                f"{book.path} has no line with the hash head={head!r}: it is not the "
                "ledger that this was filed of, or it was rewritten since."
            )
        return ledger

    def to_jsonl(self, file: str | os.PathLike[str] | TextIO) -> None:
        """Export it as JSON lines, to read and to file.

        The first line is the budget, the last one the number of lines; each other one
        is a charge, with its time, note and certificates. Each has the hash of all
        lines before it, so that changes are noticed.

        Parameters
        ----------
        file : str, path-like or text file
            A new file, readable by its owner only (FileExistsError if it exists), or an
            open one.
        """
        with self._book.locked():
            text = to_jsonl(self._book.lines())
        if isinstance(file, str | bytes | os.PathLike):
            privately = partial(os.open, mode=0o600)
            with open(file, "x", encoding="ascii", opener=privately) as new:
                new.write(text)
        else:
            file.write(text)

    @property
    def limit(self) -> tuple[float, float, float]:
        """The budget: level, delta and risk; (inf, 1, 1) if it has no limit."""
        return self._book.budget.limit

    @property
    def spent(self) -> Certificate:
        """Guarantee of all releases so far, if their levels were fixed beforehand.

        If earlier releases decided levels, `limit` holds.
        """
        return self._book.budget.spent(self._history().totals)

    @property
    def releases(self) -> tuple[LedgerEntry, ...]:
        """Each charge so far: its `certificate`, `note` and `time`."""
        return self._history().entries

    @property
    def head(self) -> str:
        """Hash of all contents; filed elsewhere, it later proves every charge."""
        with self._book.locked():
            return self._book.head()

    @property
    def path(self) -> str | None:
        """The file, without links."""
        return self._book.path

    def remaining(self, n: int = 1) -> float:
        """Return the largest privacy level for n more releases.

        Parameters
        ----------
        n : int, default=1
            Releases of that level each, without delta and risk; >= 1.

        Returns
        -------
        epsilon : float
            Rounded down, so that they fit; in [0, inf]. 0: none of them fits.
        """
        n = check_at_least(n, "n", 1)
        return self._book.budget.remaining(self._history().totals, n)

    def spend(self, *releases: Any, note: str = "") -> None:
        """Charge this ledger for releases made elsewhere, open or not.

        Parameters
        ----------
        *releases : certificates, mechanisms or tuples of float
            Arguments of :func:`~skparisk.core.as_certificate`, such as (epsilon, delta,
            risk). All of them are charged, or none.

        note : str, default=""
            Description, kept in the ledger: nothing private.

        Raises
        ------
        BudgetExceededError
            If they do not fit into the budget. Nothing was charged.

        IncompatibleError
            If their relation of neighboring databases differs from earlier ones.
            Nothing was charged.

        UnrecordedReleaseError
            If the ledger belongs to another process. Nothing was charged.

        OSError
            If the file cannot be written; a PermissionError without permission.

        ValueError
            If an argument is no release, or several are plain numbers instead of
            tuples.
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

    __sklearn_clone__ = __copy__

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
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
        document, claim = self._statement()
        releases = [
            f"  {number}. {time}: {level}" + (f" ({note})" if note else "")
            for number, time, level, note in document["releases"]
        ]
        lines = [
            "Privacy ledger",
            *(f"  {name}: {value}" for name, value in document["rows"].items()),
            *releases,
            printable(claim.guarantee),
            *(f"Caveat: {printable(text)}" for text in claim.caveats),
            *(f"On the caller's word: {text}." for text in claim.conditions),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def _as_dict(self) -> dict[str, Any]:
        """Return budget, what is left, and each release, but not the file's name."""
        document, _ = self._statement()
        document["rows"].pop("file", None)
        return document

    def _until(self, head: str) -> Self:
        """Return it, in memory, as it was when its last hash was this one."""
        with self._book.locked():
            lines = self._book.lines()[: self._book.hashes.index(head) + 1]
        earlier = self.__new__(type(self))
        earlier._book = MemoryBook(*lines)
        return earlier

    def _history(self) -> History:
        with self._book.locked():
            return self._book.history

    def _statement(self) -> tuple[dict[str, Any], Certificate]:
        with self._book.locked():
            history, head = self._book.history, self._book.head()
        budget = self._book.budget
        spent = budget.spent(history.totals)
        rows = {
            "budget": limit_in_words(budget),
            "composition": COMPOSITIONS[budget.composition],
            "spent": _level(spent),
            "left": left_in_words(budget.remaining(history.totals)),
            "releases": str(spent.n_releases),
            **({} if self.path is None else {"file": printable(self.path)}),
            "head": head,
        }
        releases = [
            [str(number), entry.time, _level(entry.certificate), printable(entry.note)]
            for number, entry in enumerate(history.entries, 1)
        ]
        return {"rows": rows, "releases": releases}, spent


def _level(release: Claim) -> str:
    numbers = triple(release)
    level = in_words(numbers) if release.n_releases or any(numbers) else "no release"
    if release.void or release.leaks:
        return f"{level}, NOT private"
    return level + (", which does not stand" if release.doubts else "")
