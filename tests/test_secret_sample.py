"""A secret sample: what it draws, what stays hidden, and what is claimed of it."""

import copy
import itertools
import math
import os
import pickle
from collections import Counter
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from certificates import filed
from laws import FALSE_ALARM
from query_pairs import both_of
from scipy import stats
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skparisk import (
    BudgetExceededError,
    CalibrationError,
    FiledCertificate,
    IncompatibleError,
    PrivacyLeakWarning,
    PrivacyLedger,
    PrivateEstimator,
    PrivateGridSearchCV,
    PrivateKernelDensity,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateRidge,
    SecretSample,
    SensitivitySampler,
    audit_reference,
)
from skparisk.core import Assumption, Leak, as_certificate, compose_basic
from skparisk.model_selection import simulate_scores
from skparisk.neighbors import draw_pairs
from skparisk.queries import MeanQuery
from skparisk.reference import TableReference, _secret

RNG = np.random.default_rng(16)
N, HALF = 80, 40
X = RNG.normal(size=(N, 3))
Y = X @ [1.0, -2.0, 0.5] + RNG.normal(size=N)
LABELS = (Y > 0) * 1
X_PUBLIC = RNG.normal(size=(60, 3))
LABELS_PUBLIC = np.arange(60) % 2


@pytest.fixture(autouse=True)
def no_draws_before(monkeypatch):
    """Each test is the first one that draws from its records."""
    monkeypatch.setattr("skparisk.reference._secret._known", {})


def secret(reference=None, **parameters):
    """Return a sampler of few pairs from a secret half."""
    reference = SecretSample(0.5) if reference is None else reference
    return SensitivitySampler(reference=reference, n_pairs=20, **parameters)


def members(half, *data):
    """Return who was drawn."""
    return half.take_members(*(data or (X, None)))


ESTIMATORS = {
    "ridge": (PrivateRidge, {}, Y),
    "logistic": (PrivateLogisticRegression, {"classes": [0, 1]}, LABELS),
    "svm": (PrivateLinearSVC, {"classes": [0, 1]}, LABELS),
    "density": (PrivateKernelDensity, {"bounds": (-9, 9), "lattice_size": 2}, None),
    "wrapped": (PrivateEstimator, {"estimator": Lasso(0.1)}, Y),
    "components": (PrivateEstimator, {"estimator": PCA(2)}, None),
    "pipeline": (
        PrivateEstimator,
        {
            "estimator": make_pipeline(StandardScaler(), LogisticRegression()),
            "classes": [0, 1],
        },
        LABELS,
    ),
}
estimators = pytest.mark.parametrize("name", ESTIMATORS)


def make(name, reference=None, **parameters):
    """Return an estimator by name, and its targets."""
    kind, own, y = ESTIMATORS[name]
    return kind(**own, sensitivity=secret(reference), **parameters), y


# What is drawn


def test_the_fraction_is_between_0_and_1():
    for fraction in [0, 1, -0.5, 1.5, math.nan, "half", None, True]:
        with pytest.raises(
            ValueError, match=r"fraction must be a number in \(0, 1\), got"
        ):
            SecretSample(fraction)


def test_members_are_a_share_and_never_all():
    for fraction, n_candidates, n_members in [
        (0.5, 2, 1),
        (0.5, 7, 3),
        (0.3, 10, 3),
        (math.nextafter(1, 0), 10**6, 10**6 - 1),
        (Fraction(1, 3), 9, 3),
    ]:
        assert SecretSample(fraction).n_members(n_candidates) == n_members


def test_no_members_are_refused():
    for few in (SecretSample(0.1), SecretSample(0.9)):
        with pytest.raises(ValueError, match="records is none: a secret sample needs"):
            few.n_members(1)
    with pytest.raises(ValueError, match="of 1 records is none"):
        SecretSample(0.5).draw(X[:1])
    with pytest.raises(ValueError, match="got 80 and 79"):
        SecretSample(0.5).draw(X, Y[:-1])


