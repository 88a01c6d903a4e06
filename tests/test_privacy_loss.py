"""The laws of the privacy loss against quadrature, closed forms and simulation."""

import math

import laws
import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from skparisk.core.laws import Laplace
from skparisk.exceptions import CalibrationError
from skparisk.papers import (
    dandekar_cdf,
    dandekar_confidence,
    dandekar_epsilon,
    dandekar_noise_epsilon,
    laplace_loss_mean,
)

laplace_delta = Laplace().profile
laplace_loss_exceedance = Laplace().exceedance
laplace_noise_epsilon = Laplace().shift_at_risk
laplace_delta_noise_epsilon = Laplace().largest_shift

SHIFTS = [1e-3, 0.1, 1.0, math.log(3), 8.0]
ALMOST_BELOW, ALMOST_ABOVE = 1 - 1e-12, 1 + 1e-12

derandomized = settings(derandomize=True, deadline=None, max_examples=60)
levels = st.floats(1e-6, 20.0)
confidences = st.floats(0.001, 0.999)
lengths = st.sampled_from([1, 2, 3, 10, 64, 200])


def laplace_expectation(function, shift, kinks=()):
    """Return E[function(loss)], by quadrature over the noise."""

    def integrand(noise):
        return mpmath.exp(-abs(noise)) / 2 * function(abs(noise - shift) - abs(noise))

    points = sorted({-60.0, 0.0, shift, 60.0 + shift, *kinks})
    return float(mpmath.quad(integrand, points))


def dandekar_density(t, k):
    """Return the density of T, as Theorem 4 has it: with a Bessel function."""
    t = mpmath.mpf(t)
    bessel = mpmath.besselk(k - mpmath.mpf(1) / 2, t)
    scale = mpmath.sqrt(2 * mpmath.pi) * mpmath.gamma(k)
    return mpmath.mpf(2) ** (2 - k) * t ** (k - mpmath.mpf(1) / 2) * bessel / scale


def largest_validity_gap(noise_epsilon, k):
    """Return by how much the true delta exceeds 1 - confidence, at the worst level."""
    epsilon = noise_epsilon * np.linspace(1e-4, 1 - 1e-4, 4001)
    claimed = 1 - dandekar_confidence(epsilon, noise_epsilon, k)
    return np.max(laplace_delta(epsilon, noise_epsilon) - claimed)


# The exact law of the Laplace loss


def test_laplace_loss_exceedance_is_the_integral_over_the_noise():
    """Between the atoms the law is what quadrature over the noise gives."""
    for shift in SHIFTS:
        for loss in shift * np.array([-0.99, 0.3, 0.99]):
            kink = (shift - loss) / 2  # where the loss falls through this value
            expected = laplace_expectation(
                lambda c, loss=loss: 1 if c > loss else 0, shift, [kink]
            )
            found = laplace_loss_exceedance(loss, shift)
            assert found == pytest.approx(expected, rel=1e-12)


def test_laplace_loss_has_its_two_atoms():
    """The law jumps by 1/2 at the shift and by exp(-shift)/2 at minus the shift."""
    for shift in SHIFTS:
        upper = laplace_loss_exceedance(shift * ALMOST_BELOW, shift)
        assert upper == pytest.approx(0.5, rel=1e-10)
        assert laplace_loss_exceedance(shift, shift) == 0
        lower = 1 - laplace_loss_exceedance(-shift, shift)
        assert lower == pytest.approx(math.exp(-shift) / 2, abs=2e-16)
        assert laplace_loss_exceedance(-shift * ALMOST_ABOVE, shift) == 1
        assert laplace_loss_exceedance([-math.inf, math.inf], shift).tolist() == [1, 0]


def test_laplace_loss_exceedance_against_simulation():
    """Simulated losses fit the law, and refuse shifts 10 % off on both sides."""
    noise = np.random.default_rng(0).laplace(size=200_000)
    loss = np.abs(noise - 1.0) - np.abs(noise)
    at = np.linspace(-0.99, 0.99, 41)
    seen = np.mean(loss[:, np.newaxis] > at, axis=0)
    allowed = 5 * 0.5 / math.sqrt(len(loss))
    assert np.max(np.abs(seen - laplace_loss_exceedance(at, 1.0))) < allowed
    for wrong in (0.9, 1.1):
        assert np.max(np.abs(seen - laplace_loss_exceedance(at, wrong))) > allowed


