"""The audit of a reference: what it counts, what it costs, what it refuses."""

import functools
import json
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from certificates import filed
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skparisk import (
    BudgetExceededError,
    FiledCertificate,
    IncompatibleError,
    KnownSensitivity,
    PrivacyLeakWarning,
    PrivacyLedger,
    PrivateEstimator,
    PrivateKernelDensity,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateRidge,
    ReferenceAudit,
    SensitivitySampler,
    audit_reference,
)
from skparisk._words import audit_summary
from skparisk.audit import _audit as audit_module
from skparisk.audit._audit import Audited
from skparisk.audit._blocks import BlockJudge, count_exceeding, cut_blocks
from skparisk.audit._limits import CountNoise, risk_limits
from skparisk.core.claim import MeasuredRisk, claim_with_audit
from skparisk.core.compose import compose_basic, compose_parallel
from skparisk.queries import MeanQuery, Query
from skparisk.queries._given import is_asked_again
from skparisk.reference import CallableReference, SchemaReference, TableReference
from skparisk.reference._base import Withheld

N_BLOCKS, SIZE = 12, 25
ASKED = {"epsilon": 40.0, "n_blocks": N_BLOCKS, "random_state": 0}


def population(n_records, rng):
    """Numbers of two columns, and a target that depends on them."""
    X = rng.normal(size=(n_records, 2))
    return X, X @ [1.0, -1.0] + rng.normal(size=n_records)


def table(n_rows=400, seed=0):
    """Records of the population, and labels."""
    X, y = population(n_rows, np.random.default_rng(seed))
    return X, y, np.where(y > 0, "high", "low")


X_PUBLIC, Y_PUBLIC, LABELS_PUBLIC = table()
X, Y, LABELS = table(N_BLOCKS * SIZE, seed=1)
PUBLIC = {"X_reference": X_PUBLIC, "y_reference": Y_PUBLIC}
PUBLIC_LABELS = {"X_reference": X_PUBLIC, "y_reference": LABELS_PUBLIC}
FEW_PAIRS = {"sensitivity": SensitivitySampler(n_pairs=39), "random_state": 1}
NO_TARGETS = None, {"X_reference": X_PUBLIC}
NORMAL = {"law": "gaussian"}


def mean(**parameters):
    """Return a sampler of means, no targets, and what is public."""
    usual = {"query": MeanQuery(), "n_pairs": 39, "random_state": 0}
    return SensitivitySampler(**usual | parameters), *NO_TARGETS


MODELS = {
    "ridge": (PrivateRidge(1.0, **FEW_PAIRS), Y, PUBLIC),
    "logistic": (PrivateLogisticRegression(C=1.0, **FEW_PAIRS), LABELS, PUBLIC_LABELS),
    "svc": (PrivateLinearSVC(C=1.0, **FEW_PAIRS), LABELS, PUBLIC_LABELS),
    "lasso": (PrivateEstimator(Lasso(0.1), **FEW_PAIRS), Y, PUBLIC),
    "pipeline": (
        PrivateEstimator(
            make_pipeline(StandardScaler(), LogisticRegression()), **FEW_PAIRS
        ),
        LABELS,
        PUBLIC_LABELS,
    ),
    "density": (
        PrivateKernelDensity(bounds=[(-5.0, 5.0)], lattice_size=3, **FEW_PAIRS),
        *NO_TARGETS,
    ),
    "mean": mean(),
    "both": mean(query=lambda X: X.mean(axis=0), randomness="both"),
    "exact risk": mean(n_pairs=78, noise_shape="whitened", randomness="both", **NORMAL),
    "delta": mean(delta=1e-6, **NORMAL),
    "choice": mean(law="exponential"),
}
RIDGE = MODELS["ridge"][0]
OF_MEANS = ("mean", "both", "exact risk", "delta", "choice")
SLOW = ("pipeline", "logistic")
every_model = pytest.mark.parametrize(
    "name",
    [pytest.param(m, marks=pytest.mark.slow) if m in SLOW else m for m in MODELS],
)


def audit(name="mean", X=X, model=None, **changes):
    """Audit one of the models with few blocks and a lot of privacy to spend."""
    unfitted, y, public = MODELS[name]
    model = unfitted if model is None else model
    return audit_reference(model, X, y, **ASKED | public | changes)


