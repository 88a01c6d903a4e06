"""Private density estimates: the query, the released density, samples of it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import SEEDS, assert_law, rejects_law
from query_pairs import RELATIONS, both_of, pairs_from, plain_differences
from scipy import stats
from sklearn.neighbors import KernelDensity

from skparisk import density as module
from skparisk.density import PrivateKernelDensity
from skparisk.mechanisms import BernsteinPolynomial
from skparisk.queries import DensityQuery, kernel_density_sensitivity_bound
from skparisk.reference import TableReference

KERNELS = ("gaussian", "tophat", "epanechnikov", "exponential", "linear", "cosine")
seeded = pytest.mark.filterwarnings(
    "ignore:noise_random_state:skparisk.exceptions.PrivacyLeakWarning"
)


def records(n, d=1, seed=0):
    return np.random.default_rng(seed).beta(2, 3, size=(n, d))


def query_of(d=1, **parameters):
    return DensityQuery([(0, 1)] * d, **({"bandwidth": 0.2} | parameters))


# The query: its answer


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_answer_is_the_kernel_density_of_scikit_learn(kernel, d):
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


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_estimate_integrates_to_one(kernel):
    query = DensityQuery([(-9, 10)], 0.4, kernel, lattice_size=19_000)
    assert query(records(30)).sum() * 0.001 == pytest.approx(1, abs=2e-3)


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


@pytest.mark.parametrize("n", [1, 2, 257, 20_000])
def test_the_answer_is_off_by_less_than_what_is_paid_for(n):
    """Exact sums of the contributions; less than a thousandth of 1/n is paid."""
    X = records(n)
    query = query_of(bandwidth=0.05)
    exact = [math.fsum(column) / n for column in query.rows(X, None).T[:-1]]
    bound = kernel_density_sensitivity_bound(n, 0.05, 1)
    paid = query.sup_bound(n) - bound
    assert abs(query(X) - exact).max() <= paid / 2
    assert paid <= bound / 1000


# The query: differences


@pytest.mark.sampled(24)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("d", "n_records"), [(1, 400), (2, 2), (2, 30)])
def test_differences_are_those_of_two_answers(d, n_records, kernel, relation):
    """But for far less than what is paid for; also of records outside the bounds."""
    query = query_of(d, kernel=kernel, lattice_size=5, bandwidth=0.15)
    X = 1.6 * records(60, d) - 0.2
    assert X.max() > 1
    pairs = pairs_from(
        TableReference(X), n_records=n_records, relation=relation, size=20
    )
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
    pairs = pairs_from(
        TableReference(records(5)), n_records=3, relation="replace-one", size=1
    )
    with pytest.raises(ValueError, match=r"got 2 for records of shape \(5, 1\)"):
        query_of(2).differences(pairs)


# The query: the bound


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("d", [1, 2])
def test_the_bound_is_attained_and_never_exceeded(kernel, d):
    """By a record at a node that moves far away."""
    n, far = 7, np.ones(d)
    query = query_of(d, kernel=kernel, bandwidth=0.02, lattice_size=4)
    bound = kernel_density_sensitivity_bound(n, 0.02, d, kernel)
    X = np.tile(far, (n, 1))
    other = X.copy()
    other[0] = 0.0
    assert abs(query(X) - query(other)).max() == pytest.approx(bound, rel=1e-9)
    pairs = pairs_from(
        TableReference(records(60, d)), n_records=n, relation="replace-one", size=60
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


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
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
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    good = {"bounds": [(0, 1), (0, 1)], "bandwidth": 0.5}
    with pytest.raises(ValueError, match=message):
        DensityQuery(**(good | parameters))


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


@pytest.mark.parametrize("kernel", KERNELS)
def test_without_noise_it_is_the_polynomial_of_scikit_learns_density(kernel):
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


@pytest.mark.parametrize("values", [None, NOISY])
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1.0, 4.0)])
def test_the_density_is_nowhere_negative_and_integrates_to_one(values, bounds):
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
        assert mass == pytest.approx(polynomial.coefficients.mean(), rel=1e-10)


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


def test_the_proven_bound_is_the_peak_times_the_nodes():
    X = records(200, 2)
    model = fitted(X, epsilon=0.5, lattice_size=4)
    bound = 25 * kernel_density_sensitivity_bound(200, 0.1, 2)
    assert bound < model.sensitivity_ == pytest.approx(bound)
    assert model.noise_scale_ == pytest.approx(bound / 0.5)
    assert model.certificate_.evidence.calibration == "bound"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"bandwidth": -1.0}, "bandwidth must be a finite number above 0"),
        ({"kernel": "none"}, "kernel must be one of"),
        ({"lattice_size": 0.5}, "lattice_size must be a whole number >= 1"),
        ({"lattice_size": 2000}, "lattice_size=2000 makes .* for 2 features"),
        ({"order": 0}, "order must be a whole number >= 1"),
        ({"bounds": (1.0, 0.0)}, "bounds must be a pair"),
        ({"bounds": [(0, 1)] * 3}, "bounds must be one pair for each feature, got 3"),
        ({"bounds": ((0, 1), (0, "a"))}, "bounds must be a pair"),
    ],
)
def test_bad_parameters_of_the_estimator_are_refused(parameters, message):
    """And nothing is left of an earlier fit."""
    X = records(50, 2)
    model = fitted(X)
    with pytest.raises(ValueError, match=message):
        model.set_params(**parameters).fit(X)
    assert not hasattr(model, "polynomial_")