def test_laplace_loss_without_a_shift_or_far_from_it():
    """No shift has no loss, and losses beyond the shift do not overflow."""
    assert laplace_loss_exceedance([-1e-300, 0.0], 0).tolist() == [1, 0]
    far = [-1e300, -1e5, 1e5, 1e300]
    assert laplace_loss_exceedance(far, 1.0).tolist() == [1, 1, 0, 0]


def test_laplace_loss_exceedance_is_at_least_one_half_and_then_zero():
    """Noise alone cannot bring the risk of a known pair under one half."""
    assert laplace_loss_exceedance(1 - 1e-12, 1.0) >= 0.5
    assert laplace_loss_exceedance([1.0, math.inf], 1.0).tolist() == [0, 0]
    assert laplace_loss_exceedance(0.0, 0.0) == 0
    assert laplace_loss_exceedance(0.0, 1e300) == 1
    assert laplace_loss_exceedance(0.0, 1e-300) == 0.5


def test_true_risk_against_the_paper():
    """At noise level 1 and epsilon 0.6 the risk is 0.59; the paper says 0.29."""
    assert laplace_loss_exceedance(0.6, 1.0) == pytest.approx(0.59, abs=0.005)
    assert 1 - dandekar_confidence(0.6, 1.0) == pytest.approx(0.29, abs=0.005)


def test_risk_above_one_half_has_the_stated_inverse():
    """For gamma >= 1/2 the exact noise level is epsilon - 2 ln(2(1 - gamma))."""
    for gamma in (0.5, 0.7, 0.95):
        noise_epsilon = 0.6 - 2 * math.log(2 * (1 - gamma))
        below = laplace_loss_exceedance(0.6, noise_epsilon * ALMOST_BELOW)
        above = laplace_loss_exceedance(0.6, noise_epsilon * ALMOST_ABOVE)
        assert below <= gamma
        assert above == pytest.approx(gamma, rel=1e-10)


def test_laplace_loss_mean_is_the_integral_over_the_noise():
    """The mean is what quadrature over the noise gives."""
    for shift in SHIFTS:
        expected = laplace_expectation(lambda c: c, shift)
        assert laplace_loss_mean(shift) == pytest.approx(expected, rel=1e-10)


def test_laplace_loss_mean_keeps_its_digits():
    """From tiny shifts to huge ones the mean has all its digits."""
    shift = np.concatenate((np.geomspace(1e-150, 1e3, 200), np.linspace(0.1, 4, 50)))
    with mpmath.workdps(340):
        exact = [float(mpmath.mpf(a) + mpmath.expm1(-mpmath.mpf(a))) for a in shift]
    np.testing.assert_allclose(laplace_loss_mean(shift), exact, rtol=1e-13)
    assert laplace_loss_mean(0.0) == 0


def test_true_mean_against_theorem_3():
    """The mean loss at the paper's three noise levels."""
    np.testing.assert_allclose(
        laplace_loss_mean([0.1, 0.5, 1.0]), [0.00484, 0.10653, 0.36788], atol=5e-6
    )


def test_laplace_delta_is_the_hockey_stick_of_the_loss():
    """Delta is E[max(0, 1 - exp(epsilon - loss))], by quadrature."""
    for noise_epsilon in SHIFTS:
        for epsilon in noise_epsilon * np.array([0.0, 0.9]):
            kink = (noise_epsilon - epsilon) / 2
            expected = laplace_expectation(
                lambda c, epsilon=epsilon: max(0, 1 - mpmath.exp(epsilon - c)),
                noise_epsilon,
                [kink],
            )
            delta = laplace_delta(epsilon, noise_epsilon)
            assert delta == pytest.approx(expected, rel=1e-9)


def test_laplace_delta_ends():
    """Zero from the noise level on, without a sign; one without noise."""
    delta = laplace_delta([1.0, 2.0, math.inf], 1.0)
    assert delta.tolist() == [0, 0, 0]
    assert not np.signbit(delta).any()
    assert laplace_delta([0.1, math.inf], math.inf).tolist() == [1, 0]
    assert laplace_delta(1.0, 1.0 + 2e-10) == pytest.approx(1e-10, rel=1e-5)


