"""Releases together: no rule says less than what holds, and each what it should."""

import itertools
import math
import random
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import certificates
import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, special, stats

from skparisk.certificate import METHODS, Certificate, DominatingLoss
from skparisk.composition import (
    _exact,
    approximate,
    compose_advanced,
    compose_basic,
    compose_exact,
    compose_filter,
    compose_laplace,
    compose_parallel,
    group_privacy,
    post_process,
    transfer,
)
from skparisk.exceptions import (
    CalibrationError,
    HeuristicGuaranteeWarning,
    IncompatibleError,
)
from skparisk.papers import compose_privacy_at_risk, dandekar_confidence
from skparisk.privacy_loss import (
    gaussian_delta,
    gaussian_delta_epsilon,
    gaussian_loss_exceedance,
)

DELTA = 1e-5
# Dandekar's epsilon at the optimum of the cost, by the level of the noise.
OPTIMA = {0.1: 0.0790469195, 0.5: 0.2741152836, 1.0: 0.4211620913}
# Level of the noise, n; basic, Dwork-Roth, lecture, Theorem 3, preprint's, exact.
TABLE = [
    (0.1, 10, 1, 1.62259805, 1.56738550, 1.55244575, 1.59053084, 0.98996231),
    (0.1, 100, 10, 5.85023509, 5.29810966, 5.14871215, 5.52956303, 4.22034733),
    (0.1, 300, 30, 11.46641822, 9.81004193, 9.36184939, 10.50440202, 8.15998927),
    (0.5, 50, 25, 33.18338283, 23.08831762, 20.55162038, 25.93489204, 17.47391337),
    (0.5, 300, 150, 138.86464401, 78.29425277, 63.07406934, 95.37369928, 63.98179709),
    (1.0, 100, 100, 219.81344197, 94.19697485, 75.62016252, 138.37550043, 68.25295106),
    (1.0, 300, 300, 598.59745535, 221.74805399, 166.017617, 354.28363075, 167.2673063),
]


def laplace(shift, excess=0.0, **changes):
    """Return a release with Laplace noise that is private for every pair."""
    loss = DominatingLoss("laplace", shift, excess)
    return Certificate(**({"epsilon": shift + excess, "loss": loss} | changes))


def gaussian(shift, delta=1e-6, **changes):
    """Return a release with Gaussian noise that is private for every pair."""
    loss = DominatingLoss("gaussian", shift)
    epsilon = gaussian_delta_epsilon(delta or 1e-6, shift)
    values = {"epsilon": epsilon, "delta": delta, "loss": loss}
    return Certificate(**(values | changes))


def exact_level(releases):
    return compose_exact(releases, delta=DELTA).epsilon


def at_risk(noise_epsilon, n, version="journal", delta=DELTA):
    """Return what Dandekar's Theorem 3 claims at the optimum of the cost."""
    epsilon = OPTIMA[noise_epsilon]
    risk = 1 - dandekar_confidence(epsilon, noise_epsilon)
    releases = [(epsilon, risk, noise_epsilon)] * n
    with pytest.warns(HeuristicGuaranteeWarning):
        return compose_privacy_at_risk(releases, delta=delta, version=version)


RULES = {
    "basic": compose_basic,
    "owner": partial(compose_parallel, partition="owner"),
    "position": partial(compose_parallel, partition="position"),
    "value": partial(compose_parallel, partition="value"),
    "lecture": partial(compose_advanced, delta=DELTA),
    "dwork-roth": partial(compose_advanced, delta=DELTA, form="dwork-roth"),
    "laplace": partial(compose_laplace, delta=DELTA),
    "filter": partial(compose_filter, delta=DELTA),
    "filter, no delta": partial(compose_filter, delta=0.0),
    "exact": partial(compose_exact, delta=DELTA),
    "exact, no delta": partial(compose_exact, delta=0),
}
# What each rule is called in the result.
NAMES = {
    "owner": "parallel",
    "position": "parallel",
    "value": "parallel",
    "lecture": "advanced",
} | {
    "filter, no delta": "filter",
    "exact, no delta": "exact",
}

# --- A second way: laws of the loss, each value moved to the nearest grid point -------


def laplace_cdf(shift):
    def cdf(c):
        inside = 0.5 * np.exp((np.clip(c, -shift, shift) - shift) / 2)
        return np.where(c < -shift, 0.0, np.where(c < shift, inside, 1.0))

    return cdf, -shift, shift


def gaussian_cdf(shift):
    mean = shift**2 / 2
    return stats.norm(mean, shift).cdf, mean - 9 * shift, mean + 9 * shift


def two_point_cdf(level):
    low = special.expit(-level)
    return lambda c: np.where(c < -level, 0, np.where(c < level, low, 1)), -level, level


def sum_of_losses(laws, step):
    """Return losses and probabilities of the sum of (law, n)."""
    first, masses = 0, []
    for (cdf, low, high), n in laws:
        points = np.arange(round(low / step) - 1, round(high / step) + 2)
        cells = np.append(points - 0.5, points[-1] + 0.5) * step
        masses.append((np.diff(cdf(cells)), n))
        first += n * points[0]
    size = sum(n * (len(mass) - 1) for mass, n in masses) + 1
    total = np.prod([np.fft.rfft(mass, 2 * size) ** n for mass, n in masses], axis=0)
    return (first + np.arange(size)) * step, np.fft.irfft(total, 2 * size)[:size]


def level_of(losses, probabilities, delta):
    """Return where the hockey-stick divergence is delta."""

    def too_much(epsilon):
        above = losses > epsilon
        gaps = -np.expm1(epsilon - losses[above])
        return float(gaps @ probabilities[above]) - delta

    return optimize.brentq(too_much, 0.0, losses[-1], xtol=1e-10)


