"""A ledger holds every release, and never more than its budget."""

import asyncio
import contextlib
import contextvars
import copy
import dataclasses
import fcntl
import functools
import hashlib
import html
import io
import itertools
import json
import math
import os
import pickle
import re
import resource
import shutil
import sqlite3
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

from skparisk.certificate import Certificate, DominatingLoss
from skparisk.certificate._claim import SEEDED
from skparisk.certificate._rounding import ceil_text
from skparisk.composition import compose_basic, compose_exact, compose_filter
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
    _lines,
    _marker,
    _open,
    _system,
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
    return [entry.certificate.epsilon for entry in ledger.releases]


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
        (Certificate(0.1, risk=0.03, failure_prob=0.02), True),
        (Certificate(0.1, risk=0.03, failure_prob=0.03), False),
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
    release = Certificate(0.1, risk=0.03, failure_prob=0.03)
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
    ledger.spend(Certificate(0.1, void_reasons=(SEEDED,)))
    ledger.spend(0.2)
    assert not ledger.spent.private
    assert ledger.spent.void_reasons == (SEEDED,)
    assert "epsilon 0.1, NOT private" in str(ledger)


def test_neighbors_of_another_relation_are_refused(make):
    ledger = make(math.inf)
    for limited in (ledger, make(1.0)):
        limited.spend(Certificate(0.1, relation="replace-one"))
        limited.spend(0.1)
        with pytest.raises(IncompatibleError, match="relation"):
            limited.spend(Certificate(0.1, relation="add-remove"))
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
certificates = st.builds(
    Certificate,
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
    gaussian = Certificate(
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


@pytest.mark.parametrize("function", ["_sweep", "_try_lock"])
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
            _open.charge(books, [Certificate(0.1)], "")

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
    leak = Certificate(0.1, leaks=("A leak\x1b[2J.",))
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


@contextlib.contextmanager
def database(path):
    """Change the file of a ledger by other means."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


@every_composition
def test_a_file_holds_what_was_charged(budget, tmp_path):
    ledger = PrivacyLedger(**budget, gamma=0.5, path=tmp_path / "ledger")
    loss = DominatingLoss("laplace", 0.1, excess=1e-7)
    ledger.spend(Certificate(0.1, relation="add-remove", loss=loss), note="ü\n")
    ledger.spend((0.1, 0.0, 0.1), Certificate(0.2, leaks=("a leak",)))
    again = reopened(ledger, head=ledger.head)
    assert again.releases == ledger.releases
    assert again.limit == ledger.limit
    assert again.spent == ledger.spent
    assert str(again) == str(ledger)
    assert repr(again) == repr(ledger)


def test_a_file_holds_infinite_levels(tmp_path):
    ledger = PrivacyLedger(math.inf, path=tmp_path / "ledger")
    ledger.spend(math.inf)
    assert reopened(ledger).limit == (math.inf, 1.0, 1.0)
    assert levels(reopened(ledger)) == [math.inf]


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


def test_nothing_but_the_file_is_left_and_only_its_owner_may_read_it(tmp_path):
    path = tmp_path / "ledger"
    ledger = PrivacyLedger(1.0, path=path)
    ledger.spend(0.1)
    assert list(tmp_path.iterdir()) == [path]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_two_ledgers_with_one_budget_have_different_heads():
    assert PrivacyLedger(1.0).head != PrivacyLedger(1.0).head


def test_a_ledger_is_not_written_over(tmp_path):
    path = tmp_path / "ledger"
    PrivacyLedger(1.0, path=path).spend(0.1)
    content = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"PrivacyLedger\.open"):
        PrivacyLedger(1.0, path=path)
    assert path.read_bytes() == content


def test_a_journal_of_something_else_is_not_written_over(tmp_path):
    other = tmp_path / "ledger-journal"
    other.write_text("precious")
    with pytest.raises(FileExistsError, match="ledger-journal exists"):
        PrivacyLedger(1.0, path=tmp_path / "ledger")
    assert list(tmp_path.iterdir()) == [other]
    assert other.read_text() == "precious"


@pytest.mark.parametrize("name", ["a-journal", "A-WAL", "a-shm"])
def test_a_ledger_is_not_named_as_a_file_beside_another(tmp_path, name):
    for use in (PrivacyLedger.open, lambda path: PrivacyLedger(1.0, path=path)):
        with pytest.raises(ValueError, match="path must not end in -journal or"):
            use(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_the_way_of_a_journal_is_not_written_to(tmp_path):
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    other = tmp_path / "other"
    other.write_text("precious")
    Path(f"{ledger.path}-journal").symlink_to(other)
    with pytest.raises(OSError, match="Nothing was released"):
        ledger.spend(0.1)
    assert other.read_text() == "precious"
    Path(f"{ledger.path}-journal").unlink()
    ledger.spend(0.2)
    assert levels(reopened(ledger)) == [0.2]


def test_a_ledger_has_one_name(tmp_path):
    """Each name would have a journal of its own, and a crash would not be mended."""
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    other = tmp_path / "other"
    other.hardlink_to(ledger.path)
    for use in (lambda: ledger.spend(0.1), lambda: PrivacyLedger.open(other)):
        with pytest.raises(LedgerError, match="2 names"):
            use()
    other.unlink()
    ledger.spend(0.2)
    assert levels(ledger) == [0.2]


@pytest.mark.parametrize("name", [b"ledger", b"100%? #\xff\xfc;a=b", "ü\n".encode()])
def test_a_path_may_be_bytes_and_have_any_name(tmp_path, name):
    path = os.path.join(os.fsencode(tmp_path), name)
    PrivacyLedger(1.0, path=path).spend(0.1)
    assert levels(PrivacyLedger.open(path)) == [0.1]
    assert os.listdir(os.fsencode(tmp_path)) == [name]


def test_a_new_ledger_may_take_an_empty_file(tmp_path):
    path = tmp_path / "ledger"
    path.touch()
    with pytest.raises(LedgerError, match="can be made again"):
        PrivacyLedger.open(path)
    PrivacyLedger(1.0, path=path).spend(0.1)
    assert levels(PrivacyLedger.open(path)) == [0.1]


@pytest.mark.parametrize(
    "content", [b"text", b"\n", b"SQLite format 3\0", b"\0" * 4096]
)
def test_a_file_with_something_else_is_not_written_over(tmp_path, content):
    path = tmp_path / "ledger"
    path.write_bytes(content)
    with pytest.raises(FileExistsError, match="exists"):
        PrivacyLedger(1.0, path=path)
    with pytest.raises(LedgerError, match="ledger"):
        PrivacyLedger.open(path)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("change", ["CREATE TABLE mine (x)", "PRAGMA user_version=1"])
def test_another_database_is_not_written_over(tmp_path, change):
    path = tmp_path / "ledger"
    with database(path) as other:
        other.execute(change)
    content = path.read_bytes()
    with pytest.raises(FileExistsError):
        PrivacyLedger(1.0, path=path)
    with pytest.raises(LedgerError, match="must have the tables"):
        PrivacyLedger.open(path)
    assert path.read_bytes() == content


def test_a_pipe_is_no_place_for_a_ledger(tmp_path):
    os.mkfifo(tmp_path / "ledger")
    with pytest.raises(FileExistsError):
        PrivacyLedger(1.0, path=tmp_path / "ledger")
    for other in (tmp_path / "ledger", tmp_path):
        with pytest.raises(LedgerError, match="is not a file"):
            PrivacyLedger.open(other)


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
def as_any_user():
    """Run as a user who is not allowed everything, in a folder of theirs."""
    with ExitStack() as stack:
        if not os.getuid():
            os.seteuid(65534)
            stack.callback(os.seteuid, 0)
        yield Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))


def test_a_file_that_cannot_be_written_to_can_be_looked_at(as_any_user):
    ledger = PrivacyLedger(1.0, path=as_any_user / "ledger")
    ledger.spend(0.1)
    for target, mode in ((Path(ledger.path), 0o400), (as_any_user, 0o500)):
        before = target.stat().st_mode
        target.chmod(mode)
        assert levels(ledger) == levels(reopened(ledger)) == [0.1]
        with pytest.raises(PermissionError, match="is read-only"):
            ledger.spend(0.2)
        with pytest.raises(PermissionError, match="is read-only"):
            reopened(ledger).spend(0.2)
        target.chmod(before)
    Path(ledger.path).chmod(0o000)
    with pytest.raises(OSError, match="could not be read"):
        reopened(ledger)
    Path(ledger.path).chmod(0o600)
    ledger.spend(0.2)
    assert levels(reopened(ledger)) == [0.1, 0.2]


def test_who_waits_for_a_file_waits_as_long_as_it_takes(tmp_path, monkeypatch):
    monkeypatch.setattr(_file, "_PATIENCE", 0.001)
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    thread = threading.Thread(target=ledger.spend, args=(0.1,))
    with database(ledger.path) as other:
        other.execute("BEGIN IMMEDIATE")
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        other.execute("COMMIT")
    join(thread)
    assert levels(ledger) == [0.1]


# Who changes the file


@pytest.fixture
def filed(tmp_path):
    """Return the file of a ledger with two charges."""
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    ledger.spend(0.1, note="first")
    ledger.spend((0.2,), (0.3, 0.0, 0.1), note="second")
    return Path(ledger.path)


def held(path):
    """Return all that a ledger holds."""
    ledger = PrivacyLedger.open(path)
    return ledger.limit, ledger.releases, ledger.head


def test_no_byte_changes_what_it_holds(filed):
    """Some bytes are not used, or say how large the file was at some time."""
    before, content = held(filed), filed.read_bytes()
    noticed = 0
    for position in range(0, len(content), 1 if len(content) < 2000 else 13):
        changed = bytearray(content)
        changed[position] ^= 1 + position % 127
        filed.write_bytes(changed)
        try:
            assert held(filed) == before
        except LedgerError as error:
            assert str(filed) in str(error)  # noqa: PT017
            noticed += 1
    assert noticed > 100
    assert len(list(filed.parent.iterdir())) == 1


def test_no_byte_of_a_line_goes_unnoticed(filed):
    content = filed.read_bytes()
    with database(filed) as connection:
        lines = connection.execute("SELECT document || sha256 FROM lines").fetchall()
    for (line,) in lines:
        start = content.index(line.encode())
        for position in range(start, start + len(line), 3):
            changed = bytearray(content)
            changed[position] ^= 1 + position % 127
            filed.write_bytes(changed)
            with pytest.raises(LedgerError, match=re.escape(str(filed))):
                PrivacyLedger.open(filed)


@pytest.fixture(scope="module")
def filed_once(tmp_path_factory):
    """Return the file of a ledger, and what it holds."""
    path = tmp_path_factory.mktemp("filed") / "ledger"
    ledger = PrivacyLedger(1.0, path=path)
    ledger.spend(0.1)
    ledger.spend(0.2, note="second")
    return path, path.read_bytes(), held(path)


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_no_edit_changes_what_it_holds(filed_once, data):
    path, content, before = filed_once
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, min(start + 40, len(content))))
    path.write_bytes(
        content[:start] + data.draw(st.binary(max_size=10)) + content[stop:]
    )
    with contextlib.suppress(LedgerError):
        assert held(path) == before


def test_a_file_that_is_cut_off_is_noticed(filed):
    content = filed.read_bytes()
    for length in [*range(0, len(content), 97), len(content) - 1]:
        filed.write_bytes(content[:length])
        with pytest.raises(LedgerError, match=re.escape(str(filed))):
            PrivacyLedger.open(filed)
        assert filed.read_bytes() == content[:length]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM lines WHERE number = 2", "2 lines, which are not those that"),
        ("DELETE FROM lines", "0 lines, which are not those that"),
        ("DELETE FROM lines WHERE number = 1", "lines were removed"),
        ("UPDATE lines SET document = 5 WHERE number = 1", "line 2 of .* not an obj"),
        ("UPDATE lines SET document = x'00' WHERE number = 1", "line 2 of .* not JSON"),
        ("DELETE FROM lines WHERE number = 0", "lines were removed"),
        ("INSERT INTO lines SELECT 3, document, sha256 FROM lines LIMIT 1", "4 lines"),
        ("INSERT INTO lines SELECT -1, document, sha256 FROM lines LIMIT 1", "removed"),
        ("UPDATE lines SET number = 7 WHERE number = 2", "lines were removed"),
        ("UPDATE lines SET document = replace(document, '0.1', '0.0')", "was changed"),
        ("UPDATE lines SET document = document || ' ' WHERE number", "line 2 of"),
        ("UPDATE lines SET document = CAST(document AS BLOB)", "line 1 of"),
        ("UPDATE lines SET document = '[]'", "line 1 of .* is not an object"),
        ("UPDATE lines SET document = '{'", "line 1 of .* is not JSON"),
        ("UPDATE lines SET document = '1e999'", "line 1 of .* is not JSON"),
        (f"UPDATE lines SET document = '{'[' * 10**5}'", "line 1 of .* is not JSON"),
        ("UPDATE lines SET document = CAST(x'ff' AS TEXT)", "damaged"),
        ("UPDATE lines SET sha256 = 'x' WHERE number = 1", "line 2 of .* was changed"),
        ("DELETE FROM checkpoint", "lines were removed or added"),
        ("INSERT INTO checkpoint SELECT * FROM checkpoint", "removed or added"),
        ("UPDATE checkpoint SET lines = 2", "lines were removed or added"),
        ("UPDATE checkpoint SET lines = 3.5", "lines were removed or added"),
        ("UPDATE checkpoint SET sha256 = CAST(sha256 AS BLOB)", "removed or added"),
        ("ALTER TABLE lines ADD COLUMN more", "and nothing else"),
        ("DROP TABLE checkpoint", "and nothing else"),
        ("CREATE TABLE other (x)", "and nothing else"),
        ("CREATE VIEW other AS SELECT 1", "and nothing else"),
        ("CREATE INDEX other ON lines (sha256)", "and nothing else"),
        ("ANALYZE", "and nothing else"),
        (
            "CREATE TRIGGER forget AFTER INSERT ON lines BEGIN "
            "DELETE FROM lines WHERE number > 0; END",
            "and nothing else",
        ),
        ("PRAGMA journal_mode = WAL", "another journal mode"),
    ],
)
def test_changes_by_another_program_are_noticed(filed, statement, message):
    with database(filed) as connection:
        connection.execute(statement)
    with pytest.raises(LedgerError, match=message) as info:
        PrivacyLedger.open(filed)
    assert str(filed) in str(info.value)


def test_a_file_without_lines_is_no_ledger(filed):
    with database(filed) as connection:
        connection.execute("DELETE FROM lines")
        connection.execute("DELETE FROM checkpoint")
    with pytest.raises(LedgerError, match="has 0 lines"):
        PrivacyLedger.open(filed)


def test_two_lines_that_change_places_are_noticed(filed):
    with database(filed) as connection:
        for change in (
            "9 WHERE number = 1",
            "1 WHERE number = 2",
            "2 WHERE number = 9",
        ):
            connection.execute(f"UPDATE lines SET number = {change}")
    with pytest.raises(LedgerError, match="not those that its checkpoint"):
        PrivacyLedger.open(filed)


def test_a_damaged_page_is_noticed_whatever_it_holds(filed):
    with database(filed) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET rootpage = 2 WHERE rootpage = 3")
    with pytest.raises(LedgerError, match="damaged"):
        PrivacyLedger.open(filed)


def forge(path, change):
    """Change a ledger as someone does who knows how the hashes are made."""
    with database(path) as connection:
        rows = connection.execute("SELECT document FROM lines ORDER BY number")
        documents = [json.loads(text) for (text,) in rows]
        change(documents)
        sealed = [("", "")]
        for document in documents:
            sealed.append(_lines._seal(document, sealed[-1][1]))
        connection.execute("DELETE FROM lines")
        connection.executemany(
            "INSERT INTO lines VALUES (?, ?, ?)",
            [(number, *line) for number, line in enumerate(sealed[1:])],
        )
        connection.execute(
            "UPDATE checkpoint SET lines = ?, sha256 = ?",
            (len(documents), sealed[-1][1]),
        )


def forget_a_charge(documents):
    del documents[2]


def raise_the_budget(documents):
    documents[0]["epsilon"] = 10.0


@pytest.mark.parametrize("change", [forget_a_charge, raise_the_budget])
def test_who_rewrites_the_file_is_found_out_by_a_head_that_was_filed(filed, change):
    with database(filed) as connection:
        rows = connection.execute("SELECT sha256 FROM lines ORDER BY number")
        _, earlier, digest = (row[0] for row in rows)
    assert PrivacyLedger.open(filed, head=digest).head == digest
    assert PrivacyLedger.open(filed, head=earlier).head == digest
    forge(filed, change)
    PrivacyLedger.open(filed)  # a lie that nothing in the file shows
    with pytest.raises(LedgerError, match="rewritten since"):
        PrivacyLedger.open(filed, head=digest)


def set_in(number, **entries):
    """Return a change of a line."""
    return lambda documents: documents[number].update(entries)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_in(0, other=1), "line 1 of .* must be"),
        (lambda documents: documents[0].pop("id"), "line 1 of .* must be"),
        (set_in(0, id=5), "line 1 of .* must be"),
        (set_in(0, epsilon=1), "line 1 of .* must be"),
        (set_in(0, schema_version=2), "must have the schema"),
        (set_in(0, schema="other"), "must have the schema"),
        (lambda documents: documents.pop(0), "line 1 of .* must have the schema"),
        (set_in(0, epsilon=-1.0), "no valid budget: epsilon"),
        (set_in(0, epsilon=None), "no valid budget: epsilon"),
        (set_in(0, composition="other"), "no valid budget: composition"),
        (set_in(0, composition=[]), "no valid budget"),
        (set_in(1, other=1), "line 2 of .* must have the entries"),
        (lambda documents: documents[1].pop("note"), "line 2 of .* must have"),
        (set_in(2, index=1), "line 3 of .* must have the index 2"),
        (set_in(2, index=2.0), "line 3 of .* must have the index 2"),
        (set_in(1, note=5), "line 2 of .* must have a note"),
        (set_in(1, time=5), "line 2 of .* must have a note"),
        (set_in(1, releases=[]), "line 2 of .* must have a note"),
        (set_in(1, releases=5), "line 2 of .* holds no releases"),
        (set_in(1, releases="x"), "line 2 of .* holds no releases"),
        (set_in(1, releases=[{"risk": 0.1}]), "line 2 of .* holds no releases"),
        (lambda d: d[1]["releases"][0].update(new=1), r"unknown: \['new'\]"),
        (lambda d: d[1]["releases"][0].update(epsilon=-1), "holds no releases"),
        (lambda d: d[1]["releases"][0].update(loss=3), "holds no releases"),
        (lambda d: d[1]["releases"][0].update(guarantee="x"), "do not follow"),
    ],
)
def test_forged_lines_are_refused(filed, change, message):
    forge(filed, change)
    with pytest.raises(LedgerError, match=message):
        PrivacyLedger.open(filed)


def test_releases_that_do_not_go_together_are_refused(filed):
    group = Certificate(0.1, group_size=2).to_dict()
    forge(filed, set_in(2, releases=[group]))
    with pytest.raises(LedgerError, match="groups of the same size"):
        PrivacyLedger.open(filed)


def test_words_of_another_version_do_not_make_a_file_unreadable(filed):
    def reword(documents):
        documents[1]["releases"][0].update(version="0.0.1", guarantee="In other words.")

    forge(filed, reword)
    ledger = PrivacyLedger.open(filed)
    ledger.spend(0.1)
    assert levels(ledger) == levels(reopened(ledger)) == [0.1, 0.2, 0.3, 0.1]


def cut_off(path):
    with database(path) as connection:
        connection.execute("DELETE FROM lines WHERE number = 2")
        connection.execute(
            "UPDATE checkpoint SET lines = 2, "
            "sha256 = (SELECT sha256 FROM lines WHERE number = 1)"
        )


def put_back_by_copy(path):
    shutil.copy(path, f"{path}.copy")
    os.replace(f"{path}.copy", path)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (cut_off, LedgerError, "was cut off or rewritten while it was in use"),
        (lambda path: forge(path, raise_the_budget), LedgerError, "or rewritten while"),
        (put_back_by_copy, LedgerError, "was replaced while it was in use"),
        (lambda path: path.unlink(), FileNotFoundError, "No such file"),
        (lambda path: path.write_bytes(b""), LedgerError, "must have the tables"),
        (lambda path: path.write_bytes(b"text"), LedgerError, "is not a ledger"),
    ],
)
def test_a_file_that_changes_while_it_is_in_use_is_noticed(
    filed, change, error, message
):
    ledger = PrivacyLedger.open(filed)
    change(filed)
    with pytest.raises(error, match=message):
        ledger.spend(0.1)
    assert not any("-journal" in path.name for path in filed.parent.iterdir())


def test_a_file_that_is_replaced_while_its_lock_is_waited_for_is_noticed(
    filed, monkeypatch
):
    ledger = PrivacyLedger.open(filed)
    interrupt(monkeypatch, _file, "_begin", lambda: put_back_by_copy(filed))
    with pytest.raises(LedgerError, match="was replaced"):
        ledger.spend(0.1)


# Network file systems

MOUNTS = r"""21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:5 / /proc rw - proc proc rw
30 21 0:40 / /home rw,relatime shared:2 master:1 - nfs4 server:/home rw,vers=4.2
31 30 8:2 / /home/local rw - xfs /dev/sda2 rw
32 21 0:41 / /mnt/a\040b\134c rw - cifs //server/share rw
33 21 0:42 / /auto rw - autofs systemd-1 rw
34 33 0:43 / /auto rw - nfs server:/auto rw
35 21 0:44 / /ssh rw - fuse.sshfs me@server:/ rw
36 21 0:45 / /secret rw - fuse.gocryptfs /cipher rw
37 21 8:3 / /disk rw - fuseblk /dev/sdb1 rw
38 21 0:46 / /user rw - fuse grpcfuse rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/etc/ledger", None),
        ("/home/ledger", "nfs4"),
        ("/homeless/ledger", None),
        ("/home/local/a/ledger", None),
        ("/home/locals/ledger", "nfs4"),
        ("/mnt/a b\\c/ledger", "cifs"),
        ("/auto/ledger", "nfs"),
        ("/ssh/ledger", "fuse.sshfs"),
        ("/secret/ledger", None),
        ("/disk/ledger", None),
        ("/user/ledger", "fuse"),
        (r"\\server\share\ledger", "UNC path"),
        (r"\\?\UNC\server\share\ledger", "UNC path"),
        (r"\\?\C:\ledger", None),
        (r"C:\ledger", None),
    ],
)
def test_network_file_systems_are_known_by_their_mount(path, kind):
    assert _system.network_type(path, MOUNTS) == kind