def prepared(model, y, public, X=X):
    """Return the judge of blocks, and what cuts records into them."""
    what = Audited.of(model, *(public.get(f"{n}_reference") for n in "Xy"))
    found = what.calibrate(SIZE - 1, None, np.random.SeedSequence(0))

    def count(X, y=y):
        database = found.check_private(X, y)
        blocks = cut_blocks(database, N_BLOCKS, SIZE, np.random.SeedSequence(1))
        return [judge.exceeds(block) for block in blocks]

    judge = BlockJudge.of(found.sampler)
    return judge, count


# The count


@pytest.mark.sampled(5)
@every_model
@pytest.mark.parametrize("extreme", [1e3, 1e12])
def test_one_record_moves_the_count_by_one_at_most(name, extreme):
    """Wherever it is and whatever it holds: other blocks do not know of it."""
    _, exceeding = prepared(*MODELS[name])
    before, moved = exceeding(X), set()
    numbers = np.arange(len(X))
    cut = cut_blocks((numbers, None), N_BLOCKS, SIZE, np.random.SeedSequence(1))
    # Records that are put in, and others.
    places = [lines[-1] for (lines, _), _ in cut[:4]] + [*range(0, len(X), 60)]
    for place in places:
        changed = X.copy()
        changed[place] = extreme
        different = np.flatnonzero(np.not_equal(exceeding(changed), before))
        assert len(different) <= 1
        moved |= {*different}
    assert name not in OF_MEANS or len(moved) >= 3


def test_blocks_are_disjoint_and_cut_by_position():
    """Their rows do not depend on what the records hold."""
    cut = cut_blocks((X, Y), N_BLOCKS, SIZE, np.random.SeedSequence(3))
    rows = np.concatenate([block for (block, _), _ in cut])
    assert len(np.unique(rows, axis=0)) == len(X) == len(rows)
    again = cut_blocks((X + 5, Y), N_BLOCKS, SIZE, np.random.SeedSequence(3))
    for ((one, y), _), ((other, _), _) in zip(cut, again, strict=True):
        np.testing.assert_array_equal(one + 5, other)
        assert len(y) == SIZE
    fewer = cut_blocks((X, None), 5, 7, np.random.SeedSequence(3))
    assert [block[0].shape for block, _ in fewer] == [(7, 2)] * 5


@pytest.mark.parametrize("name", OF_MEANS)
def test_a_wide_population_exceeds_more_often(name):
    """Where one record in two is far out, about half of the blocks do."""
    _, exceeding = prepared(*MODELS[name])
    assert sum(exceeding(X)) <= 3
    wide = X * np.random.default_rng(0).choice([1.0, 200.0], size=(len(X), 1))
    assert sum(exceeding(wide)) >= 6


class Failing(Query):
    """Has no answer for databases with a number above 3, for one of several reasons."""

    def __init__(self, how):
        self.how = how

    def __eq__(self, other):
        return self is other

    __hash__ = Query.__hash__

    def __call__(self, X, y=None):
        answer = np.mean(X, axis=0)
        if np.max(X) < 50:
            return answer
        if self.how == "error":
            raise RuntimeError(f"the secret is {np.max(X)}")
        if self.how == "warning":
            warnings.warn(f"the secret is {np.max(X)}", stacklevel=1)
            return answer * np.nan
        return np.append(answer, 1.0)


@pytest.mark.parametrize("how", ["error", "warning", "length"])
@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_blocks_without_an_answer_exceed_in_silence(how, n_jobs, capfd):
    """Neither the error nor the warning is shown, and it counts as one."""
    sampler = SensitivitySampler(Failing(how), n_pairs=39, random_state=0)
    judge, _ = prepared(sampler, None, {"X_reference": X_PUBLIC})
    secret = np.array([[99.0, 0.0]])
    blocks = cut_blocks((X, None), N_BLOCKS, SIZE, np.random.SeedSequence(0))
    calm = count_exceeding(judge, blocks, n_jobs)
    for i in (2, 5):
        (records, _), seed = blocks[i]
        blocks[i] = (np.vstack([records[:-1], secret]), None), seed
    assert calm <= count_exceeding(judge, blocks, n_jobs) >= 2
    assert "secret" not in "".join(capfd.readouterr())


# What is released


