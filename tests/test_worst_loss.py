"""The largest loss outside the risk: never exceeded by any pair of the domain."""

import math

import numpy as np
import pytest
from certificates import filed

from skparisk import (
    FiledCertificate,
    SchemaReference,
    SensitivitySampler,
)
from skparisk.core.claim import Evidence
from skparisk.core.laws import Gaussian, Laplace
from skparisk.core.noise import NoiseShape
from skparisk.core.pairs import LargestMove, largest_loss
from skparisk.mechanisms import Exponential
from skparisk.queries import (
    FunctionQuery,
    MeanQuery,
    RecordQuery,
    RidgeQuery,
)
from skparisk.reference import Domain, Interval, TableReference
from skparisk.sensitivity._noise_shape import fit_noise_shape

LOW, HIGH = np.array([-1.0, 0.0]), np.array([1.0, 3.0])
BOX = Domain([Interval(-1, 1), Interval(0, 3)])
N = 6


def corners(rng, n):
    return np.where(rng.random((n, 2)) < 0.5, LOW, HIGH)


def search(relation, tries=150):
    """Return differences of means of databases in the corners of the box."""
    rng, found = np.random.default_rng(0), []
    for _ in range(tries):
        X = corners(rng, N)
        other = X[:-1]
        if relation == "replace-one":
            other = np.vstack([other, corners(rng, 1)])
        found.append(MeanQuery()(X) - MeanQuery()(other))
    return np.array(found)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_no_pair_in_the_box_moves_further(relation):
    replaced, move = (
        MeanQuery().largest_move(BOX, N, each) for each in ("replace-one", relation)
    )
    assert move.l2 <= replaced.l2
    found = search(relation)
    assert (np.abs(found) <= move.outputs).all()
    share = 0.999 if relation == "replace-one" else 0.45
    assert share * move.l2 <= np.linalg.norm(found, axis=1).max() <= move.l2
    shapes = [
        NoiseShape(),
        NoiseShape(np.linspace(0.5, 3, found.shape[1])),
        fit_noise_shape(
            "whitened",
            found + 0.01 * np.random.default_rng(1).normal(size=found.shape),
            np.zeros(found.shape[1]),
        ),
    ]
    for shape in shapes:
        whitened = shape.whiten(found)
        for order in (1, 2, math.inf):
            norms = np.linalg.norm(whitened, ord=order, axis=1)
            assert norms.max() <= move.norm(shape, order)


def test_without_a_proof_nothing_is_said():
    for query, domain in [
        (MeanQuery(), Domain([None, Interval(0, 1)])),
        (FunctionQuery(np.mean), BOX),
        (RidgeQuery(1.0, fit_intercept=False), BOX),
    ]:
        assert query.largest_move(domain, N, "replace-one") is None


def test_a_record_by_itself_moves_as_far_as_its_range():
    move = RecordQuery().largest_move(BOX, 1, "replace-one")
    np.testing.assert_allclose(move.outputs, HIGH - LOW)
    assert move.norm(NoiseShape(), 1) == pytest.approx(5.0)


def test_the_loss_is_that_of_a_law_with_a_bound():
    move = LargestMove(np.array([1.0, 2.0]), 2.0)
    shape = NoiseShape()
    loss = largest_loss(move, Laplace(), shape, 0.5, 1.0)
    assert loss == pytest.approx(2 * math.sqrt(2) / 0.5, rel=1e-5)
    assert loss > 2 * math.sqrt(2) / 0.5 * (1 + 2**-20)  # the grid costs as much
    assert largest_loss(move, Exponential(), shape, 0.5, 1.0) == pytest.approx(
        2 / 0.5, rel=1e-5
    )
    assert largest_loss(move, Gaussian(), shape, 0.5, 1.0) is None
    assert largest_loss(None, Laplace(), shape, 0.5, 1.0) is None
    assert largest_loss(move, Laplace(), shape, 0.0, math.inf) is None
    many = LargestMove(np.ones(3000), 1.0)
    assert largest_loss(many, Laplace(), NoiseShape(np.ones(3000)), 1.0, 1.0) is None


