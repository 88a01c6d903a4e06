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
from functools import wraps
from typing import Any, TypeVar, cast

from joblib import parallel_config

Release = TypeVar("Release", bound=Callable[..., Any])


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


def forgetting(function: Release) -> Release:
    """Let a function that knows an exact answer leave no frame of itself if it fails.

    The frames of a traceback hold all local variables. The answer must not be among the
    arguments, which stay.
    """

    @wraps(function)
    def forget(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BaseException as error:  # an interruption has frames as well
            failure = error
        failure.__cause__ = failure.__context__ = None
        raise failure.with_traceback(None)

    return cast(Release, forget)


def hide_values(check: Callable[..., Any], *data: Any, **parameters: Any) -> Any:
    """Return what a check of private data returns, without values in its message.

    Nor those of a public table, which may be the private one by mistake.
    """
    try:
        return check(*data, **parameters)
    except (ArithmeticError, TypeError, ValueError) as error:
        # Whole numbers that no float can hold are bad values as others are.
        kind = TypeError if isinstance(error, TypeError) else ValueError
        message = str(error)
    # Raised outside, so that the error does not come along.
    raise kind(without_values(message))


def without_values(message: str) -> str:
    """Return the part of a message of others that shows no value of the data.

    What scikit-learn tells after a colon or on further lines may be values, such as the
    text that is no number; but for the advice to reshape.
    """
    told = message.partition("\n")[0].partition(": ")[0]
    if told != message:
        told = (
            f"{told.rstrip(':')} (the rest is not shown because it may reveal "
            "something about the data)"
        )
        if "\nReshape your data" in message:
            told += ". Reshape your data: array.reshape(-1, 1) is a single feature."
    return told
