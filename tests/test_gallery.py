"""The gallery runs, and the numbers that its lecture states are right."""

import doctest
import itertools
import math
import runpy
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot as plt
from scipy import stats

from skparisk import SensitivitySampler
from skparisk.core.laws import Gaussian
from skparisk.mechanisms import (
    DiscreteMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    RandomizedResponse,
)
from skparisk.reference import CallableReference

GALLERY = Path(__file__).parents[1] / "docs" / "gallery"
# What the scripts print, where noise does not decide it.
PRINTED = {
    "budget": """
        74434.41 dollars
        43479.06 dollars at level 0.1556
        spent 1.5, left 0.5
        BudgetExceededError
        {'alpha': 1.0} left 0.1
        5 lines
        added 10.0, exact 4.220
        """,
    "faulty_mean": """
        There is evidence against the claim of faulty_mean (confidence 0.95).
        level at least 3.5, where 1 is claimed
        no evidence found
        given away by the low bits of number 0
        """,
    "forest": """
        The claim is about made-up records, not about people
        sampled 40.0, proven 40.0
        For any two databases that differ in one record (5000 records): the release is
        1-differentially private.
        grown on customers 85%, on the form 83% right
        """,
    "moments": """
        largest difference: 0.0
        a year of education adds 0.1 to log wages
        first component: age
        spent so far: epsilon 1.0
        """,
    "risk": """
        level 0.25: risk 0.637
        level 0.5: risk 0.373
        level 1.0: risk 0.050
        level 1.5: risk 0.005
        risk 0.2: level 0.66
        risk 0.1: 9 pairs
        risk 0.05: 19 pairs
        risk 0.01: 99 pairs
        """,
    "table": """
        For any two databases that differ in one record (2000 records): the release is
        1-differentially private.
        each region give or take 23
        region degree northeast degree ...
        quantile low high q 0.5 ...
        """,
    "text": """
        accuracy 0.9
        crash error install login password screen slow update
        released numbers: 27
        with the channel: 29
        """,
    "together": """
        public alone: [0.02 0.07 0.06 0.08]
        private, without noise: 0.08
        On the 800 public records, the private model (1000 records) scores ... and
        a fit to the public records alone 0.119 (cross-validated). The standard error
        of the difference is ...
        """,
}
AGE_BINS = np.arange(0, 111, 10)
PRICES = (1.0, 2.0, 3.0, 4.0)
CHOLESTEROL = np.array([216, 501, 100, 535, 214])
ATTACK = np.array([0, 1, 0, 1, 1])
THRESHOLDS = np.array([100, 200, 300, 400, 500])


def histogram(ages):
    return np.histogram(ages, bins=AGE_BINS)[0]


def revenue(bids, prices=PRICES):
    return np.array([p * np.count_nonzero(np.asarray(bids) >= p) for p in prices])


def accuracy(records):
    return np.array([np.mean([(c > h) == y for c, y in records]) for h in THRESHOLDS])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(file.stem, marks=[pytest.mark.slow] * (file.stem == "text"))
        for file in sorted(GALLERY.glob("*.py"))
    ],
)
def test_examples_of_the_gallery_run_and_draw(name, capsys):
    runpy.run_path(str(GALLERY / f"{name}.py"))
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    expected = " ".join(PRINTED[name].split())
    printed = " ".join(capsys.readouterr().out.split())
    assert doctest.OutputChecker().check_output(expected, printed, flags), printed
    assert plt.get_fignums()
    plt.close("all")


def databases(values, n_records):
    return [list(records) for records in itertools.product(values, repeat=n_records)]


def neighbors(database, values, relation):
    for position in range(len(database)):
        rest = database[:position] + database[position + 1 :]
        if relation == "add-remove":
            yield rest
        else:
            for value in values:
                yield [*database[:position], value, *database[position + 1 :]]


def largest_distance(query, values, relation, *, n_records=3, norm=1):
    """Compare all neighbors whose records have these values."""
    return max(
        np.linalg.norm(np.atleast_1d(query(one) - query(other)), norm)
        for one in databases(values, n_records)
        for other in neighbors(one, values, relation)
    )


SALARIES = (20e3, 50e3, 110e3, 200e3)
AGES = (5, 18, 19, 64, 70, 100)
BIDS = (0.0, 1.0, 1.5, 3.01, 4.0, 9.0)
PATIENTS = tuple(itertools.product((99, 216, 501), (0, 1)))


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("query", "values", "relation", "norm", "stated"),
    [
        (np.sum, (0.0, 1.0), "replace-one", 1, 1),
        (np.sum, (0.0, 1.0), "add-remove", 1, 1),
        (np.sum, SALARIES, "replace-one", 1, 180e3),
        (np.sum, SALARIES, "add-remove", 1, 200e3),
        (np.mean, SALARIES, "replace-one", 1, 180e3 / 3),
        (np.mean, SALARIES, "add-remove", 1, 180e3 / 3),
        (histogram, AGES, "replace-one", 1, 2),
        (histogram, AGES, "add-remove", 1, 1),
        (np.sum, (10e3, 90e3, 200e3), "replace-one", 2, 190e3),
        (histogram, AGES, "replace-one", 2, math.sqrt(2)),
        (revenue, BIDS, "replace-one", np.inf, 4),
        (revenue, BIDS, "add-remove", np.inf, 4),
        (accuracy, PATIENTS, "replace-one", np.inf, 1 / 3),
    ],
)
def test_stated_sensitivities_bound_all_neighbors_and_are_attained(
    query, values, relation, norm, stated
):
    largest = largest_distance(query, values, relation, norm=norm)
    assert largest == pytest.approx(stated, rel=1e-12)


