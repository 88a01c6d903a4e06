"""The choice of K against brute force, the papers' numbers, and simulation."""

import math
import pickle
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from laws import SEEDS, assert_binomial_at_most, exceeds
from scipy import special, stats

from skparisk import SensitivitySampler
from skparisk.core.calibrate import DKW, PAC, Exchangeable, dkw_slack, required_pairs
from skparisk.exceptions import CalibrationError
from skparisk.papers import (
    bessel_joint_confidence,
    bessel_joint_noise_epsilon,
    dandekar_cdf,
    dandekar_empirical_risk,
    dkw_fewest_pairs,
    dkw_least_noise,
    dkw_least_risk,
    sample_confidence,
)

PROVEN = [Exchangeable(), PAC(0.05), PAC(0.01), DKW()]
RISKS = [*(rule.certify_risk for rule in PROVEN), dandekar_empirical_risk]
GAMMAS = [0.2, 0.1, 0.05, 0.01, 0.001]
NOT_PROBABILITIES = [0, 1, 0.0, 1.0, -1, 1.5, math.nan, math.inf, True, "0.1", None]
NOT_COUNTS = [0, -1, 2.0, math.nan, True, "9", None]

derandomized = settings(derandomize=True, deadline=None, max_examples=100)
sizes = st.integers(1, 3000)
risks = st.floats(1e-6, 1 - 1e-6)
failures = st.floats(1e-9, 0.999)
proven = st.one_of(
    st.just(Exchangeable()), st.just(DKW()), st.builds(PAC, failure_prob=failures)
)


def index_or_none(rule, n_pairs, gamma):
    """Return K, or None where the rule refuses."""
    try:
        return rule.order_index(n_pairs, gamma)
    except CalibrationError:
        return None


def theorem_15_slack(n_pairs, rho):
    """Return rho + sqrt(ln(1/rho)/(2m)), by which K/m must exceed 1 - gamma."""
    return rho + np.sqrt(np.log(1 / rho) / (2 * n_pairs))


def rho_grid(gamma, size=20_001):
    """Return many rho that Theorem 15 allows."""
    return np.geomspace(1e-9, min(gamma, 0.5) * (1 - 1e-9), size)


# The numbers of the papers, and of the table of the method


def test_fewest_pairs_of_each_rule():
    """The fewest pairs are the table's: they suffice, and one less does not."""
    for gamma, dkw, exchangeable, pac_5, pac_1 in [
        (0.2, 61, 4, 14, 21),
        (0.1, 285, 9, 29, 44),
        (0.05, 1305, 19, 59, 90),
        (0.01, 41_971, 99, 299, 459),
        (0.001, 5_486_187, 999, 2995, 4603),
    ]:
        fewest = {
            Exchangeable(): exchangeable,
            PAC(0.05): pac_5,
            PAC(0.01): pac_1,
            DKW(): dkw,
        }
        assert required_pairs(gamma) == exchangeable
        assert required_pairs(gamma, failure_prob=0.05) == pac_5
        assert required_pairs(gamma, failure_prob=0.01) == pac_1
        assert dkw_fewest_pairs(gamma).n_pairs == dkw
        for rule, n_pairs in fewest.items():
            assert rule.order_index(n_pairs, gamma) == n_pairs
            with pytest.raises(CalibrationError, match=f"n_pairs >= {n_pairs}"):
                rule.order_index(n_pairs - 1, gamma)


@pytest.mark.parametrize(
    ("rule", "index"), [(Exchangeable(), 1426), (PAC(0.05), 1440), (DKW(), 1496)]
)
def test_order_index_at_1500_pairs(rule, index):
    """At 1500 pairs and a risk of 0.05, K is what the method states."""
    assert rule.order_index(1500, 0.05) == index


def test_dkw_numbers_of_the_authors_package():
    """The operating points are those of the authors' R package, digit for digit."""
    point = dkw_fewest_pairs(0.2)
    assert (point.n_pairs, point.order_index, point.gamma) == (61, 61, 0.2)
    assert f"{point.rho:.10f}" == "0.0235330028"
    point = dkw_fewest_pairs(0.05)
    assert (point.n_pairs, point.order_index) == (1305, 1305)
    assert f"{point.rho:.11f}" == "0.00418286993"
    point = dkw_least_noise(1500, 0.05)
    assert (point.n_pairs, point.order_index, point.gamma) == (1500, 1496, 0.05)
    assert f"{point.rho:.12f}" == "0.003873682745"
    assert dkw_least_noise(1000, 0.1).order_index == 957
    point = dkw_least_risk(1000)
    assert (point.n_pairs, point.order_index) == (1000, 1000)
    assert f"{point.gamma:.10f}" == "0.0564677078"
    assert f"{point.rho:.12f}" == "0.004842605406"


