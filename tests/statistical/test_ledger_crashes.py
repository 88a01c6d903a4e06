"""A ledger in a file holds all that was released: by whom, and however they ended."""

import json
import os
import subprocess
import sys

import pytest
from laws import SEEDS

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

SETUP = """
import json, os, random, signal, sys, time
from skparisk.exceptions import BudgetExceededError
from skparisk.ledger import LedgerError, PrivacyLedger, _budget, _file, _locks

random.seed(int(sys.argv[1]))

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
        return pipe.read()

def spend_until_refused(path, epsilon, pause=0.0, go=None):
    def run(tell):
        ledger = PrivacyLedger.open(path)
        try:
            ledger.spend(epsilon)
            tell(b".")
            if go is not None:
                os.read(go, 1)  # wait for those that are slow to start
            while True:
                ledger.spend(epsilon)
                tell(b".")
                time.sleep(pause)  # so that others have their turn
        except BudgetExceededError:
            tell(b"refused")
        except LedgerError:
            tell(b"broken")
    return run
"""

KILLED = """
path, found = "ledger", []
PrivacyLedger(float("inf"), path=path)
end = time.monotonic() + 300
# Until a kill has hit between the line and the release, as often as that takes.
while len(found) < 40 or (
    all(held == acknowledged for acknowledged, held in found)
    and time.monotonic() < end
):
    before = len(PrivacyLedger.open(path).releases)
    pid, reading = start(spend_until_refused(path, 0.01))
    started = os.read(reading, 1)
    time.sleep(random.uniform(0, 0.01))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    acknowledged = len(started + told(reading))
    held = len(PrivacyLedger.open(path).releases) - before
    found.append((acknowledged, held))
print(json.dumps(found))
"""

TOGETHER = """
if sys.argv[2] == "unlocked":
    _locks.lock = _locks.unlock = lambda fd: None

write = _file._write

def slowly(*arguments):
    # A charge was checked, and is not yet written.
    time.sleep(0.001)
    write(*arguments)

_file._write = slowly
found = []
for trial in range(2):
    path, go = f"ledger{trial}", os.pipe()
    PrivacyLedger(1.0, path=path)
    workers = [start(spend_until_refused(path, 0.01, 0.002, go[0])) for _ in range(2)]
    first = [os.read(reading, 1) for _, reading in workers]
    os.write(go[1], b"..")  # both have spent
    reports = [
        (begun + told(reading)).decode()
        for begun, (_, reading) in zip(first, workers, strict=True)
    ]
    for pid, _ in workers:
        os.waitpid(pid, 0)
    try:
        ledger = PrivacyLedger.open(path)
        held, spent = len(ledger.releases), ledger.spent.epsilon
    except LedgerError:
        held = spent = None
    found.append((reports, held, spent))
print(json.dumps(found))
"""


FORKED_WHILE_LOCKED = """
path, ready, wait = "ledger", os.pipe(), os.pipe()
PrivacyLedger(1.0, path=path)

def fork(*arguments):
    # Another thread starts a worker while a charge is checked; then all is killed.
    if os.fork() == 0:
        os.close(wait[1])
        os.write(ready[1], b".")  # what a worker does at its start is done
        os.read(wait[0], 1)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)

def spend(tell):
    _budget.Budget.fits = fork
    PrivacyLedger.open(path).spend(0.1)

if sys.argv[2] == "kept":
    _locks._close_in_child.__code__ = (lambda: None).__code__
pid, reading = start(spend)
os.waitpid(pid, 0)
os.close(ready[1])
assert os.read(ready[0], 1) == b"."
print(json.dumps(_locks.try_lock(os.open(path, os.O_RDWR))))
os.close(wait[1])
"""


def run(code, folder, *arguments):
    """Return what a program prints that forks, which only a single thread may do."""
    command = [sys.executable, "-c", SETUP + code, *map(str, arguments)]
    done = subprocess.run(
        command,
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
def test_a_killed_process_leaves_all_that_it_released(tmp_path, seed):
    found = run(KILLED, tmp_path, seed)
    assert len(found) >= 40
    for acknowledged, held in found:
        assert acknowledged <= held <= acknowledged + 1
        assert acknowledged > 0
    # A kill did hit between the line and the release.
    assert any(held > acknowledged for acknowledged, held in found)


def sound(found):
    """Tell if the budget was kept, nothing lost, and both processes refused at last."""
    return all(
        held == 100
        and spent == 1.0
        and sum(report.count(".") for report in reports) == 100
        and all(report.endswith("refused") for report in reports)
        for reports, held, spent in found
    )


@pytest.mark.parametrize(("descriptors", "free"), [("closed", True), ("kept", False)])
def test_a_worker_does_not_keep_the_lock_of_a_killed_process(
    tmp_path, descriptors, free
):
    assert run(FORKED_WHILE_LOCKED, tmp_path, 0, descriptors) == free


@pytest.mark.parametrize("seed", SEEDS)
def test_two_processes_never_exceed_one_budget(tmp_path, seed):
    assert sound(run(TOGETHER, tmp_path, seed, "locked"))


def test_without_the_lock_two_processes_are_not_sound(tmp_path):
    """That they meet is likely, and tried several times, as machines may be busy."""
    folders = [tmp_path / f"{attempt}" for attempt in range(20)]
    for folder in folders:
        folder.mkdir()
    assert not all(sound(run(TOGETHER, folder, 0, "unlocked")) for folder in folders)
