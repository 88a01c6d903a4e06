"""References that are learned from a part of the private records."""

import copy
import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from certificates import certificate
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skparisk import (
    BudgetExceededError,
    CalibrationError,
    IncompatibleError,
    PrivacyLeakWarning,
    PrivacyLedger,
    PrivateEstimator,
    PrivateKernelDensity,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateRidge,
    ReferenceWarning,
    SchemaReference,
    SensitivitySampler,
    audit_claim,
    audit_reference,
    learn_reference,
)
from skparisk.core.claim import Assumption, as_certificate
from skparisk.mechanisms import LaplaceMechanism
from skparisk.queries import MeanQuery
from skparisk.reference import Categories, Interval, LearnedReference
from skparisk.reference._learning import Learning
from skparisk.reference._synthesis import (
    Axis,
    _shares,
    count_bins,
    histogram_sensitivity,
    learn_copula,
    share_levels,
    sign_sensitivity,
    tells_something,
)

RNG = np.random.default_rng(16)
N = 500
X = RNG.normal(size=(N, 2)).clip(-3, 3)
Y = (X @ [1.0, -1.0] + RNG.normal(size=N)).clip(-5, 5)
LABELS = np.where(Y > 0, "yes", "no")
COLUMNS = [(-3.0, 3.0), (-3.0, 3.0)]
SCHEMA = SchemaReference(COLUMNS, target=(-5.0, 5.0))


def learned(X=X, y=Y, schema=SCHEMA, epsilon=1.0, **how):
    """Learn from a fifth of the records above, and return the others as well."""
    split = learn_reference(schema, X, y, epsilon=epsilon, **how)
    y = None if y is None else y[split.others]
    return split.reference, X[split.others], y


def sampler(reference=None, **parameters):
    """Few pairs."""
    return SensitivitySampler(reference=reference, **{"n_pairs": 39} | parameters)


def fitted(learning=1.0, epsilon=1.0, **parameters):
    """A model of the records that a law was not learned from."""
    reference, *own = learned(epsilon=learning)
    source = sampler(reference, **parameters)
    return PrivateRidge(epsilon=epsilon, random_state=0, sensitivity=source).fit(*own)


# What the law is made of


def test_one_record_moves_counts_and_products_by_their_sensitivity():
    """Over all neighbors: never more, and as much for the worst ones."""
    for n_columns in [1, 2, 3, 4, 5]:
        records = [
            np.array(r) for r in itertools.product([-1.0, 1.0], repeat=n_columns)
        ]
        pairs = np.triu_indices(n_columns, 1)
        moved, counted = [], []
        for one, other in itertools.product(records, repeat=2):
            products = np.outer(one, one)[pairs] - np.outer(other, other)[pairs]
            moved.append(np.abs(products).sum())
            counted.append(2 * np.count_nonzero(one != other))
        assert max(moved) == sign_sensitivity(n_columns)
        assert max(counted) == histogram_sensitivity(n_columns)


@given(
    n=st.integers(1, 10**6), epsilon=st.floats(1e-6, 1e3), n_columns=st.integers(1, 200)
)
def test_the_levels_of_the_parts_are_that_of_the_whole(n, epsilon, n_columns):
    """Exactly; signs are left out where they would be lost."""
    histograms, signs = share_levels(n, epsilon, n_columns)
    assert histograms + signs == epsilon
    assert signs in (0, histograms)
    assert 4 <= count_bins(n, epsilon, n_columns) <= 64


@pytest.mark.parametrize("n_columns", [1, 2, 3])
def test_the_learning_charges_what_it_was_given(n_columns):
    """Its mechanisms are charged by themselves, if a ledger is open."""
    axes = [Axis.of(Interval(0.0, 1.0), None, 8)] * n_columns
    columns = list(RNG.random((n_columns, 2000)))
    with PrivacyLedger(10.0) as ledger:
        learn_copula(axes, columns, 0.7, rng=np.random.default_rng(0))
    assert ledger.spent.epsilon == 0.7
    assert not ledger.spent.delta
    assert not ledger.spent.risk


