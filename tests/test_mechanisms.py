"""Laplace and Gaussian noise: exact law, no trace of the value, safe rounding."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import FALSE_ALARM, assert_law, rejects_law
from scipy.stats import chi2_contingency, laplace, norm

from skparisk.core.claim import DominatingLoss
from skparisk.core.laws import Gaussian
from skparisk.core.noise import round_to_grid, to_dyadic
from skparisk.ledger import PrivacyLedger
from skparisk.mechanisms import (
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
)

# Within every open range, and as a float at its end.
TINY = Fraction(1, 10**400)

positive = st.floats(min_value=1e-100, max_value=1e100)
levels = st.floats(min_value=1e-8, max_value=1e100)


@pytest.mark.slow
@pytest.mark.parametrize("value", [0.0, 1.0, -123.456])
@pytest.mark.parametrize(
    ("mechanism", "law", "scale"),
    [
        (LaplaceMechanism(2.0, 0.5), laplace, 2.0 / 0.5),
        # The root of Balle and Wang's Theorem 8 by mpmath.
        (GaussianMechanism(2.0, 2.0, 1e-5), norm, 3.98762489),
    ],
)
def test_noise_follows_the_exact_law_and_no_other_scale(mechanism, law, scale, value):
    assert mechanism.noise_scale == pytest.approx(scale, rel=1e-5)
    noise = mechanism.release(np.full((50_000, 1), value), noise_random_state=0)
    noise = noise.ravel() - value
    assert_law(noise, law(scale=scale).cdf)
    for wrong in (0.9 * scale, 1.1 * scale):
        assert rejects_law(noise, law(scale=wrong).cdf)


def low_bits_share(values):
    """Among values near 0, the share whose four low mantissa bits are zero."""
    near = values[(np.abs(values) < 0.25) & (values != 0)]
    bits = near.view(np.uint64) & np.uint64(15)
    return np.count_nonzero(bits == 0), len(near)


@pytest.mark.slow
def test_low_bits_do_not_depend_on_the_value():
    mechanism = LaplaceMechanism(sensitivity=1.0, epsilon=1.0)
    counts = []
    for value in (0.0, 1.0):
        released = mechanism.release(np.full((40_000, 1), value), noise_random_state=1)
        zero, total = low_bits_share(released.ravel())
        counts.append((zero, total - zero))
    shares = [zero / (zero + rest) for zero, rest in counts]
    assert shares[0] == shares[1] == 1.0  # the grid is coarser than the low bits


def test_low_bits_of_numpy_noise_give_the_value_away():
    """The attack of Mironov 2012 works where noise is drawn in floating point."""
    rng = np.random.default_rng(0)
    counts = []
    for value in (0.0, 1.0):
        zero, total = low_bits_share(value + rng.laplace(size=40_000))
        counts.append((zero, total - zero))
    assert chi2_contingency(counts).pvalue < FALSE_ALARM
    assert counts[0][0] / sum(counts[0]) < 0.1
    assert counts[1][0] / sum(counts[1]) > 0.5


def test_what_can_be_released_does_not_depend_on_the_value():
    """Every release is a multiple of the grid, whatever the value was."""
    mechanism = LaplaceMechanism(sensitivity=1.0, epsilon=1.0, n_outputs=3)
    values = [0.1, math.pi, 1e6 + 2**-40]
    for released in mechanism.release([values] * 100).ravel():
        assert (Fraction(released) / Fraction(mechanism.grid)).denominator == 1


@settings(derandomize=True, max_examples=100)
@given(sensitivity=positive, epsilon=levels, n_outputs=st.integers(1, 10**6))
def test_scale_pays_for_every_rounding_and_hardly_more(sensitivity, epsilon, n_outputs):
    """Exact arithmetic: (distance on the grid) / (scale in steps) <= epsilon."""
    mechanism = LaplaceMechanism(sensitivity, epsilon, n_outputs)
    grid, scale = Fraction(mechanism.grid), Fraction(mechanism.noise_scale)
    # The sensitivity is itself a rounded sum: a share of 2**-30 is paid for that.
    distance = Fraction(sensitivity) * (1 + Fraction(1, 2**30)) + n_outputs * grid
    assert distance / scale <= Fraction(epsilon)
    # The share that is paid is 2**-30, or what the coarsest allowed grid makes it.
    share = max(Fraction(1, 2**28), Fraction(n_outputs) / Fraction(epsilon) / 2**49)
    assert scale <= Fraction(sensitivity) / Fraction(epsilon) * (1 + share)


@pytest.mark.parametrize(("sensitivity", "epsilon"), [(5e-324, 1.0), (1e-320, 1e3)])
def test_the_smallest_numbers_are_safe(sensitivity, epsilon):
    mechanism = LaplaceMechanism(sensitivity, epsilon)
    distance = Fraction(sensitivity) + Fraction(mechanism.grid)
    assert distance / Fraction(mechanism.noise_scale) <= Fraction(epsilon)


@pytest.mark.parametrize(
    ("sensitivity", "epsilon", "scale"),
    [
        (1, 0.1, 10.0),  # a count
        (180_000, 0.5, 360_000.0),  # a sum of salaries from 20k to 200k, bounded
        (200_000, 0.5, 400_000.0),  # unbounded
        (180_000 / 100, 0.5, 3_600.0),  # their mean over 100 people
        (2, 0.5, 4.0),  # a histogram, bounded; 1 and 2 if unbounded
        (1, 0.5, 2.0),
        (82, 82 / 3, 3.0),  # an age from 18 to 100 with scale 3
    ],
)
def test_worked_examples_of_the_lecture(sensitivity, epsilon, scale):
    mechanism = LaplaceMechanism(sensitivity, epsilon)
    assert mechanism.noise_scale == pytest.approx(scale, rel=1e-8)
    assert mechanism.noise_scale > scale * (1 - 1e-15)


@settings(derandomize=True, max_examples=100)
@given(
    value=st.floats(allow_nan=False, allow_infinity=False),
    exponent=st.integers(-1074, 900),
)
def test_rounding_to_the_grid_is_exact(value, exponent):
    """The nearest multiple of the grid, and the upper one halfway between."""
    numbers, power = to_dyadic([value, 1.0])
    rounded = round_to_grid(numbers, power - exponent)[0]
    assert rounded == math.floor(
        Fraction(value) / Fraction(2) ** exponent + Fraction(1, 2)
    )


def test_infinite_epsilon_releases_the_values_themselves():
    values = np.array([[0.1, 2.0], [np.pi, -5.0]])
    mechanism = LaplaceMechanism(sensitivity=0.0, epsilon=math.inf, n_outputs=2)
    released = mechanism.release(values)
    np.testing.assert_array_equal(released, values)
    assert released is not values
    assert mechanism.noise_scale == 0.0
    assert (mechanism.privacy_loss([0.0, 1.0]) == np.inf).all()


def test_the_smallest_level_that_a_grid_is_fine_enough_for():
    noise = LaplaceMechanism(1.0, 2.0**-51 / 0.8)
    assert noise.privacy_loss(1.0) <= noise.epsilon


def test_loss_pays_for_the_grid_and_for_rounding():
    """(distance (1 + 2**-30) + n_outputs steps of the grid) / scale, in fractions."""
    for n_outputs, epsilon in itertools.product((1, 7, 10**6), (1e-3, 0.7, 9.0)):
        mechanism = LaplaceMechanism(3.0, epsilon, n_outputs)
        step, scale = Fraction(mechanism.grid), Fraction(mechanism.noise_scale)
        for distance in (3.5, 6.0, 1e9):
            enlarged = Fraction(distance) * (1 + Fraction(1, 2**30))
            exact = (enlarged + n_outputs * step) / scale
            loss = Fraction(float(mechanism.privacy_loss(distance)))
            assert abs(loss / exact - 1) <= Fraction(1, 2**50)
        assert mechanism.privacy_loss([1, 3]).tolist() == [
            mechanism.privacy_loss(1.0),
            mechanism.privacy_loss(3.0),
        ]
        assert mechanism.privacy_loss(3) <= mechanism.epsilon
        short = np.array([0.1, 3.1, 1e9], dtype=np.float32)
        long = mechanism.privacy_loss(short.astype(np.float64))
        np.testing.assert_array_equal(mechanism.privacy_loss(short), long)


def additive(kind, sensitivity=1.0, epsilon=0.5, **parameters):
    """Return a mechanism whose other parameters are in range."""
    usual = {"delta": 0.1} if kind is GaussianMechanism else {}
    return kind(sensitivity, epsilon, **usual | parameters)


of_both_laws = pytest.mark.parametrize("kind", [LaplaceMechanism, GaussianMechanism])


def test_each_row_is_charged_whatever_a_table_says_of_its_size():
    """As of tensors, whose `size` is a method, and of what stores zeros as nothing."""

    class Table(list):
        size = 1

    with PrivacyLedger(10.0) as ledger:
        LaplaceMechanism(1.0, 1.0).release(Table([[0.0], [0.0], [0.0]]))
    assert ledger.spent.epsilon == 3


SENSITIVITY = "sensitivity must be a finite number above 0, got "
EPSILON = r"epsilon must be a number in \(0, inf\], got "
WRONG = [
    ((0.0, 1.0), SENSITIVITY + r"0\.0"),
    ((-1.0, 1.0), SENSITIVITY + r"-1\.0"),
    ((-1.0, math.inf), "sensitivity must be a finite number at least 0, got -1"),
    ((math.inf, math.inf), "sensitivity must be a finite number at least 0, got inf"),
    ((math.nan, 1.0), SENSITIVITY + "nan"),
    ((math.inf, 1.0), SENSITIVITY + "inf"),
    ((True, 1.0), SENSITIVITY + "True"),
    ((None, 1.0), SENSITIVITY + "None"),
    ((np.ones(1), 1.0), SENSITIVITY + "array"),
    ((10**400, 1.0), SENSITIVITY + "1000"),
    ((TINY, 1.0), SENSITIVITY + "Fraction"),
    ((1.0, TINY), EPSILON + "Fraction"),
    ((1.0, 10**400), EPSILON + "1000"),
    ((1.0, 0.0), EPSILON + r"0\.0"),
    ((1.0, -1.0), EPSILON + "-1"),
    ((1.0, math.nan), EPSILON + "nan"),
    ((1.0, "1"), EPSILON + "'1'"),
]


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (kind, *case)
        for kind in (LaplaceMechanism, GaussianMechanism, ExponentialMechanism)
        for case in WRONG
    ]
    + [
        (kind, case, "noise scale beyond the largest float")
        for kind in (LaplaceMechanism, ExponentialMechanism)
        for case in [(1e308, 1e-10), (1e308, 1e-8)]
    ]
    + [
        (kind, (1.0, level), r"epsilon must be at least n_outputs \* 2\*\*-51 = 4\.44")
        for kind in (LaplaceMechanism, ExponentialMechanism)
        for level in (1e-16, 0.7 * 2.0**-51)
    ]
    + [(GaussianMechanism, (1.7e308,), r"=1\.7e.308 .* too small for a float, inf")],
)
def test_bad_parameters_are_refused(kind, given, message):
    with pytest.raises(ValueError, match=message):
        additive(kind, *given)


@of_both_laws
@pytest.mark.parametrize("n_outputs", [0, 1.5])
def test_outputs_are_a_whole_number(kind, n_outputs):
    message = f"n_outputs must be a whole number >= 1, got {n_outputs}"
    with pytest.raises(ValueError, match=message):
        additive(kind, n_outputs=n_outputs)


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
@pytest.mark.parametrize("delta", [0.0, 1.0, None, 1 - TINY])
def test_delta_is_between_0_and_1(delta, epsilon):
    with pytest.raises(ValueError, match=r"delta must be a number in \(0, 1\), got"):
        GaussianMechanism(1.0, epsilon, delta)


@of_both_laws
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_values_that_are_no_numbers_are_refused(kind, value, epsilon):
    with pytest.raises(ValueError, match="values must be finite numbers"):
        additive(kind, epsilon=epsilon).release([value])


@of_both_laws
@pytest.mark.parametrize("values", [1.0, [1.0], [[1.0, 2.0, 3.0]]])
def test_values_of_another_length_are_refused(kind, values):
    with pytest.raises(ValueError, match=r"values must have 2 outputs \(n_outputs\)"):
        additive(kind, n_outputs=2).release(values)


# Gaussian noise for a known sensitivity


def longest_shift(mechanism):
    """Return the distance over the scale, as long as the grid can make it, exactly.

    The sensitivity is itself a rounded sum: half a share of 2**-30 is for that.
    """
    root = Fraction(math.nextafter(math.sqrt(mechanism.n_outputs), math.inf))
    distance = Fraction(mechanism.sensitivity) * (1 + Fraction(1, 2**31))
    grid, scale = Fraction(mechanism.grid), Fraction(mechanism.noise_scale)
    return (distance + root * grid) / scale, root


def assert_gaussian_noise_is_safe(mechanism):
    """On the grid the distance is longer, and the loss is off by a step of noise."""
    shift, root = longest_shift(mechanism)
    spent = root * shift / mechanism.noise.steps
    level = float(Fraction(mechanism.epsilon) - spent)
    assert Gaussian().profile(level, float(shift)) <= mechanism.delta


@pytest.mark.slow
@settings(derandomize=True, max_examples=200, deadline=None)
@given(
    sensitivity=positive,
    epsilon=st.floats(1e-3, 1e4),
    delta=st.floats(1e-15, 0.99),
    n_outputs=st.integers(1, 10**6),
)
def test_gaussian_scale_pays_for_every_rounding_and_hardly_more(
    sensitivity, epsilon, delta, n_outputs
):
    mechanism = GaussianMechanism(sensitivity, epsilon, delta, n_outputs)
    assert_gaussian_noise_is_safe(mechanism)
    least = sensitivity / Gaussian().largest_shift(epsilon, delta)
    assert mechanism.noise_scale <= least * (1 + 1e-5)


@pytest.mark.parametrize("delta", [0.5, 1e-5])
@pytest.mark.parametrize(("epsilon", "n_outputs"), [(1.0, 10**16), (1e-6, 1000)])
def test_gaussian_scale_pays_for_the_coarsest_grid(epsilon, n_outputs, delta):
    """Here the grid costs most of the share that is set aside for it."""
    mechanism = GaussianMechanism(1.0, epsilon, delta, n_outputs)
    assert_gaussian_noise_is_safe(mechanism)
    shift, root = longest_shift(mechanism)
    finest = max((max(shift, 8) + 1) / Fraction(epsilon), 1 / shift)
    share = root * finest / mechanism.noise.steps
    assert 2**-22 < share <= 2**-20 * (1 + 2.0**-19)


@pytest.mark.slow
@settings(derandomize=True, max_examples=50, deadline=None)
@given(
    sensitivity=st.floats(1e-50, 1e50),
    epsilon=st.floats(1e-2, 1e2),
    delta=st.floats(1e-9, 0.4),
)
def test_gaussian_noise_falls_with_every_parameter(sensitivity, epsilon, delta):
    scale = GaussianMechanism(sensitivity, epsilon, delta).noise_scale
    assert GaussianMechanism(sensitivity, 1.01 * epsilon, delta).noise_scale < scale
    assert GaussianMechanism(sensitivity, epsilon, 1.01 * delta).noise_scale < scale
    larger = GaussianMechanism(8 * sensitivity, epsilon, delta).noise_scale
    assert larger == pytest.approx(8 * scale, rel=1e-11)
    many = GaussianMechanism(sensitivity, epsilon, delta, 10**6).noise_scale
    assert many == pytest.approx(scale, rel=1e-5)


@pytest.mark.parametrize("epsilon", [1e6, 1e100, 1e300])
def test_gaussian_noise_of_large_levels(epsilon):
    """The shift is next to the root of twice the level."""
    mechanism = GaussianMechanism(1.0, epsilon, 1e-5)
    expected = 1 / math.sqrt(2 * epsilon)
    assert mechanism.noise_scale == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("n_outputs", [1, 100])
def test_gaussian_noise_of_small_levels_is_refused_where_the_grid_ends(n_outputs):
    with pytest.raises(ValueError, match=r"epsilon must be at least .* got 1e-12") as e:
        GaussianMechanism(1.0, 1e-12, 0.3, n_outputs)
    least = float(str(e.value).split("at least ")[1].split()[0])
    mechanism = GaussianMechanism(1.0, 1.01 * least, 0.3, n_outputs)
    assert_gaussian_noise_is_safe(mechanism)


def test_what_composition_counts_is_the_law_of_the_loss():
    """That of the noise at the sensitivity, and a little for the grid."""
    mechanism, share = GaussianMechanism(3.0, 0.5, 1e-5), 2.0**-20
    certificate = mechanism.as_certificate()
    assert (certificate.epsilon, certificate.delta) == (0.5, 1e-5)
    loss, shift = certificate.loss, 3.0 / mechanism.noise_scale
    assert loss == DominatingLoss("gaussian", loss.shift, loss.excess)
    assert loss.shift / shift - 1 == pytest.approx(2 * share)
    assert loss.excess == pytest.approx(0.5 * 2 * share)
    mechanism = LaplaceMechanism(3.0, 0.5, n_outputs=7)
    # Continuous noise is within a step of the grid, at both ends, for each output.
    excess = 2 * 7 * mechanism.grid / mechanism.noise_scale
    loss = mechanism.as_certificate().loss
    assert loss == DominatingLoss("laplace", 0.5, loss.excess)
    assert loss.excess == pytest.approx(excess, rel=1e-12)
    for mechanism in (
        GaussianMechanism(1, math.inf, 0.1),
        LaplaceMechanism(1, math.inf),
    ):
        certificate = mechanism.as_certificate()
        assert certificate.epsilon == math.inf
        assert certificate.loss is None