def test_dkw_refuses_a_risk_below_its_least():
    """1000 pairs cannot certify 0.05; the error holds what they can certify."""
    with pytest.raises(CalibrationError) as caught:
        dkw_least_noise(1000, 0.05)
    assert str(caught.value) == (
        "n_pairs=1000 pairs certify no risk below 0.0564677, but gamma=0.05 was "
        "requested; it needs n_pairs >= 1305."
    )
    assert caught.value.target == 0.05
    assert f"{caught.value.best:.10f}" == "0.0564677078"


# The least K against brute force


@derandomized
@given(n_pairs=sizes, gamma=risks)
def test_exchangeable_index_is_the_least_of_all(n_pairs, gamma):
    """In exact fractions, K is the first with 1 - K/(m + 1) <= gamma."""
    holding = (
        k for k in range(1, n_pairs + 1) if 1 - Fraction(k, n_pairs + 1) <= gamma
    )
    assert index_or_none(Exchangeable(), n_pairs, gamma) == next(holding, None)


@derandomized
@given(n_pairs=st.integers(1, 500), gamma=risks, failure_prob=failures)
def test_pac_index_is_the_least_of_all(n_pairs, gamma, failure_prob):
    """K is the first whose binomial tail, and beta law, is at most failure_prob."""
    k = np.arange(1, n_pairs + 1)
    tail = stats.binom.cdf(n_pairs - k, n_pairs, gamma)  # P(Bin(m, 1 - gamma) >= K)
    assume(np.all(np.abs(tail / failure_prob - 1) > 1e-10))
    holding = k[tail <= failure_prob]
    expected = int(holding[0]) if len(holding) else None
    assert index_or_none(PAC(failure_prob), n_pairs, gamma) == expected
    beta = stats.beta.sf(1 - gamma, k, n_pairs - k + 1)  # P(U_(K) > 1 - gamma)
    np.testing.assert_allclose(1 - beta, tail, atol=1e-9)


@pytest.mark.parametrize("gamma", [1e-6, 1e-9, 1e-12])
def test_pac_is_sharp_at_small_risks(gamma):
    """Where 1 - gamma loses digits the rule does not, and is quick."""
    n_pairs = required_pairs(gamma, failure_prob=0.05)
    exact = math.log(0.05) / math.log1p(-gamma)
    assert exact <= n_pairs <= exact * (1 + 2e-12) + 1
    assert PAC(0.05).order_index(n_pairs, gamma) == n_pairs


def test_pac_counts_a_tie_as_above():
    """A tail equal to failure_prob, (1/2)**2, is refused: the safe side of rounding."""
    assert required_pairs(0.5, failure_prob=0.25) == 3
    assert required_pairs(0.5, failure_prob=0.25 * (1 + 1e-11)) == 2
    with pytest.raises(CalibrationError, match="n_pairs >= 3"):
        PAC(0.25).order_index(2, 0.5)


@derandomized
@given(n_pairs=sizes, gamma=risks)
def test_dkw_index_is_the_least_over_rho(n_pairs, gamma):
    """No rho of a fine grid gives a lower K, and Theorem 15 holds at the one used."""
    rho = rho_grid(gamma)
    share = 1 - gamma + np.min(theorem_15_slack(n_pairs, rho))
    index = index_or_none(DKW(), n_pairs, gamma)
    if index is None:
        assert share > 1
        return
    assert index - 1 <= n_pairs * share
    point = dkw_least_noise(n_pairs, gamma)
    assert 0 < point.rho < min(gamma, 0.5)
    assert n_pairs >= math.log(1 / point.rho) / (2 * (gamma - point.rho) ** 2)
    least = n_pairs * (1 - gamma + theorem_15_slack(n_pairs, point.rho))
    assert least <= index <= n_pairs
    assert index < least + 1 + 1e-9