def test_positions_stand_for_values_of_the_same_bin():
    """Values come back within the width of a bin, categories as they were."""
    for column, classes, values in [
        (Interval(-2.0, 3.0), None, [-2.0, -1.1, 0.0, 2.9, 3.0]),
        (Interval(-2.0, 3.0, missing=True), None, [-2.0, np.nan, 3.0]),
        (Interval(1.0, 1.0), None, [1.0, 1.0]),
        (Interval(-1.7e308, 1.7e308), None, [-1.7e308, 0.0, 1.7e308]),
        (Interval(18, 90), np.arange(90, 17, -1), [18.0, 19.0, 54.0, 90.0]),
        (Interval(1, 3), np.arange(1, 4), [1.0, 2.0, 3.0]),
        (Categories(["f", "m", None]), None, ["f", None, "m"]),
        (Categories([1, 0, None]), None, [1.0, np.nan, 0.0]),
        (Categories([True, False]), None, [True, False]),
    ]:
        axis = Axis.of(column, classes, 4)
        kind = object if any(isinstance(v, str | None) for v in values) else None
        given_ = np.array(values, dtype=kind)
        rng = np.random.default_rng(0)
        places = axis.place(given_, rng)
        assert ((places >= 0) & (places < axis.n_counts)).all()
        found = axis.values_at(places)
        again = axis.place(found, rng)
        if classes is not None:  # which may be in two bins
            assert set(found) <= set(classes.tolist())
            assert np.abs(again - places).max() < 1
        elif column != Interval(1.0, 1.0):
            assert (again.astype(int) == places.astype(int)).all()
        if isinstance(column, Categories):
            assert [None if v != v else v for v in found.tolist()] == [
                None if v != v else v for v in values
            ]


@given(st.lists(st.floats(-500, 1500), min_size=1, max_size=20), st.floats(0.01, 50))
def test_no_bin_is_left_out(noisy, least):
    """However little of it there is: tails are rather too heavy."""
    shares = _shares(np.array(noisy), 1000, least)
    assert shares.min() > 0
    assert shares.sum() == pytest.approx(1)


def test_without_noise_the_law_is_that_of_the_records():
    """Marginals, and correlations of normal scores."""
    rng = np.random.default_rng(0)
    z = rng.multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], size=20_000)
    records = np.column_stack([z.clip(-4, 4), z[:, 0] > 1])
    schema = SchemaReference([(-4.0, 4.0)] * 2, target={0: 1, 1: 1})
    law, *_ = learned(records[:, :2], records[:, 2], schema, epsilon=1e6)
    drawn, y = law.sample(20_000, rng)
    np.testing.assert_allclose(drawn.std(axis=0), 1, atol=0.05)
    assert np.corrcoef(drawn.T)[0, 1] == pytest.approx(0.7, abs=0.05)
    assert y.mean() == pytest.approx((z[:, 0] > 1).mean(), abs=0.02)
    assert drawn[y == 1, 0].mean() > drawn[y == 0, 0].mean() + 0.25


def test_what_is_mostly_noise_is_a_warning_and_a_proviso():
    with pytest.warns(ReferenceWarning, match="mostly noise"):
        model = fitted(0.05)
    assert Assumption.NOISY_LAW in model.certificate_.assumptions
    assert not tells_something(100, 0.05, 3)
    assert tells_something(100, 1.0, 3)


# What a release claims


def test_the_level_is_the_larger_one():
    """Also of other levels, and of what an attacker gains."""
    for learning, released in [(0.5, 1.0), (1.0, 1.0), (2.0, 1.0)]:
        for randomness in ["implicit", "both"]:
            model = fitted(learning, released, randomness=randomness)
            claim = model.certificate_
            assert claim.epsilon == model.epsilon_ == max(learning, released)
            assert claim.risk <= 0.05
            assert claim.private
            assert claim.loss is None
            assert claim.risk_at(learning * 0.99) == 1
            assert claim.evidence.n_records == N - N // 5
            assert claim.advantage.mean >= np.tanh(learning / 2)
            assert Assumption.LEARNED_REFERENCE in claim.assumptions
            assert "learned by histograms and a copula" in claim.guarantee
            assert model.sampler_.calibrate(epsilon=3.0).certificate_.epsilon == 3.0
            assert (
                model.sampler_.calibrate(epsilon=0.1).certificate_.epsilon == learning
            )


