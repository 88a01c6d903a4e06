"""Show how far long work has come: a bar, or lines without one."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import Any, Self

# Seconds between two looks.
_PAUSE = 1.0
_NAME = "sampling pairs"


class Progress:
    """Show pairs done, their rate and the time left: by tqdm, or by lines on stderr."""

    def __init__(self, total: int, *, shown: bool) -> None:
        self._total, self._shown = total, shown
        self._n_done = 0
        self._bar: Any = None

    def __enter__(self) -> Self:
        self._began = self._last = perf_counter()
        if self._shown:
            self._bar = self._make_bar()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def add(self, n_more: int) -> None:
        """Count more pairs."""
        self._n_done += n_more
        if self._bar is not None:
            self._bar.update(n_more)
        elif self._shown:
            now = perf_counter()
            if now - self._last >= _PAUSE or self._n_done == self._total:
                self._last = now
                print(self._line(now - self._began), file=sys.stderr, flush=True)

    def _line(self, seconds: float) -> str:
        rate = self._n_done / max(seconds, 1e-9)
        left = (self._total - self._n_done) / rate
        time = f"{left:.0f} s left" if left else f"{seconds:.1f} s"
        return f"{_NAME}: {self._n_done} of {self._total}, {rate:.3g} a second, {time}"

    def _make_bar(self) -> Any:
        """Return a bar of tqdm, or None where that is not installed."""
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return None
        return tqdm(
            total=self._total, desc=_NAME, unit="pair", leave=False, mininterval=_PAUSE
        )
