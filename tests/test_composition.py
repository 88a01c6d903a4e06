"""Releases together: no rule says less than what holds, and each what it should."""

import math
import random
from dataclasses import fields
from functools import partial
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from certificates import certificate, minted
from hypothesis import example, given, settings
from hypothesis import strategies as st
from releases import DELTA, RULES, compose_filter, laplace
from scipy import integrate, optimize, special, stats

from skparisk.core import words
from skparisk.core.claim import (
    Assumption,
    Claim,
    DominatingLoss,
    Doubt,
    Leak,
    remade,
)
from skparisk.core.compose import (
    _SAME,
    _SUMS,
    _UNIONS,
    compose_basic,
    compose_exact,
    compose_parallel,
    concentrated,
)
from skparisk.exceptions import CalibrationError, IncompatibleError
from skparisk.papers import (
    compose_privacy_at_risk,
    dandekar_confidence,
    laplace_loss_mean,
)

METHODS = words().METHODS

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
# Of releases with Laplace noise, by the mean of their loss.
OF_LAPLACE = {(0.1, 100): 5.28226772, (0.5, 300): 73.51565132, (1.0, 300): 193.47673917}


def exact_level(releases):
    return compose_exact(releases, delta=DELTA).epsilon


def hoeffding(levels, mean, delta=DELTA):
    """Return the level of releases whose losses have this mean together."""
    return concentrated(math.fsum(e * e for e in levels), mean, delta)


def at_risk(noise_epsilon, n, version="journal", delta=DELTA):
    """Return what Dandekar's Theorem 3 claims at the optimum of the cost."""
    epsilon = OPTIMA[noise_epsilon]
    risk = 1 - dandekar_confidence(epsilon, noise_epsilon)
    releases = [(epsilon, risk, noise_epsilon)] * n
    return compose_privacy_at_risk(releases, delta=delta, version=version)


# What each rule is called in the result.
NAMES = {
    "owner": "parallel",
    "position": "parallel",
    "value": "parallel",
    "exact, no delta": "exact",
}

# --- The table of reference values ----------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]}-{row[1]}")
def test_every_rule_has_its_reference_value(row):
    noise, n, basic, textbook, lecture, theorem_3, preprint, exact = row
    releases = [laplace(noise)] * n
    found = [
        compose_basic(releases).epsilon,
        hoeffding([noise] * n, n * noise * math.expm1(noise)),
        hoeffding([noise] * n, math.tanh(noise / 2) * noise * n),
        at_risk(noise, n),
        at_risk(noise, n, "preprint"),
    ]
    expected = [basic, textbook, lecture, theorem_3, preprint]
    np.testing.assert_allclose(found, expected, rtol=5e-9)
    assert compose_exact(releases, delta=DELTA).epsilon == pytest.approx(
        exact, rel=5e-8
    )
    of_laplace = hoeffding([noise] * n, n * laplace_loss_mean(noise))
    assert exact < min(basic, of_laplace) <= min(basic, lecture)
    assert of_laplace == pytest.approx(OF_LAPLACE.get(row[:2], of_laplace), rel=5e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "n"), [(0.1, 3116), (0.5, 257), (1.0, 277)])
def test_theorem_3_is_false_from_some_number_of_releases_on(noise, n):
    fewer, enough = (
        at_risk(noise, m) - exact_level([laplace(noise)] * m) for m in (n - 1, n)
    )
    assert fewer > 0  # the exact level is rounded up, so there it is not below
    assert enough < -1e-4  # and here by more than its error


@pytest.mark.slow
def test_the_counterexample_is_as_the_notes_say():
    for level in (at_risk(0.5, 300), exact_level([laplace(0.5)] * 300)):
        assert f"{level:.5f}" in compose_privacy_at_risk.__doc__


# --- All rules ------------------------------------------------------------------------


def test_no_release_has_level_zero():
    for name in RULES:
        nothing = RULES[name]([])
        assert nothing.epsilon == nothing.risk == nothing.n_releases == 0
        assert nothing.method == NAMES.get(name, name)
        assert nothing.method in METHODS
        if name in ("basic", "owner", "position", "value"):
            assert nothing.delta == 0


def test_every_field_of_a_claim_composes():
    """By a table, or in a way of its own."""
    own = {"randomness", "loss", "method", "post_processed", "evidence"}
    assert {*_SUMS, *_UNIONS, *_SAME} | own == {each.name for each in fields(Claim)}
    assert not own & {*_SUMS, *_UNIONS, *_SAME}


def test_what_is_void_stays_void():
    for name in RULES:
        voided = laplace(0.1, leaks=[Leak.SEEDED_NOISE])
        together = RULES[name]([laplace(0.2), voided])
        assert together.leaks == {Leak.SEEDED_NOISE}
        assert together.void
        assert not together.private