def test_learning_has_a_level():
    with pytest.raises(ValueError, match=r"epsilon of the learning must be"):
        Learning(np.inf, 10)
    assert Learning(0.5, 10).cover(as_certificate(0.25)).epsilon == 0.5


# What ledgers are charged


def entries(ledger):
    """Return the levels that it was charged."""
    return [entry.certificate.epsilon for entry in ledger.releases]


def test_what_does_not_fit_is_refused_before_anything_is_learned(monkeypatch):
    called = []
    monkeypatch.setattr(
        "skparisk.reference._learned.learn_copula", lambda *_, **__: called.append(_)
    )
    with PrivacyLedger(0.9) as ledger, pytest.raises(BudgetExceededError):
        learned()
    assert not called
    assert not entries(ledger)


def test_learning_is_charged_though_the_release_fails(monkeypatch):
    """Its noise has been drawn by then."""

    def still(law, n_records, rng, **_):
        return np.ones((n_records, 2)), np.ones(n_records)

    monkeypatch.setattr(LearnedReference, "_draw", still)
    with PrivacyLedger(5.0) as ledger, pytest.raises(CalibrationError):
        fitted(gamma=0.05)
    assert entries(ledger) == [1.0]


def test_releases_from_one_law_are_charged_by_themselves():
    """And the learning when it is done."""
    with PrivacyLedger(5.0) as ledger:
        reference, *own = learned()
        for _ in range(2):
            model = PrivateRidge(epsilon=0.25, random_state=0)
            model.set_params(sensitivity=sampler(reference)).fit(*own)
            assert model.epsilon_ == 1.0
    assert entries(ledger) == [1.0, 0.25, 0.25]


def test_a_seed_voids_the_claim():
    with pytest.warns(PrivacyLeakWarning, match="repeatable"):
        (one, *own), (two, *same) = (learned(noise_random_state=3) for _ in range(2))
    np.testing.assert_array_equal(own[0], same[0])
    drawn = [law.sample(9, np.random.default_rng(0))[0] for law in (one, two)]
    np.testing.assert_array_equal(*drawn)
    state = np.random.default_rng(0)
    with (
        PrivacyLedger(2.0) as ledger,
        pytest.warns(PrivacyLeakWarning, match="repeatable"),
    ):
        learned(noise_random_state=state)
    assert ledger.spent.void


# How records are split


def test_records_are_split_at_random_by_position():
    """Sorted records as well; what was learned from is not in the rest."""
    rows = np.arange(1000.0)[:, None]
    how = {"schema": SchemaReference([(0.0, 1000.0)]), "fraction": 0.3}
    rest = [set(learned(rows, None, **how)[1][:, 0]) for _ in range(2)]
    for others in rest:
        assert others < set(rows[:, 0])
        assert len(others) == 700
        assert 400 < np.mean([*others]) < 600
    assert rest[0] != rest[1]


def test_records_that_were_learned_from_are_refused():
    """By estimators and samplers, as long as the law is known in this process."""
    split = learn_reference(SCHEMA, X, Y, epsilon=1.0)
    others = np.setdiff1d(np.arange(N), split.others)
    known, on_sampler = X[others], PrivateRidge(sensitivity=sampler(split.reference))
    law, own, _ = learned(y=None, schema=SchemaReference(COLUMNS))
    mean = SensitivitySampler(MeanQuery(), reference=law, n_pairs=39).fit(own)
    ridge, given_ = PrivateRidge(sensitivity=sampler(None)), split.reference
    for use in (
        lambda: on_sampler.fit(known, Y[others]),
        lambda: ridge.fit(known, Y[others], X_reference=given_),
        lambda: mean.release(X),
        lambda: PrivateRidge(sensitivity=mean).fit(X, Y),
    ):
        with pytest.raises(ValueError, match="must not be those that"):
            use()
    assert mean.release(own).shape == (2,)


