"""Private density estimates: the query, the released density, samples of it."""

import math
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import FALSE_ALARM, SEEDS, assert_law, rejects_law
from query_pairs import both_of
from scipy import integrate, stats
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import KernelDensity
from sklearn.utils.estimator_checks import check_estimator

from skparisk import KnownSensitivity, SensitivitySampler
from skparisk import density as module
from skparisk.density import PrivateKernelDensity
from skparisk.exceptions import CalibrationError, IncompatibleError, PrivacyLeakWarning
from skparisk.mechanisms import BernsteinPolynomial
from skparisk.neighbors import bind_pairs, draw_pairs
from skparisk.queries import DensityQuery, kernel_density_sensitivity_bound
from skparisk.reference import CallableReference, TableReference

KERNELS = ("gaussian", "tophat", "epanechnikov", "exponential", "linear", "cosine")
RELATIONS = ("replace-one", "add-remove")
seeded = pytest.mark.filterwarnings(
    "ignore:noise_random_state:skparisk.exceptions.PrivacyLeakWarning"
)


def records(n, d=1, seed=0):
    return np.random.default_rng(seed).beta(2, 3, size=(n, d))


def pairs_from(X, *, n_records, relation, size, seed=0):
    source_seed, pairs_seed = np.random.SeedSequence([seed, 7]).spawn(2)
    source = bind_pairs(
        TableReference(X),
        n_pairs=size,
        n_records=n_records,
        relation=relation,
        seed=source_seed,
    )
    return draw_pairs(source, n_records=n_records, start=0, size=size, seed=pairs_seed)


def query_of(d=1, **parameters):
    return DensityQuery([(0, 1)] * d, **({"bandwidth": 0.2} | parameters))


# The query: its answer


def test_the_answer_is_the_kernel_density_of_scikit_learn():
    for kernel in KERNELS:
        for d in [1, 2, 3]:
            bounds = [(-1.0, 2.0), (10.0, 10.5), (0.0, 1e3)][:d]
            low, high = np.array(bounds).T
            X = low + (high - low) * records(700, d)
            for bandwidth in (0.3, 40.0):
                query = DensityQuery(bounds, bandwidth, kernel, lattice_size=4)
                oracle = KernelDensity(kernel=kernel, bandwidth=bandwidth).fit(X)
                expected = np.exp(oracle.score_samples(query.nodes))
                assert query(X) == pytest.approx(expected, rel=1e-10, abs=1e-10)
                assert query(X).tolist() == query(X).tolist()
            assert not query.needs_y


def test_records_at_nodes_count_as_in_scikit_learn():
    """Distances of exactly one bandwidth are a matter of rounding."""
    for kernel in KERNELS:
        X = np.arange(11)[:, None] / 10
        for bandwidth in (0.1, 0.2, 0.3, 0.7):
            oracle = KernelDensity(kernel=kernel, bandwidth=bandwidth).fit(X)
            query = query_of(bandwidth=bandwidth, kernel=kernel)
            expected = np.exp(oracle.score_samples(query.nodes))
            assert query(X) == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_the_estimate_integrates_to_one():
    for kernel in KERNELS:
        query = DensityQuery([(-9, 10)], 0.4, kernel, lattice_size=19_000)
        assert query(records(30)).sum() * 0.001 == pytest.approx(1, abs=2e-3)


def test_nodes_span_the_bounds_the_last_feature_fastest():
    query = DensityQuery([(0.1, 0.3), (-1, 1)], 1.0, lattice_size=2)
    assert query.bounds == ((0.1, 0.3), (-1.0, 1.0))
    expected = [(x, y) for x in np.linspace(0.1, 0.3, 3) for y in (-1.0, 0.0, 1.0)]
    assert query.nodes.tolist() == [list(node) for node in expected]
    assert query(np.zeros((3, 2))).shape == (9,)


def test_private_records_outside_the_bounds_are_clipped_silently():
    query = query_of(2, kernel="linear")
    X = np.array([[0.5, 7.0], [-1e300, 0.2], [0.1, 0.1]])
    np.testing.assert_array_equal(query(X), query(X.clip(0, 1)))
    assert query.clip(X).tolist() == [[0.5, 1.0], [0.0, 0.2], [0.1, 0.1]]
    assert X[1, 0] == -1e300


