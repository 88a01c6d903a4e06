"""What a ledger charges, refuses and records."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from ledgers import levels

from skparisk.core.claim import mint
from skparisk.exceptions import BudgetExceededError, IncompatibleError
from skparisk.ledger import PrivacyLedger, spend


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
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is BudgetExceededError
    assert (str(copied), vars(copied)) == (str(error), vars(error))
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
        (mint(epsilon=0.1, risk=0.03, failure_prob=0.02), True),
        (mint(epsilon=0.1, risk=0.03, failure_prob=0.03), False),
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
    release = mint(epsilon=0.1, risk=0.03, failure_prob=0.03)
    with pytest.raises(BudgetExceededError):
        PrivacyLedger(1.0, gamma=0.05).spend(release)
    PrivacyLedger(1.0, gamma=0.06).spend(release)


def test_a_release_of_which_nothing_is_certain_is_not_private():
    ledger = PrivacyLedger(1.0)
    ledger.spend((0.1, 0.0, 0.9))
    assert ledger.spent.private
    ledger.spend((0.1, 0.0, 0.9))
    assert not ledger.spent.private
    assert "spent: epsilon 0.2, any risk, NOT private" in str(ledger)
    ledger.spend((0.1, 0.0, 1.0))
    assert "epsilon 0.1, any risk, NOT private" in str(ledger)


def test_neighbors_of_another_relation_are_refused(make):
    ledger = make(math.inf)
    for limited in (ledger, make(1.0)):
        limited.spend(mint(epsilon=0.1, relation="replace-one"))
        limited.spend(0.1)
        with pytest.raises(IncompatibleError, match="relation"):
            limited.spend(mint(epsilon=0.1, relation="add-remove"))
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


@pytest.mark.sampled(20)
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


def test_a_limit_that_is_not_enforced_is_not_shown(make):
    ledger = make(math.inf, 1e-5, 0.1, composition="advanced")
    ledger.spend((0.1, 0.5, 0.5))
    assert ledger.limit == (math.inf, 1.0, 1.0)
    assert repr(ledger).startswith("PrivacyLedger(epsilon=inf, composition='advanced'")
    assert "budget: no limit: releases are recorded only" in str(ledger)