# --- The table of reference values ----------------------------------------------------


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]}-{row[1]}")
def test_every_rule_has_its_reference_value(row):
    noise, n, basic, dwork_roth, lecture, theorem_3, preprint, exact = row
    releases = [laplace(noise)] * n
    found = [
        compose_basic(releases),
        compose_advanced(releases, delta=DELTA, form="dwork-roth"),
        compose_advanced(releases, delta=DELTA),
        at_risk(noise, n),
        at_risk(noise, n, "preprint"),
    ]
    expected = [basic, dwork_roth, lecture, theorem_3, preprint]
    np.testing.assert_allclose([g.epsilon for g in found], expected, rtol=5e-9)
    assert compose_exact(releases, delta=DELTA).epsilon == pytest.approx(
        exact, rel=5e-8
    )
    assert exact < compose_laplace(releases, delta=DELTA).epsilon <= min(basic, lecture)


@pytest.mark.parametrize(("noise", "n"), [(0.1, 3116), (0.5, 257), (1.0, 277)])
def test_theorem_3_is_false_from_some_number_of_releases_on(noise, n):
    fewer, enough = (
        at_risk(noise, m).epsilon - exact_level([laplace(noise)] * m)
        for m in (n - 1, n)
    )
    assert fewer > 0  # the exact level is rounded up, so there it is not below
    assert enough < -1e-4  # and here by more than its error


def test_the_counterexample_is_as_the_caveat_says():
    claim = at_risk(0.5, 300)
    exact = compose_exact([laplace(0.5)] * 300, delta=DELTA).epsilon
    assert f"{claim.epsilon:.5f}" in claim.void_reasons[0]
    assert f"{exact:.5f}" in claim.void_reasons[0]


# --- The exact rule -------------------------------------------------------------------


@pytest.mark.parametrize(("shift", "n"), [(0.1, 10), (0.5, 50), (1.0, 257), (8.0, 5)])
def test_exact_level_of_laplace_noise_by_another_convolution(shift, n):
    losses, probabilities = sum_of_losses([(laplace_cdf(shift), n)], shift / 1000)
    for delta, error in ((1e-9, 2e-5), (1e-7, 5e-7), (1e-5, 2e-7), (0.1, 2e-7)):
        found = compose_exact([laplace(shift)] * n, delta=delta).epsilon
        expected = level_of(losses, probabilities, delta)
        assert found == pytest.approx(expected, rel=error)


@pytest.mark.parametrize("shift", [0.01, 1.0, 30.0])
def test_exact_level_of_one_release_is_the_closed_form(shift):
    found = compose_exact([laplace(shift)], delta=1e-3).epsilon
    assert found == pytest.approx(shift + 2 * math.log1p(-1e-3), rel=1e-6)
    assert compose_exact([gaussian(shift)], delta=1e-3).epsilon == pytest.approx(
        gaussian_delta_epsilon(1e-3, shift), rel=1e-6
    )


def test_exact_level_of_two_releases_by_quadrature():
    a, b = mpmath.mpf("0.7"), mpmath.mpf("0.4")

    def delta_of(e):  # one release with shift b, any real level
        return 1 - (mpmath.exp(e) if e < -b else mpmath.exp(min(e - b, 0) / 2))

    def delta_of_both(e):
        density = lambda c: mpmath.exp((c - a) / 2) / 4 * delta_of(e - c)  # noqa: E731
        kinks = sorted({-a, a, *(k for k in (e - b, e + b) if -a < k < a)})
        atoms = (delta_of(e - a) + mpmath.exp(-a) * delta_of(e + a)) / 2
        return atoms + mpmath.quad(density, kinks)

    for delta in (1e-4, 1e-2, 0.1):
        found = compose_exact([laplace(0.7), laplace(0.4)], delta=delta).epsilon
        assert delta_of_both(mpmath.mpf(found)) <= delta
        assert delta_of_both(mpmath.mpf(found * (1 - 1e-6))) > delta


@pytest.mark.parametrize("n", [2, 60, 256, 512, 600])
def test_exact_level_of_gaussian_noise_is_that_of_one_release(n):
    found = compose_exact([gaussian(0.2)] * n, delta=DELTA).epsilon
    expected = gaussian_delta_epsilon(DELTA, 0.2 * math.sqrt(n))
    assert expected <= found <= expected * (1 + 1e-6)


@pytest.mark.parametrize(("level", "n"), [(0.1, 7), (0.1, 200), (1.0, 40)])
@pytest.mark.parametrize(("own", "delta"), [(0, DELTA), (1e-8, DELTA), (1e-4, 0.03)])
def test_exact_level_of_numbers_alone_is_that_of_randomized_response(
    level, n, own, delta
):
    def delta_of(epsilon):  # Kairouz, Oh, Viswanath 2017
        heads = np.arange(n + 1)
        losses = (2 * heads - n) * level
        gaps = -np.expm1(np.minimum(epsilon - losses, 0))
        inside = gaps @ stats.binom.pmf(heads, n, special.expit(level))
        return 1 - (1 - own) ** n * (1 - inside)

    found = compose_exact([(level, own)] * n, delta=delta).epsilon
    assert delta_of(found) <= delta
    assert delta_of(found * (1 - 1e-5)) > delta


def test_exact_level_of_different_releases():
    laws = [(laplace_cdf(0.5), 12), (gaussian_cdf(0.3), 9), (two_point_cdf(0.25), 7)]
    releases = [laplace(0.5)] * 12 + [gaussian(0.3)] * 9 + [0.25] * 7
    found = compose_exact(releases, delta=DELTA).epsilon
    expected = level_of(*sum_of_losses(laws, 0.25 / 250), DELTA)
    assert found == pytest.approx(expected, rel=1e-6)


