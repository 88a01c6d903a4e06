"""A book in a file, that outlives the process and its crash.

One line for each charge, with the hash of the line before. A second, small file, the
head, tells how many lines there are, and the hash of the last one; it is replaced
after each line, and before any noise is drawn. So a line that is missing, or that is
not complete, beyond what the head tells was never followed by a release; and lines
that were cut off are noticed.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from skparisk.composition import DominatingLoss, PrivacyGuarantee
from skparisk.ledger._book import Book, LedgerEntry, now
from skparisk.ledger._budget import Budget
from skparisk.ledger._locks import lock, unlock

__all__ = ["FileBook", "LedgerError"]

_FORMAT = {"format": "skparisk-ledger", "version": 1}
_BUDGET = [field.name for field in dataclasses.fields(Budget)]
_HEADER = {*_FORMAT, *_BUDGET, "created"}
_CHARGE = {"index", "note", "previous", "releases", "time"}
_HEAD = re.compile(rb"([1-9][0-9]{0,15}) ([0-9a-f]{64})\n")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_KNOWN = set(PrivacyGuarantee(0.0).to_dict())
_GUARANTEE = [field.name for field in dataclasses.fields(PrivacyGuarantee)]


class LedgerError(ValueError):
    """The file of a ledger is not as the library wrote it."""


class FileBook(Book):
    """A book in a file, which other processes may write to as well."""

    path: str
    _file: FileIO

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self.path = os.path.realpath(path)
        self.order = (self.path, 0)
        # Of the lines that were read.
        self.hashes: list[str] = []
        self._size = 0
        with self.locked():
            pass

    @classmethod
    def create(cls, path: str | os.PathLike[str], budget: Budget) -> FileBook:
        """Write a new file."""
        path = os.path.realpath(path)
        if Path(_head_path(path)).exists():
            raise FileExistsError(
                f"{_head_path(path)} exists, so that there was a ledger at {path}."
            )
        header = _seal(_FORMAT | dataclasses.asdict(budget) | {"created": now()})
        with open(path, "xb", buffering=0, opener=_open_privately) as file:
            _write(file, _as_line(header))
        _write_head(path, 1, header["sha256"])
        return cls(path)

    @property
    def head(self) -> str:
        """Hash of the last line."""
        return self.hashes[-1]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock it for this thread of this process, and read what others wrote."""
        with super().locked(), open(self.path, "r+b", buffering=0) as self._file:
            lock(self._file.fileno())
            try:
                self._catch_up()
                yield
            finally:
                unlock(self._file.fileno())

    def append(self, guarantees: Sequence[PrivacyGuarantee], note: str) -> None:
        """Write releases down, all or none; the book is locked."""
        charge = _seal(
            {
                "index": len(self.hashes),
                "note": note,
                "previous": self.head,
                "releases": [guarantee.to_dict() for guarantee in guarantees],
                "time": now(),
            }
        )
        _write(self._file, _as_line(charge))
        _write_head(self.path, len(self.hashes) + 1, charge["sha256"])
        self._catch_up()

    def _catch_up(self) -> None:
        """Read the lines that are new, and mend what a crash has left."""
        status = os.fstat(self._file.fileno())
        if not os.path.samestat(status, os.stat(self.path)):
            raise LedgerError(f"{self.path} was replaced while it was in use.")
        if status.st_size < self._size:
            raise LedgerError(f"{self.path} was cut off while it was in use.")
        self._file.seek(self._size)
        *lines, torn = self._file.readall().split(b"\n")
        hashes, entries = [*self.hashes], [*self.entries]
        for line in lines:
            document = _parse(line, hashes, self.path)
            if hashes:
                entries += _as_entries(document, hashes, self.path)
            else:
                self.budget = _as_budget(document, self.path)
            hashes.append(document["sha256"])
        n_lines, head = _read_head(self.path)
        # A crash leaves a line that the head does not tell of, or a part of one.
        ahead = len(hashes) - n_lines
        if ahead not in (0, 1) or (ahead and torn):
            raise LedgerError(
                f"{self.path} has {len(hashes)} complete lines, and its head tells of "
                f"{n_lines}: lines were removed or added."
            )
        if hashes[n_lines - 1] != head:
            raise LedgerError(
                f"{self.path}: line {n_lines} is not the one that its head tells of."
            )
        size = self._size + sum(len(line) + 1 for line in lines)
        if torn:  # so no noise was drawn
            self._file.truncate(size)
            os.fsync(self._file.fileno())
        if ahead:
            _write_head(self.path, len(hashes), hashes[-1])
        self.entries, self.hashes, self._size = entries, hashes, size


