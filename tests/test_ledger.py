"""A ledger holds every release, and never more than its budget."""

import asyncio
import contextlib
import contextvars
import copy
import dataclasses
import fcntl
import html
import itertools
import json
import math
import os
import pickle
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import types
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV

from skparisk.certificate._claim import SEEDED, ceil_text
from skparisk.composition import (
    DominatingLoss,
    PrivacyGuarantee,
    compose_basic,
    compose_exact,
    compose_filter,
)
from skparisk.composition._totals import Totals
from skparisk.exceptions import (
    BudgetExceededError,
    CalibrationError,
    IncompatibleError,
)
from skparisk.ledger import (
    LedgerEntry,
    LedgerError,
    PrivacyLedger,
    _budget,
    _file,
    _locks,
    _marker,
    _open,
    check_room,
    spend,
    suspend_open,
)
from skparisk.ledger._open import refuse_without_level

COMPOSITIONS = {
    "basic": {"epsilon": 1.0},
    "advanced": {"epsilon": 1.0, "delta": 1e-5, "composition": "advanced"},
    "exact": {"epsilon": 1.0, "delta": 1e-5, "composition": "exact"},
}
every_composition = pytest.mark.parametrize(
    "budget", COMPOSITIONS.values(), ids=COMPOSITIONS
)


@pytest.fixture(params=["memory", "file"])
def make(request, tmp_path):
    """Return what makes ledgers, in memory and in files."""
    names = iter(range(1000))

    def in_file(*budget, **options):
        return PrivacyLedger(*budget, path=tmp_path / f"{next(names)}", **options)

    return PrivacyLedger if request.param == "memory" else in_file


