"""Shapes of noise: exact maps, fitted on public pairs; noise of every shape."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import FALSE_ALARM, assert_law, rejects_law
from noise_plans import NOISE_SHAPES
from scipy import linalg, stats
from sklearn.covariance import ledoit_wolf

from skparisk.core.calibrate import Target
from skparisk.core.exact import noise_source
from skparisk.core.noise import AdditiveNoise, NoiseShape, to_dyadic
from skparisk.sensitivity import calibrate
from skparisk.sensitivity._noise_shape import (
    fit_noise_shape,
    root_mean_squares,
    shrunk_moments,
)

MIXING = np.array([[2.0, 0.0, 0.0], [-1.0, 0.5, 0.0], [30.0, 10.0, 20.0]])
DIFFERENCES = np.random.default_rng(0).normal(size=(4000, 3)) @ MIXING.T
SHAPES = {
    "isotropic": NoiseShape(),
    "diagonal": NoiseShape(np.array([0.1, 3.0, 700.0])),
    "whitened": NoiseShape(MIXING),
}
every_shape = pytest.mark.parametrize("name", NOISE_SHAPES)
finite = st.floats(allow_nan=False, allow_infinity=False)


def draw(noise, values, seed):
    return noise.prepare(values)(noise_source(seed))


def exactly(dyadic):
    numbers, exponent = dyadic
    scale = Fraction(2) ** exponent
    return [[Fraction(int(n)) * scale for n in row] for row in numbers]


@settings(derandomize=True)
@given(values=st.lists(finite, max_size=5))
def test_numbers_are_whole_numbers_times_a_power_of_two(values):
    numbers, exponent = to_dyadic(values)
    assert [Fraction(int(n)) * Fraction(2) ** exponent for n in numbers] == [
        Fraction(value) for value in values
    ]


@settings(derandomize=True, deadline=None)
@given(
    values=st.lists(finite, min_size=3, max_size=3), name=st.sampled_from(NOISE_SHAPES)
)
def test_the_map_is_one_matrix_without_rounding(values, name):
    """Exactly linear: the map of the values is that of the unit vectors, added up."""
    shape = SHAPES[name]
    units = exactly(shape.whiten_exactly(np.eye(3)))
    (mapped,) = exactly(shape.whiten_exactly(np.array([values])))
    for i in range(3):
        assert mapped[i] == sum(Fraction(values[j]) * units[j][i] for j in range(3))


@every_shape
def test_maps_in_floating_point_are_the_same_and_inverse(name):
    shape = SHAPES[name]
    mapped = shape.whiten(DIFFERENCES[:20])
    exact = np.array(exactly(shape.whiten_exactly(DIFFERENCES[:20])), dtype=float)
    np.testing.assert_allclose(mapped, exact, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(shape.color(mapped), DIFFERENCES[:20], rtol=1e-12)
    assert shape.name == name
    copy = pickle.loads(pickle.dumps(shape))
    np.testing.assert_array_equal(copy.whiten(DIFFERENCES), shape.whiten(DIFFERENCES))


def test_fitted_shapes_make_outputs_alike():
    """Diagonal: unit mean squares; whitened: no correlation, but for shrinkage."""
    diagonal = fit_noise_shape("diagonal", DIFFERENCES).whiten(DIFFERENCES)
    np.testing.assert_allclose(np.mean(diagonal**2, axis=0), 1, rtol=1e-12)
    whitened = fit_noise_shape("whitened", DIFFERENCES).whiten(DIFFERENCES)
    moments = whitened.T @ whitened / len(whitened)
    np.testing.assert_allclose(moments, np.eye(3), atol=0.05)
    assert fit_noise_shape("isotropic", DIFFERENCES[:0]) == NoiseShape()
    assert len({NoiseShape(), NoiseShape()}) == 1


def test_second_moments_are_shrunk_as_scikit_learn_does():
    """By the rule of Ledoit and Wolf; there is nothing to it for one output."""
    rng = np.random.default_rng(1)
    for shape in [(5, 20), (300, 4), (2, 2)]:
        values = rng.standard_t(3, size=shape) * rng.exponential(size=shape[1])
        expected, _ = ledoit_wolf(values, assume_centered=True)
        np.testing.assert_allclose(shrunk_moments(values), expected, rtol=1e-9)
    np.testing.assert_array_equal(shrunk_moments(np.full((1, 1), 3.0)), [[9.0]])


@pytest.mark.parametrize("n_pairs", [4, 400])
def test_whitened_noise_is_in_proportion_to_the_moments(n_pairs):
    """In the units of each output, as they are shrunk."""
    values = np.random.default_rng(1).normal(size=(n_pairs, 3)) @ MIXING.T
    scales = np.sqrt(np.mean(values**2, axis=0))
    shrunk, _ = ledoit_wolf(values / scales, assume_centered=True)
    factor = fit_noise_shape("whitened", values).factor / scales[:, None]
    covariance = factor @ factor.T
    np.testing.assert_allclose(covariance / covariance[0, 0], shrunk / shrunk[0, 0])


@pytest.mark.filterwarnings("error")
def test_the_covariance_is_that_of_the_law():
    """Laplace noise of scale b has a variance of 2 b**2."""
    for law, variance in (("laplace", 2.0), ("gaussian", 1.0)):
        noise = AdditiveNoise.at_least(law, 3.0, n_outputs=2)
        expected = variance * noise.noise_scale**2 * np.eye(2)
        np.testing.assert_allclose(noise.covariance(), expected, rtol=1e-6)
    huge = AdditiveNoise.at_least("laplace", 1e200, n_outputs=2)
    np.testing.assert_array_equal(np.diag(huge.covariance()), np.inf)


@pytest.mark.filterwarnings("error")
def test_answers_beyond_the_largest_number_are_released_without_a_warning():
    """Which would depend on the answer."""
    shape = NoiseShape(np.array([1.5, 1.0]))
    noise = AdditiveNoise.at_least("laplace", 1e300, n_outputs=2, shape=shape)
    largest = np.finfo(float).max
    released = [draw(noise, [largest, -largest], None) for _ in range(20)]
    assert np.isinf(released).any()


def test_rows_that_are_repeated_are_shrunk_as_if_they_were_not():
    values = np.random.default_rng(1).normal(size=(50, 4)) * [1.0, 2.0, 3.0, 4.0]
    often = np.tile(values, (20, 1))
    np.testing.assert_allclose(shrunk_moments(often, 50), shrunk_moments(values))
    np.testing.assert_array_equal(shrunk_moments(values, 99), shrunk_moments(values))
    alike = values / 10 + np.tile([[1.0], [-1.0]], (25, 1)) * [1.0, 2.0, 3.0, 4.0]
    one, none, two = (shrunk_moments(alike, n) for n in (1, 0, 2))
    np.testing.assert_array_equal(one, none)
    assert not np.allclose(one, two)
    for weights in (None, np.diag([1.0, 2.0, 1.0, 5.0])):
        few, many = (
            fit_noise_shape("whitened", often, weights=weights, n_independent=n)
            for n in (50, None)
        )
        one = fit_noise_shape("whitened", values, weights=weights)
        expected = one.factor @ one.factor.T
        np.testing.assert_allclose(few.factor @ few.factor.T, expected)
        assert not np.allclose(many.factor @ many.factor.T, expected)


def test_more_outputs_than_pairs_are_diagonal():
    few = np.random.default_rng(1).normal(size=(20, 20))
    assert fit_noise_shape("whitened", few).name == "whitened"
    shape, diagonal = (fit_noise_shape(n, few[:19]) for n in ("whitened", "diagonal"))
    assert shape.name == "diagonal"
    np.testing.assert_array_equal(shape.factor, diagonal.factor)


learned_shape = pytest.mark.parametrize("name", ["diagonal", "whitened"])


def sizes(shape):
    """Return the standard deviation of each output for noise of scale 1."""
    return np.linalg.norm(shape.color(np.eye(3)), axis=0)


def test_output_that_never_moves_has_noise_of_the_usual_size():
    """Nor one that only rounding moves, or by less than 2**-50 of another."""
    for name in ["diagonal", "whitened"]:
        for weights in [None, np.diag([1.0, 0.0, 1e-4])]:
            rounding = np.zeros_like(DIFFERENCES)
            rounding[:, 1] = np.abs(DIFFERENCES[:, 1])
            constant = fit_noise_shape(
                name, DIFFERENCES * [1.0, 0.0, 1.0], weights=weights
            )
            others = sizes(constant)[[0, 2]]
            assert others.min() <= sizes(constant)[1] <= others.max()
            still = fit_noise_shape(name, DIFFERENCES, rounding, weights)
            np.testing.assert_array_equal(
                still.color(np.eye(3)), constant.color(np.eye(3))
            )
            rounding[17, 1] *= 1 - 2.0**-50  # one pair is enough
            moving = fit_noise_shape(name, DIFFERENCES, rounding, weights)
            expected = fit_noise_shape(name, DIFFERENCES, weights=weights)
            np.testing.assert_array_equal(
                moving.color(np.eye(3)), expected.color(np.eye(3))
            )


def test_output_moves_by_more_than_a_share_of_another_or_not_at_all():
    """As its docstring says: by more than 2**-50 of it, and than 2**-960."""
    for size, still in ((2.0**-50, True), (2.0**-50 * (1 + 2.0**-52), False)):
        scales = root_mean_squares(np.array([[1.0, size], [-1.0, -size]]))
        assert scales.tolist() == [1.0, 0.0 if still else size]
    for size, still in ((2.0**-960, True), (2.0**-959, False)):
        scales = root_mean_squares(np.array([[size], [-size]]))
        assert scales.tolist() == [0.0 if still else size]


def test_answers_far_from_zero_are_released_without_rounding_errors_of_the_shape():
    """Beside one that no number holds; at any distance of noise and answer."""
    factor = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-5]])
    largest = np.finfo(float).max
    for scale in (1e290, 1e270, 1.0):
        noise = AdditiveNoise.at_least(
            "gaussian", scale, n_outputs=2, shape=NoiseShape(factor)
        )
        rows = [[largest, largest / 3], [1e300, 3e300], [-2e299, 1e297]]
        released = draw(noise, rows, 0)
        assert not np.isfinite(released[0]).all()
        off = np.abs(released[1:] - rows[1:])
        assert (off <= 20 * scale + 4 * np.spacing(np.abs(rows[1:]))).all()


def test_no_size_of_differences_overflows():
    """Warnings are errors here."""
    for name in ["diagonal", "whitened"]:
        for size in [5e-324, 1e-310, 1e-200, 1e200, 1e308]:
            differences = np.clip(DIFFERENCES / 100, -1, 1) * size
            for weights in (
                None,
                np.full((3, 3), 1e300),
                np.eye(3) * 1e-300,
                np.zeros((3, 3)),
            ):
                shape = fit_noise_shape(name, differences, weights=weights)
                assert np.isfinite(shape.whiten(differences)).all()
                assert np.isfinite(shape.color(np.eye(3))).all()


@learned_shape
def test_nothing_that_moves_leaves_no_scale_to_learn(name):
    shape = fit_noise_shape(name, np.zeros((40, 3)))
    np.testing.assert_array_equal(shape.color(np.eye(3)), np.eye(3))


def condition(shape, differences):
    """Return what rounding errors are multiplied by, whatever the units."""
    scales = np.sqrt(np.mean(differences**2, axis=0))
    return np.linalg.cond(shape.color(np.eye(len(scales))).T / scales[:, None])


@pytest.mark.parametrize("weighed", [False, True])
def test_outputs_that_determine_each_other_have_a_floor(weighed):
    """Rounding is multiplied by 1e4 at the most, and nothing is lost of the answer."""
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(3, 9)) * np.geomspace(1e-6, 1e6, 9)
    differences = rng.normal(size=(4000, 3)) @ factor  # of rank 3
    weights = None
    if weighed:
        records = rng.normal(size=(50, 2)) @ rng.normal(size=(2, 9))
        weights = (records / np.geomspace(1e-6, 1e6, 9)).T @ records
        weights = weights / np.geomspace(1e-6, 1e6, 9)
    shape = fit_noise_shape("whitened", differences, weights=weights)
    assert 10 < condition(shape, differences) <= 1.01e4
    mapped = shape.whiten(differences)
    np.testing.assert_allclose(shape.color(mapped), differences, rtol=1e-6, atol=1e-9)
    twice = np.where(rng.random((200, 1)) < 0.5, 1.0, [-1.0, -1.0])
    assert condition(fit_noise_shape("whitened", twice), twice) <= 1.01e4


def cost(factor, moments, weights):
    """Return what noise of that shape costs, at one mean square of the mapped moves."""
    covariance = factor @ factor.T
    loss = np.trace(np.linalg.solve(covariance, moments))
    return np.trace(weights @ covariance) * loss


def weighed_shape(units=(1.0, 1.0, 1.0)):
    """Return the shape for outputs in such units, and what each of its sizes weighs."""
    units = np.array(units)
    weights = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 0.1], [0.0, 0.1, 0.01]])
    weights = weights / units / units[:, None]
    shape = fit_noise_shape("whitened", DIFFERENCES * units, weights=weights)
    return shape, weights


def test_weighed_shape_costs_least():
    """Of all covariances near and far; the optimum is (tr sqrt(Q M sqrt Q))**2."""
    shape, weights = weighed_shape()
    moments = DIFFERENCES.T @ DIFFERENCES / len(DIFFERENCES)
    least = cost(shape.factor, moments, weights)
    root = linalg.sqrtm(weights)
    optimum = np.trace(linalg.sqrtm(root @ moments @ root).real) ** 2
    assert optimum <= least <= 1.01 * optimum  # moments are shrunk a little
    rng = np.random.default_rng(0)
    others = [
        shape.factor @ (np.eye(3) + s * rng.normal(size=(3, 3)))
        for s in (0.1, 0.3, 1.0)
        for _ in range(50)
    ]
    others += [fit_noise_shape("whitened", DIFFERENCES).factor, np.eye(3)]
    assert min(cost(other, moments, weights) for other in others) > least


def test_weighed_shape_is_the_same_in_all_units():
    plain, (far, _) = weighed_shape()[0], weighed_shape([1e-5, 1.0, 1e5])
    units = np.array([1e-5, 1.0, 1e5])
    one, other = (s.color(np.eye(3)) for s in (plain, far))
    np.testing.assert_allclose(
        (other / units).T @ (other / units), one.T @ one, rtol=1e-7
    )


@every_shape
def test_errors_are_mapped_to_the_most_that_mapped_rows_are_off(name):
    shape, rng = SHAPES[name], np.random.default_rng(0)
    errors = rng.exponential(size=(50, 3)) * [1e-3, 1.0, 10.0]
    most = shape.whiten_errors(errors)
    plain = shape.whiten(DIFFERENCES[:50])
    farthest = np.zeros_like(most)
    for signs in np.stack(np.meshgrid(*[[-1.0, 1.0]] * 3), axis=-1).reshape(-1, 3):
        off = shape.whiten(DIFFERENCES[:50] + signs * errors) - plain
        farthest = np.maximum(farthest, np.abs(off))
    np.testing.assert_allclose(farthest, most, rtol=1e-9)  # and no less


def test_a_shape_stays_what_it_was_when_the_noise_was_calibrated():
    scales, factor = np.ones(2), np.eye(2)
    shapes = NoiseShape(scales), NoiseShape(factor)
    scales[:] = factor[:] = 1e9
    for shape in shapes:
        assert shape.whiten(np.ones((1, 2))) == pytest.approx(1.0)
    for held in (shape.factor for shape in shapes):
        with pytest.raises(ValueError, match="read-only"):
            held[0] = 1e9


def test_scales_that_are_none_are_refused():
    for scales in [
        [0.0, 1.0],
        [-1.0, 1.0],
        [np.nan, 1.0],
        [np.inf, 1.0],
        [5e-324, 1.0],
        2.0,
    ]:
        with pytest.raises(ValueError, match="factor must be"):
            NoiseShape(np.array(scales))


def test_factors_that_are_none_are_refused():
    for factor in [
        np.ones((1, 2)),
        np.ones((1, 2, 2)),
        np.ones((2, 2)),
        [[1.0, 1.0], [1.0, 1.0 + 1e-6]],
        np.zeros((2, 2)),
        np.diag([1.0, np.nan]),
        [[1e-160, 0.0], [1.0, 1e-160]],
        [[5e-324, 0.0], [0.0, 1.0]],  # of which the inverse is not finite
    ]:
        with pytest.raises(ValueError, match="factor must be"):
            NoiseShape(np.array(factor))


@pytest.mark.parametrize("shape", [NoiseShape(np.ones(3)), NoiseShape(np.eye(3))])
def test_shape_is_for_as_many_outputs(shape):
    with pytest.raises(ValueError, match="noise_shape must be for 2 outputs"):
        calibrate(np.ones((99, 2)), Target(1.0, 0.1), shape=shape, n_records=1)
    with pytest.raises(ValueError, match="noise_shape must be for 2 outputs"):
        AdditiveNoise("laplace", 1, 0, 2, shape)


@pytest.mark.sampled(1)
@every_shape
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_noise_has_the_law_and_covariance_it_says(law, name):
    """In the coordinates of the shape each output has the law, and no other scale."""
    shape = SHAPES[name]
    noise = AdditiveNoise.at_least(law, 2.5, n_outputs=3, shape=shape)
    values = np.array([1e3, -0.1, 7.0])
    released = draw(noise, np.tile(values, (50_000, 1)), 0)
    coordinates = shape.whiten(released - values)
    family = {"laplace": stats.laplace, "gaussian": stats.norm}[law]
    for column in coordinates.T:
        assert_law(column, family(scale=2.5).cdf)
        assert rejects_law(column, family(scale=2.25).cdf)
        assert rejects_law(column, family(scale=2.75).cdf)
    independent = stats.pearsonr(coordinates[:, 0], coordinates[:, 2])
    assert independent.pvalue > FALSE_ALARM
    covariance = noise.covariance()
    size = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    np.testing.assert_allclose(np.cov(released.T) / size, covariance / size, atol=0.05)


@every_shape
def test_what_is_released_is_a_function_of_whole_numbers(name):
    """Values that round to the same grid point cannot be told apart."""
    shape = SHAPES[name]
    noise = AdditiveNoise.at_least("laplace", 1.0, n_outputs=3, shape=shape)
    values = shape.color(np.array([[2.25, -3.5, 0.125]]))
    near = values * (1 + 2.0**-50)
    first, second = (draw(noise, v, 5) for v in (values, near))
    np.testing.assert_array_equal(first, second)


FAR_SHAPES = [
    [[1e-20, 0.0], [1e-2, 1e-1]],
    [[1e-20, 0.0], [100.0, 0.1]],
    [[1e-25, 0.0], [1.0, 0.7]],
    [[1e-20, 0.0, 0.0], [1.0, 1e-4, 0.0], [5.0, 3.0, 1.0]],
]


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("factor", FAR_SHAPES)
@pytest.mark.parametrize("first", [3.3, -1e10])
def test_answers_far_larger_than_the_noise_come_back(law, factor, first, monkeypatch):
    """The first output has hardly any noise; its rounding must not reach the others.

    Warnings are errors here.
    """
    noise = AdditiveNoise.at_least(
        law, 1.0, n_outputs=len(factor), shape=NoiseShape(np.array(factor))
    )
    values = np.array([first, *np.full(len(factor) - 1, 0.7)])
    sizes = np.sqrt(np.diag(noise.covariance()))

    def release():
        released = draw(noise, np.tile(values, (300, 1)), 0)
        # Next to each other is as near as numbers come.
        return np.maximum(np.abs(released - values) - np.spacing(np.abs(values)), 0)

    off = release() / sizes
    assert off.max() < 12
    assert off[:, 1:].max(axis=0).min() > 1  # and the noise is there
    monkeypatch.setattr("skparisk.core.noise._REFINEMENTS", 0)
    off = release() / sizes
    lost = (off[:, -1] == off[0, -1]).all()  # so coarse that there is no noise
    assert lost or off.max() > 100


@pytest.mark.sampled(2)
@pytest.mark.parametrize("factor", FAR_SHAPES)
def test_noise_on_far_answers_has_the_law_it_says(factor):
    shape = NoiseShape(np.array(factor))
    noise = AdditiveNoise.at_least("gaussian", 1.0, n_outputs=len(factor), shape=shape)
    values = np.array([3.3, *np.full(len(factor) - 1, 0.7)])
    released = draw(noise, np.tile(values, (20_000, 1)), 0)
    last = released[:, -1] - values[-1]
    size = math.sqrt(noise.covariance()[-1, -1])
    assert_law(last, stats.norm(scale=size).cdf)
    assert rejects_law(last, stats.norm(scale=0.9 * size).cdf)


def test_scale_is_rounded_up_and_has_its_steps():
    for law in ["laplace", "gaussian"]:
        for scale in [5e-324, 1e-300, 1.0, 3.7, 1e300]:
            for least_steps in [1, 2**45 + 1, 2**51]:
                noise = AdditiveNoise.at_least(law, scale, least_steps=least_steps)
                assert noise.steps >= max(least_steps, 2**40 if scale > 1e-290 else 1)
                assert noise.steps <= 2**52
                assert noise.noise_scale >= scale
                if scale > 1e-290:
                    assert noise.noise_scale <= scale * (1 + 2.0**-39)
                assert Fraction(noise.grid) == Fraction(2) ** noise.exponent


def test_noise_that_cannot_be_is_refused():
    for arguments, message in [
        (
            {"law": "cauchy"},
            "law must be one of 'laplace', 'gaussian', .*; got 'cauchy'",
        ),
        ({"noise_scale": 0.0}, "noise_scale must be a finite number above 0"),
        ({"noise_scale": math.inf}, "noise_scale must be a finite number above 0"),
        ({"noise_scale": 1.7976931348623157e308}, "too close to the largest float"),
        ({"least_steps": 2**51 + 1}, r"least_steps must be at most 2\*\*51"),
        ({"n_outputs": 0}, "n_outputs must be a whole number >= 1, got 0"),
    ]:
        good = {"law": "laplace", "noise_scale": 1.0}
        with pytest.raises(ValueError, match=message):
            AdditiveNoise.at_least(**(good | arguments))


def test_more_steps_than_a_draw_can_have_are_refused():
    with pytest.raises(ValueError, match=r"steps must be at most 2\*\*52, got"):
        AdditiveNoise("laplace", 2**52 + 1, 0)
