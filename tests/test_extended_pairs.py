"""Pairs that are added to a sample: those of all at once, and what they claim."""

import pickle

import numpy as np
import pytest
from kept import (
    PRIVATE,
    PUBLIC,
    TARGETS,
    assert_same_pairs,
    changed_table,
    own_mean,
    sampler_of,
)
from laws import exceeds
from sklearn.base import clone

from skparisk import (
    IncompatibleError,
    PrivacyLeakWarning,
    PrivateRidge,
    SchemaReference,
    SensitivitySampler,
)
from skparisk.calibration import Exchangeable
from skparisk.queries import MeanQuery, RidgeQuery
from skparisk.reference import (
    TableReference,
)
from skparisk.sensitivity import _drawing

REFERENCES = {
    "leave-out": TableReference(PUBLIC, TARGETS),
    "bootstrap": TableReference(PUBLIC, TARGETS, "bootstrap"),
    "split": TableReference(*(np.tile(a.T, 4).T for a in (PUBLIC, TARGETS)), "split"),
    "disjoint": TableReference(PUBLIC, TARGETS, "disjoint"),
}


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("query", [MeanQuery(), RidgeQuery(1.0), own_mean])
def test_more_pairs_are_those_of_all_at_once(name, query):
    """Bit by bit: from within the first block, its end, and a later block."""
    reference = REFERENCES[name]
    n_records, most = (2, 100) if name == "disjoint" else (40, 200)
    if name == "split":
        most = 150
    given = {"reference": reference, "n_records": n_records, "gamma": 0.1}
    at_once = sampler_of(None, query, n_pairs=most, **given).fit(PUBLIC, TARGETS)
    for n_pairs in (20, 64, 99) if most < 128 else (20, 128, 140):
        fewer = sampler_of(None, query, n_pairs=n_pairs, **given).fit(PUBLIC, TARGETS)
        before = fewer.differences_.copy()
        more = fewer.extend(most)
        assert_same_pairs(more.pairs_, at_once.pairs_)
        assert more.noise_scale_ == at_once.noise_scale_
        assert more.n_pairs == more.n_pairs_ == most
        np.testing.assert_array_equal(fewer.differences_, before)
        assert fewer.n_pairs == n_pairs
        whole = n_pairs // 128 * 128
        np.testing.assert_array_equal(more.differences_[:whole], before[:whole])


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_more_databases_with_several_neighbors(relation):
    """Which may be added again, and with a seed that nobody knows."""
    given = {"n_records": 50, "neighbors_per_database": 4, "relation": relation}
    given["reference"] = REFERENCES["leave-out"]
    sampler = sampler_of(None, RidgeQuery(1.0), n_pairs=4 * 70, **given)
    for seed in (3, np.random.RandomState(4)):
        sampler.set_params(random_state=seed).fit(PUBLIC, TARGETS)
        twice = sampler.extend(4 * 100).extend(4 * 130, None)
        once = sampler.extend(4 * 130)
        assert_same_pairs(twice.pairs_, once.pairs_)
        assert twice.certificate_ == once.certificate_
    sampler.set_params(random_state=3)
    at_once = clone(sampler).set_params(n_pairs=4 * 130).fit(PUBLIC, TARGETS)
    fitted = sampler.fit(PUBLIC, TARGETS)
    assert_same_pairs(fitted.extend(4 * 130).pairs_, at_once.pairs_)
    with pytest.raises(ValueError, match="n_pairs must be a multiple of"):
        sampler.extend(4 * 130 + 1)


def failing_mean(X):
    """Answer few of the databases."""
    if X[0, 0] > 0.5:
        raise ArithmeticError(f"{X[0, 0]:.3f}")
    return X.mean(axis=0)


def test_databases_without_an_answer_stay_as_they_are():
    """Rounding and reasons are those of the pairs that there are in the end."""
    given = {"gamma": 0.7, "noise_shape": "isotropic", "n_records": 60}
    fewer = sampler_of(None, failing_mean, n_pairs=70, **given).fit(PUBLIC)
    at_once = sampler_of(None, failing_mean, n_pairs=140, **given).fit(PUBLIC)
    assert np.isinf(fewer.differences_).any()
    assert_same_pairs(fewer.extend(140, PUBLIC).pairs_, at_once.pairs_)


