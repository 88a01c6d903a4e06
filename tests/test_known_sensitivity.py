"""A sensitivity that is known: nothing is sampled, and the risk is over the noise."""

import json
import math
import pickle

import numpy as np
import pytest
from certificates import filed
from noise_plans import DELTA, EPSILON, GAMMA, GRID, PRIVATE, PRIVATE_TARGETS, losses

from skparisk import (
    FiledCertificate,
    KnownSensitivity,
    PrivacyLeakWarning,
    PrivateRidge,
)
from skparisk.core.calibrate import Target, find_known
from skparisk.core.claim import Assumption
from skparisk.core.laws import Gaussian, Laplace
from skparisk.mechanisms import Exponential, GaussianMechanism, LaplaceMechanism

DECLARED = Assumption.DECLARED_SENSITIVITY
L2 = {"norm": "l2", "law": "gaussian"}
KNOWN = {
    "number": 0.5,
    "laplace": KnownSensitivity(0.5),
    "laplace delta": KnownSensitivity(0.5, delta=DELTA),
    "laplace at risk": KnownSensitivity(0.5, at_risk=True),
    "gaussian delta": KnownSensitivity(0.5, delta=DELTA, **L2),
    "gaussian at risk": KnownSensitivity(0.5, at_risk=True, **L2),
}


def fit(known, X=PRIVATE, y=PRIVATE_TARGETS, **parameters):
    usual = {"epsilon": EPSILON, "gamma": GAMMA}
    return PrivateRidge(sensitivity=known, **usual | parameters).fit(X, y)


@pytest.mark.parametrize("name", KNOWN)
def test_claim_is_what_was_asked_for(name):
    """Warnings are errors here: nothing is sampled, so nothing leaks."""
    known = KNOWN[name]
    model = fit(known)
    claim, evidence = model.certificate_, model.certificate_.evidence
    at_risk = name == "gaussian at risk"  # Laplace noise at risk of 0.2 is just noise
    assert claim.private
    assert claim.randomness == "explicit"
    assert claim.relation == "replace-one"
    assert claim.delta == (DELTA if getattr(known, "delta", 0) else 0.0)
    assert claim.risk == model.risk_ == (GAMMA if at_risk else 0.0)
    assert (evidence.sensitivity, evidence.calibration) == (0.5, "declared")
    assert (evidence.n_pairs, evidence.reference, model.sampler_) == (None,) * 3
    assert evidence.law == ("laplace" if name in list(KNOWN)[:4] else "gaussian")
    assert evidence.norm == ("l1" if evidence.law == "laplace" else "l2")
    assert DECLARED in claim.assumptions
    document = json.loads(json.dumps(claim.to_dict()))
    assert FiledCertificate.from_dict(document) == filed(claim)
    assert pickle.loads(pickle.dumps(model)).certificate_ == claim
    words = "exceeds 0.8 with probability" if at_risk else "-differentially private"
    assert words in claim.guarantee


def test_infinite_level_is_ridge_itself():
    for name in KNOWN:
        model = fit(KNOWN[name], epsilon=math.inf)
        assert model.noise_scale_ == 0
        assert not model.certificate_.private
        again = fit(KNOWN[name], epsilon=math.inf)
        np.testing.assert_array_equal(model.coef_, again.coef_)


def test_noise_does_not_depend_on_the_records():
    one, two = (fit(0.5, X) for X in (PRIVATE, 1e6 * PRIVATE))
    assert one.certificate_ == two.certificate_


def test_number_is_short_for_laplace_noise_without_a_risk():
    for gamma in [0.01, 0.49, 0.8]:
        for fit_intercept in [True, False]:
            models = [
                fit(known, gamma=gamma, fit_intercept=fit_intercept)
                for known in (0.5, KnownSensitivity(0.5))
            ]
            assert models[0].certificate_ == models[1].certificate_
            n_outputs = models[0].certificate_.evidence.n_outputs
            mechanism = LaplaceMechanism(0.5, EPSILON, n_outputs)
            assert models[0].noise_scale_ == mechanism.noise_scale
            assert models[0].risk_ == 0


def test_large_risk_over_the_noise_spares_noise_for_one_output_only():
    target = Target(EPSILON, 0.8, randomness="explicit")
    (one, claim), (two, other) = (find_known(0.5, target, n_outputs=n) for n in (1, 2))
    shift = EPSILON - 2 * math.log(2 * (1 - 0.8))
    assert one.noise_scale == pytest.approx(0.5 / shift, rel=GRID)
    assert two.noise_scale == pytest.approx(0.5 / EPSILON, rel=GRID)
    assert (claim.risk, other.risk) == (0.8, 0.0)
    assert claim.risk_at(shift * 1.001) == 0.0
    assert "over the noise" in claim.guarantee