def test_where_the_system_tells_of_no_mounts_only_shares_of_windows_are_known():
    assert _system.network_type("/home/ledger", "") is None
    assert _system.network_type(r"\\server\share\ledger", "") == "UNC path"


def test_a_ledger_on_a_network_file_system_is_refused(tmp_path, monkeypatch):
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    (tmp_path / "self").mkdir()
    mounted = f"9 1 0:9 / {tmp_path} rw - nfs server:/ rw\n"
    (tmp_path / "self" / "mountinfo").write_text(mounted)
    with monkeypatch.context() as patch:
        patch.setattr(_system, "_PROC", tmp_path)
        for use in (
            lambda: reopened(ledger),
            lambda: PrivacyLedger(1.0, path=tmp_path / "other"),
        ):
            with pytest.raises(ValueError, match=r"network file system \(nfs\)"):
                use()
    assert not (tmp_path / "other").exists()
    monkeypatch.setattr(_system, "_PROC", tmp_path / "none")
    ledger.spend(0.1)
    assert levels(reopened(ledger)) == [0.1]


# JSON lines


def exported(ledger):
    """Return a ledger as text."""
    stream = io.StringIO()
    ledger.to_jsonl(stream)
    return stream.getvalue()


def imported(text, **options):
    """Return a ledger that was text."""
    return PrivacyLedger.from_jsonl(io.StringIO(text), **options)