def test_members_are_different_records_in_random_order():
    half = SecretSample(0.5).draw(X, Y)
    rows, targets = members(half, X, Y)
    places = [np.flatnonzero((row == X).all(axis=1)).item() for row in rows]
    assert len(set(places)) == HALF
    np.testing.assert_array_equal(targets, Y[places])
    assert places != sorted(places)
    others = SecretSample(0.5).draw(X, Y)
    assert not np.array_equal(members(others)[0], rows)


def assert_uniform(counts, cells):
    """All of these are equally likely, and there is nothing else."""
    assert {*counts} == {*cells}
    assert stats.chisquare([*counts.values()]).pvalue > FALSE_ALARM


def test_all_ordered_subsets_are_equally_likely():
    """Of the draw, and of the sampled pairs: both are of one law, swaps included."""
    table = np.arange(4.0)[:, None]
    subsets = [*itertools.permutations(range(4), 2)]
    drawn = Counter(
        tuple(_secret.draw_ordered(4, 2, os.urandom).tolist()) for _ in range(6000)
    )
    assert_uniform(drawn, subsets)
    swaps = [
        (one, two)
        for one in subsets
        for two in subsets
        if sum(a != b for a, b in zip(one, two, strict=True)) == 1
        and len({*one, *two}) == 3
    ]
    reference = SecretSample(0.5).draw(table).reference(table, None)
    seed = np.random.SeedSequence(0)
    source = reference.bind(6000, n_shared=1, n_own=2, seed=seed)
    pairs = draw_pairs(source, n_records=2, start=0, size=6000, seed=seed)
    sampled = Counter()
    for i in range(6000):
        one, two = (tuple(rows[:, 0].astype(int)) for rows, _ in both_of(pairs, i))
        sampled[one, two] += 1
    assert_uniform(sampled, swaps)


def test_equal_random_keys_are_drawn_again():
    keys = iter([[3, 1, 3], [3, 1, 2]])

    def source(n_bytes):
        drawn = np.array(next(keys), dtype=np.uint64)
        assert n_bytes == drawn.nbytes
        return drawn.tobytes()

    assert _secret.draw_ordered(3, 2, source).tolist() == [1, 2]


# The handle


def test_a_draw_shows_nothing_and_stays_in_the_process():
    half = SecretSample(0.25).draw(X, Y)
    assert isinstance(half, _secret.SecretDraw)
    assert repr(half) == str(half) == "SecretDraw()"
    assert not hasattr(half, "__dict__")
    for same in (copy.copy(half), copy.deepcopy(half), clone(half)):
        assert same is half
    assert clone(secret(half)).reference is half
    assert (half.n_candidates, half.n_members) == (80, 20)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match=r"cannot be pickled.*SecretSample\(0.25\)"):
            pickle.dumps(half, protocol)


def test_a_model_is_saved_without_its_draw():
    model, y = make("ridge", SecretSample(0.5).draw(X, Y))
    model.fit(X, y)
    with pytest.raises(TypeError, match="set_params"):
        pickle.dumps(model)
    model.set_params(sensitivity__reference=SecretSample(0.5))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.certificate_ == model.certificate_
    with pytest.raises(IncompatibleError, match="takes the draw that the sampler was"):
        again.sampler_.release(X, Y)


def test_a_draw_takes_only_its_records_in_their_order():
    half = SecretSample(0.5).draw(pd.DataFrame(X))
    model, sampler = make("ridge", half)[0], secret(half, query=MeanQuery())
    released = secret(half, query=MeanQuery()).fit(X)
    for others in (X[::-1], X[:-1], X + 1):
        for use in (
            lambda: sampler.fit(others),
            lambda: model.fit(others, Y[: len(others)]),
            lambda: released.release(others),
        ):
            with pytest.raises(ValueError, match="must be the records that the secret"):
                use()


def test_values_are_in_no_message():
    with pytest.raises(ValueError, match="contains infinity") as caught:
        SecretSample(0.5).draw([[1.0], [math.inf]])
    assert caught.value.__context__ is None
    half = SecretSample(0.5).draw([["91234x"], ["91235x"]])
    with pytest.raises(ValueError, match="is not shown") as caught:
        secret(half, query=np.mean).set_params(query=MeanQuery()).fit(
            [["91234x"], ["91235x"]]
        )
    assert "91234" not in str(caught.value)


# What is answered, and what stays


def test_a_fit_without_noise_is_that_of_the_members():
    half = SecretSample(0.5).draw(X, Y)
    model, y = make("ridge", half, epsilon=math.inf)
    rows, targets = members(half, X, y)
    np.testing.assert_allclose(
        model.fit(X, y).coef_, Ridge().fit(rows, targets).coef_, rtol=1e-10
    )
    mean = secret(half, query=MeanQuery(), epsilon=math.inf).fit(X)
    np.testing.assert_allclose(mean.release(X), rows.mean(axis=0))
    frame = pd.DataFrame({"word": list("ab") * 40, "number": X[:, 0]})
    half = SecretSample(0.5).draw(frame)

    def share(frame):
        assert list(frame.index) == list(range(HALF))
        return (frame["word"] == "a").mean()

    chosen = members(half, frame, None)[0]
    found = secret(half, query=share, epsilon=math.inf).fit(frame).release(frame)
    assert found == (chosen["word"] == "a").mean()


@estimators
@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.sampled(1)
def test_every_estimator_takes_a_secret_sample_and_keeps_nothing(name, drawn):
    half = SecretSample(0.5).draw(X, Y) if drawn else None
    model, y = make(name, half)
    before = model.get_params()
    model.fit(X, y)
    assert model.get_params() == before
    certificate = model.certificate_
    assert certificate.protects_membership
    assert certificate.private
    assert not certificate.reference_is_private
    evidence = certificate.evidence
    assert (evidence.n_records, evidence.n_candidates) == (HALF, N)
    assert evidence.curve is evidence.n_unanswered is evidence.for_new_people is None
    sampler = model.sampler_
    assert sampler.reference == SecretSample(0.5)
    assert sampler.n_records is None
    assert len(sampler.pairs_) == 0
    assert sampler.pairs_.sketch is None
    with pytest.raises(AttributeError, match="not kept"):
        sampler.differences_  # noqa: B018
    with pytest.raises(IncompatibleError, match="not kept"):
        sampler.calibrate(epsilon=2.0)
    if drawn:
        model.set_params(sensitivity__reference=None)
    document = pickle.dumps(model)
    assert not any(row.tobytes() in document for row in X)
    assert b"SecretDraw" not in document
    assert b"Candidates" not in document
    # Nor is there more than before, which might tell.
    public = model.__class__(**ESTIMATORS[name][1], sensitivity=sampler.get_params)
    public.set_params(sensitivity=SensitivitySampler(n_pairs=20))
    with pytest.warns(PrivacyLeakWarning):
        public.fit(X, y)
    assert vars(model).keys() == vars(public).keys()


def test_a_query_that_fails_does_not_say_why():
    def picky(X):
        if X[:, 0].max() > 0:
            raise ValueError("91234")
        return 1.0

    half = SecretSample(0.5).draw(X)
    with pytest.raises(CalibrationError, match="not shown") as caught:
        secret(half, query=picky).fit(X)
    assert "91234" not in str(caught.value)
    constant = secret(half, query=lambda X: 1.0)
    with pytest.raises(CalibrationError, match="reason is not shown"):
        constant.fit(X)


