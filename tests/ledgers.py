"""Budgets, and small steps with ledgers, that tests of them share."""

import contextlib
import sqlite3

import pytest

from skparisk.ledger import PrivacyLedger

COMPOSITIONS = {
    "basic": {"epsilon": 1.0},
    "advanced": {"epsilon": 1.0, "delta": 1e-5, "composition": "advanced"},
}
every_composition = pytest.mark.parametrize(
    "budget", COMPOSITIONS.values(), ids=COMPOSITIONS
)


def join(thread):
    """Wait for a thread, which is slow on a busy machine, and hangs if it is wrong."""
    thread.join(600)
    assert not thread.is_alive()


def levels(ledger):
    """Return the level of each release."""
    return [entry.certificate.epsilon for entry in ledger.releases]


def interrupt(monkeypatch, target, name, handler):
    """Call what a signal handler would do, once, when a function is called."""
    original, calls = getattr(target, name), []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 1:
            handler()
        return original(*arguments)

    monkeypatch.setattr(target, name, interrupted)


def reopened(ledger, **options):
    """Return another handle of the file."""
    return PrivacyLedger.open(ledger.path, **options)


@contextlib.contextmanager
def database(path):
    """Change the file of a ledger by other means."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection
