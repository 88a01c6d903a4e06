"""What estimators and searches spend, told from their parameters."""

import math

from searches import ALPHAS, known, private_search
from sklearn.ensemble import BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from skparisk import (
    KnownSensitivity,
    PrivateEstimator,
    PrivateMoments,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk._words import INFINITE, void_reasons
from skparisk.core import Assumption, Leak
from skparisk.model_selection._fits import declared_certificate


def test_level_of_each_kind_of_estimator_is_read_off_its_parameters():
    def level(estimator):
        found = declared_certificate(estimator)
        return (
            found.epsilon,
            found.delta,
            found.risk,
            found.failure_prob,
            found.randomness if found.risk else None,
            found.relation,
        )

    def of(**parameters):
        return PrivateRidge(
            epsilon=0.5, gamma=0.1, sensitivity=SensitivitySampler(**parameters)
        )

    one = "replace-one"
    implicit = (0.5, 0.0, 0.1, 0.0, "implicit", one)
    assert level(PrivateRidge(epsilon=0.5, gamma=0.1)) == implicit
    assert level(of(epsilon=9.0)) == implicit
    assert level(of(calibration="pac")) == (0.5, 0.0, 0.1, 0.05, "implicit", one)
    assert level(of(randomness="both")) == (0.5, 0.0, 0.1, 0.0, "both", one)
    pure = (0.5, 0.0, 0.0, 0.0, None, one)
    assert level(of(randomness="both", delta=0.01))[1] == 0

    def of_known(gamma, **parameters):
        return PrivateRidge(
            epsilon=0.5, gamma=gamma, sensitivity=KnownSensitivity(1.0, **parameters)
        )

    for gamma, parameters in [(0.1, {}), (0.6, {}), (0.1, {"at_risk": True})]:
        assert level(of_known(gamma, **parameters)) == pure
    for gamma, parameters in [
        (0.6, {"at_risk": True}),
        (0.1, {"norm": "l2", "law": "gaussian", "at_risk": True}),
    ]:
        expected = (0.5, 0.0, gamma, 0.0, "explicit", one)
        assert level(of_known(gamma, **parameters)) == expected
    assert level(of_known(0.1, delta=0.01)) == (*(0.5, 0.01, 0.0, 0.0, None), one)
    assert level(of(relation="add-remove"))[-1] == "add-remove"
    assert level(known(epsilon=0.5)) == pure
    bound = PrivateRidge(epsilon=0.5, sensitivity="bound", x_norm=1, y_bounds=(0, 1))
    assert level(bound) == pure
    moments = PrivateMoments(epsilon=0.5, sensitivity="bound")
    assert level(moments) == pure
    for estimator, told in [
        (bound, Assumption.DECLARED_LEVEL),
        (PrivateRidge(gamma=0.1), Assumption.PUBLIC_REFERENCE),
        (known(), Assumption.DECLARED_SENSITIVITY),
    ]:
        assert declared_certificate(estimator).assumptions == {told}
    assert level(SensitivitySampler(epsilon=0.5, gamma=0.1)) == implicit
    frozen = FrozenEstimator(SensitivitySampler(randomness="both"))
    assert level(PrivateRidge(sensitivity=frozen))[4] == "both"
    wrapped = PrivateEstimator(known(), epsilon=0.5, gamma=0.1)  # what is inside is not
    assert level(wrapped) == implicit
    two = make_pipeline(known(epsilon=0.25), known(epsilon=0.25))
    assert level(two) == pure
    for seeded in (known(noise_random_state=0), of(noise_random_state=0)):
        assert declared_certificate(seeded).leaks == {Leak.SEEDED_NOISE}
    assert void_reasons(declared_certificate(known(epsilon=math.inf))) == (INFINITE,)
    for unclear in (
        Ridge(),
        BaggingRegressor(known()),
        make_pipeline(private_search(known(), ALPHAS, "reference")),
        make_pipeline(FrozenEstimator(known())),
    ):
        assert declared_certificate(unclear) is None