def test_a_seed_gives_members_and_noise_and_voids_the_claim():
    fits = []
    for _ in range(2):
        _secret._known.clear()
        model, y = make("ridge", noise_random_state=3, random_state=0)
        with pytest.warns(PrivacyLeakWarning, match="noise_random_state=3 makes"):
            fits.append(model.fit(X, y))
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    certificate = fits[0].certificate_
    assert certificate.seeded
    assert certificate.void
    assert certificate.leaks == {Leak.SEEDED_NOISE, Leak.SEEDED_DRAW}
    assert certificate.guarantee.startswith("There is no guarantee. The noise was")
    assert certificate.caveats[1].startswith("The secret sample was drawn from a seed")
    assert math.isinf(certificate.membership_odds)
    assert "odds that a record is used" not in str(certificate)
    # The noise does not begin where the draw does.
    rows = _secret._draw(SecretSample(0.5), X, 3)._members
    keys = np.random.RandomState(3).bytes(8 * N)
    assert not np.array_equal(np.argsort(np.frombuffer(keys, np.uint64))[:HALF], rows)


def test_a_seeded_draw_voids_what_has_secret_noise():
    with pytest.warns(PrivacyLeakWarning, match="it can be found out who is used"):
        half = SecretSample(0.5).draw(X, noise_random_state=np.random.RandomState(0))
    sampler = secret(half, query=MeanQuery()).fit(X)
    sampler.release(X)
    assert sampler.certificate_.void
    assert not sampler.certificate_.seeded


# What is refused


def test_only_swaps_are_protected():
    model, y = make("ridge")
    model.set_params(sensitivity__relation="add-remove")
    with pytest.raises(ValueError, match="'replace-one' with a SecretSample, got"):
        model.fit(X, y)
    half = SecretSample(0.5).draw(X)
    with pytest.raises(ValueError, match="'replace-one' with a SecretSample, got"):
        secret(half, query=MeanQuery(), relation="add-remove").fit(X)


def test_a_database_has_as_many_records_as_there_are_members():
    half = SecretSample(0.5).draw(X)
    assert secret(half, query=MeanQuery(), n_records=HALF).fit(X).n_records_ == HALF
    with pytest.raises(ValueError, match=r"n_records must be None or 40.*got 80"):
        secret(half, query=MeanQuery(), n_records=N).fit(X)
    model, y = make("ridge")
    with pytest.raises(IncompatibleError, match="n_records=80"):
        model.set_params(sensitivity__n_records=N).fit(X, y)
    with pytest.raises(ValueError, match="protects who is in a database"):
        secret(half).fit(X)


def test_a_sampler_by_itself_needs_the_draw():
    with pytest.raises(ValueError, match=r"half = SecretSample\(0.5\).draw\(X, y\)"):
        secret(query=MeanQuery()).fit(X)


def test_pairs_of_other_references_and_draws_are_refused():
    one, two = (SecretSample(0.5).draw(X) for _ in range(2))
    sampler = secret(one, query=MeanQuery()).fit(X)
    assert copy.deepcopy(sampler).release(X).shape == (3,)
    for other in (two, None, SecretSample(0.5), TableReference(X_PUBLIC)):
        with pytest.raises(IncompatibleError, match="not sampled for the reference"):
            copy.copy(sampler).set_params(reference=other).release(X)
    public = SensitivitySampler(MeanQuery(), n_pairs=40).fit(X_PUBLIC)
    with pytest.raises(IncompatibleError, match="not sampled for the reference"):
        public.set_params(reference=one).release(X)
    fitted = make("ridge", one)[0].fit(X, Y).sampler_
    with pytest.raises(IncompatibleError, match="not kept"):
        PrivateRidge(sensitivity=fitted).fit(X, Y)


def test_a_search_takes_no_secret_sample():
    model, y = make("ridge")
    search = PrivateGridSearchCV(model, {"alpha": [1.0, 2.0]})
    with pytest.raises(ValueError, match="which no search takes"):
        search.fit(X, y)
    scores = simulate_scores([model], X, y, n_records=60, cv=3, random_state=0)
    assert scores.shape == (1, 3)
    assert not _secret._known


@pytest.mark.parametrize("drawn", [False, True])
def test_there_is_nothing_to_audit(drawn):
    model, y = make("ridge", SecretSample(0.5).draw(X) if drawn else None)
    with pytest.raises(ValueError, match="its risk is exact: there is nothing to"):
        audit_reference(model, X, y, epsilon=1.0)


# What is public


