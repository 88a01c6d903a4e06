"""What private data make others say is not shown: warnings, and values in errors.

Silence is for one thread: `warnings.catch_warnings` silences the whole process while
one thread needs it, and may leave it silenced where threads overlap. Here one permanent
filter asks which thread is warning.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from joblib import parallel_config


class _SilentThread(threading.local):
    """Stands where a filter has the pattern of a message."""

    depth = 0

    def match(self, message: str) -> bool:
        return self.depth > 0

    @property
    def pattern(self) -> str:
        """What scikit-learn copies for what it runs inside: silent there as well."""
        return ".*" if self.depth > 0 else "(?!)"

    def __reduce__(self) -> tuple[Callable[[str], re.Pattern[str]], tuple[str]]:
        # scikit-learn sends the filters to its worker processes.
        return re.compile, (self.pattern,)


_thread = _SilentThread()
_FILTER: Any = ("ignore", _thread, Warning, None, 0)


@contextmanager
def silenced() -> Iterator[None]:
    """Show no warning of this thread, whatever the filters; of others as before.

    What is inside does not share its work with other threads or processes, which would
    not be silent, unless it names a backend of joblib itself.
    """
    _stand_first()
    _thread.depth += 1
    try:
        with parallel_config(backend="sequential", n_jobs=1):
            yield
    finally:
        _thread.depth -= 1


def _stand_first() -> None:
    # Others may have put filters before it, or restored a list without it.
    filters = cast("list[Any]", warnings.filters)
    if not filters or filters[0] != _FILTER:
        filters[:] = [_FILTER, *(entry for entry in filters if entry != _FILTER)]


_stand_first()


def hide_values(check: Callable[..., Any], *data: Any, **parameters: Any) -> Any:
    """Return what a check of private data returns, without values in its message.

    What messages of scikit-learn tell after a colon or on further lines may be values,
    such as the text that is no number; but for the advice to reshape.
    """
    try:
        return check(*data, **parameters)
    except (ArithmeticError, TypeError, ValueError) as error:
        # Whole numbers that no float can hold are bad values as others are.
        kind = TypeError if isinstance(error, TypeError) else ValueError
        message = str(error)
    # Raised outside, so that the error does not come along.
    told = message.partition("\n")[0].partition(": ")[0]
    if told != message:
        told = (
            f"{told.rstrip(':')} (the rest is not shown because it may reveal "
            "something about the data)"
        )
        if "\nReshape your data" in message:
            told += ". Reshape your data: array.reshape(-1, 1) is a single feature."
    raise kind(told)
