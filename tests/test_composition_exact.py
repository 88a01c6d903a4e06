"""The exact rule, against a second way: laws of the loss on a grid."""

import math
import sys

import mpmath
import numpy as np
import pytest
from certificates import certificate
from dp_accounting.pld import privacy_loss_distribution as pld
from releases import DELTA, RULES, gaussian, laplace
from scipy import optimize, special, stats

from skparisk.core.claim import remade
from skparisk.core.compose import _distribution, compose_basic, compose_exact
from skparisk.core.laws import Gaussian
from skparisk.exceptions import CalibrationError

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


# --- The exact rule -------------------------------------------------------------------


@pytest.mark.sampled(2)
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
        Gaussian().level(1e-3, shift), rel=1e-6
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


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("n", [2, 60, 256, 512, 600])
def test_exact_level_of_gaussian_noise_is_that_of_one_release(n):
    found = compose_exact([gaussian(0.2)] * n, delta=DELTA).epsilon
    expected = Gaussian().level(DELTA, 0.2 * math.sqrt(n))
    assert expected <= found <= expected * (1 + 1e-6)


def test_exact_level_of_numbers_alone_is_that_of_randomized_response():
    for level, n in [(0.1, 7), (0.1, 200), (1.0, 40)]:
        for own, delta in [(0, DELTA), (1e-8, DELTA), (1e-4, 0.03)]:

            def delta_of(epsilon):  # Kairouz, Oh, Viswanath 2017
                heads = np.arange(n + 1)
                losses = (2 * heads - n) * level
                gaps = -np.expm1(np.minimum(epsilon - losses, 0))
                inside = gaps @ stats.binom.pmf(heads, n, special.expit(level))
                return 1 - (1 - own) ** n * (1 - inside)

            found = compose_exact([(level, own)] * n, delta=delta).epsilon
            assert delta_of(found) <= delta
            assert delta_of(found * (1 - 1e-5)) > delta


def test_deltas_of_numbers_alone_are_kept():
    """Two (1, 0.1) releases, by all that can come out of the worst of that level."""
    odds, found = math.e, compose_exact([(1.0, 0.1)] * 2, delta=0.25).epsilon
    surely = 0.1, 0.9 * odds / (1 + odds), 0.9 / (1 + odds), 0.0  # of one database
    other = surely[::-1]

    def delta_of(epsilon):
        first, second = np.outer(surely, surely), np.outer(other, other)
        return np.maximum(first - math.exp(epsilon) * second, 0).sum()

    assert delta_of(found) <= 0.25
    assert delta_of(found * (1 - 1e-5)) > 0.25


def test_rounding_of_each_release_takes_a_part_of_delta():
    """2**-48 of each of ten, so that a delta of five times that is out of reach."""
    releases = [gaussian(0.2)] * 10
    with pytest.raises(CalibrationError):
        compose_exact(releases, delta=5 * 2.0**-48)
    assert compose_exact(releases, delta=20 * 2.0**-48).epsilon < 10


def test_exact_level_of_different_releases():
    laws = [(laplace_cdf(0.5), 12), (gaussian_cdf(0.3), 9), (two_point_cdf(0.25), 7)]
    releases = [laplace(0.5)] * 12 + [gaussian(0.3)] * 9 + [0.25] * 7
    found = compose_exact(releases, delta=DELTA).epsilon
    expected = level_of(*sum_of_losses(laws, 0.25 / 250), DELTA)
    assert found == pytest.approx(expected, rel=1e-6)


def test_exact_level_of_a_few_different_levels():
    shifts = [0.1, 0.2, 0.35, 0.5, 0.8]
    laws = [(laplace_cdf(a), 1) for a in shifts]
    found = compose_exact([laplace(a) for a in shifts], delta=1e-3).epsilon
    expected = level_of(*sum_of_losses(laws, 0.05 / 250), 1e-3)
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_a_level_below_that_of_the_law_counts():
    tight = laplace(0.1, excess=0.01, epsilon=0.1)
    assert compose_exact([tight] * 3, delta=0).epsilon == 0.3
    tight = laplace(0.1, excess=0.01, epsilon=0.1, randomness="explicit")
    assert compose_exact([tight] * 3, delta=0).epsilon == 0.3
    at_risk = laplace(0.1, excess=0.01, epsilon=0.1, risk=0.05, randomness="implicit")
    assert compose_exact([at_risk] * 3, delta=0).epsilon == 0.3
    with_delta = laplace(0.1, excess=0.01, epsilon=0.05, delta=0.1)
    assert compose_exact([with_delta] * 3, delta=0).epsilon == 0.33


def test_risk_over_noise_of_a_known_law_is_not_needed():
    pointwise = laplace(1.6, epsilon=0.6, risk=0.7, randomness="explicit")
    together = compose_exact([pointwise] * 2, delta=DELTA)
    assert together.risk == 0
    assert together.epsilon > 3.19
    assert compose_exact([pointwise], delta=0).epsilon == 1.6
    pointwise = gaussian(0.5, delta=0.0, epsilon=1.0, risk=0.05, randomness="explicit")
    assert compose_exact([pointwise], delta=0.05).epsilon < 1
    # A share of samples may fail for it, so the law is not used, and both stay.
    doubtful = remade(pointwise, failure_prob=0.01)
    together = compose_exact([doubtful], delta=DELTA)
    assert together.risk == 0.05
    assert together.failure_prob == 0.01
    assert together.epsilon == pytest.approx(1, rel=1e-4)
    doubtful = laplace(1.0, risk=0.05, failure_prob=0.01, randomness="explicit")
    together = compose_exact([doubtful], delta=DELTA)
    assert (together.risk, together.failure_prob) == (0.05, 0.01)
    assert together == remade(
        compose_exact([remade(doubtful, loss=None)], delta=DELTA),
        assumptions=together.assumptions,
    )


def test_risk_over_pairs_stays():
    release = laplace(0.1, risk=0.01, randomness="implicit")
    for rule in RULES.values():
        together = rule([release] * 4)
        assert together.risk in (0.01, 0.04)
        assert together.randomness == "implicit"


def test_missing_dp_accounting_is_named(monkeypatch):
    _distribution.cache_clear()
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    with pytest.raises(ImportError, match=r'pip install "skparisk\[accounting\]"'):
        compose_exact([laplace(0.1)], delta=DELTA)
    assert compose_exact([laplace(0.1)] * 2, delta=0).epsilon == 0.2


def test_risks_that_one_database_has_alone_count_twice():
    """It answers A; its neighbor A with probability exp(-epsilon), and else B.

    On average over both orders, the loss is within epsilon but for half of the chance
    of B. In one of them it always is epsilon, and adds up.
    """
    epsilon, n = 1e-4, 1000
    risk = -math.expm1(-epsilon) / 2
    together = compose_exact([(epsilon, 0.0, risk)] * n, delta=1e-5)
    # P(A, ..., A) is 1 and exp(-n epsilon).
    true = 1 - math.exp(together.epsilon - n * epsilon)
    assert together.epsilon < 0.01
    assert together.risk + together.delta >= true
    noise = compose_basic([(epsilon, 0.0, risk)] * n)  # levels that add up need no more
    assert noise.risk == pytest.approx(n * risk)
    # Noise of this package loses as much in either order.
    own = certificate(epsilon=epsilon, risk=risk, randomness="both")
    assert compose_exact([own] * n, delta=1e-5).risk == noise.risk