@pytest.fixture(autouse=True)
def own_temporary_folder(monkeypatch, tmp_path_factory):
    """Markers of these tests are seen by no one else."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))


def join(thread):
    """Wait for a thread, which is slow on a busy machine, and hangs if it is wrong."""
    thread.join(600)
    assert not thread.is_alive()


def levels(ledger):
    """Return the level of each release."""
    return [entry.guarantee.epsilon for entry in ledger.releases]


# What is charged


def test_releases_inside_are_recorded_and_the_one_that_exceeds_is_refused(make):
    ledger = make(1.0)
    with ledger as opened:
        assert opened is ledger
        spend(0.4, note="first")
        spend(0.6)
        with pytest.raises(BudgetExceededError, match=r"no room for epsilon 0.001"):
            spend(0.001)
    assert levels(ledger) == [0.4, 0.6]
    assert [entry.note for entry in ledger.releases] == ["first", ""]
    assert ledger.spent.epsilon == 1.0
    assert ledger.remaining() == 0.0


def test_releases_outside_are_not_recorded(make):
    ledger = make(1.0)
    spend(0.4)
    with ledger:
        pass
    spend(0.4)
    assert ledger.releases == ()
    assert ledger.spent == compose_basic([])


def test_a_refusal_says_what_is_spent_and_what_still_fits(make):
    ledger = make(1.0, 1e-5, 0.1)
    ledger.spend((0.7, 1e-6, 0.05))
    with pytest.raises(
        BudgetExceededError, match=r"one release at epsilon 0.3"
    ) as info:
        ledger.spend(0.5)
    error = info.value
    assert error.spent == (0.7, 1e-6, 0.05)
    assert error.limit == ledger.limit == (1.0, 1e-5, 0.1)
    assert error.largest_epsilon == ledger.remaining() == 0.3
    ledger.spend(error.largest_epsilon)
    with pytest.raises(BudgetExceededError, match="still fits: nothing"):
        ledger.spend(0.5)


def test_several_releases_are_all_charged_or_none(make):
    ledger = make(1.0)
    with ledger:
        with pytest.raises(BudgetExceededError):
            spend(0.5, 0.4, 0.2)
        assert ledger.releases == ()
        spend(0.5, 0.4)
        spend()
    assert levels(ledger) == [0.5, 0.4]


def test_ten_releases_of_a_tenth_fill_a_budget_of_one(make):
    ledger = make(1.0)
    for _ in range(10):
        ledger.spend(0.1)
    assert ledger.spent.epsilon == 1.0
    assert ledger.remaining() == 0.0


@pytest.mark.parametrize(
    ("release", "fits"),
    [
        ((0.1, 0.0, 0.05), True),
        ((0.1, 0.0, 0.06), False),
        ((0.1, 1e-6, 0.0), True),
        ((0.1, 2e-5, 0.0), False),
        (PrivacyGuarantee(0.1, risk=0.03, failure_prob=0.02), True),
        (PrivacyGuarantee(0.1, risk=0.03, failure_prob=0.03), False),
        (math.inf, False),
    ],
)
def test_delta_and_risk_have_limits_as_well(release, fits):
    ledger = PrivacyLedger(1.0, 1e-5, 0.1)
    ledger.spend((0.1, 0.0, 0.05))
    if fits:
        ledger.spend(release)
    else:
        with pytest.raises(BudgetExceededError):
            ledger.spend(release)
    assert len(ledger.releases) == 1 + fits


def test_the_probability_that_a_certificate_fails_is_a_part_of_the_risk():
    release = PrivacyGuarantee(0.1, risk=0.03, failure_prob=0.03)
    with pytest.raises(BudgetExceededError):
        PrivacyLedger(1.0, gamma=0.05).spend(release)
    PrivacyLedger(1.0, gamma=0.06).spend(release)


def test_any_risk_fits_if_it_has_no_limit():
    ledger = PrivacyLedger(1.0)
    for _ in range(3):
        ledger.spend((0.1, 0.0, 0.9))
    assert ledger.spent.risk == 1.0


def test_an_infinite_budget_only_records(make):
    ledger = make(math.inf, composition="basic")
    ledger.spend(math.inf)
    ledger.spend((5.0, 0.9, 1.0))
    assert ledger.spent.epsilon == ledger.remaining() == math.inf
    assert not ledger.spent.private
    assert len(ledger.releases) == 2
    assert "left: no limit" in str(ledger)


def test_a_limit_that_is_not_enforced_is_not_shown(make):
    ledger = make(math.inf, 1e-5, 0.1, composition="exact")
    ledger.spend((0.1, 0.5, 0.5))
    assert ledger.limit == (math.inf, 1.0, 1.0)
    assert repr(ledger).startswith("PrivacyLedger(epsilon=inf, composition='exact'")
    assert "budget: no limit: releases are recorded only" in str(ledger)


def test_a_release_of_which_nothing_is_certain_is_not_private():
    ledger = PrivacyLedger(1.0)
    ledger.spend((0.1, 0.0, 0.9))
    assert ledger.spent.private
    ledger.spend((0.1, 0.0, 0.9))
    assert not ledger.spent.private
    assert "spent: epsilon 0.2, any risk, NOT private" in str(ledger)
    ledger.spend((0.1, 0.0, 1.0))
    assert "epsilon 0.1, any risk, NOT private" in str(ledger)


def test_a_release_that_is_not_private_is_recorded_as_such(make):
    ledger = make(1.0)
    ledger.spend(PrivacyGuarantee(0.1, void_reasons=(SEEDED,)))
    ledger.spend(0.2)
    assert not ledger.spent.private
    assert ledger.spent.void_reasons == (SEEDED,)
    assert "epsilon 0.1, NOT private" in str(ledger)


def test_neighbors_of_another_relation_are_refused(make):
    ledger = make(math.inf)
    for limited in (ledger, make(1.0)):
        limited.spend(PrivacyGuarantee(0.1, relation="replace-one"))
        limited.spend(0.1)
        with pytest.raises(IncompatibleError, match="relation"):
            limited.spend(PrivacyGuarantee(0.1, relation="add-remove"))
        assert levels(limited) == [0.1, 0.1]


def test_bare_numbers_for_several_releases_are_refused():
    ledger = PrivacyLedger(1.0, 0.1)
    with pytest.raises(ValueError, match="bare numbers"):
        ledger.spend(0.4, 1e-5)
    ledger.spend((0.4,), (0.2, 1e-5))
    assert levels(ledger) == [0.4, 0.2]


@pytest.mark.parametrize("note", [None, b"bytes", 3])
def test_a_note_is_text(note):
    with pytest.raises(ValueError, match="note must be a str"):
        PrivacyLedger(1.0).spend(0.1, note=note)


@pytest.mark.parametrize("release", [-0.1, "0.1", (), True, None, math.nan])
def test_what_is_no_release_is_refused(make, release):
    ledger = make(1.0)
    with pytest.raises(ValueError, match="must be"):
        ledger.spend(release)
    assert ledger.releases == ()


@pytest.mark.parametrize(
    ("budget", "options", "message"),
    [
        ((0.0,), {}, "epsilon must be"),
        ((math.nan,), {}, "epsilon must be"),
        ((1.0, 1.0), {}, r"delta must be a number in \[0, 1\)"),
        ((1.0, -0.1), {}, "delta must be"),
        ((1.0, True), {}, "delta must be"),
        ((1.0, 0.0, 1.1), {}, "gamma must be"),
        ((1.0,), {"composition": "other"}, "composition must be"),
        ((1.0,), {"composition": "exact"}, "needs a delta above 0"),
        ((1.0,), {"composition": "advanced"}, "needs a delta above 0"),
        ((1.0, 5e-324), {"composition": "advanced"}, "needs a delta above 0"),
        (("1",), {}, "epsilon must be"),
        ((10**400,), {}, "epsilon must be"),
        ((Fraction(1, 10**400),), {}, "epsilon must be"),
        ((1.0, 10**400), {}, "delta must be"),
        ((1.0, 0.0, -(10**400)), {}, "gamma must be"),
    ],
)
def test_a_budget_out_of_range_is_refused(tmp_path, budget, options, message):
    with pytest.raises(ValueError, match=message):
        PrivacyLedger(*budget, path=tmp_path / "ledger", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "share",
    [*(Fraction(k, 30) for k in range(1, 30)), np.longdouble(2) / 3, np.float32(0.1)],
)
def test_limits_are_rounded_down(share):
    for limit in PrivacyLedger(share, share, share).limit:
        assert type(limit) is float
        above = math.nextafter(limit, 1.0)
        exact = Fraction(*share.as_integer_ratio())
        assert limit == share or (
            Fraction(repr(limit)) <= exact < Fraction(repr(above))
        )


# Composition


fractions_of_one = st.floats(0.0, 1.0) | st.sampled_from([0.0, 0.0, 0.0, 0.1, 0.7])
guarantees = st.builds(
    PrivacyGuarantee,
    st.floats(0.0) | st.sampled_from([0.0, 0.1, 1e-300, 1e154, 1.7e308]),
    fractions_of_one,
    fractions_of_one,
    fractions_of_one,
    randomness=st.sampled_from(["implicit", "both", "explicit"]),
    relation=st.sampled_from([None, None, "replace-one", "add-remove"]),
    method=st.sampled_from(["single", "basic", "exact", "filter", "parallel"]),
    n_releases=st.integers(0, 3),
    group_size=st.sampled_from([1, 1, 1, 2]),
    post_processed=st.booleans(),
    void_reasons=st.lists(st.sampled_from(["Void.", "Empty."]), max_size=1),
    leaks=st.lists(st.sampled_from(["A leak.", "Another."]), max_size=2),
    provisos=st.lists(st.sampled_from(["If it rains.", "If not."]), max_size=1),
)


@settings(deadline=None, max_examples=300)
@given(
    parts=st.lists(st.tuples(guarantees, st.integers(1, 3)), max_size=4),
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

    def filtered():
        totals = kept()
        limit = Fraction(repr(delta)) - Fraction(repr(slack))
        return totals.filter(delta, slack) if totals.deltas <= limit else "refused"

    def outcome(compose):
        try:
            return compose()
        except (IncompatibleError, CalibrationError):
            return "refused"

    assert outcome(lambda: kept().basic()) == outcome(lambda: compose_basic(listed))
    assert outcome(filtered) == outcome(
        lambda: compose_filter(listed, delta=delta, slack=slack)
    )


@pytest.mark.parametrize("name", ["basic", "advanced"])
def test_a_charge_adds_up_what_is_new_only(make, name, monkeypatch):
    ledger = make(**COMPOSITIONS[name] | {"epsilon": 9.0})
    ledger.spend(*[(0.01,)] * 500)
    added = []
    plus = Totals.plus

    def count(*arguments):
        added.append(1)
        return plus(*arguments)

    monkeypatch.setattr(Totals, "plus", count)
    for _ in range(5):
        ledger.spend(0.01)
    assert len(added) == 10  # when it is checked, and when it is written
    assert ledger.remaining(10**6) > 0
    assert len(added) < 100


def test_what_remains_by_exact_composition_is_for_so_many_at_most():
    ledger = PrivacyLedger(**COMPOSITIONS["exact"])
    with pytest.raises(ValueError, match="n must be at most 10000"):
        ledger.remaining(10_001)
    assert PrivacyLedger(1.0).remaining(10_001) > 0


def test_nobody_waits_until_it_is_known_what_still_fits(make, monkeypatch):
    ledger = make(**COMPOSITIONS["exact"])
    remaining = _budget.Budget.remaining

    def look(*arguments):
        thread = threading.Thread(target=ledger.spend, args=(0.25,), daemon=True)
        thread.start()
        join(thread)
        return remaining(*arguments)

    monkeypatch.setattr(_budget.Budget, "remaining", look)
    ledger.spend(0.5)
    with pytest.raises(BudgetExceededError) as info:
        ledger.spend(3.0)
    assert info.value.spent[0] <= 0.5
    assert info.value.largest_epsilon == pytest.approx(0.5, rel=1e-3)
    assert levels(ledger) == [0.5, 0.25]


def test_what_is_missing_for_a_rule_is_noticed_at_once(monkeypatch):
    def fail(*_, **__):
        raise ImportError("needs dp-accounting")

    monkeypatch.setattr(_budget, "compose_exact", fail)
    with pytest.raises(ImportError, match="dp-accounting"):
        PrivacyLedger(1.0, 1e-5, composition="exact")


def test_advanced_composition_admits_more_and_exact_most():
    admitted = {}
    for name, budget in COMPOSITIONS.items():
        for n in (30, 50, 90, 150):
            ledger = PrivacyLedger(**budget | {"epsilon": 3.0, "delta": 0.01})
            try:
                ledger.spend(*[(0.1,)] * n)
            except BudgetExceededError:
                break
            admitted[name] = n
    assert admitted == {"basic": 30, "advanced": 50, "exact": 90}


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


@pytest.mark.parametrize("name", ["basic", "advanced"])
def test_few_releases_compose_by_basic_composition(name):
    ledger = PrivacyLedger(**COMPOSITIONS[name])
    ledger.spend(0.4)
    ledger.spend(0.6)
    assert ledger.spent == compose_basic([0.4, 0.6])


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
    gaussian = PrivacyGuarantee(
        0.5, risk=0.01, randomness="explicit", loss=DominatingLoss("gaussian", 0.1)
    )
    ledger = PrivacyLedger(1.0, 1e-5, 0.0, composition="exact")
    ledger.spend(*[gaussian] * 4)
    assert ledger.spent == compose_exact([gaussian] * 4, delta=1e-5)
    assert ledger.spent.risk == 0.0


amounts = st.one_of(
    st.integers(0, 15).map(lambda k: k / 50), st.floats(0.0, 0.3, allow_nan=False)
)


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


def test_what_remains_is_rounded_down():
    """A quarter of these would not fit if it were rounded to the nearest number."""
    for spent, n in itertools.product(range(50), range(1, 13)):
        ledger = PrivacyLedger(1.0)
        ledger.spend(spent / 50)
        ledger.spend(*[(ledger.remaining(n),)] * n)
        assert ledger.remaining() < 1e-15


def test_what_remains_by_exact_composition_can_be_spent_and_no_more():
    ledger = PrivacyLedger(2.0, 1e-3, composition="exact")
    ledger.spend(*[(0.1,)] * 20)
    left = ledger.remaining(10)
    assert left > 0.05  # basic composition leaves nothing
    with pytest.raises(BudgetExceededError):
        ledger.spend(*[(left * 1.000001,)] * 10)
    ledger.spend(*[(left,)] * 10)


def test_at_a_large_delta_more_than_the_budget_may_be_left():
    """A release has less than its own level then."""
    ledger = PrivacyLedger(1.0, 0.95, composition="exact")
    left = ledger.remaining()
    assert left > 2.5
    ledger.spend(left)


@pytest.mark.parametrize("n", [0, 1.5, "1", True])
def test_what_remains_is_for_a_whole_number_of_releases(n):
    with pytest.raises(ValueError, match="n must be a whole number"):
        PrivacyLedger(1.0).remaining(n)


def test_a_ledger_that_is_over_its_budget_has_nothing_left(tmp_path, monkeypatch):
    """Such as one that another version of the library wrote."""
    ledger = PrivacyLedger(1.0, 1e-5, composition="advanced", path=tmp_path / "ledger")
    with monkeypatch.context() as patch:
        patch.setattr(_budget.Budget, "fits", lambda *_: True)
        ledger.spend((1.5, 1e-5))
    assert ledger.remaining() == 0.0
    assert ledger.spent.epsilon == 1.5
    with pytest.raises(BudgetExceededError):
        ledger.spend(0.001)


# Open ledgers


def test_nested_ledgers_are_all_charged_or_none(make):
    outer, inner = make(1.0), make(0.5)
    with outer:
        spend(0.1)
        with inner:
            spend(0.2)
            with pytest.raises(BudgetExceededError):
                spend(0.4)
        spend(0.4)
    assert levels(outer) == [0.1, 0.2, 0.4]
    assert levels(inner) == [0.2]


def test_a_ledger_that_is_entered_twice_is_charged_once(make):
    ledger = make(1.0)
    with ledger:
        with ledger:
            spend(0.1)
        spend(0.2)
    spend(0.3)
    assert levels(ledger) == [0.1, 0.2]


def test_two_handles_of_one_file_are_charged_once(tmp_path):
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    (tmp_path / "link").symlink_to(tmp_path / "ledger")
    with ledger, PrivacyLedger.open(tmp_path / "link") as other:
        spend(0.1)
    assert levels(ledger) == levels(other) == [0.1]


def test_a_ledger_is_closed_by_an_error_as_well(make):
    ledger = make(1.0)
    with pytest.raises(KeyError), ledger:
        raise KeyError
    spend(0.1)
    assert ledger.releases == ()


def test_closing_a_ledger_that_is_not_open_does_nothing():
    PrivacyLedger(1.0).__exit__(None, None, None)


def test_charging_by_hand_charges_one_ledger_only(make):
    ledger, other = make(1.0), make(1.0)
    with other:
        ledger.spend(0.3, note="made elsewhere")
    assert levels(ledger) == [0.3]
    assert other.releases == ()


def test_what_is_suspended_is_not_charged_and_what_is_opened_inside_is(make):
    outer, inner = make(1.0), make(1.0)
    with outer:
        with suspend_open():
            spend(0.1)
            refuse_without_level("a release")
            with inner:
                spend(0.2)
                with suspend_open():
                    spend(0.3)
                with pytest.raises(IncompatibleError):
                    refuse_without_level("a release")
        spend(0.4)
    assert levels(outer) == [0.4]
    assert levels(inner) == [0.2]


def test_what_is_opened_again_inside_is_charged(make):
    ledger = make(1.0)
    with ledger, suspend_open():
        spend(0.1)
        with ledger:
            spend(0.2)
            with suspend_open(), ledger, ledger:
                spend(0.3)
        spend(0.1)
    assert levels(ledger) == [0.2, 0.3]


def test_a_ledger_that_is_closed_elsewhere_stays_open_where_it_is_charged():
    ledger = PrivacyLedger(1.0)
    ledger.__enter__()
    inside = contextvars.copy_context()
    suspension = suspend_open()
    inside.run(suspension.__enter__)
    inside.run(ledger.__enter__)
    ledger.__exit__()
    inside.run(spend, 0.1)
    inside.run(suspension.__exit__, None, None, None)
    inside.run(ledger.__exit__)
    spend(0.2)
    assert levels(ledger) == [0.1]


def test_a_ledger_that_outlives_a_suspension_is_charged():
    ledger = PrivacyLedger(1.0)
    with suspend_open():
        ledger.__enter__()
    spend(0.1)
    ledger.__exit__()
    spend(0.2)
    assert levels(ledger) == [0.1]


def suspended():
    """Yield inside of a suspension."""
    with suspend_open():
        yield


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_generators_that_end_in_any_order_leave_nothing_suspended(order):
    with PrivacyLedger(1.0) as ledger:
        generators = suspended(), suspended()
        for generator in generators:
            next(generator)
        generators[order[0]].close()
        spend(0.1)
        generators[order[1]].close()
        spend(0.2)
    assert levels(ledger) == [0.2]


def test_tasks_are_charged_when_the_block_that_started_them_is_over():
    async def work(ready):
        spend(0.1)
        await ready.wait()
        spend(0.2)

    async def main():
        ready = asyncio.Event()
        with suspend_open():
            task = asyncio.create_task(work(ready))
            await asyncio.sleep(0)
        ready.set()
        await task

    with PrivacyLedger(1.0) as ledger:
        asyncio.run(main())
    assert levels(ledger) == [0.2]


def test_a_context_that_is_copied_to_another_thread_is_not_suspended():
    async def main():
        with suspend_open():
            await asyncio.to_thread(spend, 0.1)

    with PrivacyLedger(1.0) as ledger:
        asyncio.run(main())
    assert levels(ledger) == [0.1]


def test_a_suspension_ends_in_other_contexts_as_well():
    with PrivacyLedger(1.0) as ledger:
        generator = suspended()
        contextvars.copy_context().run(next, generator)
        spend(0.1)
        contextvars.copy_context().run(generator.close)
        spend(0.2)
    assert levels(ledger) == [0.1, 0.2]


def interrupt(monkeypatch, target, name, handler):
    """Call what a signal handler would do, once, when a function is called."""
    original, calls = getattr(target, name), []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 1:
            handler()
        return original(*arguments)

    monkeypatch.setattr(target, name, interrupted)


def test_who_interrupts_a_charge_can_neither_release_nor_look(make, monkeypatch):
    ledger, other = make(1.0), make(1.0)
    refused = []

    def handler():
        actions = [
            lambda: spend(0.6),
            ledger.remaining,
            ledger.__enter__,
            lambda: refuse_without_level("a release"),
        ]
        for action in actions:
            with pytest.raises(IncompatibleError):
                action()
            refused.append(1)
        other.spend(0.3)

    interrupt(monkeypatch, _budget.Budget, "fits", handler)
    with ledger:
        spend(0.6)
    assert len(refused) == 4
    assert levels(ledger) == [0.6]
    assert levels(other) == [0.3]
    ledger.spend(0.4)  # it is free again


@pytest.mark.parametrize("function", ["_sweep", "lock"])
def test_who_interrupts_the_opening_may_open_a_ledger(
    monkeypatch, marker_folder, function
):
    inner = PrivacyLedger(1.0)

    def handler():
        with inner:
            spend(0.1)

    interrupt(monkeypatch, _marker, function, handler)
    with PrivacyLedger(1.0) as outer:
        spend(0.2)
        assert any(map(_marker._is_held, map(str, marker_folder.iterdir())))
    assert levels(inner) == [0.1]
    assert levels(outer) == [0.1, 0.2]
    assert list(marker_folder.iterdir()) == []
    assert "SKPARISK_LEDGER" not in os.environ


def test_room_is_looked_for_without_a_charge(make):
    outer, inner = make(1.0), make(0.5)
    with outer, inner:
        check_room(0.2, 0.3)
        with pytest.raises(BudgetExceededError, match="Nothing was charged") as info:
            check_room(0.3, 0.3)
        assert info.value.largest_epsilon == 0.5
        spend(0.5)
        with suspend_open():
            check_room(0.3)
    assert levels(outer) == levels(inner) == [0.5]


def test_all_that_open_ledgers_hold_is_counted(make):
    outer, inner = make(1.0), make(1.0)
    with outer:
        spend(0.1)
        with inner, suspend_open():
            assert _open.count_recorded() == 1
            inner.spend(0.1)
            assert _open.count_recorded() == 2
    assert _open.count_recorded() == 0


def test_a_ledger_does_not_tell_how_many_were_made():
    orders = {PrivacyLedger(1.0)._book.order for _ in range(20)}
    assert len(orders) == 20
    assert all(re.fullmatch("[0-9a-f]{32}", number) for _, number in orders)


def test_other_threads_are_not_suspended(make):
    ledger = make(1.0)
    with ledger, suspend_open():
        thread = threading.Thread(target=spend, args=(0.1,))
        thread.start()
        thread.join()
    assert levels(ledger) == [0.1]


def test_a_release_of_unknown_level_is_refused_where_it_had_to_be_recorded(make):
    refuse_without_level("a release")
    with make(math.inf), pytest.raises(IncompatibleError, match=r"^what is not known"):
        refuse_without_level("what is not known")


@pytest.mark.parametrize("n_threads", [8])
def test_threads_never_exceed_the_budget_together(make, n_threads):
    ledger = make(0.4)
    refused = []

    def charge():
        for _ in range(10):
            try:
                spend(0.01)
            except BudgetExceededError:
                refused.append(1)

    with ledger:
        threads = [threading.Thread(target=charge) for _ in range(n_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert levels(ledger) == [0.01] * 40
    assert len(refused) == 10 * n_threads - 40


def test_threads_that_charge_several_ledgers_do_not_wait_for_each_other(tmp_path):
    first, second = (PrivacyLedger(9.0, path=tmp_path / name) for name in "ab")
    third = PrivacyLedger(9.0)

    def charge(books):
        for _ in range(20):
            _open.charge(books, [PrivacyGuarantee(0.1)], "")

    books = [ledger._book for ledger in (first, third, second)]
    threads = [
        threading.Thread(target=charge, args=(order,), daemon=True)
        for order in (books, books[::-1], books[::2], books[1:2])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert len(first.releases) == len(second.releases) == len(third.releases) == 60


class Model(ClassifierMixin, BaseEstimator):
    """Something that is released when it is fitted."""

    def __init__(self, level=0.1):
        self.level = level

    def fit(self, X, y):
        """Charge its level."""
        spend(self.level)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        """Return anything."""
        return np.zeros(len(X))


def test_a_search_of_scikit_learn_goes_on_after_a_refusal():
    """Nothing is overspent, but only an error that is raised tells of it."""
    X, y = np.zeros((6, 1)), np.arange(6) % 2
    search = GridSearchCV(Model(), {"level": [0.1, 0.8]}, cv=2, refit=False)
    with (
        PrivacyLedger(1.0) as ledger,
        pytest.warns(UserWarning, match="non-finite"),
        pytest.warns(FitFailedWarning),
    ):
        search.fit(X, y)
    assert levels(ledger) == [0.1, 0.1, 0.8]
    assert np.isnan(search.cv_results_["split1_test_score"][1])
    with PrivacyLedger(1.0) as ledger, pytest.raises(BudgetExceededError):
        search.set_params(error_score="raise").fit(X, y)
    assert levels(ledger) == [0.1, 0.1, 0.8]


# A ledger is a handle


@pytest.mark.parametrize(
    "duplicate",
    [
        copy.copy,
        copy.deepcopy,
        clone,
        lambda ledger: clone(ledger, safe=False),
        lambda ledger: copy.deepcopy({"inside": [ledger]})["inside"][0],
    ],
)
def test_copies_are_the_same_ledger(make, duplicate):
    ledger = make(1.0)
    assert duplicate(ledger) is ledger


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_ledger_cannot_be_pickled(make, protocol):
    with pytest.raises(TypeError, match=r"PrivacyLedger\.open"):
        pickle.dumps(make(1.0), protocol)


def test_an_entry_cannot_be_changed():
    ledger = PrivacyLedger(1.0)
    ledger.spend(0.1)
    (entry,) = ledger.releases
    assert isinstance(entry, LedgerEntry)
    with pytest.raises(dataclasses.FrozenInstanceError):
        entry.note = "other"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", entry.time)


@every_composition
def test_a_ledger_is_filed_in_words(budget, tmp_path):
    ledger = PrivacyLedger(**budget, gamma=0.5, path=tmp_path / "ledger")
    ledger.spend((0.25, 1e-7 if "delta" in budget else 0.0, 0.05), note="mean <age>")
    ledger.spend(0.1, note="a\n  2. forged line")
    text, page = str(ledger), ledger._repr_html_()
    for words in (
        "epsilon 1",
        "risk 0.5",
        f"epsilon {ceil_text(ledger.spent.epsilon)}",
        "one release at epsilon 0.6",
        "epsilon 0.25",
        "mean <age>",
        "a 2. forged line",
        ledger.spent.guarantee,
        *ledger.spent.conditions,
        str(tmp_path / "ledger"),
        ledger.head,
    ):
        assert words in text
        assert html.escape(words) in page
    assert "<age>" not in page
    assert sum("forged" in line for line in text.splitlines()) == 1
    assert repr(ledger).startswith("PrivacyLedger(epsilon=1.0, delta=")


def test_a_note_cannot_act_on_a_terminal(make):
    ledger = make(1.0)
    note = "\x1b[2J\ud800\u202eü\u2028end"
    leak = PrivacyGuarantee(0.1, leaks=("A leak\x1b[2J.",))
    ledger.spend(leak, note=note)
    assert ledger.releases[0].note == note
    for text in (str(ledger), ledger._repr_html_()):
        assert "\\x1b[2J\\ud800\\u202eü end" in text
        assert "A leak\\x1b[2J." in text
        assert all(line.isprintable() for line in text.splitlines())


def test_numbers_in_words_are_rounded_to_the_safe_side():
    ledger = PrivacyLedger(1.0)
    ledger.spend(0.12345671)
    assert "spent: epsilon 0.123457" in str(ledger)
    assert "one release at epsilon 0.876543" in str(ledger)


# A ledger in a file


def reopened(ledger, **options):
    """Return another handle of the file."""
    return PrivacyLedger.open(ledger.path, **options)


@every_composition
def test_a_file_holds_what_was_charged(budget, tmp_path):
    ledger = PrivacyLedger(**budget, gamma=0.5, path=tmp_path / "ledger")
    loss = DominatingLoss("laplace", 0.1, excess=1e-7)
    ledger.spend(PrivacyGuarantee(0.1, relation="add-remove", loss=loss), note="ü\n")
    ledger.spend((0.1, 0.0, 0.1), PrivacyGuarantee(0.2, leaks=("a leak",)))
    again = reopened(ledger, head=ledger.head)
    assert again.releases == ledger.releases
    assert again.limit == ledger.limit
    assert again.spent == ledger.spent
    assert str(again) == str(ledger)
    assert repr(again) == repr(ledger)


def test_handles_of_one_file_know_of_each_other(tmp_path):
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    other = reopened(ledger)
    ledger.spend(0.3)
    other.spend(0.4)
    assert levels(ledger) == levels(other) == [0.3, 0.4]
    assert ledger.remaining() == other.remaining() == 0.3
    with pytest.raises(BudgetExceededError):
        ledger.spend(0.31)
    assert ledger.head == other.head


def test_lines_are_json_with_a_chain_of_hashes(tmp_path):
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    ledger.spend(0.3, note="mean age")
    header, charge = map(json.loads, Path(ledger.path).read_text().splitlines())
    assert header["format"] == "skparisk-ledger"
    assert (header["epsilon"], header["composition"]) == (1.0, "basic")
    assert charge["previous"] == header["sha256"]
    assert charge["sha256"] == ledger.head
    assert charge["note"] == "mean age"
    assert charge["releases"] == [PrivacyGuarantee(0.3).to_dict()]


def test_only_the_owner_may_read_the_files(tmp_path):
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    ledger.spend(0.1)
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_ledger_is_not_written_over(tmp_path):
    path = tmp_path / "ledger"
    PrivacyLedger(1.0, path=path)
    with pytest.raises(FileExistsError):
        PrivacyLedger(1.0, path=path)
    path.unlink()
    with pytest.raises(FileExistsError, match="there was a ledger"):
        PrivacyLedger(1.0, path=path)


@pytest.mark.parametrize("name", ["a.head", "a.head.new", "A.HEAD"])
def test_a_ledger_is_not_named_as_the_head_of_another(tmp_path, name):
    for use in (PrivacyLedger.open, lambda path: PrivacyLedger(1.0, path=path)):
        with pytest.raises(ValueError, match=r"path must not end in \.head"):
            use(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_the_way_of_a_new_head_is_removed_and_not_written_to(tmp_path):
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    other = tmp_path / "other"
    other.write_text("precious")
    Path(f"{ledger.path}.head.new").symlink_to(other)
    ledger.spend(0.1)
    assert other.read_text() == "precious"
    assert levels(reopened(ledger)) == [0.1]


def test_a_ledger_has_one_name(tmp_path):
    """Two would have two heads, and be two ledgers to whoever locks them."""
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    other = tmp_path / "other"
    other.hardlink_to(ledger.path)
    shutil.copy(f"{ledger.path}.head", f"{other}.head")
    for use in (lambda: ledger.spend(0.1), lambda: PrivacyLedger.open(other)):
        with pytest.raises(LedgerError, match="2 names"):
            use()
    other.unlink()
    ledger.spend(0.2)
    assert levels(ledger) == [0.2]


def test_a_path_may_be_bytes(tmp_path):
    path = os.fsencode(tmp_path / "ledger")
    PrivacyLedger(1.0, path=path).spend(0.1)
    assert levels(PrivacyLedger.open(path)) == [0.1]


@pytest.mark.parametrize("content", [b"", b'{"comp', b'{"composition":"basic","de'])
def test_what_is_left_of_the_first_line_does_not_hinder(tmp_path, content):
    path = tmp_path / "ledger"
    path.write_bytes(content)
    with pytest.raises(LedgerError, match="head is missing"):
        PrivacyLedger.open(path)
    PrivacyLedger(1.0, path=path).spend(0.1)
    assert levels(PrivacyLedger.open(path)) == [0.1]


@pytest.mark.parametrize(
    "content", [b"text", b"\n", b'{"comp\n', b'{"composition":"basic"}\n']
)
def test_a_file_with_something_else_is_not_written_over(tmp_path, content):
    path = tmp_path / "ledger"
    path.write_bytes(content)
    with pytest.raises(FileExistsError, match="exists"):
        PrivacyLedger(1.0, path=path)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_no_place_for_a_ledger(tmp_path):
    os.mkfifo(tmp_path / "ledger")
    with pytest.raises(FileExistsError):
        PrivacyLedger(1.0, path=tmp_path / "ledger")


def test_a_budget_whose_head_was_not_yet_written_is_a_new_ledger(tmp_path):
    path = tmp_path / "ledger"
    PrivacyLedger(1.0, path=path)
    Path(f"{path}.head").unlink()
    with pytest.raises(FileExistsError):
        PrivacyLedger(2.0, path=path)
    ledger = PrivacyLedger.open(path)
    assert ledger.limit[0] == 1.0
    ledger.spend(0.1)
    assert levels(reopened(ledger)) == [0.1]


def test_there_must_be_a_file_to_open(tmp_path):
    with pytest.raises(FileNotFoundError):
        PrivacyLedger.open(tmp_path / "ledger")
    assert not list(tmp_path.iterdir())


def test_another_directory_does_not_matter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = PrivacyLedger(1.0, path="ledger")
    monkeypatch.chdir("/")
    ledger.spend(0.1)
    assert levels(reopened(ledger)) == [0.1]


@pytest.fixture
def filed(tmp_path):
    """Return a ledger with two charges, and what its files hold."""
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    ledger.spend(0.1, note="first")
    ledger.spend((0.2,), (0.3, 0.0, 0.1), note="second")
    path = Path(ledger.path)
    return path, path.read_bytes(), Path(f"{path}.head").read_bytes()


def write(path, lines, head):
    """Write both files of a ledger."""
    path.write_bytes(lines)
    Path(f"{path}.head").write_bytes(head)


def test_every_byte_matters(filed):
    path, lines, head = filed
    for position in range(0, len(lines), 2):
        changed = bytearray(lines)
        changed[position] ^= 1 + position % 127
        path.write_bytes(changed)
        with pytest.raises(LedgerError, match=re.escape(str(path))):
            PrivacyLedger.open(path)
    path.write_bytes(lines)
    for position in range(len(head)):
        changed = bytearray(head)
        changed[position] ^= 1 + position % 127
        Path(f"{path}.head").write_bytes(changed)
        with pytest.raises(LedgerError, match=re.escape(str(path))):
            PrivacyLedger.open(path)
    write(path, lines, head)
    assert len(PrivacyLedger.open(path).releases) == 3


@pytest.fixture(scope="module")
def filed_once(tmp_path_factory):
    """Return a ledger with two charges, and what its first file holds."""
    path = tmp_path_factory.mktemp("filed") / "ledger"
    ledger = PrivacyLedger(1.0, path=path)
    ledger.spend(0.1)
    ledger.spend(0.2, note="second")
    return path, path.read_bytes()


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_edits_are_noticed(filed_once, data):
    path, lines = filed_once
    start = data.draw(st.integers(0, len(lines)))
    stop = data.draw(st.integers(start, min(start + 40, len(lines))))
    changed = lines[:start] + data.draw(st.binary(max_size=10)) + lines[stop:]
    path.write_bytes(changed)
    if changed.startswith(lines) and b"\n" not in changed[len(lines) :]:
        # No more than what a crash may leave.
        assert levels(PrivacyLedger.open(path)) == [0.1, 0.2]
        assert path.read_bytes() == lines
    else:
        with pytest.raises(LedgerError):
            PrivacyLedger.open(path)


def test_lines_that_are_cut_off_are_noticed(filed):
    path, lines, head = filed
    for length in range(0, len(lines), 3):
        path.write_bytes(lines[:length])
        with pytest.raises(LedgerError, match=r"its head tells of 3|not JSON"):
            PrivacyLedger.open(path)
        assert path.read_bytes() == lines[:length]
    assert Path(f"{path}.head").read_bytes() == head


def test_a_missing_head_is_noticed(filed):
    path, lines, _ = filed
    Path(f"{path}.head").unlink()
    with pytest.raises(LedgerError, match="head is missing"):
        PrivacyLedger.open(path)
    assert path.read_bytes() == lines


def test_lines_that_the_head_does_not_tell_of_are_noticed(filed):
    path, lines, _ = filed
    first = lines.splitlines()[0]
    digest = json.loads(first)["sha256"].encode()
    Path(f"{path}.head").write_bytes(b"1 " + digest + b"\n")
    with pytest.raises(LedgerError, match="3 complete lines, and its head tells of 1"):
        PrivacyLedger.open(path)


def test_a_head_that_is_put_back_while_it_is_in_use_is_no_more_than_a_crash(filed):
    path, lines, _ = filed
    ledger = PrivacyLedger.open(path)
    digests = [json.loads(line)["sha256"] for line in lines.splitlines()]
    Path(f"{path}.head").write_text(f"2 {digests[1]}\n")
    ledger.spend(0.1)
    assert levels(reopened(ledger)) == levels(ledger) == [0.1, 0.2, 0.3, 0.1]
    Path(f"{path}.head").write_text(f"2 {digests[1]}\n")
    with pytest.raises(LedgerError, match="4 complete lines, and its head tells of 2"):
        ledger.spend(0.1)


def test_a_line_ahead_and_a_part_of_another_are_no_trace_of_a_crash(filed):
    path, lines, _ = filed
    first = lines.splitlines(keepends=True)[:2]
    digest = json.loads(first[1])["sha256"]
    write(path, lines + b"{", f"2 {digest}\n".encode())
    with pytest.raises(LedgerError, match="3 complete lines, and its head tells of 2"):
        PrivacyLedger.open(path)


def resealed(lines, change):
    """Return lines after a change by someone who knows how the hashes are made."""
    documents = [json.loads(line) for line in lines.splitlines()]
    change(documents)
    sealed = []
    for document in documents:
        document.pop("sha256")
        if "previous" in document and sealed:
            document["previous"] = sealed[-1]["sha256"]
        sealed.append(_file._seal(document | document.pop("forged", {})))
    head = f"{len(sealed)} {sealed[-1]['sha256']}\n".encode()
    return b"".join(map(_file._as_line, sealed)), head


def forget_a_charge(documents):
    del documents[2]


def raise_the_budget(documents):
    documents[0]["epsilon"] = 10.0


@pytest.mark.parametrize("forge", [forget_a_charge, raise_the_budget])
def test_who_rewrites_both_files_is_found_out_by_a_head_that_was_filed(filed, forge):
    path, lines, head = filed
    digest = head.split()[1].decode()
    earlier = json.loads(lines.splitlines()[1])["sha256"]
    assert PrivacyLedger.open(path, head=digest).head == digest
    assert PrivacyLedger.open(path, head=earlier).head == digest
    write(path, *resealed(lines, forge))
    PrivacyLedger.open(path)  # a lie that nothing in the files shows
    with pytest.raises(LedgerError, match="rewritten since"):
        PrivacyLedger.open(path, head=digest)


def set_in(number, **entries):
    """Return a change of a line."""
    return lambda documents: documents[number].update(entries)


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (set_in(0, other=1), "line 1 of .* must have the entries"),
        (set_in(1, other=1), "line 2 of .* must have the entries"),
        (lambda documents: documents[1].pop("note"), "line 2 of .* must have"),
        (lambda documents: documents.pop(0), "line 1 of .* must have the entries"),
        (set_in(0, version=2), "must have the format"),
        (set_in(0, format="other"), "must have the format"),
        (set_in(0, epsilon=-1.0), "no valid budget: epsilon"),
        (set_in(0, composition="other"), "no valid budget: composition"),
        (set_in(2, index=1), "line 3 of .* does not follow"),
        (set_in(2, forged={"previous": "0" * 64}), "line 3 of .* does not follow"),
        (set_in(1, releases=5), "line 2 of .* holds no releases"),
        (set_in(1, releases=[{"risk": 0.1}]), "line 2 of .* holds no releases"),
        (lambda d: d[1]["releases"][0].update(new=1), r"unknown entries \['new'\]"),
        (lambda d: d[1]["releases"][0].update(epsilon=-1), "holds no releases"),
        (lambda d: d[1]["releases"][0].update(loss=3), "holds no releases"),
        (lambda d: d[2]["releases"][0].update(group_size=2), "groups of one size"),
    ],
)
def test_forged_lines_are_refused(filed, forge, message):
    path, lines, _ = filed
    write(path, *resealed(lines, forge))
    with pytest.raises(LedgerError, match=message):
        PrivacyLedger.open(path)


def test_a_chain_that_is_broken_is_noticed(filed):
    path, lines, head = filed
    header, first, second = lines.splitlines(keepends=True)
    write(path, header + second + first, head)
    with pytest.raises(LedgerError, match=r"line 2 of .* does not follow"):
        PrivacyLedger.open(path)


@pytest.mark.parametrize("line", [b"[" * 100_000, b"[]", b"\xff", b"null", b"1e999"])
def test_lines_that_are_no_objects_are_refused(filed, line):
    path, lines, head = filed
    write(path, line + b"\n" + lines, head)
    with pytest.raises(LedgerError, match="line 1 of"):
        PrivacyLedger.open(path)


def test_words_of_another_version_do_not_make_a_file_unreadable(filed):
    path, lines, _ = filed

    def reword(documents):
        documents[1]["releases"][0]["guarantee"] = "The same in other words."
        del documents[2]["releases"][0]["leaks"]  # a version that knew of none

    write(path, *resealed(lines, reword))
    assert levels(PrivacyLedger.open(path)) == [0.1, 0.2, 0.3]


@pytest.mark.parametrize("how", ["cut off", "replaced", "older"])
def test_a_file_that_changes_while_it_is_in_use_is_noticed(filed, how):
    path, lines, _ = filed
    ledger = PrivacyLedger.open(path)
    older = b"".join(lines.splitlines(keepends=True)[:2])
    if how == "cut off":
        path.write_bytes(older)
    elif how == "older":
        digest = json.loads(older.splitlines()[1])["sha256"]
        write(path, older, f"2 {digest}\n".encode())
    else:
        path.unlink()
    with pytest.raises((LedgerError, FileNotFoundError)):
        ledger.spend(0.1)


def test_a_file_that_is_replaced_while_its_lock_is_waited_for_is_noticed(
    filed, monkeypatch
):
    path, _, _ = filed
    ledger = PrivacyLedger.open(path)

    def replace(_):
        shutil.copy(path, f"{path}.copy")
        os.replace(f"{path}.copy", path)

    monkeypatch.setattr(_locks, "lock", replace)
    monkeypatch.setattr(_locks, "unlock", lambda _: None)
    with pytest.raises(LedgerError, match="was replaced"):
        ledger.spend(0.1)


# Crashes


def test_a_charge_is_safe_wherever_a_crash_cuts_it_off(tmp_path):
    """All states of the two files while a line is written."""
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    ledger.spend(0.1)
    path = Path(ledger.path)
    lines, head = path.read_bytes(), Path(f"{path}.head").read_bytes()
    ledger.spend(0.2, note="cut off")
    more, new_head = path.read_bytes(), Path(f"{path}.head").read_bytes()
    size = len(more) - len(lines)
    for length in (0, 1, 2, *range(3, size - 2, 23), size - 2, size - 1):
        write(path, more[: len(lines) + length], head)
        again = PrivacyLedger.open(path)
        assert levels(again) == [0.1]  # no noise was drawn
        assert path.read_bytes() == lines
        again.spend(0.3)
        assert levels(PrivacyLedger.open(path)) == [0.1, 0.3]
    write(path, more, head)
    assert levels(PrivacyLedger.open(path)) == [0.1, 0.2]  # counts as spent
    assert Path(f"{path}.head").read_bytes() == new_head
    write(path, more, head)
    Path(f"{path}.head.new").write_bytes(new_head[:7])
    assert levels(PrivacyLedger.open(path)) == [0.1, 0.2]
    PrivacyLedger.open(path).spend(0.4)
    assert levels(PrivacyLedger.open(path)) == [0.1, 0.2, 0.4]


class Crash(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("function", ["fsync", "replace", "open"])
@pytest.mark.parametrize("kind", [OSError, Crash])
@pytest.mark.parametrize("nth", range(3))
def test_an_error_on_the_way_releases_nothing_and_forgets_nothing(
    tmp_path, monkeypatch, function, kind, nth
):
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    ledger.spend(0.1)
    original, calls = getattr(os, function), []

    def fail(*arguments, **options):
        calls.append(1)
        if len(calls) == nth + 1:
            raise kind
        return original(*arguments, **options)

    released = False
    with monkeypatch.context() as patch:
        patch.setattr(os, function, fail)
        try:
            ledger.spend(0.2)
            released = True
        except kind:
            assert len(calls) == nth + 1
    assert released == (len(calls) <= nth)
    held = levels(ledger)
    assert held == levels(reopened(ledger))
    assert held == ([0.1, 0.2] if released else held)
    assert held in ([0.1], [0.1, 0.2])
    ledger.spend(0.3)
    assert levels(reopened(ledger)) == [*held, 0.3]


@pytest.mark.parametrize("function", ["fsync", "replace", "open"])
@pytest.mark.parametrize("nth", range(4))
def test_a_ledger_that_is_not_wholly_made_can_be_opened_or_made_again(
    tmp_path, monkeypatch, function, nth
):
    path, original, calls = tmp_path / "ledger", getattr(os, function), []

    def fail(*arguments, **options):
        calls.append(1)
        if len(calls) == nth + 1:
            raise Crash
        return original(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, function, fail)
        with contextlib.suppress(Crash):
            PrivacyLedger(1.0, path=path)
    try:
        ledger = PrivacyLedger.open(path)
    except FileNotFoundError:
        ledger = PrivacyLedger(1.0, path=path)
    ledger.spend(0.1)
    assert levels(reopened(ledger)) == [0.1]


def test_a_process_that_is_forked_does_not_hold_the_lock(tmp_path):
    """As in a process that was forked; that is tried with kills as well."""
    file = (tmp_path / "file").open("xb", buffering=0)
    with pytest.raises(ValueError, match="closed file"), _locks.hold(file):
        _locks._close_in_child()
    with (tmp_path / "file").open("r+b", buffering=0) as file:
        assert _locks.try_lock(file.fileno())


def test_a_disk_that_is_full_releases_nothing(tmp_path, monkeypatch):
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    original = _file._write

    class FullDisk:
        def __init__(self, file):
            self.file = file

        def __getattr__(self, name):
            return getattr(self.file, name)

        def write(self, content):
            return self.file.write(content[:10])

    def write_on_full_disk(file, content):
        original(FullDisk(file), content)

    with monkeypatch.context() as patch:
        patch.setattr(_file, "_write", write_on_full_disk)
        with pytest.raises(OSError, match="only 10 of"):
            ledger.spend(0.1)
    assert ledger.releases == reopened(ledger).releases == ()
    ledger.spend(0.2)
    assert levels(ledger) == levels(reopened(ledger)) == [0.2]


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


# Other processes

WORKERS = """
import os, subprocess, sys, time
from skparisk.ledger import PrivacyLedger, spend, suspend_open
from skparisk.ledger._open import refuse_without_level