def test_one_buyer_moves_the_revenue_by_the_largest_price():
    prices = np.arange(1, 101) / 10
    moves = [
        np.abs(revenue([v, 5.0], prices) - revenue([w, 5.0], prices)).max()
        for v, w in itertools.product((0.0, 0.1, 3.0, 10.0, 99.0), repeat=2)
    ]
    assert max(moves) == 10


@pytest.mark.parametrize(
    ("low", "high", "stated"), [(20e3, 200e3, 180e3), (18, 100, 82)]
)
def test_local_sensitivity_is_the_width_of_the_range(low, high, stated):
    values = np.linspace(low, high, 11)
    moves = np.abs(np.subtract.outer(values, values))
    assert moves.max() == stated


def test_sampled_sensitivity_of_extreme_records_is_the_stated_one():
    for query, values, relation, stated in [
        (np.sum, (0.0, 1.0), "replace-one", 1),
        (np.sum, (0.0, 1.0), "add-remove", 1),
        (np.sum, (20e3, 200e3), "replace-one", 180e3),
        (np.sum, (20e3, 200e3), "add-remove", 200e3),
        (np.mean, (20e3, 200e3), "replace-one", 180e3 / 10),
        (histogram, (18.0, 64.0), "replace-one", 2),
        (histogram, (18.0, 64.0), "add-remove", 1),
    ]:
        sampler = SensitivitySampler(
            query,
            gamma=0.1,
            noise_shape="isotropic",
            n_pairs=200,
            n_records=10,
            relation=relation,
            reference=CallableReference(lambda n, rng: rng.choice(values, size=(n, 1))),
            random_state=0,
        ).fit([[values[0]]] * 10)
        assert sampler.sensitivity_ == pytest.approx(stated, rel=1e-12)
        known = LaplaceMechanism(stated, 1.0, sampler.n_outputs_)
        assert sampler.noise_scale_ == pytest.approx(known.noise_scale, rel=2e-6)


def test_one_record_is_released_with_the_width_of_the_range():
    reference = CallableReference(lambda n, rng: rng.choice([20e3, 200e3], (n, 1)))
    sampler = SensitivitySampler(reference=reference, gamma=0.1, random_state=0)
    assert sampler.fit([[20e3]]).sensitivity_ == 180e3


def test_laplace_noise_has_the_scale_and_the_level_that_are_stated():
    for epsilon in [0.1, 1.0, 82 / 3]:
        for sensitivity in [1.0, 2.0, 82.0, 180e3, 200e3]:
            mechanism = LaplaceMechanism(sensitivity, epsilon)
            scale = mechanism.noise_scale
            assert sensitivity / epsilon <= scale < sensitivity / epsilon * (1 + 1e-6)
            assert mechanism.privacy_loss(sensitivity) == pytest.approx(
                epsilon, rel=1e-6
            )
            # The largest ratio of the two densities is exp(1/b) for a distance of 1.
            outputs = np.linspace(-5, 5, 1001) * scale
            ratio = stats.laplace.logpdf(outputs, 0, scale) - stats.laplace.logpdf(
                outputs, sensitivity, scale
            )
            assert ratio.max() == pytest.approx(sensitivity / scale, rel=1e-9)
            assert ratio.max() <= epsilon


def test_alice_has_a_level_of_82_thirds():
    assert LaplaceMechanism(82.0, 82 / 3).noise_scale == pytest.approx(3, rel=1e-8)


def test_coin_flips_tell_the_truth_three_times_in_four():
    told = [
        truth if first == "heads" else second
        for truth, first, second in itertools.product(
            (0, 1), ("heads", "tails"), (0, 1)
        )
    ]
    by_flips = np.array([np.bincount(told[:4]), np.bincount(told[4:])]) / 4
    coins = RandomizedResponse(truth_probability=0.75)
    np.testing.assert_array_equal(coins.matrix, by_flips)
    assert math.log(3) <= coins.epsilon < math.log(3) * (1 + 1e-12)
    assert round(math.log(3), 2) == 1.10


def test_level_of_any_probability_of_the_truth():
    for p in [0.01, 0.25, 0.49, 0.51, 0.75, 0.9]:
        level = math.log(max(p / (1 - p), (1 - p) / p))
        response = RandomizedResponse(truth_probability=p)
        assert response.epsilon == pytest.approx(level, rel=1e-12)
        assert DiscreteMechanism(response.matrix).epsilon == pytest.approx(
            level, rel=1e-12
        )