@pytest.mark.parametrize("first", [0.05, 0.3, 0.5])
def test_one_coordinate_is_the_worst_shift(first):
    """Spreading a shift over two coordinates lowers delta, at every epsilon."""

    def delta_of_one(epsilon, a):
        """Return delta for any sign of epsilon."""
        if epsilon <= -a:
            return 1 - math.exp(epsilon)
        return max(0.0, 1 - math.exp((epsilon - a) / 2))

    a, b = first, 1 - first
    nodes, weights = np.polynomial.legendre.leggauss(200)
    for epsilon in (0.0, 0.2, 0.6, 0.95):
        inner = [delta_of_one(epsilon - c, b) for c in a * nodes]
        spread = a * np.dot(weights * np.exp((a * nodes - a) / 2) / 4, inner)
        spread += delta_of_one(epsilon - a, b) / 2
        spread += math.exp(-a) * delta_of_one(epsilon + a, b) / 2
        assert 0 < spread < laplace_delta(epsilon, 1.0)


# The inverses of the Laplace law


@derandomized
@given(epsilon=levels, gamma=confidences, factor=st.floats(1e-9, 1.0))
def test_laplace_noise_epsilon_is_safe_and_tight(epsilon, gamma, factor):
    """The risk holds at every shift up to the level, and not a little above it."""
    noise_epsilon = laplace_noise_epsilon(epsilon, gamma)
    assert noise_epsilon >= epsilon
    assert laplace_loss_exceedance(epsilon, noise_epsilon) <= gamma
    assert laplace_loss_exceedance(epsilon, noise_epsilon * factor) <= gamma
    assert laplace_loss_exceedance(epsilon, noise_epsilon * (1 + 1e-9)) > gamma
    assert laplace_noise_epsilon(epsilon, gamma) == noise_epsilon


@derandomized
@given(epsilon=levels, delta=st.floats(0.0, 0.999))
def test_laplace_delta_noise_epsilon_is_safe_and_tight(epsilon, delta):
    """The delta holds at the level, and not a little above it."""
    noise_epsilon = laplace_delta_noise_epsilon(epsilon, delta)
    assert noise_epsilon >= epsilon
    assert laplace_delta(epsilon, noise_epsilon) <= delta
    assert laplace_delta(epsilon, noise_epsilon * (1 + 1e-9)) > delta
    assert laplace_delta_noise_epsilon(epsilon, delta) == noise_epsilon


def test_laplace_inverses_are_the_closed_forms():
    """epsilon - 2 ln(2(1 - gamma)) and epsilon - 2 ln(1 - delta), rounded down."""
    for target in (0.5, 0.51, 0.7, 0.95):
        with mpmath.workdps(40):
            log = 2 * mpmath.log(1 - mpmath.mpf(target))
            risk = float(mpmath.mpf(0.6) - 2 * mpmath.log(2) - log)
            delta = float(mpmath.mpf(0.6) - log)
        for found, exact in (
            (laplace_noise_epsilon(0.6, target), risk),
            (laplace_delta_noise_epsilon(0.6, target), delta),
        ):
            assert found == pytest.approx(exact, rel=1e-14)


@pytest.mark.slow
def test_laplace_inverses_are_safe_over_a_dense_table():
    """No pair is rounded to the optimistic side, at extreme levels too."""
    ends = [1e-300, 1e-16, 1 - 1e-9, math.nextafter(1, 0)]
    for epsilon in (1e-300, 1e-9, 0.3, 30.0, 1e9, 1e300):
        for target in [*np.linspace(0.003, 0.997, 60).tolist(), *ends]:
            noise_epsilon = laplace_noise_epsilon(epsilon, target)
            assert epsilon <= noise_epsilon < math.inf
            assert laplace_loss_exceedance(epsilon, noise_epsilon) <= target
            noise_epsilon = laplace_delta_noise_epsilon(epsilon, target)
            assert epsilon <= noise_epsilon < math.inf
            assert laplace_delta(epsilon, noise_epsilon) <= target