def test_dkw_fewest_pairs_is_the_least_over_rho():
    """No rho of a fine grid needs fewer pairs, and Theorem 15 holds."""
    for gamma in [0.999, 0.9, 0.5, 0.3, *GAMMAS]:
        point = dkw_fewest_pairs(gamma)
        rho = rho_grid(gamma, 200_001)
        least = np.min(np.log(1 / rho) / (2 * (gamma - rho) ** 2))
        assert point.n_pairs - 1 < least
        assert 0 < point.rho < min(gamma, 0.5)
        assert point.n_pairs >= math.log(1 / point.rho) / (2 * (gamma - point.rho) ** 2)
        share = 1 - gamma + theorem_15_slack(point.n_pairs, point.rho)
        assert point.n_pairs * share <= point.order_index * (1 + 1e-12)
        assert point.order_index <= point.n_pairs


def test_dkw_least_risk_is_the_least_over_rho():
    """No rho of a fine grid certifies less, and the risk certifies itself."""
    for n_pairs in [2, 3, 10, 61, 1000, 10**6]:
        point = dkw_least_risk(n_pairs)
        least = np.min(theorem_15_slack(n_pairs, rho_grid(1.0)))
        assert least * (1 - 1e-6) < point.gamma <= least * (1 + 1e-13)
        assert dkw_least_noise(n_pairs, point.gamma).order_index == n_pairs


def test_dkw_with_one_pair_certifies_nothing():
    """One pair has a least risk of 1, and every gamma is refused."""
    assert dkw_least_risk(1).gamma == 1
    with pytest.raises(CalibrationError) as caught:
        dkw_least_noise(1, 0.99)
    assert caught.value.best == 1
    assert DKW().certify_risk(1, 1) == 1


@pytest.mark.parametrize("branch", [0, 1])
def test_other_branches_of_lambertw_break_theorem_15(branch):
    """Read as W_0 or W_+1, the formulas of Table 1 give no operating point."""
    n_pairs, gamma = 1500, 0.05
    least = np.exp(0.5 * special.lambertw(-1 / (4 * n_pairs), k=branch))
    fewest = np.exp(special.lambertw(-gamma / (2 * math.sqrt(math.e)), branch) + 0.5)
    for wrong, used in (
        (least, dkw_least_noise(n_pairs, gamma).rho),
        (fewest, dkw_fewest_pairs(gamma).rho),
    ):
        assert wrong.imag != 0 or not 0 < wrong.real < min(gamma, 0.5)
        assert used != pytest.approx(abs(wrong), rel=0.01)
        assert used != pytest.approx(wrong.real, rel=0.01)


# What every proven rule has


@derandomized
@given(rule=proven, n_pairs=sizes, gamma=risks)
def test_certified_risk_is_at_most_gamma_and_tight(rule, n_pairs, gamma):
    """K certifies gamma to the last bit, K - 1 does not, and K is in 1..m."""
    index = index_or_none(rule, n_pairs, gamma)
    if index is None:
        assert rule.certify_risk(n_pairs, n_pairs) > gamma
        return
    assert 1 <= index <= n_pairs
    assert 0 <= rule.certify_risk(n_pairs, index) <= gamma
    assert index == 1 or rule.certify_risk(n_pairs, index - 1) > gamma
    assert rule.order_index(n_pairs, gamma) == index


@derandomized
@given(rule=proven, n_pairs=sizes, share=st.floats(0, 1))
def test_a_certified_risk_can_be_asked_for_again(rule, n_pairs, share):
    """Calibrating to a risk that was certified gives the same K."""
    index = max(1, round(share * n_pairs))
    risk = rule.certify_risk(n_pairs, index)
    assert 0 < risk <= 1
    if risk < 1:
        assert rule.order_index(n_pairs, risk) == index


@derandomized
@given(rule=proven, n_pairs=sizes, gammas=st.tuples(risks, risks))
def test_less_risk_never_lowers_the_index(rule, n_pairs, gammas):
    """K falls as gamma grows, and what is refused stays so for a smaller gamma."""
    low, high = sorted(gammas)
    at_low = index_or_none(rule, n_pairs, low)
    if at_low is not None:
        assert index_or_none(rule, n_pairs, high) <= at_low


