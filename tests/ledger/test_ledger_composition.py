"""A ledger charges by a composition rule, and says what remains by it."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import COMPOSITIONS
from releases import compose_filter

from skparisk.core.claim import Assumption, Doubt, Leak, mint
from skparisk.core.compose import Totals, compose_basic
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
    unit=st.sampled_from(["record", "record", None, "person"]),
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


def test_advanced_composition_admits_more():
    admitted = {}
    for name, budget in COMPOSITIONS.items():
        for n in (30, 50, 90):
            ledger = PrivacyLedger(**budget | {"epsilon": 3.0, "delta": 0.01})
            try:
                ledger.spend(*[(0.1,)] * n)
            except BudgetExceededError:
                break
            admitted[name] = n
    assert admitted == {"basic": 30, "advanced": 50}


def test_what_is_spent_is_what_the_rule_says():
    ledger = PrivacyLedger(**COMPOSITIONS["advanced"] | {"epsilon": 6.0})
    ledger.spend(*[(0.1,)] * 80)
    assert ledger.spent == compose_filter([0.1] * 80, delta=1e-5)
    assert ledger.spent.epsilon < 6
    assert "did not depend on earlier releases" not in str(ledger)


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


def test_many_small_releases_may_have_far_more_by_advanced_composition():
    ledger = PrivacyLedger(**COMPOSITIONS["advanced"])
    left = ledger.remaining(1000)
    assert left > 2 / 1000
    with pytest.raises(BudgetExceededError):
        ledger.spend(*[(left * 1.000001,)] * 1000)
    ledger.spend(*[(left,)] * 1000)


@pytest.mark.slow
def test_what_remains_is_rounded_down():
    """A quarter of these would not fit if it were rounded to the nearest number."""
    for spent, n in itertools.product(range(50), range(1, 13)):
        ledger = PrivacyLedger(1.0)
        ledger.spend(spent / 50)
        ledger.spend(*[(ledger.remaining(n),)] * n)
        assert ledger.remaining() < 1e-15


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