def test_numbers_at_the_edge_of_what_is_representable_warn_of_nothing():
    for kernel in KERNELS:
        query = DensityQuery([(-1e200, 1e200)], 1e-3, kernel, lattice_size=2)
        assert np.isfinite(query(np.array([[0.0], [1e200], [3e-200]]))).all()


def test_the_answer_is_off_by_less_than_what_is_paid_for():
    """Exact sums of the contributions; less than a thousandth of 1/n is paid."""
    for n in [1, 2, 257, 20_000]:
        X = records(n)
        query = query_of(bandwidth=0.05)
        exact = [math.fsum(column) / n for column in query.rows(X, None).T[:-1]]
        bound = kernel_density_sensitivity_bound(n, 0.05, 1)
        paid = query.sup_bound(n) - bound
        assert abs(query(X) - exact).max() <= paid / 2
        assert paid <= bound / 1000


# The query: differences


def plain_differences(query, pairs):
    return np.array(
        [
            np.subtract(*(query(*database) for database in both_of(pairs, i)))
            for i in range(len(pairs))
        ]
    )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("d", "n_records"), [(1, 400), (2, 2), (2, 30)])
def test_differences_are_those_of_two_answers(d, n_records, kernel):
    """But for far less than what is paid for; also of records outside the bounds."""
    relation = RELATIONS[(d + KERNELS.index(kernel)) % 2]
    query = query_of(d, kernel=kernel, lattice_size=5, bandwidth=0.15)
    X = 1.6 * records(60, d) - 0.2
    assert X.max() > 1
    pairs = pairs_from(X, n_records=n_records, relation=relation, size=20)
    found, plain = query.on_pool(pairs.pool, n_records)(pairs), np.empty((20, 6**d))
    bound = kernel_density_sensitivity_bound(n_records, 0.15, d, kernel)
    paid = query.sup_bound(n_records) - bound
    for i in range(20):
        plain[i] = np.subtract(*(query(X.clip(0, 1)) for X, _ in both_of(pairs, i)))
    assert abs(found.values - plain).max() <= paid < abs(found.values).max() / 1000
    assert found.errors.max() <= paid


def test_records_of_another_width_are_refused():
    for X in (np.zeros((3, 1)), np.zeros(2)):
        with pytest.raises(ValueError, match="bounds must be one pair for each"):
            query_of(2)(X)
    pairs = pairs_from(records(5), n_records=3, relation="replace-one", size=1)
    with pytest.raises(ValueError, match=r"got 2 for records of shape \(5, 1\)"):
        query_of(2).differences(pairs)


# The query: the bound


def test_the_bound_is_attained_and_never_exceeded():
    """By a record at a node that moves far away."""
    for kernel in KERNELS:
        for d in [1, 2]:
            n, far = 7, np.ones(d)
            query = query_of(d, kernel=kernel, bandwidth=0.02, lattice_size=4)
            bound = kernel_density_sensitivity_bound(n, 0.02, d, kernel)
            X = np.tile(far, (n, 1))
            other = X.copy()
            other[0] = 0.0
            assert abs(query(X) - query(other)).max() == pytest.approx(bound, rel=1e-9)
            pairs = pairs_from(
                records(60, d), n_records=n, relation="replace-one", size=60
            )
            assert abs(plain_differences(query, pairs)).max() <= query.sup_bound(n)
            assert abs(query.differences(pairs)).max() <= query.sup_bound(n)
            assert bound < query.sup_bound(n) <= bound * (1 + 1e-9)


def test_the_bound_is_the_peak_over_the_records():
    gauss = kernel_density_sensitivity_bound(50, 0.3, 2)
    assert gauss == pytest.approx(1 / (50 * 2 * np.pi * 0.3**2))
    assert kernel_density_sensitivity_bound(1, 0.5, 1, "tophat") == pytest.approx(1.0)
    ball = 4 / 3 * np.pi
    tophat = kernel_density_sensitivity_bound(9, 2.0, 3, "tophat")
    assert tophat == pytest.approx(1 / (9 * ball * 8))


