"""Errors, forks and interrupts in the midst of a charge release nothing."""

import contextlib
import functools
import itertools
import resource
import shutil
import sqlite3
from pathlib import Path

import pytest
from ledgers import database, interrupt, levels, reopened

from skparisk.core.claim import mint
from skparisk.exceptions import BudgetExceededError, IncompatibleError
from skparisk.ledger import LedgerError, PrivacyLedger, _book, _open, spend

# Crashes


class Crash(BaseException):
    """The process ends here."""


@pytest.fixture
def fail_at(monkeypatch):
    """Return what makes the n-th statement of SQLite fail, or what follows it."""

    @contextlib.contextmanager
    def failing(nth, error, after=False):
        executed = []

        class Failing(sqlite3.Connection):
            def execute(self, *arguments):
                executed.append(arguments[0])
                if len(executed) != nth + 1:
                    return super().execute(*arguments)
                if after:
                    super().execute(*arguments)
                raise error

            def executemany(self, statement, rows):
                for row in rows:
                    self.execute(statement, row)

        with monkeypatch.context() as patch:
            connect = functools.partial(sqlite3.connect, factory=Failing)
            patch.setattr(sqlite3, "connect", connect)
            yield executed

    return failing


def an_error_of_sqlite():
    """Return the error of a disk that fails."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR | (4 << 8)
    return error


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("kind", [OSError, Crash])
def test_an_error_on_the_way_releases_nothing_and_forgets_nothing(
    tmp_path, fail_at, kind, after
):
    raised = an_error_of_sqlite() if kind is OSError else Crash()
    outcomes = set()
    for nth in itertools.count():
        ledger = PrivacyLedger(1.0, path=tmp_path / f"{nth}")
        ledger.spend(0.1)
        released = False
        with fail_at(nth, raised, after) as executed:
            try:
                ledger.spend(0.2)
                released = True
            except kind:
                assert len(executed) == nth + 1
        charged = levels(ledger)
        assert charged == levels(reopened(ledger))
        assert charged == [0.1, 0.2] if released else charged[:1] == [0.1]
        ledger.spend(0.3)
        assert levels(ledger) == levels(reopened(ledger)) == [*charged, 0.3]
        outcomes.add((released, len(charged)))
        if released:
            break
    # Only an error after the end of the transaction charges what is not released.
    assert outcomes == {(True, 2), (False, 1)} | ({(False, 2)} if after else set())
    assert nth > 8


@pytest.mark.parametrize("after", [False, True])
def test_a_ledger_that_is_not_wholly_made_can_be_opened_or_made_again(
    tmp_path, fail_at, after
):
    for nth in itertools.count():
        path = tmp_path / f"{nth}"
        with fail_at(nth, Crash(), after) as executed, contextlib.suppress(Crash):
            PrivacyLedger(1.0, path=path)
        try:
            ledger = PrivacyLedger.open(path)
        except LedgerError:
            ledger = PrivacyLedger(1.0, path=path)
        ledger.spend(0.1)
        assert levels(reopened(ledger)) == [0.1]
        if len(executed) <= nth:
            break
    assert nth > 8


@pytest.mark.parametrize("made", [True, False])
def test_what_a_crash_leaves_of_a_transaction_is_taken_back(tmp_path, made):
    """With lines in the file that are not committed, and the journal."""
    path, crashed = tmp_path / "ledger", tmp_path / "crashed"
    if made:
        PrivacyLedger(1.0, path=path).spend(0.1)
    else:
        path.touch()
    before = path.read_bytes()
    with database(path) as connection:
        connection.execute("PRAGMA cache_size = 1")  # pages are written at once
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE other (x)")
        for _ in range(50):
            connection.execute("INSERT INTO other VALUES (randomblob(4000))")
        shutil.copy(path, crashed)
        shutil.copy(f"{path}-journal", f"{crashed}-journal")
        connection.execute("ROLLBACK")
    assert len(crashed.read_bytes()) > len(before) + 4000
    if made:
        assert levels(PrivacyLedger.open(crashed)) == [0.1]
        assert crashed.read_bytes() == before
    else:
        PrivacyLedger(1.0, path=crashed).spend(0.2)
        assert levels(PrivacyLedger.open(crashed)) == [0.2]
    assert not Path(f"{crashed}-journal").exists()


def test_a_disk_that_is_full_releases_nothing(tmp_path):
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = Path(ledger.path).stat().st_size
    for room in (0, size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
        try:
            with pytest.raises(OSError, match="Nothing was released"):
                ledger.spend(0.1, note="x" * 10**5)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert ledger.releases == reopened(ledger).releases == ()
    ledger.spend(0.2)
    assert levels(ledger) == levels(reopened(ledger)) == [0.2]


@pytest.mark.parametrize("statement", ["INSERT", "COMMIT"])
def test_an_error_in_one_of_two_files_releases_nothing(
    tmp_path, monkeypatch, statement
):
    """Where both fit, and one was written already."""
    ledgers = [PrivacyLedger(1.0, path=tmp_path / name) for name in "ab"]
    found = []

    class Failing(sqlite3.Connection):
        def execute(self, text, *values):
            found.extend([text] if text.startswith(statement) else [])
            if len(found) == 2:
                raise an_error_of_sqlite()
            return super().execute(text, *values)

    with monkeypatch.context() as patch:
        connect = functools.partial(sqlite3.connect, factory=Failing)
        patch.setattr(sqlite3, "connect", connect)
        with pytest.raises(OSError, match="Nothing was released"):
            _open.charge([ledger._book for ledger in ledgers], [mint(epsilon=0.1)], "")
    counts = [len(reopened(ledger).releases) for ledger in ledgers]
    assert counts == [len(ledger.releases) for ledger in ledgers]
    assert counts == ([0, 0] if statement == "INSERT" else [0, 1])


def test_an_error_in_the_second_ledger_leaves_the_first_one_charged(tmp_path):
    """Nothing was released, so that is on the safe side."""
    first, second = PrivacyLedger(1.0), PrivacyLedger(1.0, path=tmp_path / "ledger")

    def fail(*_):
        raise OSError

    second._book.append = fail
    with pytest.raises(OSError), first, second:  # noqa: PT011
        spend(0.1)
    assert levels(first) == [0.1]
    assert second.releases == ()


def test_what_does_not_fit_one_of_two_files_is_charged_to_none(tmp_path):
    first, second = (PrivacyLedger(x, path=tmp_path / f"{x}") for x in (0.5, 1.0))
    for outer, inner in ((first, second), (second, first)):
        with outer, inner, pytest.raises(BudgetExceededError):
            spend(0.6)
    assert first.releases == second.releases == ()


# Forks and interrupts in the midst of a charge


@pytest.mark.parametrize("in_child", [False, True])
def test_a_fork_in_the_midst_of_a_charge_takes_it_back(tmp_path, monkeypatch, in_child):
    """As a signal handler can fork; in the parent and in the child."""
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    monkeypatch.setattr("skparisk.ledger._book._here", _book._here)

    def fork():
        _book._before_fork()
        if in_child:
            _book._here.lock.release()
            _book._start_anew()
        else:
            _book._after_fork()

    interrupt(monkeypatch, _book.Budget, "fits", fork)
    with pytest.raises(IncompatibleError, match="forked this process"):
        ledger.spend(0.1)
    ledger.spend(0.2)
    assert levels(ledger) == levels(reopened(ledger)) == [0.2]


def test_who_interrupts_a_charge_cannot_wait_for_its_file(tmp_path, monkeypatch):
    """Nor for one that others lock before: both would wait for each other forever."""
    earlier, ledger = (PrivacyLedger(1.0, path=tmp_path / name) for name in "ab")
    refused = []

    def handler():
        for use in (
            lambda: reopened(ledger),
            lambda: PrivacyLedger(1.0, path=ledger.path),
            lambda: earlier.spend(0.1),
        ):
            with pytest.raises(IncompatibleError, match="has interrupted"):
                use()
            refused.append(1)

    interrupt(monkeypatch, _book.Budget, "fits", handler)
    ledger.spend(0.6)
    assert len(refused) == 3
    assert levels(ledger) == [0.6]
    assert levels(earlier) == []
