"""A ledger charges by a composition rule, and says what remains by it."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import COMPOSITIONS
from releases import compose_filter

from skparisk.core.claim import Assumption, DominatingLoss, Doubt, Leak, mint
from skparisk.core.compose import Totals, compose_basic, compose_exact
from skparisk.exceptions import BudgetExceededError, IncompatibleError
from skparisk.ledger import PrivacyLedger, _book

fractions_of_one = st.floats(0.0, 1.0) | st.sampled_from([0.0, 0.0, 0.0, 0.1, 0.7])
certificates = st.builds(
    mint,
    epsilon=st.floats(0.0) | st.sampled_from([0.0, 0.1, 1e-300, 1e154, 1.7e308]),
    delta=fractions_of_one,
    risk=fractions_of_one,
    failure_prob=fractions_of_one,
    randomness=st.sampled_from(["implicit", "both", "explicit"]),
    relation=st.sampled_from([None, None, "replace-one", "add-remove"]),
    method=st.sampled_from(["single", "basic", "exact", "filter", "parallel"]),
    n_releases=st.integers(0, 3),
    group_size=st.sampled_from([1, 1, 1, 2]),
    post_processed=st.booleans(),
    leaks=st.frozensets(st.sampled_from(list(Leak)), max_size=2),
    assumptions=st.frozensets(st.sampled_from(list(Assumption)), max_size=2),
    doubts=st.frozensets(st.sampled_from(list(Doubt)), max_size=1),
)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(
    parts=st.lists(st.tuples(certificates, st.integers(1, 3)), max_size=4),
    delta=st.floats(1e-300, 0.999),
    share=st.floats(1e-3, 1.0),
)
def test_sums_that_are_kept_are_those_of_the_whole_list(parts, delta, share):
    listed = [release for release, times in parts for _ in range(times)]
    slack = delta * share

    def kept():
        totals = Totals()
        for release, times in parts:
            totals = totals.plus(release, times)
        return totals

    def outcome(compose):
        try:
            return compose()
        except IncompatibleError:
            return "refused"

    assert outcome(lambda: kept().basic()) == outcome(lambda: compose_basic(listed))
    assert outcome(lambda: kept().filter(delta, slack)) == outcome(
        lambda: compose_filter(listed, delta=delta, slack=slack)
    )


def test_what_remains_by_exact_composition_is_for_so_many_at_most():
    ledger = PrivacyLedger(**COMPOSITIONS["exact"])
    with pytest.raises(ValueError, match="n must be at most 10000"):
        ledger.remaining(10_001)
    assert PrivacyLedger(1.0).remaining(10_001) > 0


def test_what_is_missing_for_a_rule_is_noticed_at_once(monkeypatch):
    def fail(*_, **__):
        raise ImportError("needs dp-accounting")

    monkeypatch.setattr(_book, "exact_total", fail)
    with pytest.raises(ImportError, match="dp-accounting"):
        PrivacyLedger(1.0, 1e-5, composition="exact")


def test_advanced_composition_admits_more_and_exact_most():
    admitted = {}
    for name, budget in COMPOSITIONS.items():
        for n in (30, 50, 90):
            ledger = PrivacyLedger(**budget | {"epsilon": 3.0, "delta": 0.01})
            try:
                ledger.spend(*[(0.1,)] * n)
            except BudgetExceededError:
                break
            admitted[name] = n
    assert admitted == {"basic": 30, "advanced": 50, "exact": 90}


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "compose"), [("advanced", compose_filter), ("exact", compose_exact)]
)
def test_what_is_spent_is_what_the_rule_says(name, compose):
    ledger = PrivacyLedger(**COMPOSITIONS[name] | {"epsilon": 6.0})
    ledger.spend(*[(0.1,)] * 80)
    assert ledger.spent == compose([0.1] * 80, delta=1e-5)
    assert ledger.spent.epsilon < 6
    told = "did not depend on earlier releases" in str(ledger)
    assert told == (name == "exact")


def test_advanced_composition_keeps_half_of_delta_from_the_first_release_on():
    """Else which slack there is would depend on deltas chosen on the way."""
    ledger = PrivacyLedger(1.0, 1e-5, composition="advanced")
    with pytest.raises(BudgetExceededError):
        ledger.spend((0.1, 6e-6))
    ledger.spend((0.1, 5e-6))
    with pytest.raises(BudgetExceededError):
        ledger.spend((0.1, 1e-7))
    for _ in range(20):
        ledger.spend(0.001)
    assert ledger.remaining() > 0.87


def test_exact_composition_with_no_delta_left_is_basic():
    ledger = PrivacyLedger(1.0, 1e-5, composition="exact")
    ledger.spend((0.4, 1e-5))
    ledger.spend(0.6)
    assert ledger.spent == compose_basic([(0.4, 1e-5), 0.6])
    with pytest.raises(BudgetExceededError):
        ledger.spend((0.0, 1e-5))


def test_the_exact_ledger_knows_the_law_of_a_loss():
    gaussian = mint(
        epsilon=0.5,
        risk=0.01,
        randomness="explicit",
        loss=DominatingLoss("gaussian", 0.1),
    )
    ledger = PrivacyLedger(1.0, 1e-5, 0.0, composition="exact")
    ledger.spend(*[gaussian] * 4)
    assert ledger.spent == compose_exact([gaussian] * 4, delta=1e-5)
    assert ledger.spent.risk == 0.0


amounts = st.one_of(
    st.integers(0, 15).map(lambda k: k / 50), st.floats(0.0, 0.3, allow_nan=False)
)


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["basic", "advanced"])
@settings(deadline=None, max_examples=80)
@given(spent=st.lists(amounts, max_size=4), n=st.integers(1, 12))
def test_what_remains_can_be_spent_and_no_more(name, spent, n):
    ledger = PrivacyLedger(**COMPOSITIONS[name])
    try:
        for epsilon in spent:
            ledger.spend(epsilon)
    except BudgetExceededError:
        assert sum(spent) > 1
    left, before = ledger.remaining(n), ledger.releases
    if left > 1e-9:
        with pytest.raises(BudgetExceededError):
            ledger.spend(*[(left * 1.000001,)] * n)
    assert ledger.releases == before
    for _ in range(n):
        ledger.spend(left)


@pytest.mark.slow
def test_what_remains_is_rounded_down():
    """A quarter of these would not fit if it were rounded to the nearest number."""
    for spent, n in itertools.product(range(50), range(1, 13)):
        ledger = PrivacyLedger(1.0)
        ledger.spend(spent / 50)
        ledger.spend(*[(ledger.remaining(n),)] * n)
        assert ledger.remaining() < 1e-15


@pytest.mark.slow
def test_what_remains_by_exact_composition_can_be_spent_and_no_more():
    ledger = PrivacyLedger(2.0, 1e-3, composition="exact")
    ledger.spend(*[(0.1,)] * 20)
    left = ledger.remaining(10)
    assert left > 0.05  # basic composition leaves nothing
    with pytest.raises(BudgetExceededError):
        ledger.spend(*[(left * 1.000001,)] * 10)
    ledger.spend(*[(left,)] * 10)


@pytest.mark.parametrize("n", [0, 1.5, "1", True])
def test_what_remains_is_for_a_whole_number_of_releases(n):
    with pytest.raises(ValueError, match="n must be a whole number"):
        PrivacyLedger(1.0).remaining(n)


def test_a_ledger_that_is_over_its_budget_has_nothing_left(tmp_path, monkeypatch):
    """Such as one that another version of the library wrote."""
    ledger = PrivacyLedger(1.0, 1e-5, composition="advanced", path=tmp_path / "ledger")
    with monkeypatch.context() as patch:
        patch.setattr(_book.Budget, "fits", lambda *_: True)
        ledger.spend((1.5, 1e-5))
    assert ledger.remaining() == 0.0
    assert ledger.spent.epsilon == 1.5
    with pytest.raises(BudgetExceededError):
        ledger.spend(0.001)


def test_at_a_large_delta_more_than_the_budget_may_be_left():
    """A release has less than its own level then."""
    ledger = PrivacyLedger(1.0, 0.95, composition="exact")
    left = ledger.remaining()
    assert left > 2.5
    ledger.spend(left)