def test_risk_below_one_half_buys_no_noise_level():
    """Epsilon itself comes back, and the next float has a risk of one half."""
    for gamma in (1e-9, 0.1, math.nextafter(0.5, 0)):
        assert laplace_noise_epsilon(0.7, gamma) == 0.7
        assert laplace_loss_exceedance(0.7, math.nextafter(0.7, 1)) >= 0.5 > gamma
    assert laplace_noise_epsilon(0.7, 0.5) == pytest.approx(0.7, rel=1e-15)


def test_several_outputs_keep_epsilon():
    """For more than one output the worst shift is not proved, so nothing is bought."""
    for gamma in (0.1, 0.5, 0.9):
        assert laplace_noise_epsilon(0.7, gamma, n_outputs=2) == 0.7


def test_laplace_inverses_at_their_ends():
    """No level needs no noise; without a delta the level is the noise level."""
    for gamma in (0.1, 0.9):
        assert laplace_noise_epsilon(math.inf, gamma) == math.inf
    for delta in (0, 0.9):
        assert laplace_delta_noise_epsilon(math.inf, delta) == math.inf
    assert laplace_delta_noise_epsilon(0.7, 0) == 0.7


def test_promise_of_the_laplace_noise_epsilon_holds_in_simulation():
    """Losses exceed epsilon as rarely as promised; with 10 % less noise not."""
    noise = np.random.default_rng(0).laplace(size=200_000)
    level = laplace_noise_epsilon(0.6, 0.7)
    for shift, holds in ((level, True), (1.1 * level, False)):
        violations = int(np.sum(np.abs(noise - shift) - np.abs(noise) > 0.6))
        assert laws.exceeds(violations, len(noise), 0.7) is not holds


# Dandekar's law


@pytest.mark.parametrize(
    ("k", "x", "expected"),
    [
        (2, 1.0, 0.448180838242837),
        (7, 2.5, 0.515593101797861),
        (60, 8.0, 0.537086098881539),
    ],
)
def test_dandekar_cdf_reference_values(k, x, expected):
    """Known values, to the last printed digit."""
    assert dandekar_cdf(x, n_outputs=k) == pytest.approx(expected, abs=6e-16)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("k", [1, 2, 3, 7, 20, 60, 128, 200])
def test_dandekar_cdf_integrates_the_bessel_density(k):
    """The mixture of gammas is the law with the Bessel density."""
    width = math.sqrt(2 * k)
    low, total = 0.0, mpmath.mpf(0)
    with mpmath.workdps(25):
        for x in width * np.array([1e-9, 1e-3, 0.1, 1.0, 4.0]):
            total += mpmath.quad(lambda t: dandekar_density(t, k), [low, x])
            low = x
            assert dandekar_cdf(x, k) == pytest.approx(float(total), rel=1e-12, abs=0)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("k", [1, 5, 40, 500])
def test_dandekar_cdf_is_accurate_from_1e_minus_12_to_1e4(k):
    """The mixture in high precision, over 16 decades."""

    def weight(j):
        return mpmath.binomial(k - 1 + j, j) / mpmath.mpf(2) ** (k - 1 + j)

    x = np.geomspace(1e-12, 1e4, 9)
    with mpmath.workdps(30):
        exact = [
            float(
                sum(
                    weight(j) * mpmath.gammainc(k - j, 0, at, regularized=True)
                    for j in range(k)
                )
            )
            for at in x
        ]
    np.testing.assert_allclose(dandekar_cdf(x, k), exact, rtol=1e-13)


def test_dandekar_cdf_against_simulation():
    """Simulated distances fit the law, and refuse it 10 % off on both sides."""
    rng = np.random.default_rng(0)
    distance = np.abs(rng.gamma(5, size=100_000) - rng.gamma(5, size=100_000))
    x = np.linspace(0.2, 10, 30)
    seen = np.mean(distance[:, np.newaxis] <= x, axis=0)
    allowed = 5 * 0.5 / math.sqrt(len(distance))
    assert np.max(np.abs(seen - dandekar_cdf(x, n_outputs=5))) < allowed
    for scale in (0.9, 1.1):
        assert np.max(np.abs(seen - dandekar_cdf(x * scale, n_outputs=5))) > allowed


