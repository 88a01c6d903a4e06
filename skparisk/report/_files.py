"""Files that a command writes: tried first, written beside, and renamed when whole."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Self

_SOME = 2**20  # bytes that are written together


class NewFiles:
    """Files to be written, whose room on the disk is held from the beginning.

    What can fail must fail before a release is charged. A file that is there already is
    replaced only with `force`, and only by one that is whole.
    """

    def __init__(
        self,
        paths: Iterable[Path],
        *,
        force: bool = False,
        room: int = 0,
        mode: int = 0o666,
    ) -> None:
        self._paths, self._force, self._room = [*paths], force, room
        self._opener = partial(os.open, mode=mode)
        self._beside: dict[Path, Path] = {}

    def __enter__(self) -> Self:
        if len({path.resolve() for path in self._paths}) < len(self._paths):
            raise ValueError("give each --report another file.")
        try:
            for path in self._paths:
                self._hold(path)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _hold(self, path: Path) -> None:
        beside = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            if path.is_dir() or (path.exists() and not self._force):
                raise ValueError(
                    f"'{path}' must be a new file: it is there already. Give another "
                    "name, or --force to replace a file."
                )
            with open(beside, "xb", opener=self._opener) as file:
                self._beside[path] = beside
                some = random.Random().randbytes(_SOME)  # zeros may take no room
                for start in range(0, self._room, _SOME):
                    file.write(some[: self._room - start])
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ValueError(
                f"'{path}' must be a new file in a folder that exists and can be "
                f"written to, with room for {self._room:,} bytes: {error.strerror}."
            ) from None

    def write(self, path: Path, content: bytes) -> None:
        """Write a whole file, into the room that is held for it."""
        beside = self._beside[path]
        try:
            with beside.open("r+b") as file:
                file.write(content)
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except OSError as error:
            raise ValueError(
                f"'{path}' was not written: {error.strerror}. What was charged to a "
                "ledger before stays charged."
            ) from None

    def __exit__(self, *error: object) -> None:
        for beside in self._beside.values():
            beside.unlink(missing_ok=True)


def write_new(path: Path, content: bytes, *, force: bool, mode: int = 0o666) -> None:
    """Write a file that is new, for whom `mode` says, as far as the system allows."""
    with NewFiles([path], force=force, mode=mode) as files:
        files.write(path, content)