def test_estimate_of_the_survey_is_the_stated_one_and_unbiased():
    for p in [0.75, 0.3]:
        for share in [0.0, 0.3, 1.0]:
            n = 10
            response = RandomizedResponse(truth_probability=p)
            yes = p * share + (1 - p) * (1 - share)
            counts = np.arange(n + 1)
            weights = stats.binom.pmf(counts, n, yes)
            estimates = np.array(
                [response.estimate_proportions([1] * c + [0] * (n - c)) for c in counts]
            )
            stated = (counts / n - p) / (1 - 2 * p)
            np.testing.assert_allclose(estimates[:, 0], stated, atol=1e-12)
            np.testing.assert_allclose(
                weights @ estimates, [1 - share, share], atol=1e-12
            )
            variance = weights @ (estimates[:, 1] - share) ** 2
            assert variance == pytest.approx(yes * (1 - yes) / n / (2 * p - 1) ** 2)
            assert variance == pytest.approx(
                response.variance([1 - share, share], n)[1]
            )


def test_estimates_of_the_exercise():
    coins = RandomizedResponse(truth_probability=0.75)
    for count in range(21):
        mean = count / 20
        estimate = coins.estimate_proportions([1] * count + [0] * (20 - count))
        np.testing.assert_allclose(
            estimate, [1.5 - 2 * mean, 2 * mean - 0.5], atol=1e-12
        )
        assert (estimate.min() < 0) == (mean < 0.25 or mean > 0.75)


def test_auction_has_the_stated_scores_and_probabilities():
    bids = [1, 1, 3.01]
    np.testing.assert_allclose(
        revenue(bids, (1, 1.01, 3.01, 3.02)), [3, 1.01, 3.01, 0], rtol=1e-15
    )
    scores = revenue(bids)
    np.testing.assert_array_equal(scores, [3, 2, 3, 0])
    total = 2 * math.exp(3 / 8) + math.exp(2 / 8) + 1
    expected = np.exp([3 / 8, 2 / 8, 3 / 8, 0]) / total
    got = ExponentialMechanism(4.0, 1.0).probabilities(scores)
    np.testing.assert_allclose(got, expected, rtol=1e-8)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_auction_keeps_its_level_for_all_neighbors(relation):
    mechanism = ExponentialMechanism(4.0, 1.0)

    def log_law(bids):
        return np.log(mechanism.probabilities(revenue(bids)))

    assert largest_distance(log_law, BIDS, relation, norm=np.inf) <= 1


def test_cholesterol_has_no_best_threshold_unless_100_is_above_100():
    mechanism = ExponentialMechanism(0.2, 1.25)
    above = [np.mean((h < CHOLESTEROL) == ATTACK) for h in THRESHOLDS]
    np.testing.assert_allclose(above, 0.8)
    np.testing.assert_allclose(mechanism.probabilities(above), 0.2, rtol=1e-8)
    from_it_on = [np.mean((h <= CHOLESTEROL) == ATTACK) for h in THRESHOLDS]
    np.testing.assert_allclose(from_it_on, [0.6, 0.8, 0.8, 0.8, 0.8])
    weights = np.exp(3.125 * np.array(from_it_on))
    np.testing.assert_allclose(
        mechanism.probabilities(from_it_on), weights / weights.sum(), rtol=1e-7
    )


def test_laplace_is_an_exponential_mechanism_of_twice_the_scale():
    values = np.arange(-60, 61)
    law = ExponentialMechanism(1.0, 2.0).probabilities(-np.abs(values - 7))
    expected = np.exp(-np.abs(values - 7) / (2 * 1.0 / 2.0))
    np.testing.assert_allclose(law, expected / expected.sum(), rtol=1e-6)


def test_the_stated_variance_of_gaussian_noise_is_more_than_enough():
    for epsilon in [0.1, 1.0]:
        for n in [10, 1000]:
            delta = 1 / n**2
            for sensitivity, n_outputs, stated in (
                (190e3, 1, 2 * math.log(1.25 * n**2) * 190e3**2 / epsilon**2),
                (math.sqrt(2), 11, 4 * math.log(1.25 * n**2) / epsilon**2),
            ):
                textbook = math.sqrt(stated)
                mechanism = GaussianMechanism(
                    sensitivity, epsilon, delta, n_outputs=n_outputs
                )
                scales = np.array([textbook, mechanism.noise_scale])
                spent = Gaussian().profile(epsilon, sensitivity / scales)
                assert spent[0] < spent[1] == pytest.approx(delta, rel=1e-4)


def test_level_of_reported_places():
    for n, p in [(2, 0.75), (2, 0.6), (5, 0.6), (100, 0.02)]:
        q = (1 - p) / (n - 1)
        matrix = np.full((n, n), q) + (p - q) * np.eye(n)
        level = math.log(p * (n - 1) / (1 - p))
        assert DiscreteMechanism(matrix).epsilon == pytest.approx(level, rel=1e-9)
        response = RandomizedResponse(n, truth_probability=p)
        assert response.epsilon == pytest.approx(level, rel=1e-12)
        np.testing.assert_allclose(response.matrix, matrix, rtol=1e-12)