def test_classes_of_private_labels_are_a_leak_and_those_of_a_reference_are_not():
    model = PrivateLogisticRegression(sensitivity=secret())
    with pytest.warns(PrivacyLeakWarning, match="classes are those of the private"):
        model.fit(X, LABELS)
    assert model.certificate_.leaks == {Leak.PRIVATE_CLASSES}
    _secret._known.clear()
    public = {"X_reference": X_PUBLIC, "y_reference": LABELS_PUBLIC}
    model.fit(X, LABELS, **public)
    assert model.certificate_.private
    assert model.certificate_.protects_membership
    assert model.certificate_.evidence.n_candidates == N


def test_public_records_are_only_for_structure():
    def table(n_rows, seed):
        rng = np.random.default_rng(seed)
        words = rng.choice(["no", "perhaps", "yes"], size=n_rows)
        frame = pd.DataFrame({"word": words, "number": rng.normal(size=n_rows)})
        return frame, (words == "yes") + frame["number"].to_numpy()

    encoder = make_column_transformer(
        (OneHotEncoder(), ["word"]), remainder="passthrough"
    )
    model = PrivateEstimator(make_pipeline(encoder, Ridge()), sensitivity=secret())
    private, y = table(N, 0)
    with pytest.raises(IncompatibleError, match="X_reference must be given"):
        model.fit(private, y)
    public, y_public = table(70, 1)
    model.fit(private, y, X_reference=public, y_reference=y_public)
    assert model.public_steps_
    assert model.certificate_.private
    assert model.certificate_.evidence.reference.startswith("drawn in secret from 80")
    np.testing.assert_array_equal(
        model.estimator_[0].transformers_[0][1].categories_[0], ["no", "perhaps", "yes"]
    )


def test_private_records_are_no_public_ones():
    for name in ESTIMATORS:
        model, y = make(name)
        targets = {} if y is None else {"y_reference": y}
        with pytest.raises(ValueError, match="it only supplies classes and structure"):
            model.fit(X, y, X_reference=X, **targets)
        assert not _secret._known


# Several releases


def test_releases_of_one_draw_add_up():
    half = SecretSample(0.5).draw(X, Y)
    with PrivacyLedger(epsilon=9.0) as ledger:
        model, y = make("ridge", half)
        model.fit(X, y)
        sampler = secret(half, query=MeanQuery()).fit(X)
        sampler.release(X)
        sampler.release(X)
        PrivateLogisticRegression(classes=[0, 1], sensitivity=secret(half)).fit(
            X, LABELS
        )
    total = ledger.spent
    assert total.epsilon == 4.0
    assert total.protects_membership
    assert total.private
    assert total.guarantee.startswith("The guarantee hides which of the records")
    assert any("one draw" in text for text in total.conditions)
    assert any("did not depend on earlier" in text for text in total.conditions)


def test_a_second_draw_is_refused_while_a_ledger_is_open():
    model, y = make("ridge")
    with PrivacyLedger(epsilon=9.0) as ledger:
        model.fit(X, y)
        with pytest.raises(IncompatibleError, match="Draw once, half = SecretSample"):
            model.fit(X, y)
        assert ledger.spent.epsilon == 1.0
        for part in (X[:60], X[::-1]):
            with pytest.raises(IncompatibleError, match="Draw once"):
                clone(model).fit(part, Y[: len(part)])
        model.fit(X_PUBLIC, LABELS_PUBLIC)
        assert ledger.spent.epsilon == 2.0


def test_a_second_draw_is_marked_without_a_ledger():
    one, two = (SecretSample(0.5).draw(X) for _ in range(2))
    first = secret(one, query=MeanQuery()).fit(X)
    first.release(X)
    second = secret(two, query=MeanQuery()).fit(X)
    assert second.certificate_.private
    for sampler in (second, second, first):
        with pytest.warns(PrivacyLeakWarning, match="was released before"):
            sampler.release(X)
        assert sampler.certificate_.leaks == {Leak.REDRAWN}
        assert not sampler.certificate_.private
        assert sampler.certificate_.guarantee.endswith(
            "This does not cover what other samples of these records tell."
        )
        assert pickle.loads(pickle.dumps(sampler.claim_)).certificate.leaks


