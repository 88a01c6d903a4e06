"""Private records in, noisy numbers out, and the order in which that happens.

Check, room in the ledger, answer, charge, noise, forget. What private data make others
say is not shown: warnings, values in errors, and the frames of those who knew them.

Private records arrive as plain arrays, and these read them before they are sealed, or
in another way than by :func:`release`. What they tell is hidden, noised or on the
claim:

- ``_private_data.py``, ``_training_data.py``, ``_checks.py``,
  ``reference/_records.py`` and ``reference/_domain.py``: checks, casts and clips of
  values, whose errors do not show them
- ``reference/_sketch.py``: hashes of rows, by which private records are recognized in a
  table that is said to be public, and those of a secret draw or a learned law again
- ``_classes.py``: the classes, where none are declared
- ``_fitted_parts.py``: fits, which frozen parts of an estimator must not be the same as
- ``reference/_secret.py``: the draw of a secret sample
- ``reference/_learned.py``: the counts of a learned law
- ``model_selection/_exponential.py``: the scores of records that were held out
- ``audit/_audit.py`` and ``audit/_blocks.py``: the count of an audit

Silence is for one thread: `warnings.catch_warnings` silences the whole process while
one thread needs it, and may leave it silenced where threads overlap. Here a permanent
filter, and all that shows warnings, ask which thread is warning. Other threads put
their own filters before it, whatever is done: one that lets a warning pass changes
nothing, as it is not shown, and where one makes an error of it the query is asked
again.
"""

from __future__ import annotations

import copy
import math
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray

from skparisk.core.calibrate import Mechanism, Noise
from skparisk.core.checks import IncompatibleError, warn_if_seeded
from skparisk.core.claim import Certificate, Leak, Unit
from skparisk.core.exact import noise_source, random_order
from skparisk.core.noise import AdditiveNoise
from skparisk.core.sealed import (
    Sealed,
    copy_records,
    open_sealed,
    rows_of,
    take_rows,
)

_Function = TypeVar("_Function", bound=Callable[..., Any])


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
# How often a query is asked that fails by a warning.
_ATTEMPTS = 16