def test_exact_level_of_many_different_levels():
    shifts = np.linspace(0.05, 0.15, 21)
    laws = [(laplace_cdf(a), 1) for a in shifts]
    found = compose_exact([laplace(float(a)) for a in shifts], delta=DELTA).epsilon
    assert found == pytest.approx(level_of(*sum_of_losses(laws, 1e-5), DELTA), rel=1e-6)


def test_exact_level_agrees_with_dp_accounting():
    single = pld.from_laplace_mechanism(10, value_discretization_interval=2e-5)
    expected = single.self_compose(100).get_epsilon_for_delta(DELTA)
    found = compose_exact([laplace(0.1)] * 100, delta=DELTA).epsilon
    assert found == pytest.approx(expected, rel=1e-7)


def test_without_delta_levels_add_up_exactly():
    assert compose_exact([laplace(0.1)] * 3 + [0.4], delta=0).epsilon == 0.7
    with pytest.raises(CalibrationError, match="no level achieves delta") as caught:
        compose_exact([laplace(0.1), gaussian(0.2, delta=1e-6)], delta=0)
    assert caught.value.target == 0
    assert caught.value.best == 1e-6


def test_exact_level_below_the_precision_is_the_sum_of_levels():
    tiny = compose_exact([laplace(0.1)] * 300, delta=1e-14)
    assert tiny.epsilon == 30.0
    small = compose_exact([laplace(0.1)] * 300, delta=1e-11)
    assert small.epsilon < 16
    with pytest.raises(CalibrationError):
        compose_exact([gaussian(0.2)] * 300, delta=1e-14)


def test_exact_level_of_laws_too_large_for_the_grid_is_the_sum_of_levels():
    assert compose_exact([laplace(900.0)] * 2, delta=DELTA).epsilon == 1800
    assert compose_exact([laplace(1e-5)] * 2, delta=1e-12).epsilon == 2e-5
    with pytest.raises(CalibrationError):
        compose_exact([gaussian(900.0, delta=1e-4, epsilon=1e6)], delta=DELTA)


def test_exact_level_does_not_take_the_delta_of_a_known_law():
    releases = [gaussian(0.2, delta=1e-5)] * 10
    assert compose_exact(releases, delta=1e-6).epsilon < 6
    assert compose_exact([gaussian(0.2)], delta=0.5).epsilon == 0


def test_excess_is_added_to_the_level():
    plain = compose_exact([laplace(0.1)] * 50, delta=DELTA).epsilon
    coarse = compose_exact([laplace(0.1, excess=0.01)] * 50, delta=DELTA).epsilon
    assert coarse == pytest.approx(plain + 0.5, rel=1e-12)
    laplace_rule = compose_laplace([laplace(0.1, excess=0.01)] * 300, delta=DELTA)
    without = compose_laplace([laplace(0.1)] * 300, delta=DELTA)
    assert laplace_rule.epsilon == pytest.approx(without.epsilon + 3.0, rel=1e-12)


def test_a_level_below_that_of_the_law_counts():
    tight = laplace(0.1, excess=0.01, epsilon=0.1)
    assert compose_exact([tight] * 3, delta=0).epsilon == 0.3
    assert compose_laplace([tight] * 3, delta=DELTA).epsilon == 0.3
    with_delta = laplace(0.1, excess=0.01, epsilon=0.05, delta=0.1)
    assert compose_exact([with_delta] * 3, delta=0).epsilon == 0.33


def test_risk_over_noise_of_a_known_law_is_not_needed():
    pointwise = laplace(1.6, epsilon=0.6, risk=0.7, randomness="explicit")
    for rule in (compose_exact, compose_laplace):
        together = rule([pointwise] * 2, delta=DELTA)
        assert together.risk == 0
        assert together.epsilon > 3.19
    assert compose_exact([pointwise], delta=0).epsilon == 1.6
    pointwise = gaussian(0.5, delta=0.0, epsilon=1.0, risk=0.05, randomness="explicit")
    assert compose_exact([pointwise], delta=0.05).epsilon < 1
    # A share of samples may fail for it, so the law is not used, and both stay.
    doubtful = replace(pointwise, failure_prob=0.01)
    together = compose_exact([doubtful], delta=DELTA)
    assert together.risk == 0.05
    assert together.failure_prob == 0.01
    assert together.epsilon == pytest.approx(1, rel=1e-4)
    doubtful = laplace(1.0, risk=0.05, failure_prob=0.01, randomness="explicit")
    with pytest.raises(IncompatibleError):
        compose_laplace([doubtful], delta=DELTA)


def test_risk_over_pairs_stays():
    release = laplace(0.1, risk=0.01, randomness="implicit")
    for rule in RULES.values():
        together = rule([release] * 4)
        assert together.risk in (0.01, 0.04)
        assert together.randomness == "implicit"


def test_missing_dp_accounting_is_named(monkeypatch):
    _exact._distribution.cache_clear()
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    with pytest.raises(ImportError, match=r'pip install "skparisk\[accounting\]"'):
        compose_exact([laplace(0.1)], delta=DELTA)
    assert compose_exact([laplace(0.1)] * 2, delta=0).epsilon == 0.2


# --- All rules ------------------------------------------------------------------------


@pytest.mark.parametrize("name", RULES)
def test_no_release_has_level_zero(name):
    nothing = RULES[name]([])
    assert nothing.epsilon == nothing.risk == nothing.n_releases == 0
    assert nothing.method == NAMES.get(name, name)
    assert nothing.method in METHODS