def test_bad_parameters_are_refused():
    for parameters, message in [
        ({"bandwidth": 0}, "bandwidth must be a finite number above 0, got 0"),
        ({"bandwidth": "scott"}, "bandwidth must be a finite number above 0, got"),
        ({"kernel": "box"}, "kernel must be one of 'gaussian', .*; got 'box'"),
        ({"lattice_size": 0}, "lattice_size must be a whole number >= 1, got 0"),
        ({"lattice_size": 1024}, r"lattice_size=1024 makes .* nodes for 2 features"),
        ({"bandwidth": 1e-200}, "must have a finite density above 0 in 2 dim.*nan"),
        ({"bandwidth": 1e200}, r"must have a finite density above 0 in 2 dim.*0\.0"),
        (
            {"bounds": [(0, 1)] * 4, "kernel": "cosine"},
            "finite density .*4 dimens.*nan",
        ),
        *(
            ({"bounds": bounds}, "bounds must be a pair .* for each feature")
            for bounds in (
                *(None, 1.0, [], [[]], (0.0, 1.0), [(0, 1, 2)], [(1, 1)], [(1, 0)]),
                *([(0, np.nan)], [(0, np.inf)], [(-1e308, 1e308)], [("a", "b")]),
                *([(0, 1), (0,)], "01"),
            )
        ),
    ]:
        good = {"bounds": [(0, 1), (0, 1)], "bandwidth": 0.5}
        with pytest.raises(ValueError, match=message):
            DensityQuery(**(good | parameters))


def test_a_bad_number_of_records_or_dimensions_is_refused():
    for number in [0, 1.5, -1]:
        with pytest.raises(ValueError, match="n_records must be a whole number >= 1"):
            kernel_density_sensitivity_bound(number, 1.0, 1)
        with pytest.raises(ValueError, match="n_dims must be a whole number >= 1"):
            kernel_density_sensitivity_bound(1, 1.0, number)


def test_the_query_is_a_value():
    query = DensityQuery(np.array([[0, 1]]), np.float64(0.5), lattice_size=np.int64(4))
    query(records(5))
    copied = pickle.loads(pickle.dumps(query))
    same = DensityQuery([(0.0, 1.0)], 0.5, lattice_size=4)
    assert query == copied == same
    assert hash(query) == hash(copied) == hash(same)
    assert query != DensityQuery([(0.0, 1.0)], 0.5, lattice_size=5)
    with pytest.raises(AttributeError):
        query.bandwidth = 1.0


# The estimator


def fitted(
    X=None, *, values=None, order=3, bounds=(0.0, 1.0), epsilon=math.inf, **parameters
):
    """Fit without noise, as a rule; or make up what was released."""
    X = records(300) if X is None else X
    model = PrivateKernelDensity(
        **(
            {"bandwidth": 0.1, "sensitivity": "bound", "order": order}
            | {"bounds": bounds, "epsilon": epsilon}
            | parameters
        )
    ).fit(X)
    if values is not None:
        model.polynomial_ = BernsteinPolynomial(values, order)
        volume = np.prod(np.diff(model.bounds_))
        model.mass_ = volume * module._positive_mass(model.polynomial_)
    return model


NOISY = np.array([3.0, -1.0, 2.0, -2.0, 0.5, 4.0])
NOISY_PLANE = np.random.default_rng(3).laplace(size=(6, 6)) + 0.2


def test_without_noise_it_is_the_polynomial_of_scikit_learns_density():
    for kernel in KERNELS:
        X = 2 + 3 * records(300)
        model = fitted(X, kernel=kernel, bandwidth=0.4, bounds=(2, 5), order=1)
        oracle = KernelDensity(kernel=kernel, bandwidth=0.4).fit(X)
        nodes = np.linspace(2, 5, 11)[:, None]
        values = np.exp(oracle.score_samples(nodes))
        assert model.polynomial_.values == pytest.approx(values, abs=1e-10)
        x = np.linspace(2, 5, 40)
        weights = stats.binom.pmf(np.arange(11), 10, (x[:, None] - 2) / 3)
        expected = weights @ values / (3 * values.mean())
        assert model.pdf(x[:, None]) == pytest.approx(expected, rel=1e-10)
        assert model.mass_ == pytest.approx(3 * values.mean())
        assert model.noise_scale_ == 0


