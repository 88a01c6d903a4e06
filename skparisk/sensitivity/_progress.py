"""How far the sampling of pairs has come: a bar, or lines without one."""

from __future__ import annotations

import sys
from time import perf_counter
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

_NAME = "sampling pairs"
# Seconds between two looks at the quantile, and between two lines.
_PAUSE = 1.0


class Watched(NamedTuple):
    """The quantile of the distances of answers that is shown, and their norm."""

    level: float
    norm: float


class Progress:
    """Says how many pairs are done, how fast, how long the others will take.

    With tqdm where it is installed, else by lines on the standard error stream; nothing
    if it is not `shown`. Of the answers only the quantile that is `watched` is shown.
    """

    def __init__(
        self, n_pairs: int, *, shown: bool, watched: Watched | None = None
    ) -> None:
        self._n_pairs, self._shown = n_pairs, shown
        self._watched = watched if shown else None
        self._norms: list[NDArray[np.float64]] = []
        self._n_done = 0
        self._bar: Any = None

    def __enter__(self) -> Self:
        self._began = self._last = perf_counter()
        if self._shown:
            self._bar = _make_bar(self._n_pairs)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def add(self, differences: NDArray[np.float64]) -> None:
        """Count more pairs, of shape (n_pairs, n_outputs)."""
        if not self._shown:
            return
        self._n_done += len(differences)
        if self._watched is not None and differences.size:
            norms = np.linalg.norm(differences, ord=self._watched.norm, axis=1)
            self._norms.append(norms)
        if self._bar is not None:
            self._bar.update(len(differences))
        now = perf_counter()
        if now - self._last < _PAUSE and self._n_done < self._n_pairs:
            return
        self._last = now
        if self._bar is None:
            print(self._line(now - self._began), file=sys.stderr, flush=True)
        else:
            self._bar.set_postfix_str(self._quantile())

    def _line(self, seconds: float) -> str:
        rate = self._n_done / max(seconds, 1e-9)
        left = (self._n_pairs - self._n_done) / rate
        told = [
            f"{_NAME}: {self._n_done} of {self._n_pairs}",
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


def _make_bar(n_pairs: int) -> Any:
    """Return a bar of tqdm, or None where that is not installed."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=n_pairs, desc=_NAME, unit="pair", leave=False)
