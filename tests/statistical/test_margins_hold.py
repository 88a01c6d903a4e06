"""Where classes are unbalanced losses pile up, and a whole table is off at once.

Many tables are drawn from a population; fresh pairs of people are the same for all of
them. The class of one person decides here, and differs in a tenth of the pairs.
"""

import numpy as np

from skparisk import SensitivitySampler, TableReference
from skparisk.queries import LogisticRegressionQuery

QUERY = LogisticRegressionQuery((0.0, 1.0), C=1e-5)
GAMMA, N_TABLES = 0.1, 120


def people(n, rng):
    X = rng.normal(size=(n, 4))
    return X, (X[:, 0] + rng.logistic(size=n) > 3.4).astype(float)


def fit(X, y, n_pairs, seed):
    return SensitivitySampler(
        QUERY,
        gamma=GAMMA,
        n_pairs=n_pairs,
        n_records=300,
        reference=TableReference(X, y),
        noise_shape="isotropic",
        random_state=seed,
    ).fit(X, y)


def test_a_margin_pays_for_what_tables_are_off_by():
    """And noise without it, about a tenth less, is beyond epsilon too often."""
    rng = np.random.default_rng(0)
    fresh = fit(*people(40_000, rng), 4000, 0).sensitivities_
    beyond, bare = np.empty((2, N_TABLES))
    for table in range(N_TABLES):
        claim = fit(*people(300, rng), 1000, table).certificate_.evidence
        beyond[table] = np.mean(fresh > claim.noise_scale)
        bare[table] = np.mean(fresh > claim.noise_scale / claim.margin)
    errors = [2.6 * each.std() / N_TABLES**0.5 for each in (beyond, bare)]
    assert beyond.mean() - errors[0] < GAMMA
    assert bare.mean() - errors[1] > GAMMA