def charged(ledger):
    """Return a ledger with two charges."""
    loss = DominatingLoss("laplace", 0.1, excess=1e-7)
    ledger.spend(Certificate(0.1, relation="add-remove", loss=loss), note="ü\n\ud800")
    ledger.spend((0.1, 0.0, 0.1), Certificate(0.2, leaks=("a leak",)))
    return ledger


@every_composition
@pytest.mark.parametrize("in_file", [True, False])
def test_an_export_is_imported_with_the_same_head(make, budget, in_file, tmp_path):
    ledger = charged(make(**budget, gamma=0.5))
    path = tmp_path / "imported" if in_file else None
    again = imported(exported(ledger), path=path, head=ledger.head)
    assert again.path == (str(path) if in_file else None)
    for _ in range(2):
        assert again.head == ledger.head
        assert again.releases == ledger.releases
        assert again.limit == ledger.limit
        assert again.spent == ledger.spent
        assert exported(again) == exported(ledger)
    again.spend(0.01)  # a ledger of its own from now on
    assert len(again.releases) == len(ledger.releases) + 1
    assert imported(exported(again), head=ledger.head).head == again.head


def test_an_export_is_lines_of_json_with_a_chain_of_hashes(make):
    ledger = make(1.0)
    ledger.spend(0.3, note="mean age")
    lines = exported(ledger).splitlines()
    budget, charge, checkpoint = map(json.loads, lines)
    assert budget["schema"] == "skparisk.ledger"
    assert (budget["epsilon"], budget["composition"]) == (1.0, "basic")
    assert charge["note"] == "mean age"
    assert charge["releases"] == [Certificate(0.3).to_dict()]
    previous = ""
    for document in (budget, charge):
        stated = document.pop("sha256")
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        previous = hashlib.sha256((previous + text).encode()).hexdigest()
        assert stated == previous
    assert checkpoint == {"lines": 2, "sha256": ledger.head}
    assert ledger.head == previous