@derandomized
@given(rule=proven, n_pairs=sizes, more=sizes, gamma=risks)
def test_more_pairs_never_lower_the_index(rule, n_pairs, more, gamma):
    """K grows with m, and what m certifies m + 1 certifies; the least risk falls."""
    index = index_or_none(rule, n_pairs, gamma)
    total = n_pairs + more
    if index is not None:
        assert index <= rule.order_index(total, gamma) <= total
    assert rule.certify_risk(total, total) <= rule.certify_risk(n_pairs, n_pairs)


@derandomized
@given(gamma=risks, failure_prob=st.none() | failures)
def test_required_pairs_is_the_fewest(gamma, failure_prob):
    """The rule takes that many pairs, and refuses one less."""
    rule = Exchangeable() if failure_prob is None else PAC(failure_prob)
    fewest = required_pairs(gamma, failure_prob=failure_prob)
    assert rule.order_index(fewest, gamma) == fewest or fewest == 1
    if fewest > 1:
        with pytest.raises(CalibrationError):
            rule.order_index(fewest - 1, gamma)


@derandomized
@given(gamma=st.floats(1e-5, 0.999))
def test_dkw_fewest_pairs_is_the_fewest(gamma):
    """Theorem 15 takes that many pairs, and refuses one less."""
    fewest = dkw_fewest_pairs(gamma).n_pairs
    assert dkw_least_noise(fewest, gamma).order_index == fewest
    with pytest.raises(CalibrationError):
        dkw_least_noise(fewest - 1, gamma)


@pytest.mark.parametrize("gamma", [1e-8, 1e-12, 1e-100])
def test_dkw_fewest_pairs_at_tiny_risks(gamma):
    """Beyond the digits of a float the number is still enough, and near the least."""
    point = dkw_fewest_pairs(gamma)
    exact = math.log(1 / point.rho) / (2 * (gamma - point.rho) ** 2)
    assert exact <= point.n_pairs <= exact * (1 + 1e-12)
    index = dkw_least_noise(point.n_pairs, gamma).order_index
    assert Fraction(index, point.n_pairs) >= 1 - Fraction(gamma) / 10**12


@pytest.mark.parametrize("gamma", [5e-324, 1e-300])
def test_tiny_risks_end(gamma):
    """Even absurd risks are answered at once, or refused."""
    assert required_pairs(gamma) == math.ceil(1 / Fraction(gamma)) - 1
    with pytest.raises(CalibrationError):
        Exchangeable().order_index(1000, gamma)


def test_refusal_says_what_would_do():
    """The error has the target, an attainable best, and survives a pickle."""
    for rule in PROVEN:
        with pytest.raises(
            CalibrationError, match=r"but gamma=0\.001 was requested"
        ) as caught:
            rule.order_index(40, 0.001)
        error = caught.value
        assert str(error).startswith("n_pairs=40 pairs certify no risk below 0.")
        assert isinstance(error, ValueError)
        assert error.target == 0.001
        assert rule.order_index(40, error.best) == 40
        with pytest.raises(CalibrationError):
            rule.order_index(40, math.nextafter(error.best, 0))
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is CalibrationError
        assert (str(copy), copy.target, copy.best) == (str(error), 0.001, error.best)


# Bad values


def test_probabilities_out_of_range_are_refused():
    """A gamma or failure_prob outside (0, 1) is refused by name, everywhere."""
    for value in NOT_PROBABILITIES:
        message = r"^{} must be a number in \(0, 1\), got "
        for rule in PROVEN:
            with pytest.raises(ValueError, match=message.format("gamma")):
                rule.order_index(100, value)
        for function in (required_pairs, dkw_fewest_pairs):
            with pytest.raises(ValueError, match=message.format("gamma")):
                function(value)
        with pytest.raises(ValueError, match=message.format("failure_prob")):
            PAC(value)
        with pytest.raises(ValueError, match=message.format("sample_failure_prob")):
            dandekar_empirical_risk(100, 90, value)
        if value is not None:
            with pytest.raises(ValueError, match=message.format("failure_prob")):
                required_pairs(0.1, failure_prob=value)