@pytest.mark.parametrize("name", RULES)
def test_what_is_void_stays_void(name):
    voided = laplace(0.1, void_reasons=("It was seeded.",))
    together = RULES[name]([laplace(0.2), voided])
    assert together.void_reasons == ("It was seeded.",)
    assert not together.private


@pytest.mark.parametrize("name", sorted(set(RULES) - {"laplace"}))
def test_without_noise_there_is_no_level(name):
    together = RULES[name]([laplace(0.2), math.inf])
    assert together.epsilon == math.inf
    assert together.void


@pytest.mark.parametrize("name", RULES)
def test_relations_have_to_agree(name):
    own, other = "add-remove", "replace-one"
    if name == "position":
        own, other = other, own
    one = laplace(0.1, relation=own)
    assert RULES[name]([one, laplace(0.1)]).relation == own
    with pytest.raises(IncompatibleError):
        RULES[name]([one, laplace(0.1, relation=other)])


@pytest.mark.parametrize("name", RULES)
def test_called_twice_the_same_and_releases_may_be_consumed(name):
    releases = [laplace(0.1), laplace(0.3)]
    assert RULES[name](iter(releases)) == RULES[name](releases)
    assert RULES[name](releases).n_releases == 2


@pytest.mark.parametrize("name", RULES)
def test_large_levels_do_not_overflow(name):
    for level in (800.0, 1e200, 1e308):
        together = RULES[name]([laplace(level)] * 3)
        assert together.epsilon >= level


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("releases", ["0.1", {"epsilon": 0.1}, 0.1, [None], [(1, 2)]])
def test_what_is_no_list_of_releases_is_refused(name, releases):
    with pytest.raises(ValueError, match=r"release|delta"):
        RULES[name](releases)


levels = st.lists(st.floats(0.001, 3.0), min_size=1, max_size=6)


@given(shifts=levels, data=st.data())
@settings(deadline=None, max_examples=25)
def test_order_is_no_matter(shifts, data):
    releases = [laplace(a, delta=i * 1e-9) for i, a in enumerate(shifts)]
    shuffled = data.draw(st.permutations(releases))
    for name in sorted(set(RULES) - {"filter, no delta"}):
        assert RULES[name](shuffled) == RULES[name](releases)


@given(shifts=levels, extra=st.floats(0.001, 3.0), grows=st.floats(1.0, 2.0))
@settings(deadline=None, max_examples=25)
def test_more_releases_and_larger_levels_are_not_less(shifts, extra, grows):
    for name, rule in RULES.items():
        exact = name == "exact"  # on a grid that may change
        before = rule([laplace(a) for a in shifts]).epsilon * (1 - 1e-6 * exact)
        assert rule([laplace(a) for a in [*shifts, extra]]).epsilon >= before
        larger = [shifts[0] * grows, *shifts[1:]]
        assert rule([laplace(a) for a in larger]).epsilon >= before


@given(shifts=levels, copies=st.integers(1, 60))
@settings(deadline=None, max_examples=25)
def test_rules_that_know_more_are_not_above(shifts, copies):
    releases = [laplace(a) for a in shifts] * copies
    found = {name: rule(releases).epsilon for name, rule in RULES.items()}
    assert found["exact"] <= found["laplace"] * (1 + 1e-6)
    assert found["laplace"] <= min(found["basic"], found["lecture"]) * (1 + 1e-9)
    assert found["lecture"] <= found["dwork-roth"]
    alone = shifts * copies
    generic = compose_exact(alone, delta=DELTA).epsilon
    assert found["exact"] <= generic * (1 + 1e-6)
    whole = compose_filter(alone, delta=DELTA, slack=DELTA).epsilon
    assert generic <= min(whole, found["lecture"]) * (1 + 1e-6)
    assert whole <= found["filter"] <= found["basic"]
    assert found["basic"] == found["exact, no delta"] == found["filter, no delta"]


def test_sums_are_those_of_decimal_numbers():
    together = compose_basic([(0.1, 1e-6, 0.1)] * 10)
    assert (together.epsilon, together.delta, together.risk) == (1.0, 1e-5, 1.0)
    assert compose_basic([(0.1, 0.3, 0.4)] * 10).delta == 1
    assert compose_basic([0.1, 0.2, 1e-17]).epsilon > 0.3
    assert not compose_basic([0.1] * 10).void


@given(
    shifts=st.lists(st.floats(1e-9, 50.0), min_size=1, max_size=6),
    delta=st.floats(1e-300, 1 - 2**-30),
)
@settings(deadline=None, max_examples=60)
def test_formulas_are_never_rounded_down(shifts, delta):
    """In 60 digits, and not up by more than a share 1e-11 either."""
    with mpmath.workdps(60):
        a = [mpmath.mpf(x) for x in shifts]
        squares = mpmath.fsum(x * x for x in a)
        spread = mpmath.sqrt(-2 * mpmath.log(mpmath.mpf(delta)) * squares)
        exact = {
            "lecture": spread + mpmath.fsum(x * mpmath.tanh(x / 2) for x in a),
            "dwork-roth": spread + mpmath.fsum(x * mpmath.expm1(x) for x in a),
            "laplace": min(
                mpmath.fsum(a), spread + mpmath.fsum(x + mpmath.expm1(-x) for x in a)
            ),
            "filter": min(mpmath.fsum(a), spread + squares / 2),
        }
        parts = [laplace(x) for x in shifts]
        found = {
            "lecture": compose_advanced(parts, delta=delta),
            "dwork-roth": compose_advanced(parts, delta=delta, form="dwork-roth"),
            "laplace": compose_laplace(parts, delta=delta),
            "filter": compose_filter(parts, delta=delta, slack=delta),
        }
        for name, together in found.items():
            least = exact[name] * (1 - mpmath.mpf(2) ** -52)  # of decimals in sums
            assert least <= together.epsilon <= exact[name] * (1 + 1e-11)