def test_folds_of_a_cross_validation_are_marked():
    model, y = make("ridge")
    with pytest.warns(PrivacyLeakWarning, match="as by each fold") as caught:
        cross_val_score(model, X, y, cv=4)
    assert len(caught) == 3


def test_what_was_not_released_was_not_drawn():
    model, y = make("ridge")
    with PrivacyLedger(epsilon=0.5), pytest.raises(BudgetExceededError):
        model.fit(X, y)
    assert not _secret._known
    half = SecretSample(0.5).draw(X)
    sampler = secret(half, query=MeanQuery()).fit(X)
    sampler.release(X)
    with PrivacyLedger(epsilon=0.5), pytest.raises(BudgetExceededError):
        sampler.release(X)
    assert len(_secret._known) == 1
    sampler.release(X)


def test_tables_of_long_ago_are_forgotten(monkeypatch):
    monkeypatch.setattr("skparisk.reference._secret._MOST_KNOWN", 1)
    half = SecretSample(0.5).draw(X)
    with half.releasing() as others:
        assert not others
    with SecretSample(0.5).draw(X_PUBLIC).releasing() as others:
        assert not others
    with SecretSample(0.5).draw(X).releasing() as others:
        assert not others

    def fail():
        monkeypatch.setattr("skparisk.reference._secret._known", {})
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), half.releasing():
        fail()
    assert not _secret._known


# What is claimed


def test_the_certificate_says_what_is_protected_and_what_is_not():
    model, y = make("ridge", gamma=0.2)
    certificate = model.fit(X, y).certificate_
    assert certificate.guarantee.startswith(
        "The guarantee hides which 40 of these 80 records are used, from someone who "
        "knows all 80; that a person is among them is not protected, and the scale "
        "and the shape of the noise depend on them. For two databases that differ in "
        "one record (40 records, drawn in secret from 80 records handed over): with "
    )
    text = str(certificate)
    assert "whose mean over the 80 records and the sampled pairs is at most" in text
    assert "where they were 40/40 before" in text
    assert "each person is one of the records" in text
    assert "is public and describes the population" not in text
    assert FiledCertificate.from_dict(certificate.to_dict()) == filed(certificate)
    assert certificate._repr_html_()


@pytest.mark.parametrize(("fraction", "prior"), [(0.5, 1.0), (0.25, 1 / 3)])
def test_odds_of_membership_grow_by_the_level(fraction, prior):
    half = SecretSample(fraction).draw(X)
    for epsilon in (0.1, 1.0, 3.0):
        sampler = secret(half, query=MeanQuery(), epsilon=epsilon).fit(X)
        odds = sampler.certificate_.membership_odds
        assert math.exp(epsilon) * prior <= odds <= math.exp(epsilon) * prior * 1.000001
    huge = secret(half, query=MeanQuery(), epsilon=800.0).fit(X)
    assert math.isinf(huge.certificate_.membership_odds)
    gaussian = secret(half, query=MeanQuery(), law="gaussian", delta=1e-5).fit(X)
    assert "outside the risk and delta" in str(gaussian.certificate_)


VALUES = np.array([0.0, 0.1, 0.3, 0.35, 0.5, 0.9, 1.0, 9.0])
N_USED, LEVEL = 3, 1.0


def densities(scale):
    """Return those of a noisy mean of 3 of 8, given that a number is used, or not."""
    answers = np.linspace(-20 * scale, 3 + 20 * scale, 40_001)
    given = np.zeros((2, len(VALUES), len(answers)))
    counts = np.zeros((2, len(VALUES), 1))
    for subset in itertools.combinations(range(len(VALUES)), N_USED):
        density = stats.laplace.pdf(answers, VALUES[[*subset]].mean(), scale)
        for record in range(len(VALUES)):
            side = int(record in subset)
            given[side, record] += density
            counts[side, record] += 1
    return answers, given / counts


