"""What is left of a ledger in a file when the processes that use it are killed.

Claim: two processes release under one budget, and are killed (SIGKILL) at random
moments, one after the other, and started again. No release is forgotten: the ledger
holds every release whose charge came back, and at most one more for each kill. Nothing
beyond the budget is charged.

Processes are forked from one that is warm, and killed within a few charges, so that
most kills hit inside of SQLite's transaction. Half as long as a charge takes goes by
until it is told, as if noise was drawn. Prints what was found, as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from skparisk.exceptions import BudgetExceededError
from skparisk.ledger import PrivacyLedger

LEVEL = 0.01
BUDGET = 0.4
CHARGES_UNTIL_KILL = 3  # on average at most


@dataclass
class Worker:
    """A process that releases until it is refused, and tells of each release."""

    path: str
    name: str
    seconds: float

    def __post_init__(self) -> None:
        self.reading, writing = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(self.reading)
            self.release(writing)
            os._exit(0)
        os.close(writing)

    def release(self, writing: int) -> None:
        ledger = PrivacyLedger.open(self.path)
        try:
            while True:
                ledger.spend(LEVEL, note=self.name)
                time.sleep(self.seconds / 2)
                os.write(writing, b".")
        except BudgetExceededError:
            os.write(writing, b"!")

    def kill(self) -> tuple[int, bool]:
        """Return how many releases it told of, and whether it was refused at last."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        with os.fdopen(self.reading, "rb") as pipe:
            told = pipe.read()
        return told.count(b"."), told.endswith(b"!")


def seconds_of_a_charge(path: str) -> float:
    ledger = PrivacyLedger(1.0, path=path)
    start = time.perf_counter()
    for _ in range(20):
        ledger.spend(LEVEL)
    return (time.perf_counter() - start) / 20


def run(folder: str, n_kills: int, seed: int) -> dict[str, int]:
    """Kill processes, and return what was found."""
    rng = random.Random(seed)
    seconds = seconds_of_a_charge(f"{folder}/first")
    found = Counter(
        kills=0, ledgers=0, released=0, unreleased=0, forgotten=0, overspent=0
    )
    while found["kills"] < n_kills:
        found["ledgers"] += 1
        use_up(f"{folder}/{found['ledgers']}", n_kills, rng, seconds, found)
    return dict(found)


def use_up(
    path: str, n_kills: int, rng: random.Random, seconds: float, found: Counter[str]
) -> None:
    """Kill the processes of one ledger until they are refused."""
    PrivacyLedger(BUDGET, path=path)
    told: dict[str, int] = {}
    workers = [Worker(path, f"{number}", seconds) for number in range(2)]
    while workers:
        time.sleep(rng.uniform(0, 2 * CHARGES_UNTIL_KILL * seconds))
        victim = workers.pop(rng.randrange(len(workers)))
        told[victim.name], refused = victim.kill()
        found["kills"] += not refused
        if not refused and found["kills"] + len(workers) < n_kills:
            workers.append(Worker(path, f"{len(told) + len(workers)}", seconds))
    ledger = PrivacyLedger.open(path)
    held = Counter(entry.note for entry in ledger.releases)
    for name, n_released in told.items():
        found["released"] += n_released
        found["unreleased"] += held[name] - n_released
        found["forgotten"] += not n_released <= held[name] <= n_released + 1
    found["overspent"] += ledger.spent.epsilon > BUDGET or len(ledger.releases) > 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        found = run(folder, arguments.kills, arguments.seed)
    print(json.dumps(found))
    sound = not (found["forgotten"] or found["overspent"])
    # Else no kill came between a charge and its release.
    raise SystemExit(not (sound and found["released"] and found["unreleased"]))


if __name__ == "__main__":
    main()