def test_dandekar_cdf_edges():
    """Nothing at or below zero, exactly one far out, monotone and within [0, 1]."""
    for k in [1, 2, 10, 60, 200, 1000]:
        ends = [-math.inf, -1.0, 0.0, 1e4, math.inf]
        assert dandekar_cdf(ends, k).tolist() == [0, 0, 0, 1, 1]
        grid = dandekar_cdf(np.linspace(0, 2 * k + 70, 2000), k)
        assert np.all(np.diff(grid) > -1e-15)
        assert np.all((grid >= 0) & (grid <= 1))


# Confidence and its inverses


@pytest.mark.parametrize(
    ("noise_epsilon", "epsilon", "confidence"),
    [(0.1, 0.08, 0.80), (0.5, 0.27, 0.61), (1.0, 0.42, 0.54)],
)
def test_examples_of_the_paper(noise_epsilon, epsilon, confidence):
    """The worked examples: each epsilon as printed lies within its rounding.

    The paper rounds epsilon and confidence, so the confidence at the printed
    epsilon is the printed one within what the rounding of epsilon moves it.
    """
    low = dandekar_confidence(epsilon - 0.005, noise_epsilon)
    high = dandekar_confidence(epsilon + 0.005, noise_epsilon)
    assert low - 0.005 < confidence < high + 0.005
    assert round(dandekar_epsilon(confidence, noise_epsilon), 2) == epsilon


def test_recalibration_example():
    """Epsilon 0.4 at confidence 0.6 needs the noise of level 0.797."""
    assert dandekar_noise_epsilon(0.4, 0.6) == pytest.approx(0.797, abs=5e-4)


def test_closed_forms_of_one_output():
    """Equation 3 and equation 4, written out."""
    for noise_epsilon in (0.1, 1.0, 5.0):
        for epsilon in noise_epsilon * np.array([0.01, 0.5, 0.99]):
            ratio = (1 - math.exp(-epsilon)) / (1 - math.exp(-noise_epsilon))
            conf = dandekar_confidence(float(epsilon), noise_epsilon)
            assert conf == pytest.approx(ratio, rel=1e-12)
        for conf in (0.01, 0.6, 0.99):
            level = math.log(1 / (1 - conf * (1 - math.exp(-noise_epsilon))))
            found = dandekar_epsilon(conf, noise_epsilon)
            assert found == pytest.approx(level, rel=1e-12)


def test_confidence_ends():
    """One from the noise level on; without noise the law of T itself."""
    assert dandekar_confidence([1.0, 1.5, math.inf], 1.0).tolist() == [1, 1, 1]
    assert dandekar_confidence(math.inf, math.inf) == 1
    for k in (1, 3, 60):
        assert dandekar_confidence(0.7, math.inf, k) == dandekar_cdf(0.7, k)


def test_formula_is_valid_as_a_delta_below_a_threshold_only():
    """Up to the threshold 1 - confidence is a delta (k = 1: ln 3), above it not."""
    for k, threshold in [(2, 1.417), (3, 1.582), (5, 1.740), (10, 1.868)]:
        assert largest_validity_gap(threshold - 1e-3, k) <= 1e-15
        assert largest_validity_gap(threshold + 1e-3, k) > 0


def test_threshold_of_one_output_is_sharp():
    """At ln 3 exactly the formula is still a delta; a little above it is not."""
    assert largest_validity_gap(math.log(3), 1) <= 1e-15
    assert largest_validity_gap(math.log(3) * (1 + 5e-4), 1) > 0


@derandomized
@given(epsilon=levels, noise_epsilon=levels, k=lengths, factor=st.floats(1.001, 3.0))
def test_confidence_is_monotone(epsilon, noise_epsilon, k, factor):
    """More with a larger epsilon, more with more noise, within [0, 1]."""
    conf = dandekar_confidence(epsilon, noise_epsilon, k)
    assert 0 <= conf <= 1
    assert dandekar_confidence(epsilon * factor, noise_epsilon, k) >= conf
    assert dandekar_confidence(epsilon, noise_epsilon * factor, k) <= conf


