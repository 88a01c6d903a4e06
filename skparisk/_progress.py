"""How far long work has come: a bar, or lines without one."""

from __future__ import annotations

import sys
import threading
from time import perf_counter
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

# Seconds between two looks at the quantile, and between two lines.
_PAUSE = 1.0
_NAME = "sampling pairs"


class Watched(NamedTuple):
    """The quantile of the distances of answers that is shown, and their norm."""

    level: float
    norm: float


class Progress:
    """Says how much is done, how fast, how long the rest will take; also of threads.

    With tqdm where it is installed, else by lines on the standard error stream; nothing
    if it is not `shown`. Of answers only the quantile that is `watched` is shown.
    """

    def __init__(
        self, total: int, *, shown: bool, watched: Watched | None = None
    ) -> None:
        self._total, self._shown = total, shown
        self._watched = watched if shown else None
        self._norms: list[NDArray[np.float64]] = []
        self._n_done, self._lock = 0, threading.Lock()
        self._bar: Any = None

    def __enter__(self) -> Self:
        self._began = self._last = perf_counter()
        if self._shown:
            self._bar = self._make_bar()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def add(self, n_more: int, differences: NDArray[np.float64] | None = None) -> None:
        """Count more, and what answers differ by, of shape (n_more, n_outputs)."""
        if not self._shown:
            return
        with self._lock:
            self._n_done += n_more
            if self._watched and differences is not None and differences.size:
                norms = np.linalg.norm(differences, ord=self._watched.norm, axis=1)
                self._norms.append(norms)
            if self._bar is not None:
                self._bar.update(n_more)
            now = perf_counter()
            if now - self._last < _PAUSE and self._n_done < self._total:
                return
            self._last = now
            if self._bar is None:
                print(self._line(now - self._began), file=sys.stderr, flush=True)
            else:
                self._bar.set_postfix_str(self._quantile())

    def _line(self, seconds: float) -> str:
        rate = self._n_done / max(seconds, 1e-9)
        left = (self._total - self._n_done) / rate
        told = [
            f"{_NAME}: {self._n_done} of {self._total}",
            f"{rate:.3g} a second",
            f"{left:.0f} s left" if left else f"{seconds:.1f} s",
            self._quantile(),
        ]
        return ", ".join(filter(None, told))

    def _quantile(self) -> str:
        if self._watched is None or not self._norms:
            return ""
        self._norms = [np.concatenate(self._norms)]
        value = np.quantile(self._norms[0], self._watched.level, method="higher")
        return f"{self._watched.level:g} quantile {value:.3g}"

    def _make_bar(self) -> Any:
        """Return a bar of tqdm, or None where that is not installed."""
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return None
        return tqdm(total=self._total, desc=_NAME, unit="pair", leave=False)