def test_counts_out_of_range_are_refused():
    """An n_pairs or order_index below 1 or not whole is refused by name."""
    for value in NOT_COUNTS:
        message = "^{} must be a whole number >= 1, got "
        for rule in PROVEN:
            with pytest.raises(ValueError, match=message.format("n_pairs")):
                rule.order_index(value, 0.1)
        for certify_risk in RISKS:
            with pytest.raises(ValueError, match=message.format("n_pairs")):
                certify_risk(value, 1)
            with pytest.raises(ValueError, match=message.format("order_index")):
                certify_risk(10, value)
        for function, other in (
            (dkw_least_noise, (0.1,)),
            (dkw_least_risk, ()),
            (sample_confidence, (0.1,)),
        ):
            with pytest.raises(ValueError, match=message.format("n_pairs")):
                function(value, *other)


def test_ranks_are_whole_numbers_of_any_size():
    """As floats the last two of so many ranks would be one."""
    m = 2**60
    for rank, above in ((m, 1), (m - 1, 2)):
        assert Exchangeable().certify_risk(m, rank) >= Fraction(above, m + 1)
    assert Exchangeable(2).certify_risk(3, np.uint8(6)) >= 1 / 4


@pytest.mark.parametrize("failure_prob", [1e-15, 1e-200])
def test_no_risk_is_above_one(failure_prob):
    """Of the smallest of many pairs, for nearly all samples, nothing is known."""
    rule = PAC(failure_prob)
    assert rule.certify_risk(1000, 1) == 1 > rule.certify_risk(1000, 1000)
    with pytest.raises(ValueError, match=r"^failure_prob must be at least 1e-200"):
        PAC(failure_prob=0.99e-200)


def test_dkw_slack_is_rounded_up_in_exact_arithmetic():
    """By next to nothing: of all rho, none gives less."""
    for n_pairs in [2, 3, 10, 61, 1000, 1305, 10**6, 10**9]:
        with mpmath.workdps(50):
            rho = mpmath.exp(mpmath.lambertw(-mpmath.mpf(1) / (4 * n_pairs), -1) / 2)
            least = rho + mpmath.sqrt(mpmath.log(1 / rho) / (2 * n_pairs))
            assert least <= dkw_slack(n_pairs) <= least * (1 + mpmath.mpf(2e-14))


def test_order_index_above_the_pairs_is_refused():
    """There is no risk below that of the largest sampled pair."""
    for certify_risk in RISKS:
        message = r"^order_index must be at most n_pairs=10, got 11\.$"
        with pytest.raises(ValueError, match=message):
            certify_risk(10, 11)


def test_rules_survive_a_pickle():
    assert pickle.loads(pickle.dumps(PROVEN)) == PROVEN


def test_numpy_numbers_are_numbers():
    """NumPy's own integers and floats are taken as any other."""
    for rule in PROVEN:
        index = rule.order_index(np.int64(1500), np.float64(0.06))
        assert type(index) is int
        assert index == rule.order_index(1500, 0.06)
        assert type(rule.certify_risk(np.int64(1500), np.int32(index))) is float


# The guarantees, by simulation


def worst_draws(rng, trials, n_pairs, index):
    """Return the K-th smallest of m uniform draws, many times."""
    draws = rng.random((trials, n_pairs))
    return np.partition(draws, index - 1, axis=1)[:, index - 1]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("n_pairs", "gamma"), [(19, 0.05), (99, 0.05), (30, 0.33)])
def test_exchangeable_risk_by_simulation(seed, n_pairs, gamma):
    """A fresh draw exceeds the K-th smallest as often as certified; K - 1 fails."""
    rng, trials = np.random.default_rng(seed), 100_000
    rule = Exchangeable()
    index = rule.order_index(n_pairs, gamma)
    fresh = rng.random(trials)
    above = np.sum(fresh > worst_draws(rng, trials, n_pairs, index))
    assert_binomial_at_most(above, trials, gamma)
    risk = rule.certify_risk(n_pairs, index)
    assert_binomial_at_most(trials - above, trials, 1 - risk)  # and not less often
    lower = np.sum(fresh > worst_draws(rng, trials, n_pairs, index - 1))
    assert exceeds(lower, trials, gamma)


