"""Pipelines on any table, with nothing routed, alone and in searches."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import RFE, SelectFromModel, SelectKBest, f_regression
from sklearn.frozen import FrozenEstimator
from sklearn.impute import IterativeImputer, SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import (
    BayesianRidge,
    Lasso,
    LinearRegression,
    LogisticRegression,
    Ridge,
)
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted
from wrapped import CHEAP, DECLARED, assert_same, private

from skparisk import (
    IncompatibleError,
    PrivacyLeakWarning,
    PrivateEstimator,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.core import Assumption, Leak
from skparisk.ledger import PrivacyLedger
from skparisk.reference import CallableReference, TableReference

RNG = np.random.default_rng(5)
CITIES = ("Aarhus", "Bergen", "Tartu")


def people(n_people):
    """A frame with numbers, of which some are missing, and categories; and answers."""
    city = RNG.choice(CITIES, n_people)
    age = RNG.normal(40, 10, n_people).round()
    income = np.where(RNG.random(n_people) < 0.1, np.nan, RNG.gamma(2, 1, n_people))
    score = age / 40 + (city == "Tartu") + 0.3 * RNG.normal(size=n_people)
    frame = pd.DataFrame(
        {"age": age, "city": pd.Categorical(city), "income": income, "job": "none"}
    )
    frame["job"] = RNG.choice(["none", "part", "full"], n_people)
    return frame, score, np.where(score > 1.4, "yes", "no")


FRAME, SCORE, ANSWER = people(90)
PUBLIC, SCORE_PUBLIC, ANSWER_PUBLIC = people(200)
REFERENCE = {"X_reference": PUBLIC, "y_reference": ANSWER_PUBLIC}


def make_pipe(final, categories=("city", "job")):
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), list(categories)),
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "income"]),
    )
    return make_pipeline(columns, final)


PIPE = make_pipe(LogisticRegression())


def to_polars(frame):
    plain = {name: frame[name].tolist() for name in frame}
    return pl.DataFrame(plain).with_columns(pl.col("income").fill_nan(None))


# Pipelines


@pytest.mark.slow
def test_pipeline_on_a_frame_with_nothing_routed():
    model = private(PIPE).fit(FRAME, ANSWER, **REFERENCE)
    assert model.public_steps_ == ("columntransformer",)
    assert Assumption.PUBLIC_STEPS in model.certificate_.assumptions
    assert "Steps inside the estimator were fitted" in str(model.certificate_)
    assert model.certificate_.private
    assert set(model.template_.places) == {
        "steps.logisticregression.coef_",
        "steps.logisticregression.intercept_",
    }
    assert set(model.predict(FRAME)) <= {"yes", "no"}
    assert list(model.feature_names_in_) == list(FRAME.columns)
    check_is_fitted(model.estimator_)


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("turned", [lambda frame: frame, to_polars])
def test_without_noise_it_is_the_plain_fit_with_the_same_public_steps(turned):
    reference = REFERENCE | {"X_reference": turned(PUBLIC)}
    model = private(PIPE, epsilon=np.inf).fit(turned(FRAME), ANSWER, **reference)
    encoder = OneHotEncoder(handle_unknown="ignore").fit(PUBLIC[["city", "job"]])
    plain = clone(PIPE).set_params(
        columntransformer__onehotencoder=FrozenEstimator(encoder)
    )
    plain.fit(turned(FRAME), ANSWER)
    assert_same(model.predict_proba(turned(FRAME)), plain.predict_proba(turned(FRAME)))
    assert_same(model.score(turned(FRAME), ANSWER), plain.score(turned(FRAME), ANSWER))


@pytest.mark.slow
def test_categories_that_only_private_records_have_are_unknown():
    strange = FRAME.assign(city=["Xanadu", *FRAME["city"][1:]])
    model = private(PIPE, epsilon=np.inf).fit(strange, ANSWER, **REFERENCE)
    shown = [str(model.certificate_), repr(model.estimator_), str(vars(model))]
    assert not any("Xanadu" in text for text in shown)
    fussy = clone(PIPE).set_params(columntransformer__onehotencoder=OneHotEncoder())
    with pytest.raises(ValueError, match="has no answer on the private data") as error:
        private(fussy).fit(strange, ANSWER, **REFERENCE)
    assert "Xanadu" not in str(error.value)


FILLED = make_column_transformer((SimpleImputer(), ["age", "income"]))
BINNED = make_column_transformer((KBinsDiscretizer(3, strategy="uniform"), ["age"]))
CHOSEN = SelectFromModel(Lasso(0.1), threshold=-np.inf)
ELIMINATED = RFE(Ridge(), n_features_to_select=1)
# Nystroem keeps single records; polynomials learn only how many columns there are.
POLYNOMIAL = (StandardScaler(), PolynomialFeatures(), PCA(2), LinearRegression())
PUBLIC_STEPS = [
    (make_pipeline(FILLED, Nystroem(n_components=5), Ridge()), ("nystroem",)),
    (make_pipeline(BINNED, Ridge()), ("columntransformer__kbinsdiscretizer",)),
    (make_pipeline(FILLED, CHOSEN, ELIMINATED, Ridge()), ("selectfrommodel", "rfe")),
    (make_pipeline(FILLED, *POLYNOMIAL), ()),
]


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize(("pipe", "steps"), PUBLIC_STEPS)
def test_steps_that_learn_structure_are_public_and_the_others_private(pipe, steps):
    reference = {"X_reference": PUBLIC, "y_reference": SCORE_PUBLIC}
    model = private(pipe, epsilon=np.inf)
    model.fit(FRAME, SCORE, **reference)
    assert model.public_steps_ == steps
    query = model.sampler_.query_
    plain = clone(query.estimator).fit(FRAME, SCORE)
    assert_same(model.predict(FRAME), plain.predict(FRAME))


def test_steps_that_look_at_targets_are_exact_where_pairs_are_of_other_rows():
    pipe = make_pipeline(SelectKBest(f_regression, k=1), Ridge())
    public, target = RNG.normal(size=(2, 400, 1))
    table = TableReference(np.c_[public, -(public**2)], target[:, 0], sampling="split")
    model = private(pipe, sensitivity=SensitivitySampler(n_pairs=40))
    X = RNG.normal(size=(60, 2))
    model.fit(X, X[:, 0], X_reference=table)
    assert model.public_steps_ == ("selectkbest",)
    assert "looked at the targets" not in str(model.certificate_)


def test_a_model_that_chooses_columns_is_no_public_step():
    """It would learn nothing of the private records."""
    final = make_pipeline(StandardScaler(), RFE(Ridge(), n_features_to_select=1))
    X, public = FRAME["age"].to_numpy(), PUBLIC["age"].to_numpy()
    X, public = (np.column_stack([ages, ages % 7]) for ages in (X, public))
    model = private(final).fit(X, SCORE, X_reference=public, y_reference=SCORE_PUBLIC)
    assert model.public_steps_ == ("standardscaler",)
    assert "steps.rfe.estimator_.coef_" in model.template_.places


class ByCount(TransformerMixin, BaseEstimator):
    """Has as many components as the number of records says."""

    def fit(self, X, y=None):
        self.directions_ = (X.T @ X)[: len(X) // 25]
        return self

    def transform(self, X):
        return X @ self.directions_.T


def test_number_of_components_that_the_records_choose_is_public():
    X, public = np.random.default_rng(0).normal(size=(2, 120, 9))
    pipe = make_pipeline(ByCount(), LinearRegression())
    reference = {"X_reference": public, "y_reference": public[:, 0]}
    model = private(pipe).fit(X, X[:, 0], **reference)
    assert model.public_steps_ == ("bycount",)
    assert not any("bycount" in place for place in model.template_.places)


class Remembers(TransformerMixin, BaseEstimator):
    """Learns words, and keeps what it transforms."""

    def fit(self, X, y=None):
        self.words_ = ["a", "b"]
        self.vocabulary_ = {"a": 0}
        return self

    def transform(self, X):
        self.last_ = np.array(X)
        return X


def test_public_step_that_keeps_what_it_transforms_keeps_nothing_private():
    X, public = RNG.normal(size=(2, 60, 2))
    pipe = make_pipeline(Remembers(), Ridge())
    reference = {"X_reference": public, "y_reference": public[:, 0]}
    model = private(pipe).fit(X, X[:, 0], **reference)
    assert model.public_steps_ == ("remembers",)
    kept = [model.estimator_, model.sampler_.query_.estimator, model.template_.fitted]
    for estimator in kept:
        step = estimator.named_steps["remembers"].estimator
        assert not np.isin(X[:, 0], step.last_).any()


def test_structure_takes_a_reference():
    for parameters in (DECLARED, {}):
        model = private(PIPE, classes=["no", "yes"], **parameters)
        with pytest.raises(IncompatibleError, match="X_reference must be given for"):
            fit_leaking(model, FRAME, ANSWER)
    numbers = RNG.normal(size=(90, 3))
    binned = make_pipeline(KBinsDiscretizer(3, strategy="uniform"), Ridge())
    with pytest.raises(IncompatibleError, match="kbinsdiscretizer learned what is no"):
        private(binned, **DECLARED).fit(numbers, SCORE)


def fit_leaking(model, *data):
    if model.sensitivity is not CHEAP:
        return model.fit(*data)
    with pytest.warns(PrivacyLeakWarning):
        return model.fit(*data)


def test_records_that_a_function_makes_are_a_reference():
    def sample(n_people, rng):
        frame = PUBLIC.iloc[rng.integers(200, size=n_people)]
        return frame, SCORE_PUBLIC[rng.integers(200, size=n_people)]

    sampler = clone(CHEAP).set_params(reference=CallableReference(sample))
    model = private(make_pipe(Ridge()), sensitivity=sampler).fit(FRAME, SCORE)
    assert model.public_steps_ == ("columntransformer",)
    assert np.isfinite(model.predict(FRAME)).all()


@pytest.mark.slow
def test_numbers_inside_a_frozen_step_are_public():
    """Also those of linear models, which otherwise count as learned."""
    numbers, public = FRAME[["age", "income"]], PUBLIC[["age", "income"]]
    reference = {"X_reference": public, "y_reference": SCORE_PUBLIC}
    for inside in (None, BayesianRidge()):
        imputer = IterativeImputer(inside, max_iter=2)
        model = private(make_pipeline(imputer, Ridge())).fit(
            numbers, SCORE, **reference
        )
        assert model.public_steps_ == ("iterativeimputer",)
        places = ("steps.ridge.coef_", "steps.ridge.intercept_")
        assert model.template_.places == places


# Other tables


@pytest.mark.slow
def test_texts_with_a_public_vocabulary():
    def texts(n_texts):
        labels = RNG.integers(2, size=n_texts)
        words = np.array(["red", "green", "blue", "grey", "gold", "pink"])
        return [" ".join(RNG.choice(words[label:], 5)) for label in labels], labels

    (private_texts, labels), (public_texts, public_labels) = texts(80), texts(120)
    pipe = make_pipeline(TfidfVectorizer(), LogisticRegression())
    model = private(pipe, epsilon=np.inf).fit(
        private_texts, labels, X_reference=public_texts, y_reference=public_labels
    )
    assert model.public_steps_ == ("tfidfvectorizer",)
    assert not hasattr(model, "n_features_in_")
    vectorizer = TfidfVectorizer().fit(public_texts)
    features = vectorizer.transform(private_texts)
    plain = LogisticRegression(random_state=0).fit(features, labels)
    assert_same(model.predict_proba(private_texts), plain.predict_proba(features))


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csc_matrix])
def test_sparse_records(container):
    dense = RNG.random((200, 5)) * (RNG.random((200, 5)) < 0.4)
    X, public, y = container(dense[:80]), container(dense[80:]), dense.sum(axis=1)
    model = private(Ridge(), epsilon=np.inf).fit(
        X, y[:80], X_reference=public, y_reference=y[80:]
    )
    assert_same(model.predict(X), Ridge(random_state=0).fit(X, y[:80]).predict(X))


@pytest.mark.slow
def test_predictions_of_a_forest_on_a_frame():
    forest = make_pipe(RandomForestClassifier(5))
    given = {"release": "predict_proba", "X_public": PUBLIC[:30]}
    with pytest.raises(ValueError, match="surrogate must be given where X_public hold"):
        private(forest, **given).fit(FRAME, ANSWER, **REFERENCE)
    model = private(forest, **given, surrogate=make_pipe(Ridge()))
    model.fit(FRAME, ANSWER, **REFERENCE)
    np.testing.assert_allclose(model.predict_proba(FRAME).sum(axis=1), 1.0)
    assert model.public_steps_ == ("columntransformer",)


# Searches


@pytest.mark.slow
def test_a_table_without_a_length_goes_through_searches():
    """scikit-learn slices what is as long as the data: here that would be 60."""
    n_public = 60
    frame, answer = FRAME[:60], ANSWER[:60]
    table = TableReference(PUBLIC[:n_public], ANSWER_PUBLIC[:n_public])
    sizes = []

    class Noted(PrivateEstimator):
        def fit(self, X, y=None, *, X_reference=None, y_reference=None):
            sizes.append((len(X), X_reference.n_records))
            return super().fit(X, y, X_reference=X_reference, y_reference=y_reference)

    model = Noted(PIPE, gamma=0.2, sensitivity=CHEAP, random_state=0)
    scores = cross_val_score(model, frame, answer, cv=2, params={"X_reference": table})
    assert np.isfinite(scores).all()
    grid = {"estimator__logisticregression__C": [0.1, 1.0]}
    search = GridSearchCV(model, grid, cv=2)
    with pytest.warns(PrivacyLeakWarning, match="were chosen by scores"):
        search.fit(frame, answer, X_reference=table)
    assert search.best_params_.keys() == grid.keys()
    assert sizes == [(30, n_public)] * 6 + [(60, n_public)]


# Refusals


def test_errors_name_the_column():
    with pytest.raises(IncompatibleError, match="X has other columns beside them"):
        private(PIPE).fit(
            FRAME,
            ANSWER,
            X_reference=PUBLIC.drop(columns="job"),
            y_reference=ANSWER_PUBLIC,
        )


@pytest.mark.slow
def test_reference_that_a_pipeline_does_not_transform_is_refused():
    X, public = FRAME[["age"]], PUBLIC[["age"]]
    given = {
        "privateridge__X_reference": public,
        "privateridge__y_reference": SCORE_PUBLIC,
    }
    ridge = PrivateRidge(sensitivity=CHEAP, gamma=0.2, random_state=0)
    plain = make_pipeline(StandardScaler(), Normalizer(), "passthrough", ridge)
    with pytest.raises(IncompatibleError, match="transformed by standardscaler, as"):
        plain.fit(X, SCORE, **given)
    table = clone(CHEAP).set_params(reference=TableReference(public, SCORE_PUBLIC))
    own = make_pipeline(StandardScaler(), clone(ridge).set_params(sensitivity=table))
    message = "of the SensitivitySampler is not transformed by standardscaler, as"
    with pytest.raises(IncompatibleError, match=message):
        own.fit(X, SCORE)
    own.set_params(standardscaler="passthrough").fit(X, SCORE)
    # What learns nothing may have transformed it beforehand.
    scaler = FrozenEstimator(StandardScaler().fit(public))
    given["privateridge__X_reference"] = Normalizer().fit_transform(
        scaler.transform(public)
    )
    fitted = make_pipeline(scaler, Normalizer(), "passthrough", ridge).fit(
        X, SCORE, **given
    )
    assert fitted[-1].certificate_.private
    wrapped = private(make_pipeline(StandardScaler(), Ridge()))
    wrapped.fit(X, SCORE, X_reference=public, y_reference=SCORE_PUBLIC)
    assert wrapped.certificate_.private


def test_steps_of_a_pipeline_that_learn_without_noise_are_told():
    """Of the ridge alone the claim is about records that a scaler made of all."""
    X = FRAME[["age"]].to_numpy() / 100
    ridge = PrivateRidge(1.0, sensitivity="bound", x_norm=1.0, y_bounds=(0, 10))
    plain = make_pipeline(StandardScaler(), Normalizer(), ridge)
    with (
        PrivacyLedger(9.0) as ledger,
        pytest.warns(PrivacyLeakWarning, match=r"wrap it in a Frozen") as caught,
    ):
        plain.fit(X, SCORE)
    assert len(caught) == 1
    assert "fit standardscaler to public data" in str(caught[0].message)
    certificate = plain[-1].certificate_
    assert certificate.leaks == ledger.spent.leaks == {Leak.LEARNS_MORE}
    assert not certificate.private
    assert ledger.spent.n_releases == certificate.n_releases == 1
    frozen = FrozenEstimator(StandardScaler().fit(X[:30]))
    scaled = PrivateEstimator(StandardScaler(), sensitivity=0.1)
    for first in ("passthrough", frozen, scaled):
        told = make_pipeline(first, Normalizer(), clone(ridge)).fit(X, SCORE)
        assert told[-1].certificate_.private


def test_the_index_of_a_frame_is_no_part_of_its_records():
    named = FRAME.set_index(pd.Index([f"person {i}" for i in range(90)]))
    seen = []

    def note(frame):
        seen.append(frame.index.tolist())
        return frame["age"].mean()

    sampler = SensitivitySampler(note, gamma=0.2, n_pairs=9, n_records=90)
    sampler.fit(PUBLIC.set_index(PUBLIC.index + 1000)).release(named)
    assert all(index == list(range(90)) for index in seen)


def test_private_frame_as_its_own_reference_is_recognized():
    shuffled = to_polars(FRAME.iloc[::-1])
    with (
        pytest.warns(PrivacyLeakWarning),
        pytest.raises(IncompatibleError, match="X_reference must be given for"),
    ):
        private(PIPE).fit(
            to_polars(FRAME), ANSWER, X_reference=shuffled, y_reference=ANSWER[::-1]
        )


@pytest.mark.slow
def test_new_people_are_not_promised_what_public_steps_do_not_know():
    with_steps = private(PIPE).fit(FRAME, ANSWER, **REFERENCE).certificate_
    assert with_steps.evidence.for_new_people.startswith("not known: they may have")
    numbers = {"X_reference": PUBLIC[["age"]], "y_reference": ANSWER_PUBLIC}
    without = private(LogisticRegression(), combine=None)
    without = without.fit(FRAME[["age"]], ANSWER, **numbers)
    assert (
        "proven only for answers that differ"
        in without.certificate_.evidence.for_new_people
    )