@pytest.mark.sampled(4)
@every_model
def test_an_audit_is_exact_but_for_its_noise(name):
    """With next to no noise the count is that of the blocks, and so are the limits."""
    found = audit(name)
    assert isinstance(found, ReferenceAudit)
    assert (found.n_blocks, found.n_records) == (N_BLOCKS, SIZE - 1)
    assert 0 <= found.noisy_count <= N_BLOCKS
    noise = CountNoise.at(40.0)
    limits = risk_limits(found.noisy_count, N_BLOCKS, noise=noise, confidence=0.95)
    assert (found.lower, found.upper) == limits
    assert found == audit(name)
    assert found.gamma == found.audited.evidence.gamma == 0.05
    assert found.audited.evidence.n_records == SIZE - 1


@pytest.mark.slow
def test_the_result_does_not_depend_on_the_workers():
    assert audit("ridge", n_jobs=2) == audit("ridge")


def test_noise_is_added_and_secret():
    """Its law at a low level: counts of 20 audits differ, and are not all possible."""
    counts = {audit(epsilon=0.1).noisy_count for _ in range(20)}
    assert len(counts) > 5
    assert min(counts) < 0 or max(counts) > N_BLOCKS


def test_seeded_noise_warns_and_voids_the_audit():
    with pytest.warns(PrivacyLeakWarning, match="noise_random_state=0 makes the noise"):
        found = audit(epsilon=0.1, noise_random_state=0)
    assert found.seeded
    assert found.certificate.seeded
    assert not found.certificate.private
    assert "NOT private" in str(found)
    assert "NOT private" in audit_summary(found.measured)
    with pytest.warns(PrivacyLeakWarning):
        assert audit(epsilon=0.1, noise_random_state=0) == found


def test_ledgers_are_charged_before_the_noise(monkeypatch):
    """What does not fit is refused before a private record is looked at."""
    with PrivacyLedger(1.0) as ledger:
        audit(epsilon=0.75)
        assert ledger.spent.epsilon == 0.75
        assert "audit of a reference in 12 blocks" in ledger.releases[-1].note
        monkeypatch.setattr(audit_module, "cut_blocks", None)
        with pytest.raises(BudgetExceededError):
            audit(epsilon=0.5)
        assert ledger.spent.epsilon == 0.75


def test_an_audit_beside_a_release_costs_the_larger_level():
    """Their records are disjoint; in one ledger the levels would add up."""
    model = PrivateRidge(epsilon=0.5, **FEW_PAIRS).fit(*table(300, 5)[:2], **PUBLIC)
    found = audit_reference(model, X, Y, epsilon=0.2, n_blocks=N_BLOCKS, **PUBLIC)
    assert compose_basic([model.certificate_, found]).epsilon == pytest.approx(0.7)
    both = compose_parallel([model.certificate_, found], partition="position")
    assert both.epsilon == 0.5
    assert both.risk == model.risk_
    assert both.evidence is None
    with PrivacyLedger(1.0) as ledger:
        ledger.spend(both)
    assert ledger.spent.epsilon == 0.5


def measured(**changes):
    """Return what an audit measured."""
    values = {"n_records": 59, "n_blocks": 220, "noisy_count": 3, "epsilon": 1.0}
    values |= {"gamma": 0.05, "confidence": 0.95, "lower": 0.001, "upper": 0.037}
    return MeasuredRisk(**(values | changes))


@pytest.mark.parametrize(
    ("lower", "upper", "verdict", "risk"),
    [
        (0.0, 0.05, "supported", "risk at most 0.05 with"),
        (0.0501, 0.09, "contradicted", "risk at least 0.05 with"),
        (0.05, 0.0901, "inconclusive", "risk between 0.05 and 0.091, each limit with"),
    ],
)
def test_verdicts(lower, upper, verdict, risk):
    """In the words of a certificate, never rounded to the unsafe side."""
    found = measured(lower=lower, upper=upper)
    assert found.verdict == verdict
    assert audit_summary(found) == (
        f"measured at blocks of 59 records: {risk} confidence 0.95 ({verdict} "
        "at a risk of 0.05)"
    )
    whole = ReferenceAudit(
        **vars(found), audited=audit("ridge").audited, release_records=1000
    )
    assert whole.measured == found
    text = str(whole)
    assert {"supported": "supports", "contradicted": "contradicts"}.get(
        verdict, verdict
    ) in text
    assert "At blocks of 59 records" in text
    assert "databases of 1000 records" in text
    assert "evidence, not proof" in text
    assert "used for nothing else" in text
    assert "1-differential privacy" in text
    assert "resampled from a table of 400 rows" in whole._repr_html_()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_records": 0}, "n_records must be a whole number >= 1"),
        ({"n_blocks": 0}, "n_blocks must be a whole number >= 1"),
        ({"gamma": 0.0}, "gamma must be"),
        ({"confidence": 1.0}, "^confidence must be"),
        ({"lower": 0.5}, "lower must be at most upper"),
        ({"confidence": 0.3}, "their confidence at least 0.5"),
        ({"upper": 1.5}, "lower must be at most upper"),
        ({"upper": np.nan}, "lower must be at most upper"),
    ],
)
def test_measured_numbers_are_checked(changes, message):
    with pytest.raises(ValueError, match=message):
        measured(**changes)
    at_the_ends = measured(confidence=0.5, lower=0.03, upper=0.03)
    assert at_the_ends.verdict == "supported"