@pytest.mark.parametrize("seed", SEEDS)
def test_dkw_risk_by_simulation(seed):
    """Theorem 15 keeps its promise too, far on the safe side."""
    rng, trials = np.random.default_rng(seed), 50_000
    index = DKW().order_index(100, 0.2)
    above = np.sum(rng.random(trials) > worst_draws(rng, trials, 100, index))
    assert_binomial_at_most(above, trials, 0.2)
    assert index > Exchangeable().order_index(100, 0.2)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("n_pairs", "gamma", "failure_prob"), [(59, 0.05, 0.05), (200, 0.1, 0.01)]
)
def test_pac_failure_share_by_simulation(seed, n_pairs, gamma, failure_prob):
    """The true risk is above gamma in a share failure_prob of samples; K - 1 fails."""
    rng, trials = np.random.default_rng(seed), 100_000
    index = PAC(failure_prob).order_index(n_pairs, gamma)
    fails = np.sum(1 - worst_draws(rng, trials, n_pairs, index) > gamma)
    assert_binomial_at_most(fails, trials, failure_prob)
    share = stats.binom.sf(index - 1, n_pairs, 1 - gamma)
    assert failure_prob / 2 < share <= failure_prob
    assert_binomial_at_most(trials - fails, trials, 1 - share)
    fails = np.sum(1 - worst_draws(rng, trials, n_pairs, index - 1) > gamma)
    assert exceeds(fails, trials, failure_prob)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n_values", [2, 5])
def test_ties_are_safe(seed, n_values):
    """With few distinct values a fresh draw is above at most as often as claimed."""
    rng, trials, n_pairs, gamma = np.random.default_rng(seed), 100_000, 19, 0.1
    index = Exchangeable().order_index(n_pairs, gamma)
    draws = np.sort(rng.integers(n_values, size=(trials, n_pairs)), axis=1)
    fresh = rng.integers(n_values, size=trials)
    above = np.sum(fresh > draws[:, index - 1])
    assert_binomial_at_most(above, trials, gamma)
    pac = PAC(0.05)
    index = pac.order_index(59, 0.05)
    worst = np.max(rng.integers(n_values, size=(trials, 59)), axis=1)
    assert index == 59
    true_risk = 1 - (worst + 1) / n_values
    assert_binomial_at_most(np.sum(true_risk > 0.05), trials, 0.05)


# Dandekar's formulas


def test_theorem_5_numbers():
    """Eq. 13 at the paper's numbers, and Theorem 5 is a product with it."""
    assert f"{sample_confidence(15_000, 0.01):.4f}" == "0.9004"
    failure = 1 - sample_confidence(15_000, 0.01)
    confidence = 1 - dandekar_empirical_risk(15_000, 13_500, failure)
    assert confidence == pytest.approx(0.9 * (1 - 2 * math.exp(-3)))
    assert sample_confidence(1, 0.01) < 0  # nothing is known
    assert sample_confidence(10**6, 0.1) == 1


def test_theorem_5_claims_more_than_was_proven():
    """The proof gives (confidence - rho) * alpha, which is less."""
    alpha = sample_confidence(15_000, 0.01)
    risk = dandekar_empirical_risk(15_000, 13_500, 1 - alpha)
    assert 1 - risk > (0.9 - 0.01) * alpha


def test_theorem_6_is_the_formula():
    """For one output it is a ratio of exponentials; the paper's 0.6 gives 0.54."""
    expected = 0.9 * math.expm1(-0.4) / math.expm1(-0.797)
    assert bessel_joint_confidence(0.4, 0.797, 0.9) == pytest.approx(expected)
    assert expected == pytest.approx(0.54, abs=5e-4)
    expected = 0.9 * dandekar_cdf(1.0, 6) / dandekar_cdf(1.2 * 2.0, 6)
    assert bessel_joint_confidence(1, 2, 0.9, n_outputs=6, eta=1.2) == pytest.approx(
        expected
    )
    assert bessel_joint_confidence(0.4, math.inf, 0.9) == pytest.approx(
        0.9 * -math.expm1(-0.4)
    )


def test_theorem_6_recalibration_numbers():
    """The paper's epsilon = 0.4 at 0.6 of the confidence has noise level 0.797."""
    assert round(bessel_joint_noise_epsilon(0.4, 0.54, 0.9), 3) == 0.797