def _show_aloud(show: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return the same display of warnings, without those of a silent thread."""

    def shown(message: Any) -> None:
        if _thread.depth == 0:
            show(message)

    return shown


# All warnings of Python and C end there, and `catch_warnings` leaves it as it is.
_warnings = cast(Any, warnings)
_warnings._showwarnmsg = _show_aloud(_warnings._showwarnmsg)


@contextmanager
def silenced() -> Iterator[None]:
    """Show no warning of this thread, whatever the filters; of others as before.

    What is inside does not share its work with other threads or processes, which would
    not be silent, unless it names a backend of joblib itself.
    """
    _stand_first()
    before = _thread.depth
    try:  # first of all: an interruption must not leave it silent
        _thread.depth = before + 1
        with parallel_config(backend="sequential", n_jobs=1):
            yield
    finally:
        _thread.depth = before


@contextmanager
def unseen() -> Iterator[list[type[BaseException]]]:
    """Show no warning and no error; only that it was interrupted, but not by whom.

    Of an error the kind is put into the list. A panic of polars is no Exception, and
    SystemExit has a message.
    """
    interrupted, failed = False, list[type[BaseException]]()
    try:
        with np.errstate(all="ignore"), silenced():
            yield failed
    except KeyboardInterrupt:
        interrupted = True
    except BaseException as error:  # its message is not shown
        failed.append(type(error))
    if interrupted:
        raise KeyboardInterrupt


def _stand_first() -> None:
    # Others may have put filters before it, or restored a list without it.
    filters = cast("list[Any]", warnings.filters)
    if not filters or filters[0] != _FILTER:
        filters[:] = [_FILTER, *(entry for entry in filters if entry != _FILTER)]


_stand_first()


def forgetting(function: _Function) -> _Function:
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

    return cast(_Function, forget)


def hide_values(check: Callable[..., Any], *data: Any, **parameters: Any) -> Any:
    """Return what a check of private data returns, without values in its message.

    Nor those of a public table: it may be the private one by mistake. Errors of this
    package show none, and stay the same.
    """
    try:
        return check(*data, **parameters)
    except Exception as error:
        failure = error
    if not type(failure).__module__.startswith("skparisk."):
        # Whole numbers that no float can hold are bad values as others are.
        kind = TypeError if isinstance(failure, TypeError) else ValueError
        message = f"{type(failure).__name__}: "
        # Not that of a KeyError, which is nothing but the key.
        if isinstance(failure, ArithmeticError | TypeError | ValueError):
            message = str(failure)
        failure = kind(without_values(message, quoted=False))
    # Raised outside, so that the error does not come along.
    failure.__cause__ = failure.__context__ = None
    raise failure.with_traceback(None)


def without_values(message: str, *, quoted: bool = True) -> str:
    """Return the part of a message of others that shows no value of the data.

    What scikit-learn tells after a colon, in brackets or on further lines may be
    values, such as the text that is no number; but for the advice to reshape. So may
    what Python tells in quotes, such as the text that is no date, unless it is kept.
    """
    quotes = "" if quoted else "|(?<!\\w)b?['\"]"
    told = re.split(rf"\n|: | \[{quotes}", message, maxsplit=1)[0]
    if told != message:
        told = (
            f"{told.rstrip(': ')} (the rest is not shown because it may reveal "
            "something about the data)"
        )
        if "\nReshape your data" in message:
            told += ". Reshape your data: array.reshape(-1, 1) is a single feature."
    return told


class Ledger(Protocol):
    """What releases are charged to."""

    def check_room(self, *certificates: Certificate) -> None:
        """Refuse, as `spend` would, what does not fit; charge nothing."""
        ...

    def spend(self, *certificates: Certificate, note: str) -> None:
        """Charge releases, on disk where it is kept there, or refuse them."""
        ...

    def refuse_unknown(self, what: str) -> None:
        """Refuse a release whose level is not known, if it had to be recorded."""
        ...


Query = Callable[[Any, Any], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Plan:
    """All decisions made before private records are opened.

    Parameters
    ----------
    query : callable or None
        Answers on a database: ``query(X, y)``. None: each record is released by itself,
        as of different people.

    noise : callable
        ``noise(n_outputs)`` returns the noise for an answer of so many numbers and its
        certificate.

    at_most : Certificate
        What ledgers must have room for, known before there is an answer.

    charge : callable, default=None
        Returns what ledgers are charged, of the certificate. None: the certificate.

    n_outputs : int, default=None
        Numbers of an answer: with any other number there is none. None: it follows from
        public shapes, and is not checked.
    """

    query: Query | None
    noise: Callable[[int], tuple[Noise, Certificate]]
    at_most: Certificate
    charge: Callable[[Certificate], Certificate] | None = None
    n_outputs: int | None = None


def _secret_order(
    plan: Plan, n_records: int, noise_random_state: Any
) -> NDArray[np.intp] | None:
    """Draw an order for private records; None keeps theirs.

    At an infinite epsilon nothing is hidden, and results equal scikit-learn's.
    """
    if getattr(plan.query, "is_unordered", False) or plan.at_most.epsilon == math.inf:
        return None
    return random_order(n_records, noise_source(noise_random_state))


def check_unit(certificate: Certificate, of_people: bool) -> None:
    """Refuse to release people by noise for single rows, and the other way round."""
    unit = Unit.PERSON if of_people else Unit.RECORD
    if certificate.unit not in (None, unit):
        raise IncompatibleError(
            f"The noise is for databases that differ in one {certificate.unit}, but "
            f"one of the private records is a {unit}: give groups for both the public "
            "and the private records, or for neither."
        )


def check_n_records(n_records: int, sampled: int, relation: str) -> None:
    """Raise IncompatibleError unless databases of that size were sampled."""
    sizes, got, least = f"{sampled}", f", got {n_records}", sampled
    if relation == "add-remove":  # how many there are is private
        sizes, got, least = f"{sampled - 1} or {sampled}", "", sampled - 1
    if not least <= n_records <= sampled:
        raise IncompatibleError(
            f"n_records={sampled}: pairs were sampled for databases of {sizes} "
            f"records{got}; sensitivities at one size say nothing about another."
        )


def _check_records(plan: Plan, certificate: Certificate, private: Sealed) -> None:
    """Refuse records of another unit, or number, than the certificate is about."""
    check_unit(certificate, private.of_people)
    evidence = certificate.evidence
    if evidence is not None and plan.query is not None:  # else they are one by one
        relation = str(certificate.relation)
        check_n_records(private.n_records, evidence.n_records, relation)


def _check_noise(noise: Noise, certificate: Certificate) -> None:
    """Refuse noise that differs from the noise of the certificate."""
    if certificate.private and not noise.noise_scale:
        raise ValueError("noise must have a scale above 0 for a claim at that level.")
    if (evidence := certificate.evidence) is None:
        return
    own: list[Any] = [noise.noise_scale]
    claimed: list[Any] = [evidence.noise_scale]
    if isinstance(noise, AdditiveNoise):
        own += [noise.law.name, noise.shape.name]
        claimed += [evidence.law, evidence.noise_shape]
    if own != claimed:
        raise ValueError("the noise of a plan must be that of its certificate.")


@forgetting
def release(
    plan: Plan,
    private: Sealed,
    ledger: Ledger,
    *,
    note: str = "",
    noise_random_state: Any = None,
) -> tuple[Any, Certificate]:
    """Answer a query about private records with noise, and say what that guarantees.

    The order: room in the ledger, answer, charge, noise. Nothing of the answer is kept,
    also when it fails. That there is none is charged as well.

    The query gets the records in a secret random order, like sampled ones, unless it
    declares that the order does not matter (`is_unordered`): people sort their tables.
    """
    warn_if_seeded(noise_random_state)
    _check_records(plan, plan.at_most, private)
    ledger.check_room(as_seeded(plan.at_most, noise_random_state))
    X, y = open_sealed(private)
    try:
        answer = X
        if plan.query is not None:
            order = _secret_order(plan, private.n_records, noise_random_state)
            answer = answered(plan.query, X, y, plan.n_outputs, order)
    except (ValueError, KeyboardInterrupt):
        # All see that there is none: a release, which sampled pairs count in the risk.
        at_most = as_seeded(plan.at_most, noise_random_state)
        ledger.spend(at_most, note=f"{note}: no answer")
        raise
    noise, certificate = plan.noise(answer.shape[-1])
    _check_records(plan, certificate, private)
    _check_noise(noise, certificate)
    certificate = as_seeded(certificate, noise_random_state)
    charged = certificate if plan.charge is None else plan.charge(certificate)
    released = draw(
        noise,
        answer,
        [charged],
        ledger,
        note=note,
        noise_random_state=noise_random_state,
    )
    return released, certificate


def draw(
    mechanism: Mechanism,
    values: Any,
    charges: Sequence[Certificate] | None,
    ledger: Ledger,
    *,
    note: str = "",
    noise_random_state: Any = None,
) -> Any:
    """Charge a release, and draw it: the one place where noise meets an exact value.

    With None for `charges` its level is not known: it is refused where a ledger is
    open. Noise from a seed is charged as such, whatever its certificate was made for.
    """
    source = noise_source(noise_random_state)
    ready = mechanism.prepare(values)
    if charges is None:
        ledger.refuse_unknown(type(mechanism).__name__)
    else:
        seeded = [as_seeded(each, noise_random_state) for each in charges]
        ledger.spend(*seeded, note=note)
    return ready(source)


def as_seeded(certificate: Certificate, noise_random_state: Any) -> Certificate:
    """Return the certificate, void if the noise can be repeated."""
    if noise_random_state is None or certificate.seeded:
        return certificate
    return certificate.weaken(leaks=[Leak.SEEDED_NOISE])


def answered(
    query: Any,
    X: Any,
    y: Any,
    n_outputs: int | None = None,
    order: NDArray[np.intp] | None = None,
) -> NDArray[np.float64]:
    """Answer a query on private data: nothing but the answer may tell about them.

    Neither a warning nor the message of an error is shown, as both would be a release;
    that there is no answer is said in the same words whatever the reason. The query
    works on copies, so it cannot change the records. A function of the caller's own can
    still print or store them.
    """
    name, answer = str(query), None
    # That it failed is said below, outside, so that the error does not come along.
    for _ in range(_ATTEMPTS):
        parts = [
            rows_of(copy_records(part) if order is None else take_rows(part, order))
            for part in (X, y)
        ]
        asked = copy.deepcopy(query)
        with unseen() as failed:
            answer = np.asarray(asked(*parts), dtype=np.float64).ravel()
        if not any(issubclass(kind, Warning) for kind in failed):
            break
    if (
        answer is None
        or not np.isfinite(answer).all()
        or n_outputs not in (None, answer.size)
    ):
        raise ValueError(
            f"The query {name} has no answer on the private data: it failed, or "
            "returned NaN, infinity, or another number of outputs than before. The "
            "reason is not shown because it may reveal something about them; try the "
            "query on public or made-up data. That it failed may do so too: an open "
            "ledger is charged as for an answer."
        )
    return answer
