"""One certificate of each kind, for tests of certificates."""

import math

import pytest
from certificates import certificate

from skparisk.core.claim import (
    DominatingLoss,
    Doubt,
    Leak,
    MeasuredRisk,
    Population,
    mint,
)

AUDIT = MeasuredRisk(59, 220, 3, 1.0, 0.05, 0.95, lower=0.001, upper=0.037)
PLAIN = (str, int, float, bool, type(None))
PAC = {
    "calibration": "pac",
    "failure_prob": 0.05,
    "order_index": 1440,
    "risk": 0.05,
    "curve": ((1.0, 0.05),),
}
SECRET = {"population": Population.CANDIDATES, "n_candidates": 2000}
AT_RISK = {"risk": 0.05, "gamma": 0.05, "noise_scale": 0.5}


def known(calibration="bound", **changes):
    """Return a certificate of a sensitivity that was not sampled."""
    values = {"gamma": 0.0, "risk": 0.0, "n_pairs": None, "order_index": None}
    values |= {"calibration": calibration, "reference": None, "curve": None}
    values |= {"randomness": "explicit", "n_unanswered": None}
    return certificate(**(values | changes))


def both(**changes):
    """Return a certificate of a risk over pairs and noise."""
    return certificate(**({"randomness": "both"} | changes))


CASES = {
    "exchangeable": certificate(),
    "dkw": certificate(calibration="dkw"),
    "pac": certificate(**PAC),
    "add-remove": certificate(relation="add-remove"),
    "seeded": certificate(leaks=[Leak.SEEDED_NOISE]),
    "no noise": certificate(epsilon=math.inf, noise_scale=0.0, curve=None),
    "private reference": certificate(leaks=[Leak.PRIVATE_REFERENCE], curve=None),
    "private classes": certificate(leaks=[Leak.PRIVATE_CLASSES]),
    "private classes, bound": known(leaks=[Leak.PRIVATE_CLASSES]),
    "approximate": certificate(delta=1e-6),
    "bound": known(),
    "declared": known("declared"),
    "both": both(),
    "both, pac": both(**PAC),
    "whitened": both(noise_shape="whitened", n_shape_pairs=1500),
    "unanswered": certificate(n_unanswered=7),
    "audited": certificate(audit=AUDIT),
    "secret": certificate(**SECRET),
    "made up": certificate(population=Population.DECLARED, doubts=[Doubt.MADE_UP]),
    "gaussian": certificate(
        law="gaussian",
        delta=1e-6,
        noise_scale=1.25,
        loss=DominatingLoss("gaussian", 1.5, 1e-9),
    ),
    "risk control": both(law="gaussian", order_index=None),
    "known, gaussian": known("declared", law="gaussian", **AT_RISK),
    "several": mint(epsilon=0.5, delta=1e-5, risk=0.05, method="basic", n_releases=2),
}
every_case = pytest.mark.parametrize("given_", CASES.values(), ids=CASES)


def assert_plain(value):
    """Assert that a document holds nothing but JSON's own types."""
    if type(value) is dict:
        assert all(type(key) is str for key in value)
        value = list(value.values())
    if type(value) is list:
        for item in value:
            assert_plain(item)
    else:
        assert type(value) in PLAIN
