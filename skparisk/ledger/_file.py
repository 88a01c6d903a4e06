"""A book in a file, that outlives the process and its crash.

One line for each charge, with the hash of the line before. A second, small file, the
head, tells how many lines there are, and the hash of the last one; it is replaced
after each line, and before any noise is drawn. So a line that is missing, or that is
not complete, beyond what the head tells was never followed by a release; and lines
that were cut off are noticed. A file without a head holds a budget at most.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from skparisk.certificate import Certificate, DominatingLoss
from skparisk.exceptions import IncompatibleError
from skparisk.ledger._book import Book, now
from skparisk.ledger._budget import Budget
from skparisk.ledger._history import LedgerEntry
from skparisk.ledger._locks import hold

__all__ = ["FileBook", "LedgerError"]

_FORMAT = {"format": "skparisk-ledger", "version": 1}
_BUDGET = [field.name for field in dataclasses.fields(Budget)]
_HEADER = {*_FORMAT, *_BUDGET, "created"}
_CHARGE = {"index", "note", "previous", "releases", "time"}
_RESERVED = (".head", ".head.new")
_BEGINNING = b'{"composition":'  # of the first line
_HEAD = re.compile(rb"([1-9][0-9]{0,15}) ([0-9a-f]{64})\n")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_KNOWN = set(Certificate(0.0).to_dict())
_GUARANTEE = [field.name for field in dataclasses.fields(Certificate)]


class LedgerError(ValueError):
    """The file of a ledger is not as the library wrote it."""


class FileBook(Book):
    """A book in a file, which other processes may write to as well."""

    path: str
    _file: FileIO

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = _real_path(path)
        super().__init__((self.path, ""))
        # Of the lines that were read.
        self.hashes: list[str] = []
        self._size = 0
        with self.locked():
            pass

    @classmethod
    def create(cls, path: str | os.PathLike[str], budget: Budget) -> FileBook:
        """Write a new file."""
        path = _real_path(path)
        if os.path.lexists(_head_path(path)):
            raise FileExistsError(
                f"{_head_path(path)} exists, so that there was a ledger at {path}."
            )
        header = _seal(_FORMAT | dataclasses.asdict(budget) | {"created": now()})
        with open(path, "r+b", buffering=0, opener=_open_or_create) as file, hold(file):
            if not _is_new(file):
                raise FileExistsError(f"{path} exists: PrivacyLedger.open opens it.")
            file.truncate(0)
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
        with (
            super().locked(),
            open(self.path, "r+b", buffering=0) as self._file,
            hold(self._file),
        ):
            self._catch_up()
            yield

    def append(self, guarantees: Sequence[Certificate], note: str) -> None:
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
        if status.st_nlink != 1:
            raise LedgerError(
                f"{self.path} has {status.st_nlink} names (hard links), each of which "
                "would have a head of its own: remove all but one."
            )
        if status.st_size < self._size:
            raise LedgerError(f"{self.path} was cut off while it was in use.")
        self._file.seek(self._size)
        *lines, torn = self._file.readall().split(b"\n")
        n_known, hashes = len(self.hashes), self.hashes[-2:]
        entries: list[LedgerEntry] = []
        for index, line in enumerate(lines, n_known):
            document = _parse(line, index, self.path)
            if index:
                entries += _as_entries(document, index, hashes[-1], self.path)
            else:
                self.budget = _as_budget(document, self.path)
            hashes.append(document["sha256"])
        n_found = n_known + len(lines)
        n_lines, head = _read_head(self.path)
        if not n_lines and (n_found != 1 or torn):
            raise LedgerError(
                f"{_head_path(self.path)} is missing: without it, lines that were cut "
                f"off {self.path} would not be noticed."
            )
        # A crash leaves a line that the head does not tell of, or a part of one.
        ahead = n_found - n_lines
        if ahead not in (0, 1) or (ahead and torn):
            raise LedgerError(
                f"{self.path} has {n_found} complete lines, and its head tells of "
                f"{n_lines}: lines were removed or added."
            )
        if n_lines and hashes[-1 - ahead] != head:
            raise LedgerError(
                f"{self.path}: line {n_lines} is not the one that its head tells of."
            )
        try:
            history = self.history.extended(entries)
        except IncompatibleError as error:
            raise LedgerError(f"{self.path} holds no releases: {error}") from error
        size = self._size + sum(len(line) + 1 for line in lines)
        if torn:  # so no noise was drawn
            self._file.truncate(size)
            os.fsync(self._file.fileno())
        if ahead:
            _write_head(self.path, n_found, hashes[-1])
        self.hashes[n_known:] = hashes[len(hashes) - len(lines) :]
        self.history, self._size = history, size


def _seal(document: dict[str, Any]) -> dict[str, Any]:
    """Add the hash of all the rest."""
    return document | {"sha256": hashlib.sha256(_as_line(document)).hexdigest()}


def _as_line(document: dict[str, Any]) -> bytes:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return text.encode() + b"\n"


def _parse(line: bytes, index: int, path: str) -> dict[str, Any]:
    """Return what a line says if it is as it was written."""
    where = f"line {index + 1} of {path}"
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LedgerError(f"{where} is not JSON: {error}.") from error
    entries = _CHARGE if index else _HEADER
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
    charge: dict[str, Any], index: int, previous: str, path: str
) -> list[LedgerEntry]:
    if charge["previous"] != previous or charge["index"] != index:
        raise LedgerError(f"line {index + 1} of {path} does not follow the one before.")
    try:
        return [
            LedgerEntry(_as_certificate(release), charge["note"], charge["time"])
            for release in charge["releases"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise LedgerError(
            f"line {index + 1} of {path} holds no releases: {error}"
        ) from error


def _as_certificate(document: dict[str, Any]) -> Certificate:
    """Read the numbers, also of a version that had fewer; the words follow."""
    unknown = set(document) - _KNOWN
    if unknown:
        raise ValueError(f"unknown entries {sorted(unknown)}.")
    plain = {name: document[name] for name in _GUARANTEE if name in document}
    if plain.get("loss") is not None:
        plain["loss"] = DominatingLoss(**plain["loss"])
    return Certificate(**plain)


def _real_path(path: str | bytes | os.PathLike[str]) -> str:
    real = os.path.realpath(os.fsdecode(path))
    if real.lower().endswith(_RESERVED):
        raise ValueError(
            f"path must not end in {' or '.join(_RESERVED)}, as the file beside a "
            f"ledger does, got {path!r}."
        )
    return real


def _is_new(file: FileIO) -> bool:
    """Tell if nothing was written, or a part of the first line before a crash."""
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return False
    content = file.read(2**16)
    return b"\n" not in content and _BEGINNING.startswith(content[: len(_BEGINNING)])


def _head_path(path: str) -> str:
    return f"{path}.head"


def _read_head(path: str) -> tuple[int, str]:
    """Return how many lines there are, and the hash of the last one; 0 if not told."""
    head_path = Path(_head_path(path))
    try:
        text = head_path.read_bytes()
    except FileNotFoundError:
        return 0, ""
    found = _HEAD.fullmatch(text)
    if found is None:
        raise LedgerError(f"{head_path} is not a number of lines and a hash.")
    return int(found[1]), found[2].decode()


def _write_head(path: str, n_lines: int, digest: str) -> None:
    """Replace the head, at once and for good."""
    head_path = _head_path(path)
    new = f"{head_path}.new"
    Path(new).unlink(missing_ok=True)  # a crash has left it
    with open(new, "xb", buffering=0, opener=_open_privately) as file:
        _write(file, f"{n_lines} {digest}\n".encode())
    os.replace(new, head_path)
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


def _open_or_create(path: str, flags: int) -> int:
    return _open_privately(path, flags | os.O_CREAT)