HOWS = ["plainly", "of unknown level", "suspended", "in a ledger of its own"]

def outcome(action, *arguments):
    try:
        action(*arguments)
    except Exception as error:
        return type(error).__name__
    return "released"

def release(how="plainly"):
    if how == "of unknown level":
        return outcome(refuse_without_level, "a release")
    if how == "suspended":
        with suspend_open():
            return outcome(spend, 0.1)
    if how == "in a ledger of its own":
        with PrivacyLedger(1.0) as ledger:
            spend(0.1)
        return f"recorded {len(ledger.releases)}"
    return outcome(spend, 0.1)

def forked(action, *arguments, leave=os._exit):
    # What it returns in a process that was forked.
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, action(*arguments).encode())
        leave(0)
    os.close(writing)
    os.wait()
    with os.fdopen(reading) as pipe:
        return pipe.read()

def orphaned(action):
    # What it returns in a process whose parent is gone.
    reading, writing = os.pipe()
    if os.fork() == 0:
        parent = os.getpid()
        if os.fork() == 0:
            while os.getppid() == parent:
                time.sleep(0.001)
            os.write(writing, action().encode())
        os._exit(0)
    os.close(writing)
    os.wait()
    with os.fdopen(reading) as pipe:
        return pipe.read()

def exec_orphan(**environment):
    # What it returns in a new program whose parent is gone.
    code = (
        "import os, time, workers\\n"
        "while os.getppid() == int(os.environ['PARENT']): time.sleep(0.001)\\n"
        "print(workers.release())"
    )
    start = (
        "import os, subprocess, sys\\n"
        "env = os.environ | {'PARENT': str(os.getpid())}\\n"
        "subprocess.Popen([sys.executable, '-c', sys.argv[1]], env=env)"
    )
    command = [sys.executable, "-S", "-c", start, code]
    environment = os.environ | environment
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    return done.stdout.strip()