@derandomized
@given(epsilon=levels, shift=levels, factor=st.floats(1.001, 3.0))
def test_exact_laws_are_monotone(epsilon, shift, factor):
    """The risk falls with epsilon and grows with the shift; so does delta."""
    for law in (laplace_loss_exceedance, laplace_delta):
        value = law(epsilon, shift)
        assert law(epsilon * factor, shift) <= value <= law(epsilon, shift * factor)
    assert laplace_loss_mean(shift * factor) > laplace_loss_mean(shift)
    more = laplace_loss_exceedance(-epsilon * factor, shift)
    assert more >= laplace_loss_exceedance(-epsilon, shift)


@derandomized
@given(confidence=confidences, noise_epsilon=levels, k=lengths)
def test_epsilon_is_safe_and_tight(confidence, noise_epsilon, k):
    """The level has the confidence, to 1e-9, and 0.99 of it has not."""
    epsilon = dandekar_epsilon(confidence, noise_epsilon, k)
    assert 0 < epsilon <= noise_epsilon
    reached = dandekar_confidence(epsilon, noise_epsilon, k)
    assert confidence <= reached <= confidence + 1e-9
    assert dandekar_confidence(0.99 * epsilon, noise_epsilon, k) < confidence
    assert dandekar_epsilon(confidence, noise_epsilon, k) == epsilon


@derandomized
@given(confidence=confidences, epsilon=st.floats(1e-6, 5.0), k=lengths)
def test_noise_epsilon_is_safe_and_tight(confidence, epsilon, k):
    """The noise has the confidence, to 1e-9; a level 1 % higher has less of it."""
    assume(dandekar_cdf(epsilon, k) < confidence)
    noise_epsilon = dandekar_noise_epsilon(epsilon, confidence, k)
    assert noise_epsilon >= epsilon
    reached = dandekar_confidence(epsilon, noise_epsilon, k)
    assert confidence <= reached <= confidence + 1e-9
    assert dandekar_confidence(epsilon, 0.99 * noise_epsilon, k) > confidence
    assert dandekar_confidence(epsilon, 1.01 * noise_epsilon, k) <= reached
    assert dandekar_noise_epsilon(epsilon, confidence, k) == noise_epsilon


def test_rounding_is_safe_where_the_inverse_is_badly_conditioned():
    """Extreme targets and levels, with no noise too, stay on the safe side."""
    for k in [1, 2, 50]:
        for target in [1e-9, 0.5, 1 - 1e-9, 1 - 1e-15]:
            for noise_epsilon in (1e-12, 1.0, 30.0, 400.0, math.inf):
                epsilon = dandekar_epsilon(target, noise_epsilon, k)
                assert 0 < epsilon <= noise_epsilon
                reached = dandekar_confidence(epsilon, noise_epsilon, k)
                assert target <= reached <= target + 1e-9
            for epsilon in (1e-12, 0.3, 0.69):
                if dandekar_cdf(epsilon, k) < target:
                    noise_epsilon = dandekar_noise_epsilon(epsilon, target, k)
                    assert noise_epsilon >= epsilon
                    reached = dandekar_confidence(epsilon, noise_epsilon, k)
                    assert target <= reached <= target + 1e-9


def test_noise_epsilon_is_never_below_epsilon_by_rounding():
    """With a confidence of almost one the closed form would fall below epsilon."""
    target = math.nextafter(1, 0)
    for epsilon in np.geomspace(1e-9, 1e-6, 50):
        assert dandekar_noise_epsilon(float(epsilon), target) >= epsilon


def test_a_confidence_one_ulp_above_the_least_is_reached():
    """Close to the end of the range the noise level is large, and still safe."""
    for k in (1, 2, 60):
        least = dandekar_cdf(0.5, k)
        assert dandekar_noise_epsilon(0.5, least, k) == math.inf
        target = math.nextafter(least, 1)
        noise_epsilon = dandekar_noise_epsilon(0.5, target, k)
        assert 20 < noise_epsilon < math.inf
        assert dandekar_confidence(0.5, noise_epsilon, k) >= target


def test_unreachable_confidence_says_what_can_be_reached():
    """Noise lowers the confidence down to P(T <= epsilon), not below."""
    for k in [1, 2, 60]:
        least = dandekar_cdf(0.5, k)
        target = math.nextafter(least, 0)
        message = rf"confidence must be at least {least!r}.*n_outputs={k} and no noise"
        with pytest.raises(CalibrationError, match=message) as caught:
            dandekar_noise_epsilon(0.5, target, k)
        assert caught.value.target == target
        assert caught.value.best == least == dandekar_confidence(0.5, math.inf, k)