def test_a_sampler_of_an_estimator_is_extended_with_its_reference():
    sampler = SensitivitySampler(n_pairs=50)
    model = PrivateRidge(sensitivity=sampler, gamma=0.1, random_state=0)
    fit = {"X_reference": PRIVATE, "y_reference": -TARGETS}
    fitted = model.fit(PUBLIC, TARGETS, **fit).sampler_
    more = fitted.extend(90, PRIVATE, -TARGETS)
    at_once = clone(model).set_params(sensitivity__n_pairs=90)
    assert_same_pairs(at_once.fit(PUBLIC, TARGETS, **fit).sampler_.pairs_, more.pairs_)
    taken = PrivateRidge(sensitivity=more, gamma=0.1).fit(PUBLIC, TARGETS)
    assert "settled without a look" in " ".join(taken.certificate_.caveats)


def test_what_cannot_be_extended_is_refused():
    """With what would do instead."""
    table = sampler_of().fit(PUBLIC)
    for n_pairs in (100, 99, 150.0, "auto"):
        with pytest.raises(ValueError, match="n_pairs must be a whole number >= 101"):
            table.extend(n_pairs, PUBLIC)
    with pytest.raises(ValueError, match="X must be given again"):
        table.extend(200)
    with pytest.raises(IncompatibleError, match="is another one than"):
        table.extend(200, changed_table())
    again = sampler_of(reference=TableReference(PUBLIC), n_records=5).fit(PUBLIC)
    with pytest.raises(ValueError, match="X must be None where"):
        again.extend(200, PUBLIC)
    made = SchemaReference([(0, 1), (0, 1)])
    declared = sampler_of(reference=made, n_records=5).fit(PUBLIC)
    with pytest.raises(ValueError, match="records of all pairs together"):
        declared.extend(200)
    drawn = sampler_of(reference=lambda n, rng: rng.normal(size=(n, 2)), n_records=5)
    with pytest.raises(IncompatibleError, match="cannot be known again as"):
        drawn.fit(PUBLIC).extend(200)
    once = sampler_of(reference=REFERENCES["disjoint"], n_records=2).fit(PUBLIC)
    with pytest.raises(ValueError, match="at least 303 rows"):
        once.extend(101)
    with pytest.warns(PrivacyLeakWarning):
        table.release(PUBLIC)
    with pytest.raises(IncompatibleError, match="came from private data"):
        table.extend(200, PUBLIC)


def test_other_versions_do_not_extend(monkeypatch):
    fitted = sampler_of().fit(PUBLIC)
    monkeypatch.setattr(_drawing, "versions", lambda: {"numpy": "0.0"})
    with pytest.raises(IncompatibleError, match="by the same versions"):
        fitted.extend(200, PUBLIC)


@pytest.mark.slow
def test_a_number_of_pairs_that_is_chosen_by_a_look_has_a_larger_risk():
    """Not so one that is settled before; and never k times as large, for k numbers."""
    gamma, trials, numbers = 0.05, 20_000, (19, 39, 59)
    sizes = np.random.default_rng(0).exponential(size=(trials, max(numbers) + 1))
    rule, fresh = Exchangeable(), sizes[:, -1]
    scales = []
    for n_pairs in numbers:
        index = rule.order_index(n_pairs, gamma)
        scales.append(np.sort(sizes[:, :n_pairs], axis=1)[:, index - 1])
    for settled in scales:
        assert not exceeds(np.count_nonzero(fresh > settled), trials, gamma)
    chosen = np.count_nonzero(fresh > np.min(scales, axis=0))
    assert exceeds(chosen, trials, gamma)
    assert not exceeds(chosen, trials, len(numbers) * gamma)


@pytest.mark.parametrize("released", ["earlier", "extended"])
def test_pairs_of_a_private_reference_are_dropped_from_all_that_have_them(released):
    earlier = SensitivitySampler(MeanQuery(), n_pairs=100, random_state=0).fit(PUBLIC)
    samplers = {"earlier": earlier, "extended": earlier.extend(200, PUBLIC)}
    copied = pickle.loads(pickle.dumps(samplers["extended"]))
    samplers["further"] = samplers["extended"].extend(300, PUBLIC)
    assert all(each.certificate_.private for each in samplers.values())
    with pytest.warns(PrivacyLeakWarning):
        samplers[released].release(PUBLIC)
    for each in samplers.values():
        assert each.certificate_.reference_is_private
        assert not hasattr(each, "differences_")
    assert copied.certificate_.private  # it cannot be known elsewhere
    assert len(copied.pairs_.relatives) == 0