def deltas(scale):
    """Return the delta of membership of each number, by integration."""
    answers, (out, used) = densities(scale)
    beyond = (used - math.exp(LEVEL) * out, out - math.exp(LEVEL) * used)
    return np.max(
        [np.trapezoid(np.clip(d, 0, None), answers, axis=1) for d in beyond], axis=0
    )


def test_the_mean_of_the_deltas_is_at_most_the_risk():
    """Of all swaps, by enumeration; of single records it may be more."""
    swaps = [abs(a - b) / N_USED for a, b in itertools.permutations(VALUES, 2)]
    told = {}
    for share in (0.3, 0.6, 0.75, 0.9):
        scale = np.quantile(swaps, share) / LEVEL
        risk = np.mean([swap > LEVEL * scale for swap in swaps])
        told[share] = deltas(scale).mean() / risk, deltas(scale).max() / risk
        assert deltas(scale).mean() <= risk
    assert max(mean for mean, _ in told.values()) > 0.3
    assert max(most for _, most in told.values()) > 1
    scale = np.quantile(swaps, 0.74) / LEVEL
    risk = np.mean([swap > LEVEL * scale for swap in swaps])
    assert deltas(scale / 10).mean() > risk  # with less noise it is not


def test_without_a_risk_the_odds_are_never_more():
    scale = (VALUES.max() - VALUES.min()) / N_USED / LEVEL
    _, (out, used) = densities(scale)
    gain = (used / out).max()
    assert math.exp(LEVEL) * 0.9 < gain <= math.exp(LEVEL)
    _, (out, used) = densities(0.9 * scale)
    assert (used / out).max() > gain


def test_only_secret_samples_have_odds_of_membership():
    with pytest.raises(AttributeError, match="no evidence"):
        as_certificate(1.0).membership_odds  # noqa: B018
    public = SensitivitySampler(MeanQuery(), n_pairs=40).fit(X_PUBLIC)
    assert not public.certificate_.protects_membership
    with pytest.raises(AttributeError, match="not about a secret sample"):
        public.certificate_.membership_odds  # noqa: B018


def test_a_claim_of_membership_stays_one():
    half = SecretSample(0.5).draw(X)
    certificate = secret(half, query=MeanQuery()).fit(X).certificate_
    public = SensitivitySampler(MeanQuery(), n_pairs=40).fit(X_PUBLIC).certificate_
    together = compose_basic([certificate, public])
    assert together.protects_membership
    assert any("is public and describes" in text for text in together.conditions)


def test_evidence_has_more_candidates_than_members():
    certificate = secret(SecretSample(0.5).draw(X), query=MeanQuery()).fit(X)
    document = certificate.certificate_.to_dict()
    document["evidence"]["n_candidates"] = HALF
    with pytest.raises(ValueError, match="n_candidates must be a whole number >= 41"):
        FiledCertificate.from_dict(document)
    document["evidence"]["n_candidates"] = None
    assert document["assumptions"] == [Assumption.SECRET_DRAW]


@pytest.mark.parametrize(
    "how",
    [
        {"calibration": "pac", "noise_shape": "diagonal"},
        {"randomness": "both"},
        {"law": "gaussian", "delta": 1e-5},
    ],
)
def test_every_law_shape_and_calibration_goes_with_it(how):
    half = SecretSample(0.5).draw(X)
    sampler = secret(half, query=MeanQuery(), gamma=0.2, **how)
    sampler.set_params(n_pairs=200).fit(X)
    assert sampler.release(X).shape == (3,)
    assert sampler.certificate_.private
    assert "odds that a record is used" in str(sampler.certificate_)
    gain = SensitivitySampler(MeanQuery(), advantage=0.2, reference=half).fit(X)
    assert gain.certificate_.advantage.mean <= 0.2
    assert "odds that a record is used" not in str(gain.certificate_)
    scores = secret(half, query=lambda X: X.sum(axis=0), law="exponential").fit(X)
    assert scores.release(X) in range(3)