def test_a_fine_lattice_comes_close_to_scikit_learn():
    X = records(2000)
    x = np.linspace(0.05, 0.95, 50)[:, None]
    oracle = KernelDensity(bandwidth=0.1).fit(X)
    model = fitted(X, lattice_size=60)
    inside = integrate.quad(lambda x: np.exp(oracle.score_samples([[x]])[0]), 0, 1)[0]
    expected = np.exp(oracle.score_samples(x)) / inside
    assert model.pdf(x) == pytest.approx(expected, rel=0.02)


def test_the_density_is_nowhere_negative_and_integrates_to_one():
    for values in [None, NOISY]:
        for bounds in [(0.0, 1.0), (-1.0, 4.0)]:
            model = fitted(values=values, bounds=bounds, lattice_size=5)
            x = np.linspace(*bounds, 200_001)[:, None]
            density = model.pdf(x)
            assert density.min() >= 0
            mean = (density.sum() - density[[0, -1]].sum() / 2) / 200_000
            assert mean * np.ptp(bounds) == pytest.approx(1, abs=2e-5)
            if values is not None:
                assert (density == 0).any()


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 1000),
    d=st.integers(1, 3),
    k=st.integers(1, 5),
    order=st.integers(1, 4),
    shift=st.floats(-0.5, 3),
)
def test_the_mass_is_that_of_the_positive_part(seed, d, k, order, shift):
    rng = np.random.default_rng(seed)
    values = rng.laplace(size=(k + 1,) * d) + shift
    polynomial = BernsteinPolynomial(values, order)
    axis = (np.arange([0, 20_000, 1000, 100][d]) + 0.5) / [0, 20_000, 1000, 100][d]
    grid = polynomial.on_grid([axis] * d)
    mass = module._positive_mass(polynomial)
    size = abs(polynomial.coefficients).mean()
    assert mass == pytest.approx(grid.clip(min=0).mean(), abs=2e-3 * size)
    if grid.min() > 0.1:
        assert mass == pytest.approx(polynomial.integral(), rel=1e-10)


def test_outside_the_bounds_and_between_nothing_the_density_is_zero():
    """Without a warning for the logarithm."""
    model = fitted(values=NOISY, lattice_size=5, bounds=(1, 3))
    points = np.array([[0.999], [3.001], [1e9], [-1e300], [1.0], [3.0]])
    density = model.pdf(points)
    assert (density[:4] == 0).all()
    assert (density[4:] > 0).all()
    scores = model.score_samples(points)
    assert (scores[:4] == -np.inf).all()
    assert scores[4:] == pytest.approx(np.log(density[4:]))
    assert model.score(points) == -np.inf
    assert model.score(points[4:]) == pytest.approx(scores[4:].sum())
    assert isinstance(model.score(points), float)


@pytest.mark.parametrize("d", [1, 3])
def test_where_nothing_is_positive_the_density_is_uniform(d):
    model = fitted(
        records(50, d),
        values=np.full((3,) * d, -1.0),
        lattice_size=2,
        bounds=[(0, 2)] * d,
        order=1,
    )
    assert model.mass_ == 0
    points = np.full((1, d), 1.3)
    assert model.pdf(points) == pytest.approx(0.5**d)
    assert model.pdf(points + 1) == 0
    X = model.sample(20_000, random_state=0)
    assert_law(X[:, -1], stats.uniform(0, 2).cdf)


# Samples


def grid_cdf(model, n=100_001):
    """Return the distribution function of one feature by summing its density."""
    low, high = model.bounds_[0]
    x = np.linspace(low, high, n)
    density = model.pdf(x[:, None])
    cdf = integrate.cumulative_trapezoid(density, x, initial=0)
    return lambda t: np.interp(t, x, cdf / cdf[-1])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState, int])
