"""What is refused of randomness, law, shape and calibration, before a draw."""

import math

import numpy as np
import pytest
from noise_plans import (
    PRIVATE,
    PRIVATE_TARGETS,
    PUBLIC,
    isotropic,
    make_sampler,
    switch,
)

from skparisk import (
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.reference import CallableReference

# What is refused, before anything is drawn


REFUSALS = [
    *(
        ({"delta": delta}, rf"delta must be a number in \[0, 1\), got {text}\.$")
        for delta, text in [(-0.1, r"-0\.1"), (1.0, r"1\.0"), (None, "None")]
    ),
    (
        {"noise_shape": "round"},
        "noise_shape must be one of 'isotropic', .*'whitened', 'auto'; got 'round'",
    ),
    ({"noise_shape": 5}, "noise_shape must be one of 'isotropic', .*; got 5"),
    (
        {"randomness": "explicit"},
        "randomness must be one of 'implicit', 'both'; got 'explicit'",
    ),
    (
        {"law": "normal"},
        "law must be one of 'laplace', 'gaussian', 'exponential'; got 'normal'",
    ),
    (
        {"law": "gaussian"},
        r"delta must be above 0 with law='gaussian' and randomness='implicit', .*; "
        r"got 0\.0",
    ),
]


def never(*_):
    raise AssertionError("drawn")


def test_plans_that_make_no_sense_are_refused_before_anything_is_drawn():
    for plan, message in REFUSALS:
        reference = CallableReference(never)
        with pytest.raises(ValueError, match=message):
            make_sampler(query=never, reference=reference, **plan).fit(PUBLIC)
        sampler = SensitivitySampler(reference=reference, **plan)
        if "epsilon" not in plan:
            with pytest.raises(ValueError, match=message):
                PrivateRidge(sensitivity=sampler).fit(PRIVATE, PRIVATE_TARGETS)


def test_plans_that_make_no_sense_are_refused_by_calibrate():
    for plan, message in REFUSALS:
        sampler = switch(isotropic(), **plan)
        with pytest.raises(ValueError, match=message):
            sampler.calibrate()
        assert sampler.certificate_ == isotropic().certificate_


def test_seed_that_is_none_is_refused_by_calibrate():
    sampler = switch(isotropic()).set_params(noise_random_state="x")
    with pytest.raises(ValueError, match="noise_random_state must be None, a whole"):
        sampler.calibrate()


def test_gaussian_noise_needs_no_delta_where_there_is_no_noise():
    sampler = make_sampler(law="gaussian", epsilon=math.inf).fit(PUBLIC)
    assert sampler.certificate_.delta == 0.0
    np.testing.assert_array_equal(sampler.release(PRIVATE), PRIVATE.mean(axis=0))