def test_worked_example_needs_eta_below_one_half():
    """Noise level 0.8 for 0.4 at confidences 0.9 and 0.9 would take eta < 1/2."""
    alpha = sample_confidence(15_000, 0.01)
    noise = bessel_joint_noise_epsilon(0.4, 0.9, 0.9, sample_confidence=alpha)
    assert noise < 0.4
    needed = noise / 0.8  # eta enters as a factor of the noise level alone
    assert needed < 0.5
    again = bessel_joint_noise_epsilon(
        0.4, 0.9, 0.9, sample_confidence=alpha, eta=needed
    )
    assert again == pytest.approx(0.8, rel=1e-12)
    for eta in (1.0, 1 + 0.01 / 0.2):  # eta = 1 + rho / sensitivity, as in Lemma 12
        recalibrated = bessel_joint_noise_epsilon(
            0.4, 0.9, 0.9, sample_confidence=alpha, eta=eta
        )
        assert recalibrated < 0.4


@derandomized
@given(
    epsilon=st.floats(1e-9, 20),
    target=st.floats(0.01, 0.99),
    confidence=st.floats(0.01, 0.99),
    n_outputs=st.sampled_from([1, 2, 6, 40]),
    eta=st.floats(0.1, 10),
    alpha=st.floats(0.05, 1),
)
def test_theorem_6_recalibration_inverts_it(
    epsilon, target, confidence, n_outputs, eta, alpha
):
    """At the noise level found the formula claims the target; else it is refused."""
    shape = {"n_outputs": n_outputs, "eta": eta}
    arguments = (epsilon, target, confidence)
    least = alpha * bessel_joint_confidence(epsilon, math.inf, confidence, **shape)
    assume(least > 1e-250 and abs(least / target - 1) > 1e-9)
    if least > target:
        with pytest.raises(CalibrationError) as caught:
            bessel_joint_noise_epsilon(*arguments, **shape, sample_confidence=alpha)
        assert caught.value.target == target
        assert caught.value.best == pytest.approx(least)
        return
    noise = bessel_joint_noise_epsilon(*arguments, **shape, sample_confidence=alpha)
    claimed = alpha * bessel_joint_confidence(epsilon, noise, confidence, **shape)
    assert claimed == pytest.approx(target, rel=1e-9)


def test_theorem_6_recalibration_refusal_text():
    """Where the formula always claims more than the target, the error says so."""
    message = (
        r"^target=0\.5 is exceeded at every noise level: the least confidence that "
        r"the formula can claim is 0\.899959\.$"
    )
    with pytest.raises(CalibrationError, match=message):
        bessel_joint_noise_epsilon(10, 0.5, 0.9)


def test_confidences_out_of_range_are_refused():
    """A confidence in (0, 1] is refused by name otherwise."""
    for value in [0, -0.1, 1.5, math.nan, True, "0.5"]:
        message = r"^{} must be a number in \(0, 1\], got "
        with pytest.raises(ValueError, match=message.format("sample_confidence")):
            bessel_joint_noise_epsilon(1, 0.5, 0.5, sample_confidence=value)


@pytest.mark.parametrize("value", [0, -1, math.nan, True, "1", math.inf])
def test_positive_numbers_out_of_range_are_refused(value):
    """The rho, eta and finite epsilon of the formulas are refused by name."""
    message = "^{} must be a finite number above 0, got "
    for name, call in (
        ("rho", lambda: sample_confidence(10, value)),
        ("eta", lambda: bessel_joint_confidence(1, 1, 0.5, eta=value)),
        ("eta", lambda: bessel_joint_noise_epsilon(1, 0.5, 0.5, eta=value)),
        ("epsilon", lambda: bessel_joint_noise_epsilon(value, 0.5, 0.5)),
    ):
        with pytest.raises(ValueError, match=message.format(name)):
            call()
    if value != math.inf:
        for name, arguments in (("epsilon", (value, 1)), ("noise_epsilon", (1, value))):
            with pytest.raises(ValueError, match=f"^{name} must be a number in"):
                bessel_joint_confidence(*arguments, 0.5)


def test_the_probability_to_fail_is_that_of_the_rule():
    """Also of a rule that is given as one; others have none."""
    public = np.random.default_rng(0).normal(size=(900, 1))
    for rule, failing in (("exchangeable", 0.0), ("pac", 0.05), (PAC(0.02), 0.02)):
        sampler = SensitivitySampler(
            np.mean, n_pairs=400, random_state=0, calibration=rule
        )
        assert sampler.fit(public).certificate_.failure_prob == failing