@pytest.mark.parametrize("rule", [compose_advanced, compose_laplace, compose_exact])
@pytest.mark.parametrize("delta", [-0.1, 1, 1.5, math.nan, "0.1", True, None])
def test_delta_out_of_range_is_refused(rule, delta):
    with pytest.raises(ValueError, match="delta must be a number in"):
        rule([laplace(0.1)], delta=delta)


def test_advanced_composition_needs_what_is_left_of_delta():
    parts = [(0.1, 1e-6)] * 10
    enough = compose_advanced(parts, delta=2e-5)
    same = compose_advanced([0.1] * 10, delta=1e-5)
    assert enough.epsilon == pytest.approx(same.epsilon, rel=1e-12)
    assert enough.delta == 2e-5
    for delta in (1e-5, 5e-6):
        with pytest.raises(CalibrationError, match="sum") as caught:
            compose_advanced(parts, delta=delta)
        assert (caught.value.target, caught.value.best) == (delta, 1e-5)


def test_advanced_composition_knows_two_forms():
    with pytest.raises(ValueError, match="form must be one of"):
        compose_advanced([0.1], delta=DELTA, form="textbook")


def test_the_mean_of_advanced_composition_is_attained():
    level = 0.8
    heads = special.expit(level)
    mean = level * (2 * heads - 1)  # of the loss of randomized response
    one, four = (compose_advanced([level] * n, delta=DELTA).epsilon for n in (1, 4))
    assert four - 2 * one == pytest.approx(2 * mean)


def test_laplace_rule_is_for_laplace_noise_only():
    for release in (0.1, gaussian(0.1)):
        with pytest.raises(IncompatibleError, match="release number 1 has loss="):
            compose_laplace([laplace(0.1), release], delta=DELTA)


def test_the_mean_of_laplace_noise_is_largest_in_one_output():
    rng = np.random.default_rng(0)
    shifts = rng.dirichlet(np.ones(5), 200) * rng.uniform(0, 5, (200, 1))
    mean = lambda a: a + np.expm1(-a)  # noqa: E731
    whole = mean(shifts.sum(axis=1))
    assert np.all(mean(shifts).sum(axis=1) <= whole)
    one, four = (compose_laplace([laplace(1.0)] * n, delta=0.9).epsilon for n in (1, 4))
    assert four - 2 * one == pytest.approx(2 * mean(1.0))


# --- Levels chosen on the way ---------------------------------------------------------


def adaptive_tree(rng, limit, delta, slack, depth=9):
    """Return P and Q of all that an adaptive sequence of coin flips may release.

    Each level depends on the flips before; a flip that the filter forbids is not made.
    """
    leaves, open_nodes = [], [((), 1.0, 1.0)]
    while open_nodes:
        path, p, q = open_nodes.pop()
        level = rng.choice([0.2, 0.5, 0.9, 1.3])
        used = compose_filter([*path, level], delta=delta, slack=slack)
        if used.epsilon > limit or len(path) == depth:
            leaves.append((p, q))
            continue
        heads = special.expit(level)
        open_nodes.append(((*path, level), p * heads, q * (1 - heads)))
        open_nodes.append(((*path, level), p * (1 - heads), q * heads))
    return np.array(leaves).T


@pytest.mark.parametrize("seed", range(3))
def test_filter_holds_for_coins_whose_levels_depend_on_earlier_ones(seed):
    rng = random.Random(seed)
    limit, delta = 2.5, 0.3
    p, q = adaptive_tree(rng, limit, delta, slack=delta)
    assert np.isclose(p.sum(), 1)
    assert np.maximum(p - math.exp(limit) * q, 0).sum() <= delta
    assert np.maximum(p - math.exp(limit / 5) * q, 0).sum() > delta


def test_filter_formula():
    parts = [(0.1, 1e-8)] * 100 + [(0.2, 1e-8)] * 50
    spent = 100 * 0.1**2 + 50 * 0.2**2
    for slack in (None, 2e-6):
        found = compose_filter(parts, delta=1e-5, slack=slack)
        log = math.log(1 / (slack or 5e-6))
        expected = math.sqrt(2 * log * spent) + spent / 2
        assert expected <= found.epsilon <= expected * (1 + 1e-11)
        assert found.delta == 1e-5
    assert compose_filter([0.1] * 3, delta=DELTA).epsilon == 0.3


def test_filter_keeps_its_slack():
    compose_filter([(0.1, 2.5e-6)] * 2, delta=1e-5)
    with pytest.raises(CalibrationError, match="delta - slack") as caught:
        compose_filter([(0.1, 2.5e-6)] * 3, delta=1e-5)
    assert (caught.value.target, caught.value.best) == (1e-5, 1.25e-5)
    with pytest.raises(CalibrationError):
        compose_filter([(0.1, 1e-12)], delta=1e-5, slack=1e-5)
    with pytest.raises(CalibrationError):
        compose_filter([(0.1, 1e-12)], delta=0)


@pytest.mark.parametrize("slack", [0, -1e-6, 2e-5, math.nan, True, "all"])
def test_slack_out_of_range_is_refused(slack):
    with pytest.raises(ValueError, match="slack must be None or in"):
        compose_filter([0.1], delta=1e-5, slack=slack)