def test_delta_is_that_of_the_mechanism():
    shifts = {
        "laplace delta": Laplace().largest_shift(EPSILON, DELTA),
        "gaussian delta": Gaussian().largest_shift(EPSILON, DELTA),
    }
    scales = {name: fit(KNOWN[name]).noise_scale_ for name in shifts}
    for name, shift in shifts.items():
        assert scales[name] == pytest.approx(0.5 / shift, rel=GRID)
    plain = GaussianMechanism(0.5, EPSILON, DELTA, 4)
    assert scales["gaussian delta"] == plain.noise_scale
    assert scales["laplace delta"] < LaplaceMechanism(0.5, EPSILON, 4).noise_scale


def test_gaussian_noise_has_its_risk_over_the_noise():
    model = fit(KNOWN["gaussian at risk"])
    shift = Gaussian().shift_at_risk(EPSILON, GAMMA)
    assert model.noise_scale_ == pytest.approx(0.5 / shift, rel=GRID)
    noise = np.random.default_rng(0).normal(size=(100_000, 1))
    loss = losses(np.full((100_000, 1), 0.5 / model.noise_scale_), noise, "gaussian")
    for level in (EPSILON / 2, EPSILON, 2 * EPSILON):
        claimed = model.certificate_.risk_at(level)
        assert np.mean(loss > level) == pytest.approx(claimed, abs=0.01)


def test_seeded_noise_voids_it():
    with pytest.warns(PrivacyLeakWarning, match="noise_random_state=0"):
        model = fit(KNOWN["gaussian delta"], noise_random_state=0)
    assert model.certificate_.void


@pytest.mark.parametrize(
    ("target", "law"),
    [
        (Target(0.5, gamma=0.0, randomness="explicit"), "laplace"),
        (Target(0.5, gamma=0.0, delta=1e-6, randomness="explicit"), "gaussian"),
        (Target(0.5, gamma=0.05, randomness="explicit"), "gaussian"),
    ],
)
def test_noise_for_a_number_says_what_it_rests_on(target, law):
    noise, plain = find_known(2.0, target, law=law)
    _, told = find_known(2.0, target, law=law, n_records=7, relation="add-remove")
    assert (plain.relation, told.relation) == ("replace-one", "add-remove")
    assert not plain.void
    assert (plain.evidence.n_records, told.evidence.n_records) == (1, 7)
    assert plain.evidence.n_outputs == noise.n_outputs == 1
    assert plain.evidence.norm == ("l1" if law == "laplace" else "l2")
    assert plain.evidence.gamma == (0.0 if target.delta else target.gamma)
    # What composition counts is the law of this noise.
    shift = 2.0 / noise.noise_scale
    assert shift <= plain.loss.shift <= shift * (1 + 1e-5)
    for name in ("sensitivity", "n_outputs"):
        with pytest.raises(ValueError, match=f"^{name} must be"):
            find_known(**{"sensitivity": 2.0, "target": target, name: 0})


def test_sensitivity_is_not_proven_because_the_caller_says_so():
    target = Target(EPSILON, 0.0, randomness="explicit")
    assert DECLARED in find_known(1.0, target)[1].assumptions
    how = {"law": "laplace", "n_outputs": 1, "n_records": 1}
    how["relation"] = "replace-one"
    _, proven = find_known(1.0, target, **how, proven=True)
    assert proven.evidence.calibration == "bound"
    assert DECLARED not in proven.assumptions


class Hidden:
    """Records whose values must not be asked for."""

    def __array__(self, *args, **kwargs):
        raise AssertionError("the records were looked at")


def test_what_makes_no_sense_is_refused_before_the_records_are_looked_at():
    for known, message in [
        *(
            (KnownSensitivity(value), f"sensitivity must be .* above 0, got {text}")
            for value, text in [(None, "None"), (0.0, r"0\.0"), ("bound", "'bound'")]
        ),
        (KnownSensitivity(1.0, norm="l3"), "norm must be one of 'l1', 'l2', 'sup'"),
        (
            KnownSensitivity(1.0, law="gaussian", delta=DELTA),
            "norm must be 'l2' with law='gaussian', .*; got 'l1'",
        ),
        (KnownSensitivity(1.0, norm="l2"), "norm must be 'l1' with law='laplace'"),
        (KnownSensitivity(1.0, law="normal"), "law must be one of 'laplace'"),
        (KnownSensitivity(1.0, law="exponential"), "got 'exponential', which chooses"),
        (KnownSensitivity(1.0, law=Exponential()), "got 'exponential', which chooses"),
        (KnownSensitivity(1.0, delta=-0.1), r"delta must be a number in \[0, 1\), got"),
        (KnownSensitivity(1.0, delta=None), r"delta must be a number in \[0, 1\), got"),
        (KnownSensitivity(1.0, **L2), "delta must be above 0 with law='gaussian'"),
        (KnownSensitivity(1.0, at_risk=1), "at_risk must be True or False, got 1"),
        (
            KnownSensitivity(1.0, at_risk=True, delta=DELTA),
            r"delta must be 0 with at_risk=True, got 0\.001",
        ),
    ]:
        model = PrivateRidge(sensitivity=known)
        with pytest.raises(ValueError, match=message):
            model.fit(Hidden(), Hidden())