def test_an_export_is_a_new_file_of_its_owner(make, tmp_path):
    ledger = charged(make(1.0, gamma=0.5))
    for file in (tmp_path / "a.jsonl", os.fsencode(tmp_path / "b.jsonl")):
        ledger.to_jsonl(file)
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
        assert Path(os.fsdecode(file)).read_text() == exported(ledger)
        assert PrivacyLedger.from_jsonl(file).head == ledger.head
        with pytest.raises(FileExistsError):
            ledger.to_jsonl(file)


def test_an_import_does_not_write_over_anything(tmp_path):
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    with pytest.raises(FileExistsError):
        imported(exported(ledger), path=ledger.path)


@pytest.mark.parametrize("in_file", [True, False])
def test_an_export_that_was_changed_is_refused(tmp_path, in_file):
    path = tmp_path / "ledger" if in_file else None
    text = exported(charged(PrivacyLedger(1.0)))
    for position in range(0, len(text), 7):
        changed = chr(ord(text[position]) ^ (1 + position % 31))
        with pytest.raises(LedgerError, match="the export"):
            imported(text[:position] + changed + text[position + 1 :], path=path)
    assert list(tmp_path.iterdir()) == []


def test_lines_of_an_export_that_are_missing_or_moved_are_noticed():
    lines = exported(charged(PrivacyLedger(1.0))).splitlines(keepends=True)
    orders = {
        order
        for n in range(len(lines) + 1)
        for order in itertools.permutations(range(len(lines)), n)
    }
    for order in orders - {(0, 1, 2, 3)}:
        with pytest.raises(LedgerError, match="the export"):
            imported("".join(lines[number] for number in order))