@pytest.mark.parametrize("values", [None, NOISY])
def test_samples_have_the_released_density(values, make):
    """And not that of a polynomial with other values."""
    model = fitted(values=values, lattice_size=5, bounds=(-1, 1))
    X = model.sample(50_000, random_state=make(0))
    assert X.shape == (50_000, 1)
    assert_law(X[:, 0], grid_cdf(model))
    for off in (-0.1, 0.1):
        other = model.polynomial_.values.copy()
        other[[0, 2, 5]] += off * abs(other).max()
        wrong = fitted(values=other, lattice_size=5, bounds=(-1, 1))
        assert rejects_law(X[:, 0], grid_cdf(wrong))


@pytest.mark.slow
def test_samples_of_the_plane_have_the_released_density():
    """Counts in the cells of a grid, and of the grid turned around."""
    model = fitted(records(50, 2), values=NOISY_PLANE, lattice_size=5, order=2)
    X = model.sample(50_000, random_state=1)
    axis = (np.arange(600) + 0.5) / 600
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    cells = model.pdf(points).reshape(6, 100, 6, 100).mean(axis=(1, 3)) / 36
    counts = np.histogram2d(*X.T, bins=6, range=[(0, 1)] * 2)[0]
    enough = cells * len(X) > 10

    def refused(shares):
        expected = np.append(shares[enough], 1 - shares[enough].sum()) * len(X)
        observed = np.append(counts[enough], len(X) - counts[enough].sum())
        statistic = ((observed - expected) ** 2 / expected).sum()
        return stats.chi2.sf(statistic, len(expected) - 1) < FALSE_ALARM

    assert enough.sum() > 20
    assert not refused(cells / cells.sum())
    cells[1], cells[2] = (
        0.9 * cells[1] + 0.1 * cells[2],
        cells[2] * 0.9 + 0.1 * cells[1],
    )
    assert refused(cells / cells.sum())


def test_samples_repeat_only_with_a_seed_and_stay_within_the_bounds():
    model = fitted(records(50, 2), bounds=[(-3, 0.1), (5, 5.3)])
    np.testing.assert_array_equal(model.sample(5, 0), model.sample(5, 0))
    assert (model.sample(5) != model.sample(5)).all()
    X = model.sample(3000, 0)
    low, high = model.bounds_.T
    assert ((low <= X) & (high >= X)).all()
    assert model.sample().shape == (1, 2)
    for n_samples in (0, 1.5, None):
        with pytest.raises(ValueError, match="n_samples must be a whole number >= 1"):
            model.sample(n_samples)
    with pytest.raises(ValueError, match="random_state must be"):
        model.sample(1, "a")


# Privacy


@pytest.mark.parametrize("seed", SEEDS)
@seeded
def test_the_released_values_have_the_noise_that_is_paid_for(seed):
    X = records(50, 2)
    parameters = {"lattice_size": 223, "order": 1, "bandwidth": 0.1}
    model = PrivateKernelDensity(
        sensitivity=0.5, epsilon=2.0, noise_random_state=seed, **parameters
    ).fit(X)
    noise = model.polynomial_.values - fitted(X, **parameters).polynomial_.values
    assert_law(noise.ravel(), stats.laplace(scale=0.25).cdf)
    for wrong in (0.9, 1.1):
        assert rejects_law(noise.ravel(), stats.laplace(scale=wrong * 0.25).cdf)
    assert model.noise_scale_ == pytest.approx(0.25)
    assert (model.gamma_, model.risk_, model.sampler_) == (0, 0, None)


def test_the_noise_differs_each_time():
    first, second = (fitted(epsilon=1.0).polynomial_.values for _ in "12")
    assert (first != second).all()


def test_the_proven_bound_is_the_peak_times_the_nodes():
    X = records(200, 2)
    model = fitted(X, epsilon=0.5, lattice_size=4)
    bound = 25 * kernel_density_sensitivity_bound(200, 0.1, 2)
    assert bound < model.sensitivity_ == pytest.approx(bound)
    assert model.noise_scale_ == pytest.approx(bound / 0.5)
    assert model.certificate_.evidence.calibration == "bound"