def test_what_releases_rest_on_and_give_away_stays():
    for name in RULES:
        told = laplace(
            0.1,
            leaks=[Leak.CHOSEN],
            assumptions=[Assumption.FROZEN_PARTS],
            doubts=[Doubt.THIN],
        )
        together, alone = (
            RULES[name]([told, laplace(0.2)]),
            RULES[name]([laplace(0.2)] * 2),
        )
        assert together.leaks == {Leak.CHOSEN}
        assert together.assumptions == alone.assumptions | {Assumption.FROZEN_PARTS}
        assert together.doubts == {Doubt.THIN}


def test_without_noise_there_is_no_level():
    for name in RULES:
        together = RULES[name]([laplace(0.2), math.inf])
        assert together.epsilon == math.inf
        assert together.void


def test_relations_have_to_agree():
    for name in RULES:
        own, other = "add-remove", "replace-one"
        if name == "position":
            own, other = other, own
        one = laplace(0.1, relation=own)
        assert RULES[name]([one, laplace(0.1)]).relation == own
        with pytest.raises(IncompatibleError):
            RULES[name]([one, laplace(0.1, relation=other)])


def test_called_twice_the_same_and_releases_may_be_consumed():
    for name in RULES:
        releases = [laplace(0.1), laplace(0.3)]
        assert RULES[name](iter(releases)) == RULES[name](releases)
        assert RULES[name](releases).n_releases == 2


def test_large_levels_do_not_overflow():
    for name in RULES:
        for level in (800.0, 1e200, 1e308):
            together = RULES[name]([laplace(level)] * 3)
            assert together.epsilon >= level


def test_what_is_no_list_of_releases_is_refused():
    for name in RULES:
        for releases in ["0.1", {"epsilon": 0.1}, 0.1, [None], [(1, 2)]]:
            with pytest.raises(ValueError, match=r"release|delta"):
                RULES[name](releases)


levels = st.lists(st.floats(0.001, 3.0), min_size=1, max_size=6)


@pytest.mark.slow
@given(shifts=levels, data=st.data())
@settings(deadline=None, max_examples=25)
def test_order_is_no_matter(shifts, data):
    releases = [laplace(a, delta=i * 1e-9) for i, a in enumerate(shifts)]
    shuffled = data.draw(st.permutations(releases))
    for name in sorted(RULES):
        assert RULES[name](shuffled) == RULES[name](releases)


@pytest.mark.slow
@given(shifts=levels, extra=st.floats(0.001, 3.0), grows=st.floats(1.0, 2.0))
@settings(deadline=None, max_examples=25)
def test_more_releases_and_larger_levels_are_not_less(shifts, extra, grows):
    for name, rule in RULES.items():
        exact = name == "exact"  # on a grid that may change
        before = rule([laplace(a) for a in shifts]).epsilon * (1 - 1e-6 * exact)
        assert rule([laplace(a) for a in [*shifts, extra]]).epsilon >= before
        larger = [shifts[0] * grows, *shifts[1:]]
        assert rule([laplace(a) for a in larger]).epsilon >= before


@pytest.mark.slow
@given(shifts=levels, copies=st.integers(1, 60))
@settings(deadline=None, max_examples=25)
def test_rules_that_know_more_are_not_above(shifts, copies):
    releases = [laplace(a) for a in shifts] * copies
    found = {name: rule(releases).epsilon for name, rule in RULES.items()}
    alone = shifts * copies
    lecture = hoeffding(alone, math.fsum(e * math.tanh(e / 2) for e in alone))
    by_mean = hoeffding(alone, math.fsum(map(laplace_loss_mean, alone)))
    assert found["exact"] <= min(found["basic"], by_mean) * (1 + 1e-6)
    assert by_mean <= lecture * (1 + 1e-9)
    generic = compose_exact(alone, delta=DELTA).epsilon
    assert found["exact"] <= generic * (1 + 1e-6)
    whole = compose_filter(alone, delta=DELTA, slack=DELTA).epsilon
    assert generic <= min(whole, lecture) * (1 + 1e-6)
    assert whole <= found["filter"] <= found["basic"]
    assert found["basic"] == found["exact, no delta"]


def test_sums_are_those_of_decimal_numbers():
    together = compose_basic([(0.1, 1e-6, 0.1)] * 10)
    assert (together.epsilon, together.delta, together.risk) == (1.0, 1e-5, 1.0)
    assert compose_basic([(0.1, 0.3, 0.4)] * 10).delta == 1
    assert compose_basic([0.1, 0.2, 1e-17]).epsilon > 0.3
    assert not compose_basic([0.1] * 10).void


