"""Which caveats forbid that a guarantee stands, which warn, and which inform."""

import re
import warnings

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import Lasso
from sklearn.naive_bayes import GaussianNB

from skparisk import (
    PrivacyLeakWarning,
    PrivateEstimator,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateRidge,
    ReferenceWarning,
    SchemaReference,
    SecretSample,
    SensitivitySampler,
    TableReference,
    audit_reference,
    learn_reference,
)
from skparisk.core import words
from skparisk.core.calibrate import Target
from skparisk.core.claim import Assumption, Doubt, Population
from skparisk.queries import MeanQuery
from skparisk.reference import CallableReference
from skparisk.sensitivity import calibrate

DOUBTS = words().DOUBTS

RNG = np.random.default_rng(0)


SCHEMA = SchemaReference([(0.0, 1.0)])


NARROW = RNG.uniform(0.4, 0.6, size=(2000, 1))
ENDS = RNG.choice([0.0, 1.0], size=(2000, 1))


def uniform(n_records, rng):
    return rng.uniform(size=(n_records, 1))


def mean_of(reference, records=NARROW[:20], **parameters):
    usual = {"gamma": 0.2, "n_pairs": 200, "random_state": 0}
    sampler = SensitivitySampler(MeanQuery(), reference=reference, **usual | parameters)
    return sampler.fit(records)


def audited(sampler, records):
    return audit_reference(sampler, records, epsilon=3.0, n_blocks=90)


# What forbids


@pytest.mark.filterwarnings("ignore:noise_random_state=0 makes")
@pytest.mark.parametrize(
    "asked",
    [
        {"noise_random_state": 0},
        {"confidence": 0.9},
        {"epsilon": 9.0, "gamma": 0.9, "n_blocks": 4},
    ],
    ids=["repeatable noise", "low confidence", "a larger risk"],
)
def test_an_audit_that_says_less_settles_nothing(asked):
    schema = SchemaReference([(0.0, 1.0)])
    with pytest.warns(ReferenceWarning, match="made-up"):
        sampler = mean_of(schema)
    usual = {"epsilon": 3.0, "n_blocks": 90}
    audit = audit_reference(sampler, NARROW, **usual | asked)
    if "noise_random_state" not in asked:
        assert audit.verdict == "supported"
    assert (audit.upper > sampler.gamma) == ("gamma" in asked)
    assert not sampler.certificate_.private
    with pytest.warns(ReferenceWarning, match="made-up"):
        mean_of(schema)


def test_a_declared_schema_does_not_stand_before_an_audit_supports_it():
    schema = SchemaReference([(0.0, 1.0)])
    with pytest.warns(ReferenceWarning, match="made-up records.*few public records"):
        sampler = mean_of(schema)
    claim = sampler.certificate_
    assert not claim.private
    assert not claim.void
    assert not claim.leaks
    assert "of made-up records that differ" in claim.guarantee
    assert claim.doubts == {Doubt.MADE_UP}
    assert claim.evidence.population == Population.DECLARED
    assert claim.caveats == (DOUBTS[Doubt.MADE_UP],)
    assert "about made-up records, not about people." in str(claim)
    audit = audited(sampler, NARROW)
    assert audit.verdict == "supported"
    assert sampler.certificate_.private
    assert "made-up" in sampler.certificate_.guarantee
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mean_of(schema)


def test_records_that_a_function_draws_from_a_schema_are_as_made_up():
    with pytest.warns(ReferenceWarning, match="made-up"):
        sampler = mean_of(CallableReference(SCHEMA.sample))
    assert not sampler.certificate_.private
    assert mean_of(CallableReference(uniform)).certificate_.private


def test_an_audit_that_contradicts_forbids():
    table = TableReference(NARROW[:200])
    sampler = mean_of(table)
    assert sampler.certificate_.private
    assert audited(sampler, ENDS).verdict == "contradicted"
    assert not sampler.certificate_.private
    assert sampler.certificate_.doubts == {Doubt.CONTRADICTED}
    assert "An audit with real records contradicts" in str(sampler.certificate_)


@pytest.mark.parametrize("n_rows", [18, 20])
def test_a_tail_that_no_row_shows_forbids(n_rows):
    """At a risk of 0.1, which takes ten pairs of rows."""
    table = TableReference(NARROW[:n_rows])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        claim = mean_of(table, gamma=0.1).certificate_
    shown = n_rows == 20
    assert claim.private == shown
    assert claim.doubts == (set() if shown else {Doubt.THIN})
    assert ("too few rows" in str(claim)) == (not shown)
    assert any("does not show the tail" in str(w.message) for w in said) == (not shown)


def test_a_release_that_is_an_outlier_forbids():
    X = RNG.normal(size=(300, 2))
    y = X @ [1.0, 2.0] + RNG.normal(size=300)
    model = PrivateRidge(1.0, random_state=0)
    with pytest.warns(ReferenceWarning, match="further from what the reference"):
        model.fit(X[150:], 100 * y[150:], X_reference=X[:150], y_reference=y[:150])
    claim = model.certificate_
    assert not claim.private
    assert claim.doubts == {Doubt.OUTLIER}
    assert "further from what the reference" in str(claim)


