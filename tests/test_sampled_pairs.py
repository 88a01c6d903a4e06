"""What sampled pairs tell of themselves, and what is kept of some of them."""

import dataclasses

import numpy as np
import pytest

from skparisk.core.calibrate import DKW, PAC, Exchangeable, Target, required_pairs
from skparisk.core.laws import Gaussian, Laplace
from skparisk.core.noise import NoiseShape
from skparisk.core.pairs import CHUNK, SampledPairs, Withheld, norms_of_pairs
from skparisk.mechanisms import GaussianMechanism

RNG = np.random.default_rng(0)


def many_pairs():
    """Return more than are worked on together, some of them without an answer."""
    differences = RNG.normal(size=(CHUNK // 2 + 1000, 2))
    differences[::1001] = np.inf
    differences[::7] = 0.25
    return SampledPairs(differences, np.array([0.125, 0.25]), np.array([0.1, 0.2]))


def test_norms_of_many_pairs_are_those_of_each():
    pairs = many_pairs()
    sizes = np.abs(pairs.differences)
    isotropic = norms_of_pairs(pairs, NoiseShape(), Laplace())
    # What they are off by is added, in the units of the shape.
    np.testing.assert_allclose(isotropic, sizes.sum(axis=1) + 0.375, rtol=1e-12)
    shape = NoiseShape(np.array([2.0, 4.0]))
    scaled = np.linalg.norm(sizes / [2, 4], axis=1)
    off = np.linalg.norm(pairs.errors / [2, 4])
    found = norms_of_pairs(pairs, shape, Gaussian())
    np.testing.assert_allclose(found, scaled + off, rtol=1e-9)


def test_pairs_are_still_if_no_output_moves_by_more_than_rounding():
    pairs = many_pairs()
    still = np.abs(pairs.differences) <= np.maximum(pairs.errors, [0.1, 0.2])
    assert pairs.count_still() == still.all(axis=1).sum() > 1000
    alone = SampledPairs(np.array([[0.1], [-0.1], [0.2]]), None, np.array([0.1]))
    assert alone.count_still() == 2


def test_nothing_of_private_pairs_stays_but_how_many_there_may_be():
    """All is as without pairs but for the columns, and what the certificate says."""
    every = {field.name: object() for field in dataclasses.fields(SampledPairs)}
    del every["withheld"]
    arrays = dict.fromkeys(("errors", "rounding"), np.ones(2))
    arrays["differences"] = np.ones((6, 2))
    pairs = SampledPairs(**every | arrays | {"n_neighbors": 3})
    withheld = Withheld()
    pairs.withhold(withheld)
    left = {name: every[name] for name in ("schema", "learning", "unit")}
    left["assumptions"] = frozenset()
    nothing = SampledPairs(np.empty((0, 2)), None, np.zeros(2), n_neighbors=3, **left)
    assert (len(pairs), pairs.n_outputs, pairs.n_databases) == (0, 2, 0)
    assert pairs.count_still() == 0
    assert pairs.withheld is withheld
    for name, value in vars(nothing).items():
        np.testing.assert_array_equal(getattr(pairs, name), value, strict=True)


# Rules


def test_the_order_index_is_the_least_that_certifies_the_risk():
    for rule in [PAC(0.05), PAC(0.5), DKW(), Exchangeable()]:
        chosen = set()
        for n_pairs in (1, 2, 5, 20, 400):
            risks = [float(rule.certify_risk(n_pairs, k + 1)) for k in range(n_pairs)]
            assert max(risks) <= 1
            tried = {0.999, 0.5, 0.05, *(risks if rule.name == "pac" else ())} - {1.0}
            for gamma in (g for g in tried if min(risks) <= g):
                least = 1 + next(k for k, risk in enumerate(risks) if risk <= gamma)
                assert rule.order_index(n_pairs, gamma) == least
                chosen.add(least)
        assert rule.name == "dkw" or 1 in chosen


def test_required_pairs_are_the_fewest():
    for gamma in (0.9, 0.5, 0.2):
        for how, rule in [({}, Exchangeable()), ({"failure_prob": 0.05}, PAC(0.05))]:
            n = required_pairs(gamma, **how)
            assert rule.certify_risk(n, n) <= gamma
            assert n == 1 or rule.certify_risk(n - 1, n - 1) > gamma
    assert required_pairs(0.9) == 1


# Parameters are kept as plain numbers


def test_targets_and_mechanisms_keep_plain_numbers():
    target = Target(np.float32(1), np.float32(0.25), np.float32(0.125))
    assert [type(x) for x in (target.epsilon, target.gamma, target.delta)] == [
        float
    ] * 3
    asked = Target.of_advantage(np.float32(0.25)).advantage
    assert (type(asked), asked) == (float, 0.25)
    with pytest.raises(ValueError, match=r"^randomness must be"):
        Target(1.0, randomness="none")
    known = GaussianMechanism(np.float32(1), np.float32(1), 1e-5, n_outputs=np.int64(2))
    assert (type(known.sensitivity), type(known.epsilon)) == (float, float)
    assert type(known.n_outputs) is int


def test_outputs_that_move_in_any_block_are_not_still():
    values = np.zeros((CHUNK // 2, 3))
    values[0, 0] = values[-1, 1] = 1.0
    assert SampledPairs(values, None, np.zeros(3)).still().tolist() == [2]
