"""One thread for sums, which depend on how many threads there are."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _thread_pools() -> ThreadpoolController:
    """Return the thread pools of this process; to find them takes milliseconds."""
    return ThreadpoolController()


class _BlasLimit:
    """One thread of linear algebra, for the whole process.

    From the first thread that enters to the last that leaves: what overlaps does not
    give back threads that another one must not have.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._limiter: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._n_inside:
                self._limiter = _thread_pools().limit(limits=1, user_api="blas")
            self._n_inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if not self._n_inside:
                self._limiter.restore_original_limits()


_blas_limit = _BlasLimit()


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread of linear algebra, and of OpenMP in the thread that asks.

    Fits to few records also take far longer where threads of OpenMP wait for a core
    that something else uses.
    """
    with _blas_limit, _thread_pools().limit(limits=1, user_api="openmp"):
        yield
