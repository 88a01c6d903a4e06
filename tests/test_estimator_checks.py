"""scikit-learn's own checks, on every estimator."""

import numpy as np
import pytest
from checks_of_weights import WEIGHTS
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

from skparisk import (
    KnownSensitivity,
    PrivateEstimator,
    PrivateGridSearchCV,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.density import PrivateKernelDensity
from skparisk.model_selection import ExponentialSelection

pytestmark = [
    pytest.mark.filterwarnings("ignore::skparisk.exceptions.PrivacyLeakWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
]


SHAPED = {"randomness": "both", "law": "gaussian", "noise_shape": "whitened"}
KNOWN = KnownSensitivity(1.0, norm="l2", law="gaussian", delta=1e-5)
# Of ten records some pairs lack a class, and have no answer.
CHEAP = SensitivitySampler(n_pairs=4)
MORE = SensitivitySampler(n_pairs=19)
WRAPPED = {
    Ridge(): {},
    Lasso(0.01): {"gamma": 0.2, "sensitivity": MORE},
    LogisticRegression(max_iter=30): {},
    # Where classes are far apart, few records move a coefficient.
    LinearSVC(max_iter=100): {"gamma": 0.3, "sensitivity": MORE},
    GaussianNB(): {"sensitivity": MORE},
    PCA(): {},
    StandardScaler(): {},
    KMeans(n_init=1): {"sensitivity": 1.0},  # of pairs it needs public centers
}


def wrapped(estimator, **parameters):
    # Some checks set no seed.
    parameters = {
        **{"gamma": 0.5, "sensitivity": CHEAP, "random_state": 0},
        **parameters,
    }
    return PrivateEstimator(estimator, **parameters)


SEED = {"noise_random_state": 0}
# Of ten records some pairs lack a class, and with little penalty many pairs of blobs do
# not move.
SPARE = {"sensitivity": SensitivitySampler(n_pairs=24), "gamma": 0.3, "C": 0.1}
WIDE = {"bandwidth": 50.0, "bounds": (-10, 110), "lattice_size": 1, "gamma": 0.2}
HELD_OUT = {"selection": "exponential", "random_state": 0, **SEED}


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        PrivateRidge(epsilon=np.inf),
        PrivateLogisticRegression(**SPARE, **SEED),
        PrivateLogisticRegression(epsilon=np.inf, **SPARE),
        PrivateLogisticRegression(sensitivity="bound", x_norm=1.0, **SEED),
        PrivateLinearSVC(**SPARE, **SEED),
        PrivateLinearSVC(0.01, loss="hinge", sensitivity=1.0, **SEED),
        PrivateKernelDensity(sensitivity=CHEAP, **WIDE, **SEED),
        PrivateKernelDensity(sensitivity="bound", epsilon=np.inf, **WIDE),
        PrivateGridSearchCV(
            PrivateRidge(sensitivity=1.0, **SEED),
            {"alpha": [0.1, 1.0]},
            **HELD_OUT | {"selection": ExponentialSelection(y_bounds=(-4.0, 4.0))},
        ),
        PrivateGridSearchCV(
            PrivateLogisticRegression(sensitivity=1.0, **SEED),
            {"C": [0.1, 1.0]},
            **HELD_OUT,
        ),
        PrivateRidge(sensitivity="bound", x_norm=1, y_bounds=(-1, 1)).set_params(
            noise_random_state=0
        ),
        PrivateRidge(sensitivity=SensitivitySampler(**SHAPED), noise_random_state=0),
        PrivateRidge(sensitivity=KNOWN, noise_random_state=0),
        SensitivitySampler(noise_random_state=0),
        *(wrapped(e, noise_random_state=0, **p) for e, p in WRAPPED.items()),
        *(wrapped(e, epsilon=np.inf) for e in (LogisticRegression(), PCA())),
    ],
    ids=lambda estimator: type(getattr(estimator, "estimator", estimator)).__name__,
)
def test_seeded(estimator):
    check_estimator(estimator, on_skip=None, expected_failed_checks=WEIGHTS)


def test_seeded_ridge():
    check_estimator(PrivateRidge(**SEED), on_skip=None, expected_failed_checks=WEIGHTS)


# They compare two fits, or two calls, whose noise differs.
TWO_NOISY_FITS = {
    "PrivateRidge": {
        "check_regressor_data_not_an_array",
        "check_supervised_y_2d",
        "check_regressors_int",
        "check_fit_idempotent",
    },
    "PrivateLinearSVC": {
        "check_classifier_data_not_an_array",
        "check_fit_idempotent",
        "check_supervised_y_2d",
    },
    "SensitivitySampler": {"check_estimators_pickle", "check_fit_idempotent"},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator", [PrivateRidge(), PrivateLinearSVC(**SPARE), SensitivitySampler()]
)
def test_defaults_fail_only_where_two_noisy_fits_are_compared(estimator):
    results = check_estimator(
        estimator, on_fail=None, on_skip=None, expected_failed_checks=WEIGHTS
    )
    failed = {r["check_name"] for r in results if r["status"] == "failed"}
    assert failed == TWO_NOISY_FITS[type(estimator).__name__]


class RepeatableSampler(SensitivitySampler):
    """Without the tag that skips checks of transformers."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = False
        return tags


def test_sampler_passes_what_its_tag_skips_but_for_noise_by_position():
    """The n-th row gets the n-th noise, so the order of rows does matter."""
    results = check_estimator(
        RepeatableSampler(noise_random_state=0), on_fail=None, on_skip=None
    )
    failed = {r["check_name"] for r in results if r["status"] == "failed"}
    assert failed == {
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
    }