# On the certificate


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["ridge", "logistic", "mean"])
def test_a_fitted_model_keeps_the_audit_on_its_certificate(name):
    """It changes nothing else there."""
    model, _, public = MODELS[name]
    model = clone(model)
    private = table(300, 5)
    y = private[2] if name == "logistic" else private[1]
    if name == "mean":
        model.fit(X_PUBLIC)
    else:
        model.fit(private[0], y, **public)
    before = model.certificate_
    assert dict(rows(before))["reference audited"] == "not audited"
    found = audit(name, model=model)
    after = model.certificate_
    assert after.evidence.audit == found.measured
    assert dict(rows(after))["reference audited"] == audit_summary(found.measured)
    assert (after.risk, after.guarantee) == (before.risk, before.guarantee)
    sampler = getattr(model, "sampler_", model)
    assert sampler.certificate_.evidence.audit == found.measured
    assert FiledCertificate.from_dict(after.to_dict()) == filed(after)
    assert found.release_records == after.evidence.n_records
    assert after == claim_with_audit(before, found.measured)
    # Pairs that turn out to be private have no reference that was audited.
    sampler.pairs_.withhold(Withheld())
    assert sampler.certificate_.evidence.audit is None


def rows(certificate):
    """Return the rows of its table that are about one thing each."""
    lines = str(certificate).split("\n  ")[1:]
    return [line.split(": ", 1) for line in lines]


def fitted_ridge(**parameters):
    """Return a ridge that was fitted with them, and has others now."""
    ridge = PrivateRidge(**{**FEW_PAIRS, **parameters})
    ridge.fit(*table(300, 5)[:2], **PUBLIC)
    return ridge.set_params(**{name: getattr(RIDGE, name) for name in parameters})


def test_a_second_audit_is_refused_before_it_is_charged():
    """The better of several would have no confidence."""
    ridge = PrivateRidge(**FEW_PAIRS).fit(*table(300, 5)[:2], **PUBLIC)
    first = audit_reference(ridge, X, Y, epsilon=40.0, n_blocks=N_BLOCKS, **PUBLIC)
    with (
        PrivacyLedger(100.0) as ledger,
        pytest.raises(IncompatibleError, match="has an audit already: limits that are"),
    ):
        audit_reference(ridge, X, Y, epsilon=40.0, n_blocks=N_BLOCKS, **PUBLIC)
    assert ledger.spent.epsilon == 0
    with pytest.raises(IncompatibleError, match="has an audit already"):
        claim_with_audit(ridge.certificate_, first.measured)
    assert ridge.certificate_.evidence.audit == first.measured


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"epsilon": 0.5}, "epsilon=1.0, but the certificate has epsilon=0.5"),
        ({"gamma": 0.1}, "gamma=0.05, but the certificate has gamma=0.1"),
        (
            {"sensitivity": SensitivitySampler(n_pairs=39, randomness="both")},
            "randomness='implicit', but the certificate has randomness='both'",
        ),
        (
            {"sensitivity": SensitivitySampler(n_pairs=99, calibration="pac")},
            "failure_prob=0.0, but",
        ),
        ({"fit_intercept": False}, "n_outputs=3, but the certificate has n_outputs=2"),
    ],
)
def test_an_audit_of_something_else_is_refused(parameters, message):
    """Of what was set after the fit; before a ledger is charged."""
    ridge = fitted_ridge(**parameters)
    with (
        PrivacyLedger(100.0) as ledger,
        pytest.raises(IncompatibleError, match=message),
    ):
        audit("ridge", model=ridge)
    assert not ledger.releases
    assert ridge.certificate_.evidence.audit is None