def test_a_reference_that_is_private_forbids():
    X = RNG.normal(size=(300, 2))
    with pytest.warns(PrivacyLeakWarning):
        model = PrivateRidge(1.0, random_state=0).fit(X, X[:, 0])
    assert model.certificate_.reference_is_private
    assert not model.certificate_.private


@pytest.mark.parametrize("reference", ["table", "secret", "learned"])
def test_other_references_stand(reference):
    X = RNG.uniform(size=(600, 1))
    y = X[:, 0]
    schema = SchemaReference([(0.0, 1.0)], target=(0.0, 1.0))
    split = learn_reference(schema, X[200:], y[200:], epsilon=1.0)
    given = {
        "table": TableReference(X[:200], y[:200]),
        "secret": SecretSample(0.5),
        "learned": split.reference,
    }[reference]
    sampler = SensitivitySampler(reference=given, n_pairs=100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PrivateRidge(1.0, sensitivity=sampler, random_state=0)
        model.fit(X[200:][split.others], y[200:][split.others])
    assert model.certificate_.private
    measured = "0.14 for logistic regression" in str(model.certificate_)
    assert measured == (reference == "learned")


# What warns, and what informs


def labels_of(y):
    return (y > 0).astype(float)


SMOOTH = [
    MeanQuery(),
    PrivateRidge(1.0),
    PrivateLogisticRegression(1.0),
    PrivateLinearSVC(),
]
LEAPS = [
    np.median,
    lambda X: np.quantile(X, 0.9),
    PrivateEstimator(Lasso(0.1)),
    PrivateEstimator(PCA(2)),
    PrivateEstimator(GaussianNB()),
]


def fit_of_few(query, n_records):
    """Fit at a risk that the tail of 30 rows shows."""
    X = np.random.default_rng(1).normal(size=(n_records + 30, 5))
    y = X @ [1.0, 2.0, 0.0, 1.0, 0.0]
    plan = {"gamma": 0.2, "random_state": 0}
    if not hasattr(query, "fit"):
        table = TableReference(X[:30])
        sampler = SensitivitySampler(query, n_pairs=100, reference=table, **plan)
        return sampler.fit(X[30:]).certificate_
    if re.match("PrivateL|.*NB", repr(query)):
        y = labels_of(y)
    sampler = SensitivitySampler(n_pairs=100)
    query.set_params(epsilon=20.0, sensitivity=sampler, **plan)
    query.fit(X[30:], y[30:], X_reference=X[:30], y_reference=y[:30])
    return query.certificate_


def said_of_few(query, n_records):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        claim = fit_of_few(query, n_records)
    few = [each for each in said if "reference table" in str(each.message)]
    return claim, few


def test_few_rows_inform_where_answers_move_smoothly():
    for query in SMOOTH:
        claim, warned = said_of_few(query, 60)
        assert Assumption.REPEATED_ROWS in claim.assumptions
        assert any("rows repeat" in text for text in claim.caveats)
        assert not warned
        assert claim.private


def test_few_rows_warn_where_answers_move_by_leaps():
    for query in LEAPS:
        claim, warned = said_of_few(query, 60)
        assert len(warned) == 1
        text = str(warned[0].message)
        warned_of = {
            Assumption.FEW_ROWS: "fewer than 10 for each of",
            Assumption.REPEATED_ROWS: "so rows repeat",
            Assumption.ROWS_PER_RECORD: "are matched to a fit of the table",
        }
        assert Assumption.REPEATED_ROWS in claim.assumptions
        for code, said in warned_of.items():
            assert (said in text) == (code in claim.assumptions)
        assert claim.private


def test_few_rows_warn_where_noise_chooses():
    table = TableReference(NARROW[:30])
    plan = {"n_pairs": 100, "law": "exponential", "gamma": 0.2}
    sampler = SensitivitySampler(
        lambda X: np.array([np.mean(X < 0.5), np.mean(X >= 0.5)]),
        reference=table,
        random_state=0,
        **plan,
    )
    with pytest.warns(ReferenceWarning, match="rows repeat"):
        sampler.fit(NARROW[:60])


# New people


@pytest.mark.parametrize(
    ("changes", "known"),
    [
        ({}, True),
        ({"relation": "add-remove", "n_records": 99}, False),
        ({"query": np.mean}, False),  # a function of which nothing is known
        ({"neighbors_per_database": 2}, False),
        ({"calibration": "pac"}, False),
        ({"randomness": "both"}, False),
        ({"noise_shape": "whitened"}, False),
        ({"query": np.median}, False),
    ],
    ids=lambda given: ", ".join(map(str, given)) if isinstance(given, dict) else "",
)
def test_a_theorem_is_quoted_where_its_conditions_hold(changes, known):
    usual = {"query": MeanQuery(), "n_pairs": 400, "gamma": 0.2, "random_state": 0}
    sampler = SensitivitySampler(**usual | {"noise_shape": "isotropic"} | changes)
    claim = sampler.fit(RNG.uniform(size=(99, 2))).certificate_
    words = claim.evidence.for_new_people
    assert words.startswith("risk at most 0.04 larger" if known else "not known")


def test_pairs_that_are_calibrated_by_hand_are_as_made_up():
    with pytest.warns(ReferenceWarning, match="made-up"):
        sampler = mean_of(SCHEMA)
    _, claim = calibrate(sampler.pairs_, Target(1.0, 0.2), n_records=20)
    assert not claim.private