def _seal(document: dict[str, Any]) -> dict[str, Any]:
    """Add the hash of all the rest."""
    return document | {"sha256": hashlib.sha256(_as_line(document)).hexdigest()}


def _as_line(document: dict[str, Any]) -> bytes:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return text.encode() + b"\n"


def _parse(line: bytes, hashes: list[str], path: str) -> dict[str, Any]:
    """Return what a line says if it is as it was written."""
    where = f"line {len(hashes) + 1} of {path}"
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LedgerError(f"{where} is not JSON: {error}.") from error
    entries = _CHARGE if hashes else _HEADER
    if not isinstance(document, dict) or set(document) != {*entries, "sha256"}:
        raise LedgerError(f"{where} must have the entries {sorted(entries)}, sha256.")
    unsealed = {name: document[name] for name in entries}
    if _as_line(_seal(unsealed)) != line + b"\n":
        raise LedgerError(f"{where} was changed: its hash is not that of its text.")
    return document


def _as_budget(header: dict[str, Any], path: str) -> Budget:
    found = {name: header[name] for name in _FORMAT}
    if found != _FORMAT:
        raise LedgerError(f"{path} must have the format {_FORMAT}, got {found}.")
    try:
        return Budget(*(header[name] for name in _BUDGET))
    except ValueError as error:
        raise LedgerError(f"{path} has no valid budget: {error}") from error


def _as_entries(
    charge: dict[str, Any], hashes: list[str], path: str
) -> list[LedgerEntry]:
    if charge["previous"] != hashes[-1] or charge["index"] != len(hashes):
        raise LedgerError(
            f"line {len(hashes) + 1} of {path} does not follow the line before."
        )
    try:
        return [
            LedgerEntry(_as_guarantee(release), charge["note"], charge["time"])
            for release in charge["releases"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise LedgerError(
            f"line {len(hashes) + 1} of {path} holds no releases: {error}"
        ) from error


def _as_guarantee(document: dict[str, Any]) -> PrivacyGuarantee:
    """Read the numbers, also of a version that had fewer; the words follow."""
    unknown = set(document) - _KNOWN
    if unknown:
        raise ValueError(f"unknown entries {sorted(unknown)}.")
    plain = {name: document[name] for name in _GUARANTEE if name in document}
    if plain.get("loss") is not None:
        plain["loss"] = DominatingLoss(**plain["loss"])
    return PrivacyGuarantee(**plain)


def _head_path(path: str) -> str:
    return f"{path}.head"


def _read_head(path: str) -> tuple[int, str]:
    """Return how many lines there are, and the hash of the last one."""
    head_path = Path(_head_path(path))
    try:
        text = head_path.read_bytes()
    except FileNotFoundError as error:
        raise LedgerError(
            f"{head_path} is missing: without it, lines that were cut off {path} would "
            "not be noticed."
        ) from error
    found = _HEAD.fullmatch(text)
    if found is None:
        raise LedgerError(f"{head_path} is not a number of lines and a hash.")
    return int(found[1]), found[2].decode()


def _write_head(path: str, n_lines: int, digest: str) -> None:
    """Replace the head, at once and for good."""
    head_path = _head_path(path)
    with open(f"{head_path}.new", "wb", buffering=0, opener=_open_privately) as file:
        _write(file, f"{n_lines} {digest}\n".encode())
    os.replace(f"{head_path}.new", head_path)
    if os.name == "posix":  # pragma: no branch
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _write(file: FileIO, content: bytes) -> None:
    """Write to the end of a file, for good."""
    file.seek(0, os.SEEK_END)
    n_written = file.write(content)
    if n_written != len(content):
        raise OSError(
            errno.ENOSPC,
            f"only {n_written} of {len(content)} bytes could be written",
            file.name,
        )
    os.fsync(file.fileno())


def _open_privately(path: str, flags: int) -> int:
    return os.open(path, flags | _NO_LINK, 0o600)