def test_the_sampled_sensitivity_is_that_of_the_query():
    private, public = records(200), records(1000, seed=1)
    model = PrivateKernelDensity(0.1, epsilon=0.5, gamma=0.1, random_state=3)
    model.fit(private, X_reference=public)
    sampler = SensitivitySampler(
        query_of(bandwidth=0.1),
        epsilon=0.5,
        gamma=0.1,
        reference=TableReference(public),
        random_state=3,
    ).fit(private)
    assert model.sensitivity_ == sampler.sensitivity_
    assert model.noise_scale_ == sampler.noise_scale_
    assert model.risk_ <= model.gamma_ == 0.1
    plain = sampler.set_params(noise_shape="isotropic").calibrate()
    assert plain.sensitivity_ < fitted(private, epsilon=0.5).sensitivity_ / 2
    again = PrivateKernelDensity(0.1, gamma=0.2, sensitivity=model.sampler_)
    assert again.fit(private).sensitivity_ == sampler.sensitivity_at(0.2)


def test_private_records_outside_the_bounds_are_clipped_also_as_the_reference():
    """The only warning is that they are the reference."""
    X = 3 * records(100) - 1
    sampler = SensitivitySampler(n_pairs=50)
    model = PrivateKernelDensity(0.2, sensitivity=sampler, random_state=0)
    with pytest.warns(PrivacyLeakWarning) as caught:
        model.fit(X)
    assert len(caught) == 1
    assert model.certificate_.reference_is_private
    assert not hasattr(model.sampler_, "differences_")
    with pytest.warns(PrivacyLeakWarning):
        clipped = clone(model).fit(X.clip(0, 1))
    assert clipped.sensitivity_ == model.sensitivity_
    public = records(100, seed=1)
    model.fit(X, X_reference=public)  # no warning
    assert model.sampler_.differences_.shape == (50, 11)
    np.testing.assert_array_equal(
        fitted(X).polynomial_.values, fitted(X.clip(0, 1)).polynomial_.values
    )


def test_training_data_given_as_the_reference_are_noticed():
    X = records(100)
    with pytest.warns(PrivacyLeakWarning):
        model = PrivateKernelDensity(0.2, random_state=0).fit(X, X_reference=X)
    assert model.certificate_.reference_is_private
    with pytest.raises(ValueError, match="whose reference shares records"):
        PrivateKernelDensity(
            sensitivity=SensitivitySampler(reference=TableReference(X))
        ).fit(X)


@pytest.mark.parametrize("relation", RELATIONS)
def test_other_samplers_and_references_are_possible(relation):
    sampler = SensitivitySampler(
        reference=CallableReference(lambda n, rng: rng.beta(2, 3, size=(n, 1))),
        n_records=60,
        n_pairs=99,
        relation=relation,
        randomness="both",
        noise_shape="whitened",
    )
    model = PrivateKernelDensity(0.3, lattice_size=4, sensitivity=sampler)
    model.fit(records(60))
    assert model.certificate_.relation == relation
    assert model.certificate_.evidence.noise_shape == "whitened"
    known = KnownSensitivity(1.0, delta=0.1)
    assert clone(model).set_params(sensitivity=known).fit(records(60)).risk_ == 0


def test_names_of_columns_are_compared():
    frame, other = (
        pd.DataFrame(records(50, 2, seed=seed), columns=list(names))
        for seed, names in enumerate(("ab", "ac"))
    )
    sampler = SensitivitySampler(n_pairs=19)
    model = PrivateKernelDensity(
        0.2, lattice_size=3, sensitivity=sampler, random_state=0
    )
    public = pd.DataFrame(records(30, 2, seed=9), columns=["a", "b"])
    model.fit(frame, X_reference=public)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.pdf(frame).shape == (50,)
    with pytest.raises(ValueError, match="feature names should match"):
        model.pdf(other)
    with pytest.raises(IncompatibleError, match="but X lacks 'c'"):
        model.fit(frame, X_reference=other)
    with pytest.raises(IncompatibleError, match="reference has 1 features"):
        model.fit(frame.to_numpy(), X_reference=records(30))
    with pytest.warns(PrivacyLeakWarning):
        model.fit(frame)