def test_a_slack_that_releases_leave_over_would_not_do():
    """The second query tells all with the delta that the first, unlucky one left."""
    level, delta = 1.0, 1e-5

    def needed(v):  # the delta at which tiny levels of sum of squares v have the level
        return math.exp(-((level - v / 2) ** 2) / (2 * v))

    v = optimize.brentq(lambda v: needed(v) - delta, 1e-3, 1.0)
    half = v / 2
    go_on = half / 2 + 3.35 * math.sqrt(half)  # of the loss of the first half

    def given_the_first(loss):
        a = math.sqrt(v - half)
        e = level - loss
        below = math.exp(e) * special.ndtr(-a / 2 - e / a)
        density = stats.norm.pdf(loss, half / 2, math.sqrt(half))
        return density * (special.ndtr(a / 2 - e / a) - below)

    lucky = integrate.quad(given_the_first, go_on, 2 * level, epsabs=1e-14)[0]
    unlucky = stats.norm.cdf(3.35) * (delta - needed(half))
    assert (lucky + unlucky) / delta == pytest.approx(1.0016, abs=1e-4)
    # With the slack fixed before, nothing is left for what tells all.
    assert lucky < delta


# --- Parts ----------------------------------------------------------------------------


def test_parts_have_the_largest_of_each():
    parts = [(0.1, 1e-6, 0.05), (0.3, 0.0, 0.2), (0.2, 1e-5, 0.1)]
    for partition, relation in (
        ("owner", None),
        ("position", "replace-one"),
        ("value", "add-remove"),
    ):
        together = compose_parallel(parts, partition=partition)
        assert (together.epsilon, together.delta, together.risk) == (0.3, 1e-5, 0.2)
        assert together.randomness == "both"
        assert together.n_releases == 3
        assert together.relation == relation
        assert "disjoint" in " ".join(together.conditions)


def test_a_record_that_is_removed_moves_those_behind_it():
    release = laplace(0.5, relation="add-remove")
    assert compose_parallel([release] * 2, partition="owner").epsilon == 0.5
    with pytest.raises(IncompatibleError, match="moves those behind"):
        compose_parallel([release] * 2, partition="position")
    records, rest = np.array([0, 1, 0, 1]), np.array([1, 0, 1])  # without the first
    moves = np.abs(records[:3] - rest)  # of three parts that have one record each
    assert moves.sum() * 0.5 > release.epsilon


def test_transfer_counts_the_records_of_all_steps():
    release = Certificate(0.1, risk=0.05, randomness="implicit")
    group = group_privacy(release, 10)
    added = transfer(group, 5e-6, n_records=9).risk - group.risk
    assert added == pytest.approx(math.sqrt(19 * 5e-6 / 2), rel=1e-9)


def test_a_tiny_shift_of_gaussian_noise_is_counted_by_its_level():
    release = Certificate(0.1, 1e-9, loss=DominatingLoss("gaussian", 5e-302))
    together = compose_exact([release] * 3, delta=1e-5)
    assert together.epsilon == compose_exact([(0.1, 1e-9)] * 3, delta=1e-5).epsilon


def test_tiny_levels_are_not_lost():
    for level in (1e-155, 1e-200, 5e-324):
        for rule in (compose_filter, compose_advanced):
            assert rule([level] * 2, delta=1e-5).epsilon >= level


def test_one_release_is_no_list_of_levels():
    with pytest.raises(ValueError, match=r"put it into a list; got \(0.5, 1e-05\)"):
        compose_basic((0.5, 1e-5))
    assert compose_basic(((0.5, 1e-5),)).delta == 1e-5


def test_replaced_records_may_change_their_part():
    """Two bins of a histogram change by one: the level is twice that of a bin."""
    release = laplace(0.5, relation="replace-one")
    assert compose_parallel([release] * 2, partition="position").epsilon == 0.5
    with pytest.raises(IncompatibleError, match="add-remove"):
        compose_parallel([release] * 2, partition="value")
    bins = compose_parallel([laplace(0.5)] * 2, partition="value")
    assert bins.relation == "add-remove"
    before, after = np.array([3, 1]), np.array([2, 2])
    loss = np.abs(before - after).sum() * 0.5  # at outputs far out
    assert loss == group_privacy(bins, 2).epsilon > bins.epsilon


def test_shares_of_samples_that_fail_add_up_over_parts():
    sampled = Certificate(0.1, risk=0.05, failure_prob=0.01, randomness="implicit")
    both = compose_parallel([sampled] * 3, partition="position")
    assert (both.risk, both.failure_prob) == (0.05, 0.03)
    average = replace(sampled, failure_prob=0.0, risk=0.055)
    mixed = compose_parallel([sampled, average], partition="position")
    assert (mixed.risk, mixed.failure_prob) == (0.06, 0.0)
    noise = replace(average, randomness="explicit")
    assert compose_parallel([noise, sampled], partition="position").randomness == "both"


def test_many_parts_have_the_risk_of_one():
    """Their risks would add up to 1, which would be no guarantee."""
    release = Certificate(0.1, risk=0.05, randomness="implicit")
    together = compose_parallel([release] * 30, partition="owner")
    assert together.private
    assert together.risk == 0.05
    assert not compose_basic([release] * 30).private


def test_partition_is_named():
    with pytest.raises(ValueError, match="partition must be one of"):
        compose_parallel([0.1], partition="random")


# --- Theorem 3 as printed -------------------------------------------------------------