@pytest.mark.slow
@given(
    shifts=st.lists(st.floats(1e-9, 50.0), min_size=1, max_size=6),
    delta=st.floats(1e-300, 1 - 2**-30),
)
@example(shifts=[0.5], delta=0.999999999010698)
@settings(deadline=None, max_examples=60)
def test_formulas_are_never_rounded_down(shifts, delta):
    """In 60 digits, and not up by more than a share 1e-11 either."""
    with mpmath.workdps(60):
        a = [mpmath.mpf(x) for x in shifts]
        squares = mpmath.fsum(x * x for x in a)
        spread = mpmath.sqrt(-2 * mpmath.log(mpmath.mpf(delta)) * squares)
        exact = {
            "lecture": spread + mpmath.fsum(x * mpmath.tanh(x / 2) for x in a),
            "laplace": spread + mpmath.fsum(x + mpmath.expm1(-x) for x in a),
            "filter": min(mpmath.fsum(a), spread + squares / 2),
        }
        parts = [laplace(x) for x in shifts]
        found = {
            "lecture": hoeffding(
                shifts, math.fsum(x * math.tanh(x / 2) for x in shifts), delta
            ),
            "laplace": hoeffding(
                shifts, math.fsum(map(laplace_loss_mean, shifts)), delta
            ),
            "filter": compose_filter(parts, delta=delta, slack=delta).epsilon,
        }
        for name, together in found.items():
            least = exact[name] * (1 - mpmath.mpf(2) ** -52)  # of decimals in sums
            assert least <= together <= exact[name] * (1 + 1e-11)


def test_delta_out_of_range_is_refused():
    for delta in [-0.1, 1, 1.5, math.nan, "0.1", True, None]:
        with pytest.raises(ValueError, match=r"^delta must be a number in"):
            compose_exact([laplace(0.1)], delta=delta)


def test_the_mean_of_laplace_noise_is_largest_in_one_output():
    rng = np.random.default_rng(0)
    shifts = rng.dirichlet(np.ones(5), 200) * rng.uniform(0, 5, (200, 1))
    mean = lambda a: a + np.expm1(-a)  # noqa: E731
    whole = mean(shifts.sum(axis=1))
    assert np.all(mean(shifts).sum(axis=1) <= whole)
    assert laplace_loss_mean(1.0) == pytest.approx(mean(1.0))


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


def test_shares_of_samples_are_a_part_of_the_risks_of_parts():
    """Where one risk is on average over samples; never more than 1."""
    average = minted(0.1, risk=0.3, randomness="implicit")
    for share, largest in ((0.01, 0.3), (0.4, 0.6), (0.95, 1.0)):
        other = minted(0.1, risk=0.2, failure_prob=share, randomness="implicit")
        together = compose_parallel([average, other], partition="owner")
        assert together.risk == pytest.approx(largest)
        assert together.risk <= 1
        assert compose_parallel([other, other], partition="owner").risk == 0.2


def test_a_record_that_is_removed_moves_those_behind_it():
    release = laplace(0.5, relation="add-remove")
    assert compose_parallel([release] * 2, partition="owner").epsilon == 0.5
    with pytest.raises(IncompatibleError, match="moves those behind"):
        compose_parallel([release] * 2, partition="position")
    records, rest = np.array([0, 1, 0, 1]), np.array([1, 0, 1])  # without the first
    moves = np.abs(records[:3] - rest)  # of three parts that have one record each
    assert moves.sum() * 0.5 > release.epsilon


def test_a_tiny_shift_of_gaussian_noise_is_counted_by_its_level():
    release = minted(0.1, 1e-9, loss=DominatingLoss("gaussian", 5e-302))
    together = compose_exact([release] * 3, delta=1e-5)
    assert together.epsilon == compose_exact([(0.1, 1e-9)] * 3, delta=1e-5).epsilon


def test_a_risk_over_gaussian_noise_is_a_delta_where_the_law_is_not_counted():
    loss = DominatingLoss("gaussian", 5e-302)
    release = minted(0.1, 3e-9, 7e-9, randomness="explicit", loss=loss)
    together = compose_exact([release] * 3, delta=1e-5)
    assert together.epsilon == compose_exact([(0.1, 1e-8)] * 3, delta=1e-5).epsilon
    assert together.risk == 0
    void = minted(0.1, 0.7, 0.7, randomness="explicit", loss=loss)
    with pytest.raises(CalibrationError, match=r"sum of the levels achieves 1\.0"):
        compose_exact([void], delta=1e-5)