def test_the_move_is_the_least_that_is_known():
    shape, slack = NoiseShape(), 1 + 2.0**-30
    far = LargestMove(np.array([1.0, 2.0]), 9.0)
    assert far.norm(shape, 2) == math.sqrt(5) * slack
    assert far.norm(shape, 1) == 3 * slack
    assert far.norm(shape, math.inf) == 2 * slack
    near = LargestMove(np.array([1.0, 2.0]), 0.5)
    assert near.norm(shape, 2) == near.norm(shape, math.inf) == 0.5 * slack
    assert near.norm(shape, 1) == pytest.approx(math.sqrt(2) * 0.5)
    together = LargestMove(np.array([1.0, 2.0]), 9.0, l1=0.25)
    assert together.norm(shape, 1) == 0.25 * slack
    assert together.norm(shape, 2) == far.norm(shape, 2)
    # In other coordinates the l1 norm of the outputs says nothing.
    halved = NoiseShape(np.array([2.0, 0.5]))
    assert together.norm(halved, 1) == pytest.approx(
        np.abs(halved.whiten(np.array([[1.0, 2.0]]))).sum()
    )


@pytest.mark.slow
def test_the_move_in_other_coordinates_is_the_least_of_three_bounds():
    """Each output by itself, the length of its row, and the largest singular value."""
    factor, slack = np.array([[2.0, 0.0], [1.0, 0.5]]), 1 + 2.0**-30
    shape = NoiseShape(factor)
    to_noise = np.linalg.inv(factor)
    np.testing.assert_allclose(shape.whiten(np.eye(2)), to_noise.T)
    wide = LargestMove(np.array([9.0, 9.0]), 1.0)
    largest = np.linalg.svd(to_noise, compute_uv=False)[0]
    assert wide.norm(shape, 2) == pytest.approx(largest * slack)
    lengths = np.sqrt((to_noise**2).sum(axis=1))
    assert wide.norm(shape, math.inf) == pytest.approx(lengths.max() * slack)
    # Of many outputs the map is too large to look at, of as many as allowed it is not.
    most = 2048
    move = LargestMove(np.ones(most), 1.0)
    assert move.norm(NoiseShape(np.ones(most)), 2) == pytest.approx(1.0)
    more = LargestMove(np.ones(most + 1), 1.0)
    assert more.norm(NoiseShape(np.ones(most + 1)), 2) == math.inf


def test_certificates_say_it():
    schema = SchemaReference([(-1, 1), (0, 3)])
    X = np.random.default_rng(0).random((50, 2))
    parameters = {"n_pairs": 99, "random_state": 0}
    for extra in (
        {},
        {"noise_shape": "whitened"},
        {"randomness": "both"},
        {"relation": "add-remove", "n_records": 50},
    ):
        sampler = SensitivitySampler(
            MeanQuery(), reference=schema, **parameters, **extra
        ).fit(X)
        certificate = sampler.certificate_
        worst = certificate.evidence.worst_loss
        assert worst >= certificate.evidence.sensitivity / sampler.noise_scale_
        assert "largest loss of any pair, also outside the risk" in str(certificate)
        read = FiledCertificate.from_dict(certificate.to_dict())
        assert read == filed(certificate)
    l1 = 5 / 50
    plain = SensitivitySampler(
        MeanQuery(), reference=schema, noise_shape="isotropic", **parameters
    ).fit(X)
    worst = plain.certificate_.evidence.worst_loss
    assert worst == pytest.approx(l1 / plain.noise_scale_, rel=1e-4)
    assert worst >= l1 / plain.noise_scale_
    half = plain.calibrate(epsilon=0.5).certificate_.evidence.worst_loss
    assert half == pytest.approx(worst / 2, rel=1e-4)
    table = TableReference(X)
    free = SensitivitySampler(MeanQuery(), reference=table, **parameters).fit(X + 2)
    assert free.certificate_.evidence.worst_loss is None
    assert "largest loss" not in str(free.certificate_)


def test_a_worst_loss_is_a_number_of_at_least_zero():
    evidence = Evidence(0.0, 1.0, 1.0, 5, 1, "declared", worst_loss=-1.0)
    with pytest.raises(ValueError, match="worst_loss must be"):
        FiledCertificate(1.0, randomness="explicit", evidence=evidence)
