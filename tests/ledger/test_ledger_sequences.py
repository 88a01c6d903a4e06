"""Any sequence of charges, against a budget that is counted in fractions."""

import math
import tempfile
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from skparisk.exceptions import BudgetExceededError
from skparisk.ledger import PrivacyLedger, spend, suspend_open

pytestmark = pytest.mark.slow


class Budget:
    """What a ledger may hold, in exact fractions; levels by formulas of its own."""

    def __init__(self, epsilon, delta, gamma, composition):
        self.limits = [Fraction(str(x)) for x in (epsilon, delta, gamma)]
        self.composition = composition
        self.charged = []

    def levels(self, charged):
        """Return bounds of the level: what certainly does, and may, suffice."""
        total = sum(epsilon for epsilon, _, _ in charged)
        if self.composition == "basic":
            return total, total
        squares = float(sum(epsilon**2 for epsilon, _, _ in charged))
        slack = float(self.limits[1]) / 2
        advanced = math.sqrt(-2 * math.log(slack) * squares) + squares / 2
        return (
            min(total, Fraction(advanced * (1 + 1e-9))),
            min(total, Fraction(advanced * (1 - 1e-9))),
        )

    def fits(self, more):
        """Return whether more certainly, and possibly, fit."""
        epsilon, delta, gamma = self.limits
        charged = self.charged + more
        if self.composition == "advanced":
            delta /= 2
        within = sum(c[1] for c in charged) <= delta
        within &= gamma == 1 or sum(c[2] for c in charged) <= gamma
        high, low = self.levels(charged)
        return within and high <= epsilon, within and low <= epsilon


def as_fractions(releases):
    """Return the decimal numbers that releases are written with."""
    return [tuple(Fraction(str(x)) for x in release) for release in releases]


a_release = st.tuples(
    st.integers(0, 40).map(lambda k: k / 100),
    st.sampled_from([0.0, 0.0, 0.0, 1e-6, 2.5e-6]),
    st.sampled_from([0.0, 0.0, 0.0, 0.01, 0.3]),
)


class AnySequence(RuleBasedStateMachine):
    """Ledgers in memory and in a file, opened, nested, charged, opened anew."""

    def __init__(self):
        super().__init__()
        self.stack = ExitStack()
        self.folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        self.open_names = []

    @initialize(
        epsilon=st.sampled_from([0.3, 1.0, 2.5]),
        gamma=st.sampled_from([0.05, 1.0]),
        composition=st.sampled_from(["basic", "basic", "advanced"]),
        tighter=st.sampled_from([0.25, 0.9]),
    )
    def make(self, epsilon, gamma, composition, tighter):
        """Make two ledgers, each in memory and in a file, and their models."""
        budgets = {
            "one": (epsilon, 1e-5, gamma, composition),
            "two": (tighter, 1e-5, 1.0, "basic"),
        }
        self.models = {name: Budget(*budget) for name, budget in budgets.items()}
        self.ledgers = {}
        for name, (*budget, rule_) in budgets.items():
            path = Path(self.folder, name)
            self.ledgers[name] = [
                PrivacyLedger(*budget, composition=rule_),
                PrivacyLedger(*budget, composition=rule_, path=path),
            ]

    @rule(name=st.sampled_from(["one", "two"]))
    def enter(self, name):
        """Open a ledger, maybe once more."""
        for ledger in self.ledgers[name]:
            ledger.__enter__()
        self.open_names.append(name)

    @precondition(lambda self: self.open_names)
    @rule(data=st.data())
    def leave(self, data):
        """Close a ledger."""
        name = data.draw(st.sampled_from(self.open_names))
        for ledger in self.ledgers[name]:
            ledger.__exit__(None, None, None)
        self.open_names.remove(name)

    @rule(releases=st.lists(a_release, min_size=1, max_size=3))
    def release(self, releases):
        """Charge what is open."""
        self.try_to(lambda: spend(*releases), set(self.open_names), releases)

    @rule(
        name=st.sampled_from(["one", "two"]),
        releases=st.lists(a_release, min_size=1, max_size=2),
    )
    def release_by_hand(self, name, releases):
        """Charge one ledger; the one in memory must agree with the file."""
        in_memory, in_file = self.ledgers[name]

        def charge():
            in_memory.spend(*releases)
            in_file.spend(*releases)

        self.try_to(charge, {name}, releases)

    @rule(releases=st.lists(a_release, min_size=1, max_size=2))
    def release_public_data(self, releases):
        """Charge nothing."""
        with suspend_open():
            spend(*releases)

    def try_to(self, charge, names, releases):
        """Charge, and compare with the models."""
        more = as_fractions(releases)
        verdicts = [self.models[name].fits(more) for name in names]
        try:
            charge()
        except BudgetExceededError:
            assert not all(certain for certain, _ in verdicts)
        else:
            assert all(possible for _, possible in verdicts)
            for name in names:
                self.models[name].charged += more

    @rule(name=st.sampled_from(["one", "two"]), n=st.integers(1, 5))
    def spend_the_rest(self, name, n):
        """What remains fits."""
        left = self.ledgers[name][0].remaining(n)
        assert left == self.ledgers[name][1].remaining(n)
        self.release_by_hand(name, [(left, 0.0, 0.0)] * n)
        assert self.models[name].charged[-n:] == as_fractions([(left, 0.0, 0.0)] * n)

    @precondition(lambda self: "one" not in self.open_names)
    @rule()
    def reopen(self):
        """Read the file anew."""
        old = self.ledgers["one"][1]
        self.ledgers["one"][1] = PrivacyLedger.open(old.path, head=old.head)

    @invariant()
    def ledgers_hold_what_was_charged(self):
        """Refused releases change nothing, and no budget is exceeded."""
        for name, model in getattr(self, "models", {}).items():
            for ledger in self.ledgers[name]:
                held = [entry.certificate for entry in ledger.releases]
                numbers = [(g.epsilon, g.delta, g.risk) for g in held]
                assert as_fractions(numbers) == model.charged
                assert ledger.spent.epsilon <= ledger.limit[0]
                assert ledger.spent.delta <= ledger.limit[1]
            assert model.fits([])[1]

    def teardown(self):
        """Close all."""
        for name in self.open_names:
            for ledger in self.ledgers[name]:
                ledger.__exit__(None, None, None)
        self.stack.close()


TestAnySequence = AnySequence.TestCase
TestAnySequence.settings = settings(
    deadline=None, max_examples=30, stateful_step_count=25
)