def test_a_file_that_is_no_export_is_refused(filed):
    with pytest.raises(LedgerError, match=f"line 1 of {filed} is not JSON"):
        PrivacyLedger.from_jsonl(filed)


def test_an_export_that_was_rewritten_is_found_out_by_a_head(make, tmp_path):
    head = charged(make(1.0, gamma=0.5)).head
    with pytest.raises(LedgerError, match="the export has no line with the hash"):
        imported(exported(PrivacyLedger(1.0)), head=head, path=tmp_path / "imported")
    assert not (tmp_path / "imported").exists()


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
            _open.charge([ledger._book for ledger in ledgers], [Certificate(0.1)], "")
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
    monkeypatch.setattr(_file, "_here", _file._here)

    def fork():
        _file._before_fork()
        if in_child:
            _file._here.lock.release()
            _file._start_anew()
        else:
            _file._after_fork()

    interrupt(monkeypatch, _budget.Budget, "fits", fork)
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

    interrupt(monkeypatch, _budget.Budget, "fits", handler)
    ledger.spend(0.6)
    assert len(refused) == 3
    assert levels(ledger) == [0.6]
    assert levels(earlier) == []


def test_sqlite_is_imported_where_it_is_needed_only():
    code = (
        "import sys; from skparisk.ledger import PrivacyLedger\n"
        "with PrivacyLedger(1.0) as ledger: ledger.spend(0.1)\n"
        "assert 'sqlite3' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=900)
    assert done.returncode == 0


# Other processes

WORKERS = """
import os, subprocess, sys, time
from pathlib import Path
from skparisk.ledger import PrivacyLedger, _system
from skparisk.ledger import spend, suspend_open
from skparisk.ledger._open import refuse_without_level

_system._PROC = Path(os.environ["PROC"])

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
    pools = {
        method: multiprocessing.get_context(method).Pool(1)
        for method in ("spawn", "forkserver")
    }
    for method, pool in pools.items():
        found[f"{method}, before"] = pool.map(release, HOWS)
    with PrivacyLedger(1.0) as ledger:
        found["loky, inside"] = loky(tasks)
        found["threads, inside"] = threads([delayed(release)() for _ in range(3)])
        found["fork, inside"] = [forked(release, how) for how in HOWS]
        found["fork, by hand"] = forked(outcome, ledger.spend, 0.1)
        for method, pool in pools.items():
            found[f"{method}, inside"] = pool.map(release, HOWS)
            with multiprocessing.get_context(method).Pool(1) as new:
                found[f"{method}, new inside"] = new.map(release, HOWS)
        found["charged"] = len(ledger.releases)
    found["loky, after"] = loky(tasks)
    for method, pool in pools.items():
        found[f"{method}, after"] = pool.map(release, HOWS)
        pool.close()
        pool.join()
    found["fork, after"] = [forked(release, how) for how in HOWS]
    found["fork, by hand, after"] = forked(outcome, ledger.spend, 0.1)
    found["markers left"] = len(list(folder.iterdir()))
    print(json.dumps(found))
"""


@pytest.fixture
def temporary():
    """Return a folder with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield folder


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("proc", ["/proc", "/nowhere"])
def test_what_cannot_be_recorded_in_another_process_is_refused(
    tmp_path, temporary, proc
):
    """Also where the system does not tell of processes: their parents are known."""
    (tmp_path / "workers.py").write_text(WORKERS)
    (tmp_path / "main.py").write_text(PROCESSES)
    paths = [str(tmp_path), *sys.path]
    done = subprocess.run(
        [sys.executable, "main.py"],
        cwd=tmp_path,
        env=os.environ
        | {
            "PROC": proc,
            "PYTHONPATH": os.pathsep.join(paths),
            "TMPDIR": temporary,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    refused = "UnrecordedReleaseError"
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
        "spawn, before": outside,
        "spawn, inside": inside,
        "spawn, new inside": inside,
        "spawn, after": outside,
        "forkserver, before": outside,
        "forkserver, inside": inside,
        "forkserver, new inside": inside,
        "forkserver, after": outside,
        "charged": 3,
        "loky, after": outside,
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
    monkeypatch.setattr(_system.multiprocessing, "parent_process", lambda: parent)
    marker_folder.mkdir()
    with (marker_folder / f"{2**30}-x").open("xb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert _marker.Marker().in_an_ancestor()


def test_ancestors_are_known_as_far_as_the_system_tells(monkeypatch):
    assert str(os.getppid()) in _system.ancestors()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getppid", lambda: 2**30)
        assert _system.ancestors() == {str(2**30)}
    monkeypatch.setattr(_system, "_PROC", Path("/nowhere"))
    assert _system.ancestors() == {str(os.getppid())}


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

    interrupt(monkeypatch, _marker, "_try_lock", remove)
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