def test_a_document_with_another_audit_is_refused():
    """Its risk, its size and its entries are checked."""
    document = claim_with_audit(
        fitted_ridge().certificate_, audit("ridge").measured
    ).to_dict()
    assert FiledCertificate.from_dict(json.loads(json.dumps(document))).evidence.audit
    for name, value in [("gamma", 0.01), ("n_records", 301), ("upper", 2.0)]:
        changed = json.loads(json.dumps(document))
        changed["evidence"]["audit"][name] = value
        with pytest.raises(ValueError, match="document is not a certificate"):
            FiledCertificate.from_dict(changed)
    changed["evidence"]["audit"] = {"upper": 0.01}
    with pytest.raises(ValueError, match="must have the entries of a certificate"):
        FiledCertificate.from_dict(changed)


# Where the reference comes from


def test_references_of_samplers():
    """An object, a function, or the table that a sampler was fitted to."""
    private = np.random.default_rng(1).normal(size=(300, 2))
    made = CallableReference(lambda n, rng: rng.normal(size=(n, 2)))
    for reference in (made, made.sample, TableReference(X_PUBLIC)):
        sampler = SensitivitySampler(
            MeanQuery(), n_pairs=39, reference=reference, n_records=200
        )
        found = audit_reference(sampler, private, **ASKED)
        assert found.release_records == 200
        assert not hasattr(sampler, "certificate_")
        found = audit_reference(sampler.fit(X_PUBLIC), private, **ASKED)
        assert sampler.certificate_.evidence.audit == found.measured
    ridge = PrivateRidge(
        sensitivity=SensitivitySampler(
            n_pairs=39, reference=TableReference(X_PUBLIC, Y_PUBLIC)
        )
    )
    audit_reference(ridge, X, Y, **ASKED)
    frozen = FrozenEstimator(SensitivitySampler(n_pairs=39))
    audit_reference(PrivateRidge(sensitivity=frozen), X, Y, **PUBLIC, **ASKED)


def test_of_a_reference_that_makes_no_small_databases():
    """What its records look like is known from the databases of the audit alone."""

    def draw(n, rng):
        if n < 50:
            raise ValueError("too few")
        return rng.normal(size=(n, 2))

    sampler = SensitivitySampler(MeanQuery(), n_pairs=39, reference=draw, n_records=200)
    private = np.random.default_rng(1).normal(size=(900, 2))
    assert audit_reference(sampler, private, **ASKED).n_blocks == N_BLOCKS


def test_private_records_are_moved_to_declared_columns():
    """As in a release, so that none of them is further out than was sampled."""
    schema = SchemaReference({"a": (-2.0, 2.0), "b": (-2.0, 2.0)})
    frame = pd.DataFrame(X * 1e6, columns=["a", "b"])
    for query in (MeanQuery(), lambda X: np.mean(X, axis=0)):
        sampler = SensitivitySampler(query, n_pairs=39, gamma=0.1, reference=schema)
        judge, exceeding = prepared(sampler, None, {}, frame)
        corners = pd.DataFrame(np.sign(X) * 2.0, columns=["a", "b"])
        assert exceeding(frame, None) == exceeding(corners, None)
        found = audit_reference(sampler, frame, **ASKED)
        assert found.n_records == judge.n_records


def test_records_by_themselves_are_blocks_of_two():
    """The local model: a database has one record, so that blocks are as many."""
    made = CallableReference(lambda n, rng: rng.normal(size=(n, 2)))
    sampler = SensitivitySampler(None, reference=made, random_state=0)
    wide = np.random.default_rng(0).normal(size=(600, 2))
    found = audit_reference(sampler, wide, epsilon=40.0, random_state=0)
    assert (found.n_records, found.n_blocks, found.release_records) == (1, 300, 1)
    assert found.upper < 0.1


@pytest.mark.slow
def test_labels_without_a_table_are_those_of_the_reference():
    """For what is fitted, those that it has."""

    def labelled(n, rng):
        X, y = population(n, rng)
        return X, (y > 0).astype(float)

    sampler = SensitivitySampler(n_pairs=39, reference=labelled)
    model = PrivateLogisticRegression(sensitivity=sampler, random_state=0)
    y = (Y > 0).astype(float)
    audit_reference(model, X, y, epsilon=40.0, n_blocks=N_BLOCKS)
    model = model.set_params(classes=[0.0, 1.0]).fit(X_PUBLIC, Y_PUBLIC > 0)
    found = audit_reference(model, X, y, epsilon=40.0, n_blocks=N_BLOCKS)
    assert model.certificate_.evidence.audit == found.measured


