"""How far an audit is, by releases."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

# Told how many releases were made since the last time.
Tell: TypeAlias = Callable[[int], object]
_LINES = 10


def silent(n_releases: int) -> None:
    """Tell nothing."""


@contextmanager
def telling_progress(n_releases: int, verbose: int) -> Iterator[Tell]:
    """Show a bar of so many releases, or ten lines where there can be none."""
    if not verbose:
        yield silent
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield _Lines(n_releases).tell
        return
    with tqdm(total=n_releases, desc="releases", leave=False) as bar:
        yield bar.update


class _Lines:
    """A line for each tenth."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._lock = total, 0, threading.Lock()

    def tell(self, n_releases: int) -> None:
        with self._lock:
            before, self._done = self._done, self._done + n_releases
            shown = [done * _LINES // self._total for done in (before, self._done)]
        if shown[0] < shown[1]:
            print(f"releases: {self._done} of {self._total}", file=sys.stderr)