def in_a_grandchild():
    command = [sys.executable, "-c", "import workers; print(workers.release())"]
    code = f"import subprocess; subprocess.run({command!r}, check=True)"
    command = [sys.executable, "-S", "-c", code]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout.strip()
"""

PROCESSES = """
import json, multiprocessing, os, sys, tempfile
from pathlib import Path
from joblib import Parallel, delayed
from skparisk.ledger import PrivacyLedger, _marker
from workers import HOWS, exec_orphan, forked, in_a_grandchild, orphaned
from workers import outcome, release
from skparisk.ledger import suspend_open

if __name__ == "__main__":
    found = {}
    folder = Path(tempfile.gettempdir(), f"skparisk-{os.getuid()}")
    with PrivacyLedger(1.0) as ledger:
        # It ends as scripts do, which must not free the lock of the marker.
        found["fork that exits"] = forked(release, leave=sys.exit)
        found["marker held"] = [_marker._is_held(str(p)) for p in folder.iterdir()]
        found["orphan"] = orphaned(release)
        found["grandchild"] = in_a_grandchild()
        found["new program"] = exec_orphan(TMPDIR=os.getcwd())
        with suspend_open():
            found["fork, suspended"] = forked(release)
    loky = Parallel(n_jobs=2, backend="loky")
    threads = Parallel(n_jobs=2, backend="threading")
    tasks = [delayed(release)(how) for how in HOWS]
    found["loky, before"] = loky(tasks)  # its workers are there from now on
    spawned = multiprocessing.get_context("spawn").Pool(1)
    with PrivacyLedger(1.0) as ledger:
        found["loky, inside"] = loky(tasks)
        found["threads, inside"] = threads([delayed(release)() for _ in range(3)])
        found["fork, inside"] = [forked(release, how) for how in HOWS]
        found["fork, by hand"] = forked(outcome, ledger.spend, 0.1)
        found["spawn, inside"] = spawned.map(release, HOWS)
        found["charged"] = len(ledger.releases)
    found["loky, after"] = loky(tasks)
    found["spawn, after"] = spawned.map(release, HOWS)
    found["fork, after"] = [forked(release, how) for how in HOWS]
    found["fork, by hand, after"] = forked(outcome, ledger.spend, 0.1)
    spawned.close()
    spawned.join()
    found["markers left"] = len(list(folder.iterdir()))
    print(json.dumps(found))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_cannot_be_recorded_in_another_process_is_refused(tmp_path):
    (tmp_path / "workers.py").write_text(WORKERS)
    (tmp_path / "main.py").write_text(PROCESSES)
    (tmp_path / "temporary").mkdir()
    paths = [str(tmp_path), *sys.path]
    done = subprocess.run(
        [sys.executable, "main.py"],
        cwd=tmp_path,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(tmp_path / "temporary")},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    refused = "IncompatibleError"
    inside = [refused, refused, "released", "recorded 1"]
    outside = ["released", "released", "released", "recorded 1"]
    assert found == {
        "fork that exits": refused,
        "marker held": [True],
        "orphan": refused,
        "grandchild": refused,
        "new program": refused,
        "fork, suspended": refused,
        "loky, before": outside,
        "loky, inside": inside,
        "threads, inside": ["released"] * 3,
        "fork, inside": inside,
        "fork, by hand": refused,
        "spawn, inside": inside,
        "charged": 3,
        "loky, after": outside,
        "spawn, after": outside,
        "fork, after": outside,
        "fork, by hand, after": refused,
        "markers left": 0,
    }