def test_nothing_of_the_records_stays():
    """In models, laws and splits, or in what they are saved as."""
    secret = np.full(2, 1.0625001234567)
    records = np.vstack([X, np.tile(secret, (100, 1))])
    y = np.append(Y, np.full(100, 2.71828182845))
    split = learn_reference(SCHEMA, records, y, epsilon=1.0)
    source = sampler(split.reference)
    model = PrivateRidge(sensitivity=source, random_state=0)
    model.fit(records[split.others], y[split.others])
    for saved in (split, split.reference, model, model.sampler_):
        text = pickle.dumps(saved)
        assert secret[:1].tobytes() not in text
        assert y[-1:].tobytes() not in text
    again = pickle.loads(pickle.dumps(model.sampler_))
    assert again.certificate_ == model.certificate_
    assert again.claim_.charge == model.sampler_.claim_.charge
    assert source.reference is split.reference


def test_counts_are_in_no_frame_of_a_failure(monkeypatch):
    monkeypatch.setattr("skparisk.mechanisms._additive.draw", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError) as caught:
        learned()
    names = {entry.name for entry in caught.traceback}
    assert "learn_reference" in names
    assert "learn_copula" not in names


@pytest.mark.filterwarnings("error")
def test_numbers_near_zero_do_not_decide_whether_a_law_is_learned():
    tiny = np.column_stack([np.full(N, 5e-324), X[:, 1]])
    with np.errstate(all="raise"):
        reference, *_ = learned(tiny)
    assert reference.learning.n_records == N // 5


# Estimators and tables


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [PrivateLogisticRegression, PrivateLinearSVC])
def test_classifiers_have_the_declared_classes(estimator):
    """Wherever the reference is given."""
    schema = SchemaReference(COLUMNS, target=["no", "yes", "maybe"])
    reference, *own = learned(y=LABELS, schema=schema, epsilon=2.0)
    for model in (
        estimator(sensitivity=sampler()).fit(*own, X_reference=reference),
        estimator(sensitivity=sampler(reference)).fit(*own),
    ):
        assert model.classes_.tolist() == ["maybe", "no", "yes"]
        assert model.certificate_.private
        assert set(model.predict(X)) <= {"maybe", "no", "yes"}


@pytest.mark.slow
def test_frames_have_their_structure_from_the_learned_law():
    """Categories that are declared are known, whatever was drawn."""
    frame = pd.DataFrame(
        {
            "age": RNG.integers(18, 91, N),
            "sex": RNG.choice(["f", "m"], N),
            "share": np.where(RNG.random(N) < 0.1, np.nan, RNG.random(N)),
        }
    )
    schema = SchemaReference(
        {"age": range(18, 91), "sex": ["f", "m", "x"], "share": (0.0, 1.0)},
        target=(-5.0, 5.0),
        missing={"share": 0.1},
    )
    split = learn_reference(schema, frame, Y, epsilon=1.0)
    law, own = split.reference, frame.iloc[split.others]
    drawn, _ = law.sample(1000, np.random.default_rng(0))
    assert drawn["age"].isin(range(18, 91)).all()
    assert 0 < drawn["share"].isna().mean() < 1
    assert set(law.whole.X["sex"]) == {"f", "m", "x"}
    inner = make_pipeline(
        make_column_transformer(
            (OneHotEncoder(), ["sex"]), (StandardScaler(), ["age"])
        ),
        LinearRegression(),
    )
    model = PrivateEstimator(inner, gamma=0.2, sensitivity=sampler(law, n_pairs=9)).fit(
        own, Y[split.others]
    )
    assert model.predict(frame).shape == (N,)
    assert model.certificate_.private


def test_what_takes_no_targets_learns_none():
    """Also from a schema that has some."""
    box = X / 6 + 0.5
    schema = SchemaReference([(0.0, 1.0)] * 2, target=(0.0, 1.0))
    reference, own, _ = learned(box, None, schema)
    PrivateKernelDensity(
        0.2, bounds=(0, 1), lattice_size=3, sensitivity=sampler(reference)
    ).fit(own)
    assert not isinstance(reference.sample(3, np.random.default_rng(0)), tuple)
    assert reference.whole.y is None