def test_privacy_at_risk_warns_and_is_void():
    for version, method in (
        ("journal", "Dandekar et al. 2021, Theorem 3"),
        ("preprint", "Dandekar et al. (preprint), Theorem 3"),
    ):
        claim = at_risk(0.1, 10, version)
        assert claim.method == method
        assert claim.void
        assert "There is no guarantee" in claim.guarantee
    with pytest.raises(ValueError, match="version must be one of"):
        compose_privacy_at_risk([], delta=DELTA, version="arxiv")


@pytest.mark.filterwarnings("ignore::skparisk.exceptions.HeuristicGuaranteeWarning")
def test_privacy_at_risk_of_different_releases():
    releases = [(0.08, 0.2, 0.1), (0.27, 0.39, 0.5), (0.4, 0.0, 0.4)]
    found = compose_privacy_at_risk(releases, delta=DELTA).epsilon
    spread = math.sqrt(2 * math.log(1 / DELTA) * (0.01 + 0.25 + 0.16))
    mean = 0.5 * (0.8 * 0.0064 + 0.61 * 0.0729 + 0.16 + 0.2 * 0.01 + 0.39 * 0.25)
    assert found == pytest.approx(spread + mean, rel=1e-11)  # Corollary 1
    same = compose_privacy_at_risk([(0.4, 0.0, 0.4)], delta=DELTA, version="preprint")
    textbook = compose_advanced([0.4], delta=DELTA, form="dwork-roth")
    assert same.epsilon == pytest.approx(textbook.epsilon, rel=1e-11)
    assert compose_privacy_at_risk([], delta=DELTA).epsilon == 0
    assert compose_privacy_at_risk([(math.inf, 1, 0.1)], delta=DELTA).epsilon < 1
    unbounded = compose_privacy_at_risk([(0.1, 0.5, math.inf)], delta=DELTA)
    assert unbounded.epsilon == math.inf


@pytest.mark.filterwarnings("ignore::skparisk.exceptions.HeuristicGuaranteeWarning")
def test_privacy_at_risk_of_certificates():
    certificate = certificates.certificate(
        epsilon=0.27,
        risk=0.04,
        sensitivity=1.0,
        noise_scale=2.0,
        randomness="both",
        n_draws=1,
        leaks=("A leak.",),
    )
    found = compose_privacy_at_risk([certificate] * 3, delta=DELTA)
    plain = compose_privacy_at_risk([(0.27, 0.04, 0.5)] * 3, delta=DELTA)
    assert found.epsilon == pytest.approx(plain.epsilon, rel=1e-12)
    assert found.leaks
    assert found.risk == 0.12
    alike = SimpleNamespace(epsilon=0.27, confidence=0.96, noise_epsilon=0.5)
    found = compose_privacy_at_risk([alike] * 3, delta=DELTA)
    assert found.epsilon == pytest.approx(plain.epsilon, rel=1e-12)


@pytest.mark.parametrize(
    "releases",
    [
        *(0.1, "ab", {}, [0.1], [(0.1, 0.2)], [(0.1, 1.2, 0.5)], [(-0.1, 0.2, 0.5)]),
        *([(0.1, 0.2, math.nan)], [(0.1, 0.2, "0.5")], [(0.1, True, 0.5)]),
    ],
)
def test_what_is_not_at_risk_is_refused(releases):
    with pytest.raises(ValueError, match="release"):
        compose_privacy_at_risk(releases, delta=DELTA)


# --- Conversions ----------------------------------------------------------------------


def test_a_risk_over_noise_becomes_delta():
    release = Certificate(0.6, 0.01, risk=0.05, randomness="explicit")
    approximated = approximate(release)
    assert (approximated.delta, approximated.risk) == (0.06, 0.0)
    assert approximated.method == "approximate"
    assert "(0.6, 0.06)-differentially private" in approximated.guarantee
    doubtful = approximate(replace(release, failure_prob=0.02))
    assert (doubtful.delta, doubtful.failure_prob) == (0.08, 0.0)
    assert approximate(replace(release, risk=0.999)).delta == 1


def test_a_risk_over_pairs_and_noise_is_a_delta_on_average_only():
    release = Certificate(0.6, risk=0.05)
    assert "privacy loss" in release.guarantee
    approximated = approximate(release)
    assert "(0.6, 0.05)-differentially private, on average" in approximated.guarantee
    assert (approximated.epsilon, approximated.risk) == (0.6, 0.05)
    assert (approximated.delta, approximated.post_processed) == (0.0, True)
    together = compose_basic([approximated, Certificate(0.1)])
    assert "on average" in together.guarantee
    assert approximate(approximated).guarantee == approximated.guarantee


def test_what_holds_whatever_is_released_survives_post_processing():
    for release in (
        Certificate(0.5, risk=0.05, failure_prob=0.01, randomness="implicit"),
        laplace(0.5, randomness="explicit"),
        Certificate(0.5, 1e-5),
    ):
        assert post_process(release) == release
        assert approximate(release) == release
    noise = Certificate(0.5, risk=0.05, randomness="explicit")
    assert post_process(noise) == approximate(noise) != noise


def test_risk_over_noise_does_not_survive_post_processing():
    """Merging the large loss with a likely one makes large losses likely."""
    p, q = np.array([0.05, 0.6, 0.35]), np.array([0.0, 0.6 * math.exp(-0.5), 0.0])
    q[2] = 1 - q.sum()
    loss = np.log(p) - np.log(np.maximum(q, 1e-300))
    assert p[loss > 0.5 + 1e-12].sum() == 0.05
    merged_p, merged_q = p[:2].sum(), q[:2].sum()
    assert math.log(merged_p / merged_q) > 0.5
    assert merged_p > 0.05
    delta = approximate(Certificate(0.5, risk=0.05, randomness="explicit")).delta
    assert merged_p - math.exp(0.5) * merged_q <= delta + 1e-15


