"""What is agreed on before anything is drawn: how many pairs, and what for."""

import numpy as np
import pytest
from noise_plans import learned_shape

from skparisk import SensitivitySampler
from skparisk.core.calibrate import Target
from skparisk.core.noise import NoiseShape
from skparisk.core.pairs import SampledPairs
from skparisk.exceptions import CalibrationError
from skparisk.queries import MeanQuery
from skparisk.sensitivity import calibrate

PUBLIC = np.random.default_rng(0).normal(size=(20_000, 2))
BOTH = {"randomness": "both", "law": "gaussian"}


def evidence_of(n_pairs, gamma=0.05, **how):
    usual = {"noise_shape": "isotropic", "n_records": 9, "random_state": 0}
    sampler = SensitivitySampler(
        MeanQuery(), gamma=gamma, n_pairs=n_pairs, **usual | how
    )
    return sampler.fit(PUBLIC).certificate_.evidence


def test_a_risk_over_noise_that_is_known_needs_one_pair_more():
    """Each pair has some risk: 1 / (m + 1) itself cannot be reached."""
    with pytest.raises(CalibrationError, match=r"no risk of 0\.001 or below"):
        evidence_of(999, 0.001, **BOTH)
    assert evidence_of(1000, 0.001, **BOTH).n_pairs == 1000
    assert evidence_of("auto", 0.001, **BOTH).n_pairs == 5 * 1000
    assert evidence_of("auto", 0.001).n_pairs == 5 * 999


def test_a_shape_takes_one_database_at_least_and_leaves_some():
    for r, least, gamma in [(1, 4, 0.4), (2, 4, 0.6), (3, 6, 0.6)]:
        how = {"noise_shape": "diagonal", "neighbors_per_database": r}
        evidence = evidence_of(least, gamma, **how)
        assert evidence.n_shape_pairs >= 1
        assert evidence.n_pairs >= 1
        for few in (least - 1, least - r):
            with pytest.raises(ValueError, match=rf"^n_pairs must .*\b{least}\b"):
                evidence_of(few, gamma, **how)
        alone = evidence_of(2 * r, 0.6, neighbors_per_database=r)
        assert alone.n_shape_pairs is None


@pytest.mark.parametrize("r", [2, 3])
def test_too_few_databases_are_told_what_they_are_counted_as(r):
    message = (
        rf"^n_pairs=10 pairs certify no risk below .*; it needs n_pairs >= 19\. Pairs "
        rf"of one database, {r} here, count as one: it needs n_pairs >= {19 * r} in "
        r"all\.$"
    )
    with pytest.raises(CalibrationError, match=message):
        evidence_of(10 * r, neighbors_per_database=r)
    assert evidence_of(19 * r, neighbors_per_database=r).n_pairs == 19 * r


def test_what_does_not_go_together():
    differences, given = np.ones((99, 2)), {"n_records": 10}
    with pytest.raises(ValueError, match="see KnownSensitivity"):
        calibrate(differences, Target(1.0, 0.05, randomness="explicit"), **given)
    given["law"] = "exponential"
    for shape in ("auto", "isotropic", NoiseShape()):
        _, claim = calibrate(differences, Target(1.0), shape=shape, **given)
        assert claim.evidence.n_shape_pairs is None
    for shape in ("diagonal", NoiseShape(np.ones(2))):
        with pytest.raises(ValueError, match="noise_shape must be 'isotropic'"):
            calibrate(differences, Target(1.0), shape=shape, **given)


# The shape that costs least


def errors_of(name, differences, law, gamma, weights, n_independent):
    """Return what noise of a shape adds to the errors that outputs are for."""
    half = len(differences) // 2
    known = {"weights": weights, "n_independent": n_independent}
    shape = learned_shape(name, differences[:half], **known)
    coordinates = shape.whiten(differences[half:])
    order = {"laplace": 1, "gaussian": 2}[law]
    lengths = np.linalg.norm(coordinates, ord=order, axis=1)
    size = np.quantile(lengths, 1 - gamma)
    factor = size * shape.color(np.eye(differences.shape[1]))
    covariance = factor.T @ factor
    if weights is not None:
        return np.trace(covariance @ weights)
    scales = learned_shape("diagonal", differences).color(np.eye(len(covariance)))
    return np.sum(np.diag(covariance) / np.diag(scales) ** 2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("weighed", [False, True])
def test_auto_takes_the_shape_that_adds_least_to_the_errors(law, weighed):
    rng = np.random.default_rng(0)
    taken = set()
    for gamma in (0.05, 0.3):
        target = Target(1.0, gamma, 1e-3 if law == "gaussian" else 0.0)
        for n_rows in [20, 41] * 12:
            mixed = np.eye(3) + rng.uniform(0, 0.6) * rng.normal(size=(3, 3))
            differences = rng.standard_t(4, size=(n_rows, 3)) @ mixed
            differences *= 10.0 ** rng.integers(-2, 3, size=3)
            weights = None
            if weighed:
                root = rng.normal(size=(3, 3)) / differences.std(axis=0)[:, None]
                weights = root @ root.T
            known = {"weights": weights, "n_independent": int(rng.integers(45, 60))}
            twice = np.concatenate([differences, differences])
            pairs = SampledPairs(twice, None, np.zeros(3), **known)
            costs = {
                name: errors_of(name, differences, law, gamma, **known)
                for name in ("whitened", "diagonal")
            }
            best = min(costs, key=costs.get)
            noise, _ = calibrate(pairs, target, law=law, shape="auto", n_records=10)
            assert noise.shape.name == best
            taken.add(best)
    assert len(taken) == 2
