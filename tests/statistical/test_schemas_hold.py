"""What a schema certifies holds for records of the law that it declares."""

import math

import numpy as np
import pytest
from laws import assert_binomial_at_most, exceeds

from skparisk import PrivateRidge, SchemaReference, SensitivitySampler
from skparisk.core.calibrate import PAC, Exchangeable
from skparisk.queries import FunctionQuery, MeanQuery, RidgeQuery
from skparisk.reference import CallableReference
from skparisk.sensitivity import sample_differences

GAMMA, M, TRIALS = 0.2, 9, 3000
SCHEMA = SchemaReference([(0, 1)])


def spread(X):
    """Depends on the shared records as well."""
    return X.std()


def certified(differences):
    index = Exchangeable().order_index(M, GAMMA)
    return np.sort(np.abs(differences[:M, 0]))[index - 1]


def sampled(query, n_pairs, seed, reference=SCHEMA):
    return sample_differences(
        query, reference, n_pairs=n_pairs, n_records=8, n_features=1, random_state=seed
    )


def assert_exact(ratios):
    """The 8th of 9 pairs has a risk of 0.2, neither more nor less."""
    beyond = int((ratios > 1).sum())
    assert_binomial_at_most(beyond, TRIALS, GAMMA)
    assert not exceeds(TRIALS - beyond, TRIALS, 1 - GAMMA)  # and it is tight
    assert exceeds(int((ratios > 0.8).sum()), TRIALS, GAMMA)


def test_exact_for_new_records_among_the_simulated_ones():
    found = [sampled(FunctionQuery(spread), M + 1, seed) for seed in range(TRIALS)]
    assert_exact(np.array([abs(each[-1, 0]) / certified(each) for each in found]))


def test_exact_for_new_databases_where_shared_records_do_not_matter():
    rng = np.random.default_rng(0)
    ratios = []
    for seed in range(TRIALS):
        one, other = rng.random((2, 8, 1))
        other[1:] = one[1:]
        move = abs(one.mean() - other.mean())
        ratios.append(move / certified(sampled(MeanQuery(), M, seed)))
    assert_exact(np.array(ratios))


@pytest.mark.slow
def test_the_risk_of_an_estimator_holds_for_databases_drawn_afresh():
    schema = SchemaReference([(0, 1), (-1, 3), [0, 1]], target=(0, 2))
    n_records, gamma, n_fresh = 40, 0.1, 4000
    X, y = schema.sample(n_records, np.random.default_rng(0))
    sampler = SensitivitySampler(
        n_pairs=2000,
        noise_shape="isotropic",
        calibration=PAC(1e-4),
        reference=schema,
    )
    model = PrivateRidge(1.0, gamma=gamma, sensitivity=sampler, random_state=0)
    model.fit(X, y)
    fresh = sample_differences(
        RidgeQuery(),
        CallableReference(schema.sample),
        n_pairs=n_fresh,
        n_records=n_records,
        n_features=3,
        random_state=1,
    )
    losses = np.abs(fresh).sum(axis=1) / model.noise_scale_
    assert_binomial_at_most(int((losses > model.epsilon_).sum()), n_fresh, gamma)
    # Half of the noise is noticed.
    assert exceeds(int((losses / 0.5 > model.epsilon_).sum()), n_fresh, gamma)
    assert math.isclose(model.epsilon_, 1.0)