@pytest.mark.parametrize("public_frame", [False, True])
@pytest.mark.parametrize("private_frame", [False, True])
@pytest.mark.parametrize(
    "name", ["ridge", pytest.param("pipeline", marks=pytest.mark.slow)]
)
def test_frames_and_arrays(name, private_frame, public_frame):
    """As in a fit, both are one, or neither."""
    public = dict(MODELS[name][2])
    if public_frame:
        public["X_reference"] = pd.DataFrame(X_PUBLIC, columns=["a", "b"])
    private = pd.DataFrame(X, columns=["a", "b"]) if private_frame else X
    if private_frame != public_frame:
        with pytest.raises(IncompatibleError, match="give both in the same form"):
            audit(name, private, **public)
        return
    found = audit(name, private, **public)
    assert found.noisy_count == audit(name).noisy_count


# What is refused


ANY, KNOWN = mean(random_state=None)[0], "a sensitivity that is"
OWN = mean(reference=TableReference(X_PUBLIC))[0]
REMOVING = mean(relation="add-remove", n_records=9)[0]
OTHER_LABELS = {"y": ["a", "b"] * 150, **PUBLIC_LABELS}
SHARED = {"X": X_PUBLIC[100:], "y": Y_PUBLIC[100:], **PUBLIC}
OF_WHAT_IS_AUDITED = [
    (Lasso(), "audited must be a SensitivitySampler or a private estimator, got"),
    (make_pipeline(PrivateRidge()), "give the last step of a Pipeline"),
    (PrivateRidge(sensitivity=0.1), f"got 0.1: {KNOWN} known"),
    (PrivateRidge(sensitivity="bound"), f"got 'bound': {KNOWN}"),
    (PrivateRidge(sensitivity=KnownSensitivity(0.1)), f"{KNOWN} known has no ref"),
    (REMOVING, "relation must be 'replace-one' for an audit, got 'add-remove'"),
    (mean(epsilon=np.inf)[0], "epsilon of what is audited must be finite, got inf"),
    (mean(gamma=2)[0], "gamma must be a number in"),
    (mean(advantage=0.1)[0], r"must be None for an audit, got 0\.1: it counts pairs"),
    (OWN, "X_reference must be None if the SensitivitySampler has a reference"),
]
OF_THE_AUDIT = [
    ({"X_reference": None}, "X_reference must be given: SensitivitySampler has"),
    ({"X_reference": None, "y_reference": Y_PUBLIC}, "must be given together"),
    ({"epsilon": 0.0}, "epsilon must be a finite number above 0, got 0.0"),
    ({"confidence": 0.1}, r"confidence must be a number in \[0.5, 1\), got 0.1"),
    ({"gamma": 0.04}, "gamma must be at least 0.05, the risk that was asked"),
    ({"n_blocks": 0}, "n_blocks must be a whole number >= 1, got 0"),
    ({"n_jobs": 0}, "n_jobs must be None or a whole number other than 0, got 0"),
    ({"random_state": "x"}, "random_state must be None"),
    ({"noise_random_state": "x"}, "noise_random_state must be None"),
    ({"n_blocks": 15}, "at least 315 records, for 15 blocks of 21, got 300: .* be 14"),
    ({"n_blocks": None}, "at least 3801 records, for 181 blocks of 21, .* give more"),
    ({"X": np.full((300, 2), np.nan)}, "X contains NaN"),
    ({"X": np.array([["secret", 1.0]] * 300)}, "X contains NaN"),
    ({"X": 5.0}, "got 0D array"),
    ({"X": X_PUBLIC}, "shares records with the reference that is audited"),
]