# What goes in, what comes out


@pytest.mark.parametrize(
    "law", [laplace_loss_exceedance, laplace_delta, dandekar_confidence]
)
def test_laws_of_two_arguments_are_elementwise(law):
    """Floats give a float, arrays broadcast, integers count as numbers."""
    assert type(law(1, 2)) is float
    assert type(law(np.float64(0.5), np.asarray(2.0))) is float
    first, second = np.array([0.2, 0.5, 3.0]), np.array([[0.1], [0.5], [1.0], [4.0]])
    table = law(first, second)
    assert table.shape == (4, 3)
    single = [[law(float(x), float(y)) for x in first] for y in second[:, 0]]
    np.testing.assert_allclose(table, single, rtol=1e-15)
    assert law([], 1.0).shape == (0,)
    np.testing.assert_array_equal(table, law(first, second))


@pytest.mark.parametrize("law", [laplace_loss_mean, dandekar_cdf])
def test_laws_of_one_argument_are_elementwise(law):
    """A float gives a float, an array one of its shape."""
    assert type(law(1)) is float
    grid = np.array([[0.2, 1.0], [3.0, 4.0]])
    single = [[law(float(x)) for x in row] for row in grid]
    np.testing.assert_allclose(law(grid), single, rtol=1e-15)
    assert law([]).shape == (0,)


def test_inverses_return_floats():
    """A single level comes out, as a float."""
    for k in (1, 2):
        assert type(dandekar_epsilon(0.5, 1, k)) is float
        assert type(dandekar_noise_epsilon(np.float64(0.1), 0.5, k)) is float
    for target in (0.2, np.float64(0.8)):
        assert type(laplace_noise_epsilon(1.0, target)) is float
        assert type(laplace_delta_noise_epsilon(1.0, target)) is float


def test_bad_input_is_refused_with_name_value_and_range():
    """Each message has the name, the value and what is allowed."""
    for call, message in [
        (
            lambda: laplace_loss_exceedance(math.nan, 1),
            r"epsilon must be in \[-inf, inf\].*nan",
        ),
        (
            lambda: laplace_loss_exceedance("a", 1),
            r"epsilon must be in \[-inf, inf\], got 'a'",
        ),
        (
            lambda: laplace_loss_exceedance(1, [1, -2]),
            r"shift must be in \[0, inf\), got \[1, -2\]",
        ),
        (
            lambda: laplace_loss_exceedance(1, math.inf),
            r"shift must be in \[0, inf\), got inf",
        ),
        (lambda: laplace_loss_mean(math.inf), r"shift must be in \[0, inf\), got inf"),
        (lambda: laplace_loss_mean([1, math.nan]), r"shift must be in .*\[1, nan\]"),
        (lambda: laplace_delta(-0.1, 1), r"epsilon must be in \[0, inf\], got -0.1"),
        (lambda: laplace_delta(0.1, 0), r"shift must be in \(0, inf\], got 0"),
        (lambda: dandekar_cdf(math.nan), r"x must be in \[-inf, inf\], got nan"),
        (lambda: dandekar_cdf(1, 0), "n_outputs must be a whole number >= 1, got 0"),
        (lambda: dandekar_confidence(0, 1), r"^epsilon must be in \(0, inf\], got 0"),
        (lambda: dandekar_confidence(1, -1), r"noise_epsilon must be in \(0, inf\]"),
        (lambda: dandekar_confidence(1, 1, True), "n_outputs must be a whole number"),
        (lambda: dandekar_epsilon(1.0, 1), r"confidence must be .* \(0, 1\), got 1.0"),
        (lambda: dandekar_epsilon(0.5, 0), r"noise_epsilon must be .*\(0, inf\]"),
        (lambda: dandekar_epsilon(0.5, 1, 0), "n_outputs must be a whole number"),
        (lambda: dandekar_noise_epsilon(0, 0.5), "epsilon must be a finite number"),
        (lambda: dandekar_noise_epsilon(1, 0), r"confidence must be .*\(0, 1\), got 0"),
        (lambda: dandekar_noise_epsilon(1, 0.9, -1), "n_outputs must be a whole"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
