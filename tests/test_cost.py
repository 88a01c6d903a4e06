"""Budgets are those of the paper where it is right, and never less than what is due."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from costs import STAFF, THEOREM_4, CustomCost, refuses
from hypothesis import given, settings
from hypothesis import strategies as st

from skparisk.core.claim import Assumption, Doubt, Leak, mint
from skparisk.cost import CompensationModel
from skparisk.exceptions import CalibrationError
from skparisk.mechanisms import LaplaceMechanism
from skparisk.papers import dandekar_cdf

LEVELS = [0.01, 0.1, 0.5, 1.0, 3.0, 20.0]


positive = st.floats(0.05, 20)


def linear(epsilon):
    return 200.0 * epsilon


def same_as(model):
    """Return the cost of one person of a model as a function."""
    return lambda e: model.minimum + model.compensation * math.exp(-model.rate / e)


def test_numbers_of_the_paper():
    assert STAFF.budget(0.5) == pytest.approx(74434.41, abs=0.005)
    level = STAFF.optimal_epsilon(0.5, law=THEOREM_4)
    assert round(level, 4) == 0.2741
    least = STAFF.budget_at_risk(level, 0.5, law=THEOREM_4)
    assert least == pytest.approx(37805.86, abs=0.005)
    level = STAFF.optimal_epsilon(0.5)
    assert round(level, 4) == 0.1556
    least = STAFF.budget_at_risk(level, 0.5)
    assert least == pytest.approx(43479.06, abs=0.005)
    for noise, expected in (
        (0.1, 0.0790469195),
        (0.5, 0.2741152836),
        (1, 0.4211620913),
    ):
        level = STAFF.optimal_epsilon(noise, law=THEOREM_4)
        assert level == pytest.approx(expected, abs=6e-11)


@pytest.mark.parametrize("rate", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("noise", LEVELS)
def test_optimum_is_the_root_of_equation_10(noise, rate):
    """To ten digits, whatever it costs, and for how many."""
    model = CompensationModel(3.0, n_people=7, rate=rate)
    level = model.optimal_epsilon(noise, law=THEOREM_4)
    with mp.workdps(40):
        c, e0 = mp.mpf(rate), mp.mpf(noise)

        def equation_10(e):
            return c / e - mp.log(1 + c * mp.expm1(e) / e**2) - c / e0

        below, above = (
            equation_10(level * (1 - 1e-10)),
            equation_10(level * (1 + 1e-10)),
        )
    assert below > 0 > above


@pytest.mark.parametrize("noise", [0.01, 0.1, 0.5, 1.0, 3.0, 7.0])
def test_optimum_of_the_exact_law_is_the_root_of_its_equation(noise):
    level = STAFF.optimal_epsilon(noise)
    with mp.workdps(40):

        def equation(e):
            return 1 / e - mp.log(1 + 2 / e**2) - 1 / mp.mpf(noise)

        below, above = equation(level * (1 - 1e-10)), equation(level * (1 + 1e-10))
    assert below > 0 > above


def test_exact_law_has_two_minima_at_a_large_level():
    """A search that walks downhill would stay in the wrong one."""
    for noise, expected in ((9.1, 0.318227), (9.2, 6.387933)):
        assert STAFF.optimal_epsilon(noise) == pytest.approx(expected, abs=1e-6)
        levels = np.linspace(0, noise, 4001)
        budgets = STAFF.budget_at_risk(levels, noise)
        turns = np.diff(np.sign(np.diff(budgets)))
        assert (turns > 0).sum() == 2
    levels = np.linspace(0, 7.4, 40001)[1:]
    budgets = STAFF.budget_at_risk(levels, 7.4)
    assert (np.diff(np.sign(np.diff(budgets))) > 0).sum() == 1


@settings(max_examples=25)
@given(positive, st.floats(0.01, 0.99))
def test_budget_at_risk_is_the_mixture_of_the_exact_law(noise, share):
    level = share * noise
    p = math.exp(-(noise - level) / 2) / 2
    expected = p * 5500 * math.exp(-1 / level) + (1 - p) * 5500 * math.exp(-1 / noise)
    assert STAFF.budget_at_risk(level, noise) == pytest.approx(
        100 * expected, rel=1e-13
    )


def mean_cost(noise, shift):
    """Return the mean over the noise of what the privacy loss costs, by integration."""
    e0 = mp.mpf(shift)

    def part(loss):
        return mp.exp((loss - e0) / 2) / 4 * mp.exp(-1 / loss) if loss else mp.mpf(0)

    between = mp.quad(part, [0, e0 / 4, e0 / 2, e0])
    return float(550_000 * (mp.exp(-1 / e0) / 2 + between))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("noise", [0.1, 0.5, 1.0, 3.0])
def test_exact_budget_is_at_least_the_mean_cost(noise):
    """At the worst pair, and at all others; a tenth less would not do."""
    least = STAFF.budget_at_risk(STAFF.optimal_epsilon(noise), noise)
    for shift in (0.1, 0.5, 0.9, 1.0):
        assert least > mean_cost(noise, shift * noise)
    budgets = STAFF.budget_at_risk(np.linspace(0, noise, 501), noise)
    assert budgets.min() > mean_cost(noise, noise) > 0.87 * least


def test_budget_of_the_paper_is_less_than_the_mean_cost():
    level = STAFF.optimal_epsilon(0.5, law=THEOREM_4)
    budget = STAFF.budget_at_risk(level, 0.5, law=THEOREM_4)
    assert mean_cost(0.5, 0.5) == pytest.approx(39675.25, abs=0.005)
    assert mean_cost(0.5, 0.5) - budget == pytest.approx(1869.39, abs=0.005)


def test_never_more_than_half_is_saved_with_the_exact_law():
    for noise in LEVELS:
        model = CompensationModel(1.0, minimum=0.5)
        least = model.budget_at_risk(model.optimal_epsilon(noise), noise)
        assert least >= (model.budget(0.0) + model.budget(noise)) / 2


def test_lemma_4_holds_up_to_a_level_only():
    def bends(noise, law=THEOREM_4, n_outputs=1):
        levels = np.linspace(noise / 1000, noise, 1001)
        budgets = STAFF.budget_at_risk(levels, noise, n_outputs, law)
        return (np.diff(budgets, 2) / budgets[-1]).min()

    for noise in (0.1, 0.3, 0.5):
        for n_outputs in (1, 2, 10):
            assert bends(noise, n_outputs=n_outputs) > -1e-13
        assert bends(noise, law="exact") < -1e-9
    assert bends(1.1) > -1e-13
    assert bends(1.11) < -1e-12


@settings(max_examples=25)
@given(st.floats(0, 23), st.floats(0, 1))
def test_outside_the_risk_the_full_compensation_is_counted(level, risk):
    budget = STAFF.budget_of((level, 0.0, risk))
    inside = (1 - risk) * STAFF.budget(level)
    assert budget == pytest.approx(inside + risk * 550_000, rel=1e-14)
    assert STAFF.budget_of((level, 0.0, 0.0)) == STAFF.budget(level)
    assert STAFF.budget_of((level, 0.0, 1.0)) == 550_000


def test_budget_of_a_release_is_that_of_its_guarantee():
    full = STAFF.budget(math.inf)
    assert STAFF.budget_of(0.5) == STAFF.budget(0.5)
    assert STAFF.budget_of((0.5, 0.01)) == STAFF.budget_of((0.5, 0.0, 0.01))
    assert STAFF.budget_of((0.5, 0.01, 0.1)) == STAFF.budget_of((0.5, 0.0, 0.11))
    assert STAFF.budget_of(LaplaceMechanism(1.0, 0.5)) == STAFF.budget(0.5)
    assert STAFF.budget_of(math.inf) == full
    assert STAFF.budget_of((0.5, 0.7, 0.7)) == full
    failing = mint(epsilon=0.5, delta=0.01, risk=0.02, failure_prob=0.04)
    expected = STAFF.budget_of((0.5, 0.0, 0.07))
    assert STAFF.budget_of(failing) == pytest.approx(expected, rel=1e-15)
    plain = mint(epsilon=0.5)
    for leak in (Leak.SEEDED_NOISE, Leak.CHOSEN):
        assert STAFF.budget_of(plain.weaken(leaks=[leak])) == full
    assert STAFF.budget_of(plain.weaken(doubts=[Doubt.THIN])) == full
    declared = plain.weaken(assumptions=[Assumption.DECLARED_SENSITIVITY])
    assert STAFF.budget_of(declared) == STAFF.budget(0.5)


@pytest.mark.parametrize(
    "model",
    [STAFF, CompensationModel(2.0, n_people=3, minimum=0.5, rate=0.3)],
    ids=["plain", "general"],
)
def test_custom_cost_equals_the_built_in_one(model):
    custom = CustomCost(same_as(model), n_people=model.n_people)
    for noise in (0.05, 0.5, 3.0):
        levels = np.linspace(0, noise, 50)[1:]
        np.testing.assert_allclose(
            custom.budget(levels), model.budget(levels), rtol=1e-14
        )
        for law, n_outputs in (("exact", 1), (THEOREM_4, 1), (THEOREM_4, 3)):
            words = (noise, n_outputs, law)
            assert custom.optimal_epsilon(*words) == pytest.approx(
                model.optimal_epsilon(*words), rel=1e-10
            )
            np.testing.assert_allclose(
                custom.budget_at_risk(levels, *words),
                model.budget_at_risk(levels, *words),
                rtol=1e-14,
            )
    words = {"noise_epsilon": 0.5, "confidence": 0.5}
    budget = model.budget(0.4)
    ours, theirs = (m.epsilon_range(budget, 9, **words) for m in (custom, model))
    assert ours == pytest.approx(theirs, rel=1e-14)


def test_optimum_of_costs_that_are_not_smooth_or_not_convex():
    cases = {
        "a kink": (lambda e: max(0.0, e - 0.3), 0.3),
        "a jump": (lambda e: float(e > 0.4), 0.4),
        "a jump at the end": (lambda e: float(e >= 1.0), 1.0),
        "steep at zero": (lambda e: math.sqrt(e), 0.0),
        "constant": (lambda e: 3, 1.0),
        "zero": (lambda e: 0, 1.0),
    }
    for cost, expected in cases.values():
        level = CustomCost(cost).optimal_epsilon(1.0)
        assert level == pytest.approx(expected, rel=1e-10, abs=2e-9)
        assert 0 < level <= 1
    # (1 - e) exp(e / 2) falls from 0 on; (1 - e**2) exp(e / 2) has its top at √5 - 2.
    assert CustomCost(linear).optimal_epsilon(1.0) == pytest.approx(0.0, abs=2e-9)
    square = CustomCost(lambda e: e * e).optimal_epsilon(1.0)
    assert square == pytest.approx(math.sqrt(5) - 2, rel=1e-10)


@settings(max_examples=50)
@given(
    st.floats(0.05, 3),
    st.floats(0.05, 1),
    st.floats(1e-3, 0.999),
    st.floats(0.01, 10),
    st.floats(0.1, 50),
)
def test_range_ends_attain_the_error_and_the_budget(
    noise, confidence, share, sensitivity, max_error
):
    """Rounded inward, and by no more than rounding."""
    model = CompensationModel(5.0, n_people=4, minimum=0.3, rate=0.7)

    def cost(level):
        at, otherwise = model.budget([level, noise])
        risk = 1 - confidence
        return (1 - risk) * at + risk * otherwise

    low = sensitivity / max_error
    budget = cost(low) + share * (cost(math.inf) - cost(low))
    least, most = model.epsilon_range(
        budget,
        max_error,
        noise_epsilon=noise,
        confidence=confidence,
        sensitivity=sensitivity,
    )
    tolerated = Fraction(max_error)
    assert Fraction(sensitivity) <= tolerated * Fraction(least)
    below = Fraction(math.nextafter(least, 0))
    assert Fraction(sensitivity) > tolerated * below
    assert cost(most) == pytest.approx(budget, rel=1e-12)
    assert cost(most) <= budget
    assert cost(most * (1 + 1e-9)) > budget or most > 1e3


@pytest.mark.parametrize(("noise", "confidence"), [(0.5, 0.6), (1.0, 0.9), (0.2, 1.0)])
def test_range_is_equation_11(noise, confidence):
    budget = 74000.0
    found = STAFF.epsilon_range(budget, 4, noise_epsilon=noise, confidence=confidence)
    with mp.workdps(30):
        rest = (1 - mp.mpf(confidence)) * 550_000 * mp.exp(-1 / mp.mpf(noise))
        high = 1 / mp.log(confidence * mp.mpf(550_000) / (budget - rest))
    assert found == (0.25, pytest.approx(float(high), rel=1e-13))


def test_range_without_a_level_says_which_budget_would_do():
    words = {"noise_epsilon": 0.7, "confidence": 0.6}
    with pytest.raises(CalibrationError) as error:
        STAFF.epsilon_range(50_000, 2, **words)
    best = 0.6 * STAFF.budget(0.5) + 0.4 * STAFF.budget(0.7)
    assert error.value.target == 50_000
    assert error.value.best == pytest.approx(best, rel=1e-15)
    assert str(error.value) == (
        f"budget must be at least {error.value.best!r}, the cost of the lowest level "
        "with max_error=2.0, which is 0.5; got 50000.0."
    )
    low, high = STAFF.epsilon_range(error.value.best, 2, **words)
    assert low == 0.5 == pytest.approx(high, rel=1e-14)
    assert high >= 0.5
    with pytest.raises(CalibrationError):
        STAFF.epsilon_range(error.value.best * (1 - 1e-12), 2, **words)


def test_range_has_no_upper_end_if_the_budget_is_enough():
    words = {"noise_epsilon": 0.7, "confidence": 0.6}
    enough = 0.6 * STAFF.budget(math.inf) + 0.4 * STAFF.budget(0.7)
    levels = STAFF.epsilon_range(enough * (1 + 1e-15), 2, **words)
    assert levels == (0.5, math.inf)
    assert STAFF.epsilon_range(enough * (1 - 1e-12), 2, **words)[1] < math.inf
    # No finite level is too dear, an infinite one is.
    steps = CustomCost(lambda e: 2.0 if e == math.inf else 1.0)
    assert 1e307 < steps.epsilon_range(1.5, 2, **words)[1] < math.inf
    # Least levels that are no floats any more.
    huge = {"noise_epsilon": 1.0, "confidence": 1.0, "sensitivity": 1e300}
    assert STAFF.epsilon_range(1e9, 1e-300, **huge)[0] == math.inf
    tiny = {**huge, "sensitivity": 1e-300}
    assert STAFF.epsilon_range(1e9, 1e300, **tiny)[0] == 5e-324


@pytest.mark.parametrize("power", [16, 400, 5000])
def test_more_people_than_a_float_counts_are_refused(power):
    """Their number is not shown, as it may have more digits than Python writes."""
    CompensationModel(1.0, n_people=2**53)
    with pytest.raises(ValueError, match=r"n_people must be at most 2\*\*53, 9007"):
        CompensationModel(1.0, n_people=10**power)


def test_a_compensation_that_cannot_be_added_up_is_refused():
    CompensationModel(1e308, minimum=5e307)
    for changes in ({"n_people": 2}, {"minimum": 1e308}):
        with pytest.raises(ValueError, match="what is to be paid in all, must be fini"):
            CompensationModel(1e308, **changes)


def test_costs_that_are_none_are_refused():
    cases = {
        "per_person must return one cost for each level, got an array of shape (3, 1) "
        "for 3 levels.": lambda e: np.ones(1),
        "cost must be a number >= 0, and finite at a finite privacy level, got nan at "
        "1.0.": lambda e: math.nan,
        "cost must be a number >= 0, and finite at a finite privacy level, got inf at "
        "1.0.": lambda e: math.inf,
        "cost must be a number >= 0, and finite at a finite privacy level, got -1.0 at "
        "1.0.": lambda e: 1 if e < 0.7 else -1,
        "cost must not fall as the privacy level rises, got 2.0 at 0.5 and 1.0 at "
        "1.0.": lambda e: 1 / e,
    }
    for expected, cost in cases.items():
        refuses(lambda cost=cost: CustomCost(cost).budget([1.0, 0.5, 0.5]), expected)
    falling = CustomCost(lambda e: 1 / e)
    for call in (
        lambda: falling.optimal_epsilon(1.0),
        lambda: falling.budget_at_risk(0.5, 1.0),
        lambda: falling.budget_of((0.5, 0.0, 0.1)),
        lambda: falling.epsilon_range(9, 1, noise_epsilon=2.0, confidence=0.5),
    ):
        with pytest.raises(ValueError, match="cost must not fall"):
            call()


def ranged(budget=1, max_error=1, confidence=0.5, **words):
    known = {"noise_epsilon": 1.0, "confidence": confidence}
    return STAFF.epsilon_range(budget, max_error, **known, **words)


ERRORS = {
    "compensation must be a finite number above 0, got 0.": (
        lambda: CompensationModel(0)
    ),
    "n_people must be a whole number >= 1, got 0.": lambda: CompensationModel(1.0, 0),
    "minimum must be a number in [0, inf), got -1.": (
        lambda: CompensationModel(1.0, minimum=-1)
    ),
    "rate must be a finite number above 0, got 0.": (
        lambda: CompensationModel(1.0, rate=0)
    ),
    "epsilon must be in [0, inf], got -1.": lambda: STAFF.budget(-1),
    "epsilon must be in [0, inf], got nan.": lambda: STAFF.budget_at_risk(math.nan, 1),
    "noise_epsilon must be a finite number above 0, got 0.": (
        lambda: STAFF.budget_at_risk(0.5, 0)
    ),
    "noise_epsilon must be a finite number above 0, got inf.": (
        lambda: STAFF.optimal_epsilon(math.inf)
    ),
    "law must be 'exact' or an object with a risk, such as "
    "skparisk.papers.DandekarTheorem4(), got 'gamma'.": (
        lambda: STAFF.optimal_epsilon(1.0, law="gamma")
    ),
    "n_outputs must be 1 with law='exact', because the worst case for several "
    "outputs is not known, got 2.": lambda: STAFF.budget_at_risk(0.5, 1.0, 2),
    "n_outputs must be a whole number >= 1, got 0.": (
        lambda: STAFF.optimal_epsilon(1.0, 0, THEOREM_4)
    ),
    "budget must be a finite number above 0, got 0.": lambda: ranged(0),
    "max_error must be a finite number above 0, got 0.": lambda: ranged(1, 0),
    "confidence must be a number in (0, 1], got 0.": lambda: ranged(confidence=0),
    "sensitivity must be a finite number above 0, got 0.": (
        lambda: ranged(sensitivity=0)
    ),
}


@pytest.mark.sampled(20)
@pytest.mark.parametrize("expected", ERRORS)
def test_parameters_out_of_range_are_refused(expected):
    refuses(ERRORS[expected], expected)


def test_minimum_of_several_outputs_is_unique():
    """What a stationary level of the noise is rises with the level."""
    for n_outputs in (1, 2, 5, 30):
        levels = np.geomspace(0.01, 20 + 4 * n_outputs, 4001)
        levels = levels[dandekar_cdf(levels, n_outputs) < 1 - 1e-6]
        middle = (levels[1:] + levels[:-1]) / 2
        below = dandekar_cdf(levels, n_outputs)
        ratio = (below[1:] + below[:-1]) / 2 / np.diff(below) * np.diff(levels)
        stationary = np.log1p(ratio / middle**2) - 1 / middle
        assert (np.diff(stationary) > 0).all()
