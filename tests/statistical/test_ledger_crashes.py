"""A ledger in a file holds all that was released: by whom, and however they ended."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from laws import SEEDS

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

KILLS = Path(__file__).parents[2] / "benchmarks" / "ledger_crashes.py"

SETUP = """
import functools, json, os, signal, sqlite3, sys, threading, time
from skparisk.exceptions import BudgetExceededError, IncompatibleError
from skparisk.ledger import LedgerError, PrivacyLedger, _book

variant = sys.argv[1]

def start(action):
    # Run it in a process that tells of what it did by writing to a pipe.
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        action(lambda line: os.write(writing, line))
        os._exit(0)
    os.close(writing)
    return pid, reading

def told(reading):
    with os.fdopen(reading, "rb") as pipe:
        return pipe.read().decode()

def levels(ledger):
    return [entry.certificate.epsilon for entry in ledger.releases]
"""

TOGETHER = """
if variant == "unlocked":
    connect = sqlite3.connect
    sqlite3.connect = lambda path, **options: connect(f"{path}&nolock=1", **options)

append = _book.FileBook.append

def slowly(*arguments):
    # A charge was checked, and is not yet written.
    time.sleep(0.001)
    append(*arguments)

_book.FileBook.append = slowly

def spend_until_refused(path):
    def run(tell):
        ledger = PrivacyLedger.open(path)
        try:
            while True:
                ledger.spend(0.02)
                tell(b".")
                time.sleep(0.002)  # so that others have their turn
        except BudgetExceededError:
            tell(b"refused")
        except (LedgerError, OSError):
            tell(b"broken")
    return run

found, both = [], False
while len(found) < 2 or not (both or len(found) == 20):
    path = f"ledger{len(found)}"
    PrivacyLedger(1.0, path=path)
    workers = [start(spend_until_refused(path)) for _ in range(2)]
    reports = [told(reading) for _, reading in workers]
    for pid, _ in workers:
        os.waitpid(pid, 0)
    try:
        ledger = PrivacyLedger.open(path)
        held, spent = len(ledger.releases), ledger.spent.epsilon
    except LedgerError:
        held = spent = None
    found.append((reports, held, spent))
    both = both or all("." in report for report in reports)
print(json.dumps(found))
"""

FORKED = """
# Another thread forks while a charge is written, of which parts are in the file. Then
# the process goes on, or is killed; the child ends with all that Python does then.
if variant == "closes":
    connect = functools.partial(sqlite3.connect, check_same_thread=False)
    sqlite3.connect = connect
PrivacyLedger(1.0, path="ledger").spend(0.1)
ended = os.pipe()
append = _book.FileBook.append

class Unlocked:
    # As if an interrupt kept the fork from waiting.
    def acquire(self):
        raise KeyboardInterrupt

    def release(self):
        pass

def charge(tell):
    ledger = PrivacyLedger.open("ledger")
    written, forked = threading.Event(), threading.Event()

    def slowly(*arguments):
        append(*arguments)
        assert os.stat("ledger").st_size > 10**6
        written.set()
        forked.wait(0.5 if variant == "waits" else 30)

    _book.FileBook.append = slowly
    if variant != "waits":
        _book._here.lock = Unlocked()
        sys.unraisablehook = lambda error: None
    spend = functools.partial(ledger.spend, 0.2, note="x" * 10**7)
    thread = threading.Thread(target=spend)
    thread.start()
    assert written.wait(60)
    connection = ledger._book._connection
    child = os.fork()
    if not child:
        _book.FileBook.append = append
        if variant == "waits":
            PrivacyLedger.open("ledger").spend(0.3)
        if variant == "closes":
            _book._end(connection)
        if variant == "killed":
            os.close(ended[1])
            os.read(ended[0], 1)
        sys.exit()
    if variant == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == 0
    forked.set()
    thread.join()

pid, reading = start(charge)
os.waitpid(pid, 0)
if variant == "killed":
    PrivacyLedger.open("ledger").spend(0.3)
os.close(ended[1])
told(reading)  # all of them have ended
try:
    print(json.dumps(levels(PrivacyLedger.open("ledger"))))
except LedgerError:
    print(json.dumps("broken"))
"""

INTERRUPTED = """
# A signal handler forks in the midst of a charge, and both processes go on.
def charge(tell):
    ledger = PrivacyLedger.open("ledger")
    fits, child = _book.Budget.fits, None

    def fork(*arguments):
        nonlocal child
        _book.Budget.fits = fits
        child = os.fork()
        return fits(*arguments)

    def report(ledger, level):
        try:
            ledger.spend(level)
            outcome = "charged"
        except IncompatibleError as error:
            outcome = type(error).__name__
        tell(f"{'parent' if child else 'child'} {level} {outcome}\\n".encode())

    _book.Budget.fits = fork
    report(ledger, 0.1)
    report(ledger, 0.2)
    report(PrivacyLedger.open("ledger"), 0.3)

PrivacyLedger(1.5, path="ledger")
pid, reading = start(charge)
report = told(reading)
print(json.dumps([sorted(report.splitlines()), levels(PrivacyLedger.open("ledger"))]))
"""


def run(code, folder, variant):
    """Return what a program prints that forks, which only a single thread may do."""
    done = subprocess.run(
        [sys.executable, "-c", SETUP + code, variant],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_processes_forget_nothing_and_never_exceed_a_budget(tmp_path, seed):
    done = subprocess.run(
        [sys.executable, str(KILLS), "--kills", "50", "--seed", str(seed)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] >= 50
    assert found["forgotten"] == found["overspent"] == 0
    assert found["released"] > 0
    # The kill did hit between the charge and the release, some of the times.
    assert found["unreleased"] > 0


def sound(found):
    """Tell if the budget was kept, nothing lost, and both processes refused at last."""
    return all(
        held == 50
        and spent == 1.0
        and sum(report.count(".") for report in reports) == 50
        and all(report.endswith("refused") for report in reports)
        for reports, held, spent in found
    )


def test_two_processes_never_exceed_one_budget(tmp_path):
    found = run(TOGETHER, tmp_path, "locked")
    assert sound(found)
    assert any(min(r.count(".") for r in reports) > 0 for reports, _, _ in found)


def test_without_the_lock_two_processes_are_not_sound(tmp_path):
    assert not sound(run(TOGETHER, tmp_path, "unlocked"))


@pytest.mark.parametrize(
    ("variant", "held"),
    [
        # A fork waits until the charge is made.
        ("waits", [0.1, 0.2, 0.3]),
        # If it did not, the child would leave the transaction alone, as it ends,
        ("goes on", [0.1, 0.2]),
        # and hold no lock of a parent that is killed, nor its journal.
        ("killed", [0.1, 0.3]),
    ],
)
def test_a_child_leaves_the_transaction_of_its_parent_alone(tmp_path, variant, held):
    assert run(FORKED, tmp_path, variant) == held


def test_a_child_that_closed_what_it_inherited_would_break_the_charge(tmp_path):
    assert run(FORKED, tmp_path, "closes") != [0.1, 0.2]


def test_a_handler_that_forks_takes_the_charge_back(tmp_path):
    report, held = run(INTERRUPTED, tmp_path, "")
    assert report == [
        "child 0.1 IncompatibleError",
        "child 0.2 UnrecordedReleaseError",
        "child 0.3 charged",
        "parent 0.1 IncompatibleError",
        "parent 0.2 charged",
        "parent 0.3 charged",
    ]
    assert sorted(held) == [0.2, 0.3, 0.3]