@given(shift=st.floats(0.05, 3.0), epsilon=st.floats(0.1, 3.0))
@settings(deadline=None, max_examples=50)
def test_gaussian_delta_is_below_the_risk(shift, epsilon):
    risk = gaussian_loss_exceedance(epsilon, shift)
    assert gaussian_delta(epsilon, shift) <= risk + 1e-15


@given(shift=st.floats(0.05, 2.0), epsilon=st.floats(0.0, 2.0), size=st.integers(1, 12))
@settings(deadline=None, max_examples=50)
def test_groups_of_gaussian_noise(shift, epsilon, size):
    delta = gaussian_delta(epsilon, shift)
    group = group_privacy((epsilon, delta), size)
    assert gaussian_delta(group.epsilon, size * shift) <= group.delta + 1e-15
    expected = delta * math.fsum(math.exp(j * epsilon) for j in range(size))
    assert group.delta == pytest.approx(min(1, expected), rel=1e-9, abs=1e-300)


def test_group_delta_is_attained():
    """One step: half of a coin's odds and a delta; two steps: as the formula says."""
    epsilon, delta = 0.3, 0.1
    chain = [0.05]  # probabilities of one event
    for _ in range(3):
        chain.append(math.exp(epsilon) * chain[-1] + delta)
    for size in (1, 2, 3):
        group = group_privacy((epsilon, delta), size)
        reached = chain[size] - math.exp(group.epsilon) * chain[0]
        assert reached == pytest.approx(group.delta, rel=1e-9)


def test_groups_of_releases_with_a_risk():
    implicit = Certificate(
        0.1, risk=0.05, failure_prob=0.01, randomness="implicit", loss=laplace(0.1).loss
    )
    group = group_privacy(implicit, 3)
    assert (group.epsilon, group.risk, group.failure_prob) == (0.3, 0.15, 0.01)
    assert group.loss is None
    assert group.method == "group"
    assert group_privacy(implicit, 30).risk == 1
    both = Certificate(0.1, risk=0.05)
    for release in (both, replace(both, randomness="explicit", delta=0.1)):
        with pytest.raises(IncompatibleError, match="pass approximate"):
            group_privacy(release, 3)
        group_privacy(approximate(release), 3)
    # Over pairs and noise the risk is a part of delta, and grows as that does.
    group = group_privacy(approximate(both), 2)
    assert group.risk == pytest.approx(0.05 * (1 + math.exp(0.1)), rel=1e-11)


def test_groups_of_large_levels():
    assert group_privacy(math.inf, 3).epsilon == math.inf
    assert group_privacy(1e308, 3).epsilon == math.inf
    assert group_privacy((400.0, 1e-300), 3).delta == 1
    assert group_privacy((400.0, 0.0), 3).delta == 0
    assert group_privacy((0.0, 0.1), 3).delta == pytest.approx(0.3)
    assert group_privacy(0.1, 1).epsilon == 0.1
    with pytest.raises(ValueError, match="size must be a whole number >= 1"):
        group_privacy(0.1, 0)


@pytest.mark.parametrize("n", [1, 10, 200])
def test_another_population_has_its_total_variation_more_risk(n):
    p, q = 0.4, 0.42
    divergence = p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
    ones = np.arange(n + 2)
    laws = (stats.binom.pmf(ones, n + 1, x) for x in (p, q))
    apart = np.abs(np.subtract(*laws)).sum() / 2
    release = Certificate(0.5, risk=0.05, randomness="implicit")
    risk = transfer(release, divergence, n_records=n).risk
    assert apart <= risk - 0.05 <= 1.3 * apart
    assert risk - 0.05 == pytest.approx(math.sqrt((n + 1) * divergence / 2), rel=1e-9)


def test_transfer_is_about_risks_over_pairs():
    release = Certificate(0.5, risk=0.05, failure_prob=0.01)
    moved = transfer(release, 1e-6, n_records=99)
    assert moved.method == "transferred"
    assert moved.failure_prob == 0.01
    assert transfer(release, math.inf, n_records=99).risk == 1
    assert transfer(release, 0, n_records=99).risk == 0.05
    for every in (laplace(0.5), replace(release, randomness="explicit")):
        assert transfer(every, 0.1, n_records=99) == every


@pytest.mark.parametrize("divergence", [-1e-9, math.nan, "0", None, True])
def test_a_divergence_that_is_none_is_refused(divergence):
    with pytest.raises(ValueError, match="kl_divergence must be"):
        transfer((0.5, 0, 0.05), divergence, n_records=10)


def test_conditions_are_kept_when_results_are_composed_or_converted():
    fixed = compose_advanced([(0.1, 0.0, 0.01)] * 4, delta=DELTA)
    (condition,) = (text for text in fixed.conditions if "their levels" in text)
    kept = f"This rests on the caller's word: {condition}."
    assert kept in compose_basic([fixed, 0.1]).provisos
    assert kept in approximate(fixed).provisos
    assert kept not in compose_exact([fixed, (0.1, 1e-6)], delta=0.1).provisos
    assert compose_basic([0.1] * 4).provisos == ()


def test_results_are_the_same_in_any_grouping():
    parts = [(0.1, 1e-7, 0.01), (0.2, 1e-8, 0.02), (0.7, 0.0, 0.0)]
    whole = compose_basic(parts)
    for split in itertools.permutations(parts):
        nested = compose_basic([compose_basic(split[:2]), split[2]])
        assert (nested.epsilon, nested.delta, nested.risk) == (
            whole.epsilon,
            whole.delta,
            whole.risk,
        )
        assert nested.n_releases == 3