@pytest.fixture
def marker_folder():
    """Return the folder of markers."""
    return Path(tempfile.gettempdir(), f"skparisk-{os.getuid()}")


def test_a_marker_of_an_ancestor_counts_while_it_is_locked(marker_folder):
    marker_folder.mkdir()
    parent, other = (marker_folder / f"{pid}-x" for pid in (os.getppid(), 2**30))
    for path in (parent, other):
        path.touch()
    spend(0.1)  # nobody holds them: of processes that were killed
    for path, held in ((other, False), (parent, True)):
        with path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            assert _marker.Marker().in_an_ancestor() == held
            if held:
                with pytest.raises(IncompatibleError, match="n_jobs=1"):
                    spend(0.1)
                with PrivacyLedger(1.0) as ledger:
                    spend(0.1)
                assert levels(ledger) == [0.1]
        assert not _marker.Marker().in_an_ancestor()


def test_the_process_that_asked_for_a_worker_counts_as_well(monkeypatch, marker_folder):
    """A server may have started the worker, which is then no child of it."""
    parent = types.SimpleNamespace(pid=2**30)
    monkeypatch.setattr(_marker.multiprocessing, "parent_process", lambda: parent)
    marker_folder.mkdir()
    with (marker_folder / f"{2**30}-x").open("xb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert _marker.Marker().in_an_ancestor()


def test_ancestors_are_known_as_far_as_the_system_tells(monkeypatch):
    assert str(os.getppid()) in _marker._ancestors()
    monkeypatch.setattr(os, "getppid", lambda: 2**30)
    assert _marker._ancestors() == {str(2**30)}


def test_without_a_place_for_temporary_files_no_marker_is_there(monkeypatch):
    def fail():
        raise FileNotFoundError

    monkeypatch.setattr(tempfile, "gettempdir", fail)
    spend(0.1)
    with pytest.raises(FileNotFoundError), PrivacyLedger(1.0):
        pass


def test_a_marker_that_is_gone_does_not_count(tmp_path):
    assert not _marker._is_held(str(tmp_path / "gone"))


def test_the_marker_is_in_the_environment_while_a_ledger_is_open(
    monkeypatch, marker_folder, tmp_path
):
    """Which new programs inherit, wherever they look for temporary files."""
    with PrivacyLedger(1.0), PrivacyLedger(1.0):
        (path,) = marker_folder.iterdir()
        assert os.environ["SKPARISK_LEDGER"] == str(path)
        assert not _open._here.marker.in_an_ancestor()  # this process itself
        assert _marker.Marker().in_an_ancestor()
    assert "SKPARISK_LEDGER" not in os.environ
    other = tmp_path / "other"
    monkeypatch.setenv("SKPARISK_LEDGER", f"{other}")
    spend(0.1)  # it is gone
    with other.open("xb") as file:
        spend(0.1)  # nobody holds it
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(IncompatibleError, match="in the process that started"):
            spend(0.1)
        with PrivacyLedger(1.0) as ledger:
            (path,) = marker_folder.iterdir()
            assert os.environ["SKPARISK_LEDGER"] == f"{path}\n{other}"
            spend(0.1)
        assert os.environ["SKPARISK_LEDGER"] == f"{other}"
    assert levels(ledger) == [0.1]
    assert other.exists()
    monkeypatch.setenv("SKPARISK_LEDGER", f"{tmp_path}")
    with pytest.raises(IncompatibleError):
        spend(0.1)  # who knows


def test_markers_of_processes_that_were_killed_are_removed(marker_folder):
    marker_folder.mkdir()
    stale, held = marker_folder / "1-x", marker_folder / "2-x"
    stale.touch()
    with held.open("xb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with PrivacyLedger(1.0):
            assert len(list(marker_folder.iterdir())) == 2
        assert list(marker_folder.iterdir()) == [held]


def test_a_marker_that_is_removed_before_it_is_locked_is_made_again(
    monkeypatch, marker_folder
):
    def remove():
        for path in marker_folder.iterdir():
            path.unlink()

    interrupt(monkeypatch, _marker, "lock", remove)
    with PrivacyLedger(1.0):
        (path,) = marker_folder.iterdir()
        assert _marker._is_held(str(path))


def test_the_marker_is_there_while_any_ledger_is_open(marker_folder):
    first, second = PrivacyLedger(1.0), PrivacyLedger(1.0)
    with first:
        (path,) = marker_folder.iterdir()
        with second, first:
            assert list(marker_folder.iterdir()) == [path]
        assert list(marker_folder.iterdir()) == [path]
        assert _marker._is_held(str(path))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(marker_folder.iterdir()) == []
    assert stat.S_IMODE(marker_folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("how", ["someone else's", "link", "file"])
def test_a_folder_of_someone_else_is_not_used(
    how, monkeypatch, marker_folder, tmp_path
):
    if how == "link":
        marker_folder.symlink_to(tmp_path)
    elif how == "file":
        marker_folder.touch()
    else:
        marker_folder.mkdir()
        user = os.getuid()
        monkeypatch.setattr(_marker, "_folder", lambda: marker_folder)
        monkeypatch.setattr(_marker, "_user", lambda: user + 1)
    ledger = PrivacyLedger(1.0)
    with pytest.raises(PermissionError, match="set TMPDIR"), ledger:
        pass
    spend(0.1)
    assert ledger.releases == ()


def test_a_fork_leaves_the_ledgers_to_its_parent(monkeypatch, marker_folder):
    """As in a process that was forked; that is tried above as well."""
    with PrivacyLedger(1.0) as ledger, suspend_open():
        monkeypatch.setattr(_open, "_here", _open._here)
        monkeypatch.setattr(os, "getpid", lambda: 2**30)
        _open._start_anew()
        assert not _open._here.open
        with pytest.raises(IncompatibleError, match="in the process that started"):
            spend(0.1)
        with pytest.raises(IncompatibleError, match="forked from"):
            ledger.spend(0.1)
        with pytest.raises(IncompatibleError, match="forked from"), ledger:
            pass
        with PrivacyLedger(1.0) as own:
            spend(0.3)
        assert levels(own) == [0.3]
        monkeypatch.undo()
        spend(0.2)
    assert levels(ledger) == []
    assert list(marker_folder.iterdir()) == []


def test_a_fork_without_open_ledgers_is_free(monkeypatch):
    monkeypatch.setattr(_open, "_here", _open._here)
    _open._start_anew()
    spend(0.1)


# Any sequence


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

    @rule(
        releases=st.lists(a_release, min_size=1, max_size=2),
    )
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
                held = [entry.guarantee for entry in ledger.releases]
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