@pytest.mark.parametrize(
    ("audited", "changes", "message"),
    [
        *((audited, {}, message) for audited, message in OF_WHAT_IS_AUDITED),
        *((ANY, *case) for case in OF_THE_AUDIT),
        (PrivateRidge(), {"y": None, **PUBLIC}, "y must be given because the query"),
        (
            PrivateLogisticRegression(C=1.0, **FEW_PAIRS),
            OTHER_LABELS,
            "y has labels that are not among",
        ),
        (PrivateRidge(**FEW_PAIRS), SHARED, "shares records with the reference that"),
    ],
)
def test_errors(audited, changes, message):
    """Each says what is wrong before anything is charged, and shows no value."""
    arguments = {"X": X, "y": Y, "epsilon": 40.0, "n_blocks": N_BLOCKS}
    arguments |= {"X_reference": X_PUBLIC, **changes}
    with (
        PrivacyLedger(100.0) as ledger,
        pytest.raises((ValueError, TypeError), match=message) as caught,
    ):
        audit_reference(audited, arguments.pop("X"), arguments.pop("y"), **arguments)
    assert not ledger.releases
    assert "secret" not in str(caught.value)


def test_another_reference_than_that_of_the_fit_is_refused():
    """Also if it is as long, and where only its targets are others."""
    ridge = PrivateRidge(combine=None, **FEW_PAIRS).fit(*table(300, 5)[:2], **PUBLIC)
    asked = {"epsilon": 40.0, "n_blocks": N_BLOCKS}
    for X_other, y_other, message in (
        (X_PUBLIC[1:], Y_PUBLIC[1:], "with reference='resampled from a"),
        (X_PUBLIC, Y_PUBLIC + 1, "the records that it was fitted with"),
        (X_PUBLIC + 1, Y_PUBLIC, "the records that it was fitted with"),
    ):
        other = {"X_reference": X_other, "y_reference": y_other}
        with pytest.raises(IncompatibleError, match=message):
            audit_reference(ridge, X, Y, **other, **asked)
    back = {name: rows[::-1] for name, rows in PUBLIC.items()}  # in another order
    audit_reference(ridge, X, Y, **back, **asked)
    with pytest.raises(IncompatibleError, match="but the certificate has epsilon=1"):
        audit_reference(ridge.set_params(epsilon=0.1), X, Y, **PUBLIC, **asked)


def test_another_query_than_that_of_the_fit_is_refused():
    ridge = PrivateRidge(**FEW_PAIRS).fit(*table(300, 5)[:2], **PUBLIC)
    asked = {"epsilon": 1.0, "n_blocks": 12}
    with pytest.raises(IncompatibleError, match="they were set after the fit"):
        audit_reference(ridge.set_params(alpha=1e6), X, Y, **PUBLIC, **asked)
    # A clone of a callable is not equal to it, and is the same query all the same.
    sampler = SensitivitySampler(functools.partial(np.mean, axis=0), n_pairs=39)
    sampler.set_params(reference=CallableReference(population)).fit(X)
    audit_reference(sampler, X, **asked)
    assert sampler.certificate_.evidence.audit is not None
    with pytest.raises(IncompatibleError, match="they were set after the fit"):
        audit_reference(sampler.set_params(query=MeanQuery()), X, **asked)


@dataclass
class Weighted(Query):
    """Means, times what has no plain equality."""

    weights: object

    def answer(self, X, y=None):
        return X.mean(axis=0) * self.weights


def test_queries_that_hold_arrays_are_compared_by_these():
    fitted = Weighted(np.array([1.0, 2.0]))
    assert is_asked_again(Weighted(np.array([1.0, 2.0])), fitted)
    assert not is_asked_again(Weighted(np.array([1.0, 3.0])), fitted)


def test_pairs_from_private_data_cannot_be_audited():
    ridge = PrivateRidge(**FEW_PAIRS)
    with pytest.warns(PrivacyLeakWarning):
        ridge.fit(X, Y)
    with pytest.raises(IncompatibleError, match="pairs came from private data"):
        audit_reference(ridge, X, Y, epsilon=1.0, n_blocks=N_BLOCKS, **PUBLIC)


def test_how_far_the_release_is_from_the_blocks_is_said():
    """It may be of another size, of the same, or not known."""
    assert "the same at larger databases is evidence" in str(audit("ridge"))
    own = SensitivitySampler(n_pairs=39, n_records=21)
    found = audit("ridge", n_blocks=5)
    assert found.release_records is None
    ridge = PrivateRidge(sensitivity=own, random_state=0)
    same = audit_reference(ridge, X, Y, epsilon=1.0, n_blocks=5, **PUBLIC)
    assert same.release_records == same.n_records == 21
    assert "is about databases of 21 records, too" in str(same)