def test_a_sampler_for_another_query_is_refused():
    public = records(100)
    other = PrivateKernelDensity(0.3, random_state=0).fit(
        records(60, seed=1), X_reference=public
    )
    frozen = FrozenEstimator(other.sampler_)
    with pytest.raises(IncompatibleError, match="was fitted for DensityQuery"):
        PrivateKernelDensity(0.2, sensitivity=frozen).fit(records(60, seed=3))
    PrivateKernelDensity(0.3, sensitivity=frozen).fit(records(60, seed=3))
    with pytest.raises(ValueError, match="there can be only one reference"):
        PrivateKernelDensity(0.3, sensitivity=frozen).fit(
            records(60, seed=3), X_reference=records(60, seed=2)
        )


def test_nothing_but_what_is_documented_is_kept():
    model = PrivateKernelDensity(0.2, random_state=0)
    model.fit(records(60), X_reference=records(80, seed=1))
    model.pdf([[0.3]])
    model.sample(3)
    documented = re.findall(r"^    (\w+_(?:, \w+_)*) :", module.__doc__ + _doc(), re.M)
    documented = {name for names in documented for name in names.split(", ")}
    documented.discard("feature_names_in_")
    assert set(vars(model)) == set(model.get_params(deep=False)) | documented
    copied = pickle.loads(pickle.dumps(model))
    assert copied.pdf([[0.3]]) == model.pdf([[0.3]])
    np.testing.assert_array_equal(copied.sample(5, 1), model.sample(5, 1))


def _doc():
    return PrivateKernelDensity.__doc__


def test_bad_parameters_of_the_estimator_are_refused():
    """And nothing is left of an earlier fit."""
    for parameters, message in [
        ({"bandwidth": -1.0}, "bandwidth must be a finite number above 0"),
        ({"kernel": "none"}, "kernel must be one of"),
        ({"lattice_size": 0.5}, "lattice_size must be a whole number >= 1"),
        ({"lattice_size": 2000}, "lattice_size=2000 makes .* for 2 features"),
        ({"order": 0}, "order must be a whole number >= 1"),
        ({"bounds": (1.0, 0.0)}, "bounds must be a pair"),
        ({"bounds": [(0, 1)] * 3}, "bounds must be one pair for each feature, got 3"),
        ({"bounds": None}, "bounds must be a pair"),
        ({"bounds": "01"}, "bounds must be a pair"),
        ({"bounds": ((0, 1), (0, "a"))}, "bounds must be a pair"),
        ({"epsilon": 0}, "epsilon must be a number in"),
        ({"gamma": 1}, "gamma must be a number in"),
        ({"sensitivity": "guess"}, "sensitivity must be"),
        ({"sensitivity": 0.0}, "sensitivity must be"),
    ]:
        X = records(50, 2)
        model = fitted(X)
        with pytest.raises(ValueError, match=message):
            model.set_params(**parameters).fit(X)
        assert not hasattr(model, "polynomial_")


def test_public_records_outside_the_bounds_are_clipped_as_private_ones_are():
    X, public = records(50), 2 * records(300)
    model = PrivateKernelDensity(random_state=0)
    found, clipped = (
        clone(model).fit(X, X_reference=each).sensitivity_
        for each in (public, public.clip(0, 1))
    )
    assert found == clipped


def test_records_that_are_all_alike_after_clipping_cannot_be_calibrated():
    public = np.tile([[0.0], [1e-9]], (30, 1))
    with pytest.raises(CalibrationError, match=r"sensitivity|off, by rounding"):
        PrivateKernelDensity(0.35, kernel="tophat").fit(records(50), X_reference=public)


def test_one_pair_of_bounds_is_for_all_features():
    for bounds in [(0, 2), [(0, 2)], np.array([0.0, 2.0]), [0, 2]]:
        model = fitted(records(50, 2), bounds=bounds, lattice_size=2)
        assert model.bounds_.tolist() == [[0, 2], [0, 2]]


WIDE = {"bandwidth": 50.0, "bounds": (-10, 110), "lattice_size": 1, "gamma": 0.2}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "estimator",
    [
        PrivateKernelDensity(
            sensitivity=SensitivitySampler(n_pairs=4), noise_random_state=0, **WIDE
        ),
        PrivateKernelDensity(sensitivity="bound", epsilon=np.inf, **WIDE),
    ],
    ids=["sampled", "exact"],
)
def test_scikit_learns_checks(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        check_estimator(estimator, on_skip=None)