@pytest.mark.slow
def test_what_was_learned_is_audited():
    audit_of = RNG.normal(size=(5000, 2)).clip(-3, 3)
    y = (audit_of @ [1.0, -1.0] + RNG.normal(size=5000)).clip(-5, 5)
    model = fitted()
    audit = audit_reference(model, audit_of, y, epsilon=1.0, random_state=0)
    assert audit.upper <= 1
    assert model.certificate_.evidence.audit is not None


def test_a_claim_from_a_learned_law_is_audited():
    reference, *own = learned(np.tile(X, (3, 1)), np.tile(Y, 3))
    model = PrivateRidge(sensitivity=sampler(reference))
    assert audit_claim(model, *own, n_releases=40).claim.epsilon == 1.0


# What is refused


def test_what_makes_no_sense_is_refused():
    for arguments, message in [
        ({"schema": 7}, "schema must be a SchemaReference"),
        ({"epsilon": 0.0}, "epsilon of the learning"),
        ({"fraction": 1.0}, "fraction must be a number"),
    ]:
        with pytest.raises(ValueError, match=message):
            learned(**arguments)


def test_records_must_fit_the_schema():
    with pytest.raises(IncompatibleError, match="numbers must be equal"):
        learned(X[:, :1])
    with pytest.raises(IncompatibleError, match="has 1 targets, but y has 2"):
        learned(y=np.column_stack([Y, Y]))
    with pytest.raises(ValueError, match="same number of records"):
        learn_reference(SCHEMA, X, Y[1:], epsilon=1.0)
    with pytest.raises(ValueError, match="leaves none to learn from"):
        learned(X[:4], Y[:4])
    with pytest.raises(ValueError, match="y must be None with a schema"):
        learned(schema=SchemaReference(COLUMNS))
    law, own, _ = learned()
    with pytest.raises(ValueError, match="relation must be 'replace-one'"):
        sampler(law, query=MeanQuery(), relation="add-remove", n_records=9).fit(own)


def test_a_level_goes_with_what_certifies_one():
    with pytest.raises(ValueError, match="advantage must be None"):
        fitted(n_pairs=99, advantage=0.2)


def test_copies_are_the_same_reference():
    """It is told what it is by its parameters, and not by records."""
    law, *_ = learned()
    assert clone(law) is copy.deepcopy(law) is law
    assert repr(law).startswith("LearnedReference('drawn from a law")
    assert LaplaceMechanism(1, 1).epsilon == 1


def test_what_has_no_curve_or_gain_is_covered_as_well():
    """A rule that certifies its own level alone, and a certificate made by hand."""
    assert fitted(n_pairs=99, calibration="pac").epsilon_ == 1.0
    claim = Learning(2.0, 10).cover(certificate(curve=None))
    assert claim.epsilon == 2.0
    assert claim.evidence.advantage is None
    assert claim.advantage.mean >= np.tanh(1.0)


@pytest.mark.parametrize("classifies", [False, True])
def test_models_of_numbers_learn_from_frames_with_names(classifies):
    frame = pd.DataFrame(X, columns=["a", "b"])
    target = [False, True] if classifies else (-5.0, 5.0)
    schema = SchemaReference({"a": (-3.0, 3.0), "b": (-3.0, 3.0)}, target=target)
    model = PrivateLogisticRegression(1.0) if classifies else PrivateRidge(1.0)
    model.set_params(gamma=0.2, sensitivity=SensitivitySampler(n_pairs=40))
    y = Y > 0 if classifies else Y
    split = learn_reference(schema, frame, y, epsilon=1.0)
    own, y = frame.iloc[split.others], y[split.others]
    model.fit(own, y, X_reference=split.reference)
    assert model.epsilon_ == 1.0
    with pytest.raises(IncompatibleError, match="same order"):
        model.fit(own[["b", "a"]], y, X_reference=split.reference)
    with pytest.raises(IncompatibleError, match="same order"):
        learn_reference(schema, frame[["b", "a"]], Y, epsilon=1.0)