def test_levels_beyond_the_largest_number_are_infinite():
    for compose in (compose_basic, partial(compose_filter, delta=1e-5)):
        for levels in ([1e308] * 10, [1e308] * 10 + [math.inf], [math.inf, 1.0]):
            assert compose(levels).epsilon == math.inf
    assert compose_filter([1e160] * 2, delta=1e-5).epsilon == 2e160


def test_tiny_levels_are_not_lost():
    for level in (1e-155, 1e-200, 5e-324):
        assert compose_filter([level] * 2, delta=1e-5).epsilon >= level


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
    assert loss == 2 * bins.epsilon


def test_shares_of_samples_that_fail_add_up_over_parts():
    sampled = minted(0.1, risk=0.05, failure_prob=0.01, randomness="implicit")
    both = compose_parallel([sampled] * 3, partition="position")
    assert (both.risk, both.failure_prob) == (0.05, 0.03)
    average = remade(sampled, failure_prob=0.0, risk=0.055)
    mixed = compose_parallel([sampled, average], partition="position")
    assert (mixed.risk, mixed.failure_prob) == (0.06, 0.0)
    noise = remade(average, randomness="explicit")
    assert compose_parallel([noise, sampled], partition="position").randomness == "both"


def test_many_parts_have_the_risk_of_one():
    """Their risks would add up to 1, which would be no guarantee."""
    release = minted(0.1, risk=0.05, randomness="implicit")
    together = compose_parallel([release] * 30, partition="owner")
    assert together.private
    assert together.risk == 0.05
    assert not compose_basic([release] * 30).private


def test_partition_is_named():
    with pytest.raises(ValueError, match="partition must be one of"):
        compose_parallel([0.1], partition="random")


# --- Theorem 3 as printed -------------------------------------------------------------


def test_privacy_at_risk_of_different_releases():
    releases = [(0.08, 0.2, 0.1), (0.27, 0.39, 0.5), (0.4, 0.0, 0.4)]
    found = compose_privacy_at_risk(releases, delta=DELTA)
    spread = math.sqrt(2 * math.log(1 / DELTA) * (0.01 + 0.25 + 0.16))
    mean = 0.5 * (0.8 * 0.0064 + 0.61 * 0.0729 + 0.16 + 0.2 * 0.01 + 0.39 * 0.25)
    assert found == pytest.approx(spread + mean, rel=1e-11)  # Corollary 1
    same = compose_privacy_at_risk([(0.4, 0.0, 0.4)], delta=DELTA, version="preprint")
    textbook = concentrated(0.4**2, 0.4 * math.expm1(0.4), DELTA)
    assert same == pytest.approx(textbook, rel=1e-11)
    assert compose_privacy_at_risk([], delta=DELTA) == 0
    assert compose_privacy_at_risk([(math.inf, 1, 0.1)], delta=DELTA) < 1
    unbounded = compose_privacy_at_risk([(0.1, 0.5, math.inf)], delta=DELTA)
    assert unbounded == math.inf
    far = [(1.0, 0.5, 1e154)] * 3  # whose squares add up to more than a float
    assert compose_privacy_at_risk(far, delta=DELTA) == math.inf
    with pytest.raises(ValueError, match="version must be one of"):
        compose_privacy_at_risk([], delta=DELTA, version="arxiv")


def test_privacy_at_risk_of_certificates():
    release = certificate(
        epsilon=0.27,
        risk=0.04,
        order_index=1442,
        sensitivity=1.0,
        noise_scale=2.0,
        randomness="both",
        curve=np.array([[0.27, 0.04]]),
    )
    found = compose_privacy_at_risk([release] * 3, delta=DELTA)
    plain = compose_privacy_at_risk([(0.27, 0.04, 0.5)] * 3, delta=DELTA)
    assert found == pytest.approx(plain, rel=1e-12)
    alike = SimpleNamespace(epsilon=0.27, confidence=0.96, noise_epsilon=0.5)
    found = compose_privacy_at_risk([alike] * 3, delta=DELTA)
    assert found == pytest.approx(plain, rel=1e-12)


def test_what_is_not_at_risk_is_refused():
    for releases in [
        *(0.1, "ab", {}, [0.1], [(0.1, 0.2)], [(0.1, 1.2, 0.5)], [(-0.1, 0.2, 0.5)]),
        *([(0.1, 0.2, math.nan)], [(0.1, 0.2, "0.5")], [(0.1, True, 0.5)]),
    ]:
        with pytest.raises(ValueError, match="release"):
            compose_privacy_at_risk(releases, delta=DELTA)


def test_largest_loss_of_a_law_is_rounded_up():
    assert DominatingLoss("laplace", 1.0, 1e-20).largest == math.nextafter(1.0, 2.0)
    assert DominatingLoss("laplace", 0.1, 0.2).largest == 0.3
    assert DominatingLoss("gaussian", 0.1).largest == math.inf
