"""What is set after fit must not make the certificate say something false."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from skparisk import IncompatibleError, PrivacyLeakWarning, SensitivitySampler
from skparisk.queries import MeanQuery

RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(300, 2))
PRIVATE = RNG.normal(size=(300, 2))


def test_noise_seeded_after_fit_is_refused_until_the_certificate_says_so():
    sampler = SensitivitySampler(MeanQuery()).fit(PUBLIC)
    sampler.set_params(noise_random_state=0)
    with pytest.raises(IncompatibleError, match="set after the certificate was made"):
        sampler.release(PRIVATE)
    again = sampler.calibrate()
    assert not again.certificate_.private
    with pytest.warns(PrivacyLeakWarning):
        again.release(PRIVATE)


def test_query_set_after_fit_is_not_the_one_that_is_released():
    sampler = SensitivitySampler(MeanQuery()).fit(PUBLIC).set_params(query=None)
    with pytest.raises(IncompatibleError, match=r"query MeanQuery\(\), not for rec"):
        sampler.transform(PRIVATE)
    sampler = SensitivitySampler(MeanQuery(), epsilon=np.inf).fit(PUBLIC)
    released = sampler.set_params(query=np.sum).release(PRIVATE)
    np.testing.assert_array_equal(released, PRIVATE.mean(axis=0))


def test_relation_set_after_fit_changes_nothing():
    sampler = SensitivitySampler(np.mean).fit(PUBLIC)
    sampler.set_params(relation="add-remove", n_records=5)
    with pytest.raises(IncompatibleError, match="databases of 300 records, got 299"):
        sampler.release(PRIVATE[:-1])
    assert sampler.calibrate(gamma=0.1).certificate_.relation == "replace-one"
    assert sampler.calibrate(gamma=0.1).certificate_.evidence.n_records == 300


def test_fit_that_fails_leaves_nothing_to_release():
    for parameters in [
        {"epsilon": -1},
        {"query": lambda X: np.nan},
        {"query": lambda X: 1.0},
    ]:
        sampler = SensitivitySampler(MeanQuery()).fit(PUBLIC)
        with pytest.raises(ValueError, match=r"epsilon|NaN|is 0"):
            sampler.set_params(**parameters).fit(PUBLIC)
        with pytest.raises(NotFittedError):
            sampler.release(PRIVATE)
