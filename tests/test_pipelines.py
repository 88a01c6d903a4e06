"""A pipeline is public up to its last step; linear models correct a public fit."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    BayesianRidge,
    HuberRegressor,
    Lasso,
    LinearRegression,
    LogisticRegression,
    Ridge,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC, LinearSVR

from skparisk import (
    PrivacyLeakWarning,
    PrivacyLedger,
    PrivateEstimator,
    PrivateLogisticRegression,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk._public_fit import NoiseCost
from skparisk.audit import audit_reference
from skparisk.core.checks import IncompatibleError
from skparisk.core.claim import Assumption
from skparisk.exceptions import ReferenceWarning, UtilityWarning
from skparisk.queries import FunctionQuery
from skparisk.reference import TableReference
from skparisk.sensitivity import sample_differences
from skparisk.wrappers import _public

N_PUBLIC, N_PRIVATE = 80, 300
SEEDS = {"random_state": 0, "noise_random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::skparisk.PrivacyLeakWarning")


def people(n_rows, seed):
    """Return a table with words and gaps, a target, and labels of three classes."""
    rng = np.random.default_rng(seed)
    town = rng.choice(["Graz", "Linz", "Wien"], n_rows)
    age, height = rng.normal([40.0, 1.7], [10.0, 0.1], size=(n_rows, 2)).T
    target = age / 10 + (town == "Wien") + rng.normal(size=n_rows)
    height[rng.random(n_rows) < 0.1] = np.nan
    frame = pd.DataFrame({"town": town, "age": age, "height": height})
    return frame, target, np.digitize(target, [3.5, 5.0])


X, Y, LABELS = people(N_PRIVATE, 0)
X_PUBLIC, Y_PUBLIC, LABELS_PUBLIC = people(N_PUBLIC, 1)


def preparation():
    return make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["town"]),
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "height"]),
    )


PREPARED = preparation().fit(X_PUBLIC)


def private(estimator, **parameters):
    few = {"sensitivity": SensitivitySampler(n_pairs=200), **SEEDS}
    return PrivateEstimator(estimator, **(few | parameters))


FEW = {"sensitivity": SensitivitySampler(n_pairs=9), "gamma": 0.3}


def fitted(model, y=Y, y_public=Y_PUBLIC):
    return model.fit(X, y, X_reference=X_PUBLIC, y_reference=y_public)


def fitted_beside(model, numbers, y, n_public):
    """Return a fit to all rows but the first, which are public."""
    public = {"X_reference": numbers[:n_public], "y_reference": y[:n_public]}
    return model.fit(numbers[n_public:], y[n_public:], **public)


def fitted_to_ages(model):
    public = {"X_reference": X_PUBLIC[["age"]], "y_reference": Y_PUBLIC}
    return model.fit(X[["age"]], Y, **public)


def assert_pool_is_asked_alike(query, atol):
    """Compare differences of a pool with those of the query on both databases."""
    table = TableReference(X_PUBLIC, Y_PUBLIC)
    how = {"n_pairs": 5, "n_records": 60, "n_features": 3, "random_state": 0}
    plain = sample_differences(FunctionQuery(lambda X, y: query(X, y)), table, **how)
    found = sample_differences(query, table, **how)
    np.testing.assert_allclose(found, plain, atol=atol)


def two(labels):
    return np.where(labels > 0, "high", "low")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("last", "by_hand", "labels"),
    [
        (Ridge(2.0), PrivateRidge(2.0), None),
        (LinearRegression(), PrivateRidge(0.0), None),
        (Ridge(fit_intercept=False), PrivateRidge(1.0, fit_intercept=False), None),
        (LogisticRegression(C=0.5), PrivateLogisticRegression(0.5), two),
        (LogisticRegression(), PrivateLogisticRegression(1.0), np.asarray),
    ],
    ids=["ridge", "linear", "no intercept", "two classes", "three classes"],
)
def test_the_last_step_is_as_a_linear_model_by_hand(last, by_hand, labels):
    y, y_public = (Y, Y_PUBLIC) if labels is None else (LABELS, LABELS_PUBLIC)
    y, y_public = (y, y_public) if labels is None else (labels(y), labels(y_public))
    model = fitted(private(make_pipeline(preparation(), last)), y, y_public)
    by_hand.set_params(sensitivity=SensitivitySampler(n_pairs=200), **SEEDS)
    by_hand.fit(
        PREPARED.transform(X),
        y,
        X_reference=PREPARED.transform(X_PUBLIC),
        y_reference=y_public,
    )
    assert model.combine_ == by_hand.combine_ == "reference"
    np.testing.assert_allclose(model.released_, by_hand.released_, rtol=1e-6)
    np.testing.assert_allclose(model.private_weight_, by_hand.private_weight_)
    served = model.estimator_[-1]
    np.testing.assert_allclose(served.coef_, by_hand.coef_, rtol=1e-6)
    np.testing.assert_allclose(served.intercept_, by_hand.intercept_, atol=1e-9)
    assert model.score(X, y) == pytest.approx(by_hand.score(PREPARED.transform(X), y))
    assert model.public_steps_ == ("columntransformer",)
    shown = model.reference_comparison_
    assert shown.public_only == by_hand.reference_comparison_.public_only


@pytest.mark.slow
def test_differences_are_those_of_refits():
    """Of residuals under fits to other rows, behind the steps."""
    model = fitted(private(make_pipeline(preparation(), Ridge())))
    query = model.sampler_.query_
    rng = np.random.default_rng(3)
    start = np.array(query.linear.start)

    def refit(records, y):
        Z = PREPARED.transform(records)
        left = y - Z @ start[:-1] - start[-1]
        ridge = Ridge(solver="cholesky").fit(Z, left)
        return np.append(ridge.coef_, ridge.intercept_)

    rows = rng.integers(N_PRIVATE, size=50)
    database = X.iloc[rows], Y[rows]
    np.testing.assert_allclose(query(*database), refit(*database), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "last",
    [
        Lasso(0.1),
        Ridge(positive=True),
        BayesianRidge(),
        HuberRegressor(),
        LogisticRegression(class_weight="balanced"),
        LogisticRegression(l1_ratio=0.5, solver="saga"),
        LinearSVC(),
    ],
    ids=repr,
)
def test_others_are_fitted_as_they_are(last):
    regress = is_regressor(last)
    data = (Y, Y_PUBLIC) if regress else (two(LABELS), two(LABELS_PUBLIC))
    model = fitted(private(make_pipeline(preparation(), last), **FEW), *data)
    assert not model.sampler_.query_.is_correction
    with pytest.raises(ValueError, match="is not of a linear model"):
        fitted(model.set_params(combine="reference"), *data)


@pytest.mark.slow
def test_records_of_a_pool_are_transformed_once_with_the_same_differences():
    model = fitted(private(make_pipeline(preparation(), Lasso(0.1)), gamma=0.2))
    assert_pool_is_asked_alike(model.sampler_.query_, atol=1e-9)


@pytest.mark.slow
def test_a_sampler_that_is_fitted_serves_other_fits():
    model = fitted(private(make_pipeline(preparation(), Ridge())))
    again = private(make_pipeline(preparation(), Ridge()), sensitivity=model.sampler_)
    other = pickle.loads(pickle.dumps(again)).fit(X, Y)
    np.testing.assert_allclose(other.estimator_[-1].coef_, model.estimator_[-1].coef_)
    assert other.combine_ == "reference"
    assert other.public_steps_ == model.public_steps_
    with pytest.raises(IncompatibleError, match="got combine=None"):
        again.set_params(combine=None).fit(X, Y)


@pytest.mark.slow
def test_a_mean_of_a_column_is_released_by_its_name_beside_categories():
    inside = "steps.columntransformer.transformers_.pipeline.steps.standardscaler.mean_"
    names = (inside, "steps.ridge.coef_", "steps.ridge.intercept_")
    model = fitted(private(make_pipeline(preparation(), Ridge()), release=names))
    assert model.public_steps_ == ("columntransformer__onehotencoder",)
    assert model.released_.shape == (2 + 5 + 1,)


class Centered(TransformerMixin, BaseEstimator):
    """Subtracts the mean of the records that it is given, each time."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return np.asarray(X) - np.mean(np.asarray(X), axis=0)


def large(X):
    """Centers all columns but the last, which is far larger."""
    return np.column_stack([X - np.mean(X, axis=0), 1e13 * np.sign(X[:, :1])])


def many_centered(X):
    return X - np.mean(X, axis=0) if len(X) > 256 else X


FILLED = FunctionTransformer(lambda X: np.where(np.isnan(X), np.nanmax(X, 0), X))


@pytest.mark.slow
@pytest.mark.parametrize(
    "step",
    [
        Centered(),
        FILLED,
        FunctionTransformer(large),
        FunctionTransformer(many_centered),
    ],
    ids=["centered", "filled", "beside a large column", "of many"],
)
def test_steps_that_look_at_other_records_transform_each_database(step):
    """Behind such a step a record of the pool is not the same in all of them."""
    pipe = make_pipeline(step, StandardScaler(), Ridge())
    numbers, public = (part[["age", "height"]].to_numpy() for part in (X, X_PUBLIC))
    if step is not FILLED:
        numbers, public = numbers[:, :1], public[:, :1]
    model = private(pipe, gamma=0.2)
    model.fit(numbers, Y, X_reference=public, y_reference=Y_PUBLIC)
    assert (model.public_steps_, model.combine_) == (("standardscaler",), None)
    query, half = model.sampler_.query_, slice(None, None, 2)
    ridge = query.estimator[-1]
    frozen = query.estimator[:-1].transform(numbers[half])
    coef = clone(ridge).fit(frozen, Y[half]).coef_
    np.testing.assert_array_equal(query(numbers[half], Y[half])[:-1], coef)


def test_pairs_are_of_rows_that_steps_which_look_at_targets_have_not_seen():
    pipe = make_pipeline(preparation(), SelectKBest(f_regression, k=2), Ridge())
    model = fitted(private(pipe, **FEW))
    assert "selectkbest" in model.public_steps_
    assert model.combine_ == "reference"
    assert f"a table of {N_PUBLIC // 2} rows" in str(model.certificate_)
    with pytest.raises(ValueError, match="shares records with the training data"):
        private(pipe, sensitivity=model.sampler_).fit(
            pd.concat([X[:-10], X_PUBLIC[-10:]]), np.append(Y[:-10], Y_PUBLIC[-10:])
        )


def beyond(seed):
    """Return the share of pairs of new people beyond the level, at gamma = 0.1.

    Targets depend on nothing, so that the columns that seem to tell of them do so by
    chance, for the rows that are looked at alone.
    """
    rng = np.random.default_rng([seed, 7])
    numbers, y = rng.normal(size=(860, 200)), rng.normal(size=860)
    pipe = make_pipeline(SelectKBest(f_regression, k=5), Ridge())
    few = SensitivitySampler(n_pairs=99, noise_shape="isotropic")
    how = {"combine": None, "gamma": 0.1, "random_state": seed}
    model = PrivateEstimator(pipe, sensitivity=few, **how)
    table = {"X_reference": numbers[60:260], "y_reference": y[60:260]}
    sampler = model.fit(numbers[:60], y[:60], **table).sampler_
    people = TableReference(numbers[260:], y[260:])
    size = {"n_pairs": 100, "n_records": 60, "n_features": 200}
    real = sample_differences(sampler.query_, people, **size, random_state=seed)
    return np.mean(np.abs(real).sum(axis=1) > sampler.noise_scale_)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "step",
    [
        LinearDiscriminantAnalysis(),
        make_union(LinearDiscriminantAnalysis(), PCA(1)),
        VotingClassifier([("nearest", KNeighborsClassifier(1))]),
        PCA(whiten=True),
    ],
    ids=["discriminant", "union", "voting", "whitened"],
)
def test_pairs_are_of_rows_that_steps_do_not_know(step):
    """Models in the place of steps, and turns to where the few rows are."""
    rng = np.random.default_rng(0)
    numbers, y = rng.normal(size=(160, 30)), rng.permutation(160) % 2
    pipe = make_pipeline(StandardScaler(), step, GaussianNB())
    model = fitted_beside(private(pipe, combine=None, **FEW), numbers, y, 60)
    assert "a table of 30 rows" in str(model.certificate_)
    kind = type(step).__name__.lower()
    assert kind.startswith("featureunion") or kind in model.public_steps_


class Nearest(TransformerMixin, BaseEstimator):
    """Distance to the nearest record that it was fitted to."""

    def fit(self, X, y=None):
        self.known_ = np.array(X, dtype=float)
        return self

    def transform(self, X):
        apart = np.asarray(X, dtype=float)[:, None] - self.known_
        return np.sqrt((apart**2).sum(axis=2)).min(axis=1, keepdims=True)


def test_columns_that_are_constant_on_the_rows_that_were_fitted():
    rng = np.random.default_rng(0)
    numbers, y = rng.normal(size=(200, 3)), rng.normal(size=200)
    pipe = make_pipeline(make_union(FunctionTransformer(), Nearest()), Lasso(0.01))
    model = fitted_beside(private(pipe, **FEW), numbers, y, 80)
    assert "a table of 40 rows" in str(model.certificate_)


def test_steps_that_half_of_a_table_is_too_little_for_are_told():
    rng = np.random.default_rng(0)
    numbers, y = rng.normal(size=(200, 50)), rng.normal(size=200)
    pipe = make_pipeline(PCA(40, whiten=True), Ridge())
    model = private(pipe, combine=None, **FEW)
    with pytest.warns(ReferenceWarning, match="fit better than new people"):
        fitted_beside(model, numbers, y, 60)
    assert "a table of 60 rows" in str(model.certificate_)
    assert Assumption.SUPERVISED_STEPS in model.certificate_.assumptions
    with pytest.raises(ValueError, match="know the rows that pairs are of"):
        fitted_beside(model.set_params(combine="reference"), numbers, y, 60)


def test_rare_categories_of_an_encoder_that_refuses_others_are_no_reason():
    frame, y = X_PUBLIC[["town", "age"]].copy(), Y_PUBLIC
    frame.loc[0, "town"] = "Ried"
    columns = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["town"]), (StandardScaler(), ["age"])
    )
    model = private(make_pipeline(columns, Ridge()), **FEW)
    model.fit(X[["town", "age"]], Y, X_reference=frame, y_reference=y)
    assert f"a table of {N_PUBLIC} rows" in str(model.certificate_)


class OfNumbers(Ridge):
    """Leaves texts aside."""

    def fit(self, X, y):
        return super().fit(X.select_dtypes("number"), y)

    def predict(self, X):
        return super().predict(X.select_dtypes("number"))


def test_steps_whose_table_has_texts_are_fitted_to_half():
    """What they make of rows that they have seen cannot be compared."""
    step = make_column_transformer(
        (make_pipeline(SimpleImputer(), PCA(2)), ["age", "height"]),
        ("passthrough", ["town"]),
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    pipe = make_pipeline(step, OfNumbers())
    model = fitted(private(pipe, combine=None, **FEW))
    assert model.public_steps_ == ("columntransformer",)
    assert f"a table of {N_PUBLIC // 2} rows" in str(model.certificate_)


def test_without_noise_an_indicator_of_gaps_is_public():
    columns, public = X[["age", "height"]], X_PUBLIC[["age", "height"]]
    pipe = make_pipeline(SimpleImputer(add_indicator=True), Ridge())
    model = private(pipe, epsilon=np.inf, **FEW)
    model.fit(columns, Y, X_reference=public, y_reference=Y_PUBLIC)
    assert model.public_steps_ == ("simpleimputer",)


def test_the_table_is_whole_where_pairs_are_not_of_it():
    pipe = make_pipeline(SelectKBest(f_regression, k=1), StandardScaler(), Ridge())
    known = fitted_to_ages(private(pipe, sensitivity=0.1))
    assert known.estimator_[1].n_samples_seen_ == N_PUBLIC


def test_all_classes_are_in_both_halves_of_a_table():
    rng = np.random.default_rng(0)
    numbers, y = rng.normal(size=(120, 3)), rng.permutation(120) % 3
    public, rare = rng.normal(size=(82, 3)), np.append(np.arange(80) % 2, [2, 2])
    pipe = make_pipeline(SelectKBest(k=2), LogisticRegression())
    model = private(pipe, gamma=0.3)
    model.fit(numbers, y, X_reference=public, y_reference=rare)
    assert list(model.classes_) == [0, 1, 2]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "pipe",
    [
        make_pipeline(Ridge()),
        make_pipeline("passthrough", Ridge()),
        make_pipeline(None, Ridge()),
        make_pipeline(
            FrozenEstimator(StandardScaler().fit(X_PUBLIC[["age"]])), Ridge()
        ),
        make_pipeline(FunctionTransformer(np.log1p), Ridge()),
    ],
    ids=["alone", "passthrough", "none", "frozen", "function"],
)
def test_nothing_is_said_of_steps_that_learn_nothing(pipe):
    model = fitted_to_ages(private(pipe, **FEW))
    assert (model.public_steps_, model.combine_) == ((), "reference")
    assert Assumption.PUBLIC_STEPS not in model.certificate_.assumptions


def test_of_many_columns_there_is_no_correction():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(90, 257))
    model = private(Ridge(), epsilon=1e6, **FEW)
    fitted_beside(model, numbers, numbers[:, 0], 50)
    assert not model.sampler_.query_.is_correction


@pytest.mark.slow
def test_without_a_public_fit_there_is_no_correction():
    """Targets whose squares are no numbers."""
    numbers, y, public = X[["age"]], 1e200 * Y, X_PUBLIC[["age"]]
    model = private(Ridge(), gamma=0.2)
    model.fit(numbers, y, X_reference=public, y_reference=1e200 * Y_PUBLIC)
    assert not model.sampler_.query_.is_correction


def test_public_records_that_turn_out_private_are_forgotten():
    """What is sampled is dropped, with the constants of its solver."""
    ages = X_PUBLIC[["age"]].to_numpy()
    model = private(LogisticRegression(), noise_random_state=None)
    public = {"X_reference": ages, "y_reference": LABELS_PUBLIC > 0}
    sampler = model.fit(X[["age"]].to_numpy(), LABELS > 0, **public).sampler_
    assert sampler.query_.linear.query.center is not None
    people = np.concatenate([ages, X[["age"]].to_numpy()])[:N_PRIVATE]
    labels = np.concatenate([LABELS_PUBLIC, LABELS])[:N_PRIVATE] > 0
    with pytest.warns(PrivacyLeakWarning, match="private data themselves"):
        sampler.release(people, 1.0 * labels)
    assert sampler.query_.linear.query.center is None


def test_a_reference_of_private_records_is_not_corrected():
    ages = X[["age"]].to_numpy()
    with (
        pytest.warns(PrivacyLeakWarning, match="private data themselves"),
        pytest.raises(ValueError, match="reference has records of the training data"),
    ):
        private(Ridge(), combine="reference").fit(
            ages, Y, X_reference=ages, y_reference=Y
        )


class OfTexts(Ridge):
    """Counts letters of texts, of which it learns nothing."""

    def fit(self, X, y):
        return super().fit(self.count(X), y)

    def predict(self, X):
        return super().predict(self.count(X))

    def count(self, X):
        return np.array([[text.count(letter) for letter in "ainz"] for text in X])


def test_steps_may_return_texts():
    texts, public = (part["town"].to_numpy() for part in (X, X_PUBLIC))
    pipe = make_pipeline(FunctionTransformer(lambda texts: texts), OfTexts())
    model = private(pipe, gamma=0.2, combine=None).fit(
        texts, Y, X_reference=public, y_reference=Y_PUBLIC
    )
    assert model.template_.places == ("steps.oftexts.coef_", "steps.oftexts.intercept_")
    assert model.predict(texts).shape == Y.shape


def many(records):
    """Refuse to be asked about one record."""
    if len(records) < 2:
        raise ValueError("too few")
    return records


@pytest.mark.slow
def test_steps_may_fail_alone():
    pipe = make_pipeline(FunctionTransformer(many), StandardScaler(), Ridge())
    model = fitted_to_ages(private(pipe, gamma=0.2))
    assert (model.public_steps_, model.combine_) == (("standardscaler",), None)
    assert np.isfinite(model.predict(X[["age"]])).all()


@pytest.mark.slow
def test_points_of_predictions_are_prepared_as_records_are():
    pipe = make_pipeline(preparation(), KernelRidge())
    surrogate = make_pipeline(preparation(), Ridge())
    points = {"X_public": X_PUBLIC[:20], "surrogate": surrogate, "combine": None}
    model = fitted(private(pipe, release="predict", gamma=0.2, **points))
    assert_pool_is_asked_alike(model.sampler_.query_, atol=1e-12)
    assert model.public_steps_ == ("columntransformer",)


class Doubled(BaseEstimator):
    """A step that transforms, and does not fit and transform at once."""

    def fit(self, X, y=None):
        self.factor_ = 2.0
        return self

    def transform(self, X):
        return self.factor_ * np.asarray(X)


@pytest.mark.slow
def test_steps_need_no_fit_transform():
    model = fitted_to_ages(private(make_pipeline(Doubled(), Ridge()), gamma=0.2))
    assert model.template_.places == ("steps.ridge.coef_", "steps.ridge.intercept_")


@pytest.mark.slow
def test_numbers_of_steps_inside_a_model_are_released():
    """Also of a pipeline at the end of another: nothing inside a model is frozen."""
    scaled = make_pipeline(StandardScaler(), Ridge())
    for last in (VotingRegressor([("scaled", scaled)]), scaled):
        model = fitted_to_ages(private(make_pipeline(StandardScaler(), last)))
        assert model.public_steps_ == ("standardscaler",)
        places = {place.rpartition(".")[2] for place in model.template_.places}
        assert places == {"mean_", "scale_", "coef_", "intercept_"}
        assert model.combine_ is None


def test_pairs_of_a_correction_by_hand_are_of_another_query():
    by_hand = PrivateRidge(1.0, sensitivity=SensitivitySampler(n_pairs=60), **SEEDS)
    columns, public = PREPARED.transform(X), PREPARED.transform(X_PUBLIC)
    by_hand.fit(columns, Y, X_reference=public, y_reference=Y_PUBLIC)
    assert by_hand.combine_ == "reference"
    with pytest.raises(IncompatibleError, match="was fitted for Ridge"):
        private(Ridge(), sensitivity=by_hand.sampler_).fit(columns, Y)


@pytest.mark.slow
def test_how_to_combine_is_checked():
    for wrong in ("foo", 1):
        with pytest.raises(ValueError, match="combine must be"):
            fitted(private(make_pipeline(preparation(), Ridge()), combine=wrong))
    model = fitted(private(make_pipeline(preparation(), Ridge())))
    table = TableReference(X_PUBLIC, Y_PUBLIC)._cross_fitted(Y_PUBLIC)
    again = private(
        clone(model.estimator), sensitivity=SensitivitySampler(reference=table)
    )
    with pytest.raises(ValueError, match="must be the public table itself"):
        again.fit(X, Y)


@pytest.mark.slow
def test_the_risk_holds_for_new_people_behind_steps_that_look_at_targets(monkeypatch):
    """And not where pairs are of rows that the steps have seen."""
    kept = [beyond(seed) for seed in range(24)]
    error = np.std(kept) / np.sqrt(len(kept))
    assert np.mean(kept) < 0.1 + 3 * error
    monkeypatch.setattr(_public, "_knows_its_rows", lambda *arguments: False)
    broken = [beyond(seed) for seed in range(24)]
    assert np.mean(broken) > 0.1 + 2 * np.std(broken) / np.sqrt(len(broken))
    assert np.mean(broken) > 1.5 * np.mean(kept)


def test_what_is_not_released_is_of_all_public_records():
    numbers = np.random.default_rng(0).normal(size=(200, 3)) * [3.0, 2.0, 1.0]
    public = np.random.default_rng(1).normal(size=(90, 3)) * [3.0, 2.0, 1.0]
    model = private(PCA(2), gamma=0.2).fit(numbers, X_reference=public)
    expected = PCA(2).fit(public).explained_variance_
    np.testing.assert_array_equal(model.estimator_.explained_variance_, expected)


NETWORK = MLPClassifier((8,), max_iter=2000, random_state=0)


def tumors(last, **parameters):
    """Return a fit of half of the tumors beside a quarter, and the others to score."""
    numbers, y = load_breast_cancer(return_X_y=True)
    numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    few = {"sensitivity": SensitivitySampler(n_pairs=12), "gamma": 0.2}
    model = private(last, **(few | parameters))
    fitted_beside(model, numbers[:400], y[:400], 150)
    return model, clone(last).fit(numbers[:150], y[:150]), (numbers[400:], y[400:])


CALIBRATED = CalibratedClassifierCV(SVC(), cv=3, ensemble=False)
THERE = {
    "release": "predict_proba",
    "X_public": np.random.default_rng(0).normal(size=(40, 30)),
}


@pytest.mark.parametrize(
    ("last", "how"),
    [
        (GaussianNB(), {"epsilon": 0.0625}),
        pytest.param(NETWORK, {}, marks=pytest.mark.slow),
        pytest.param(CALIBRATED, THERE, marks=pytest.mark.slow),
    ],
    ids=["bayes", "network", "predictions"],
)
def test_what_noise_would_drown_is_refused_before_it_is_charged(last, how):
    """By public records alone, so that nothing of private ones is told."""
    with PrivacyLedger(9.0) as ledger, pytest.raises(IncompatibleError) as refused:
        tumors(last, **how)
    assert not ledger.releases
    told = str(refused.value)
    assert "With 250 records and epsilon=" in told
    assert "would be worse than one of the public records alone" in told
    assert re.search(r"That one scores 0\.9\d \(cross-validated\), and with such", told)
    if found := re.search(r"epsilon=([\d.]+), or with ([\d,]+) records, it", told):
        enough = float(found[1])
        times = enough / how.get("epsilon", 1.0)
        assert int(found[2].replace(",", "")) == 250 * times
        model, public, others = tumors(last, **(how | {"epsilon": 2 * enough}))
        assert model.score(*others) > public.score(*others) - 0.03
    else:  # the nearest of few points never predicts as the model itself
        assert "also at 4096 times the epsilon" in told
    warns = pytest.warns(UtilityWarning, match="serve a fit to them, without noise")
    with PrivacyLedger(9.0) as ledger, warns:
        model, public, others = tumors(last, combine=None, **how)
    assert len(ledger.releases) == 1
    assert model.score(*others) < public.score(*others) - 0.02


def test_a_refusal_does_not_tell_whether_a_record_is_there():
    """With "add-remove", databases differ in how many they are."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(260, 2))
    y = numbers @ [1.0, 2.0] + rng.normal(size=260)
    pairs = SensitivitySampler(relation="add-remove", n_records=60, n_pairs=20)
    model = private(LinearSVR(), epsilon=0.05, gamma=0.2, sensitivity=pairs)
    told = set()
    for n in (60, 59):
        with pytest.raises(IncompatibleError, match="With 60 records") as refused:
            model.fit(numbers[:n], y[:n], X_reference=numbers[60:], y_reference=y[60:])
        told.add(str(refused.value))
    assert len(told) == 1


def test_no_level_is_high_enough():
    rng = np.random.default_rng(0)
    numbers, y = rng.normal(size=(60, 40)), rng.normal(size=60)
    model = private(Lasso(0.01), epsilon=1e-6, **FEW)
    with pytest.raises(IncompatibleError, match="alone, also at 4096 times the eps"):
        fitted_beside(model, numbers, y, 40)


def test_an_unlucky_draw_of_noise_leaves_the_public_fit(monkeypatch):
    """What was released serves nobody, and was paid for: a warning says so."""
    monkeypatch.setattr(NoiseCost, "refuse", lambda *arguments: None)
    with pytest.warns(UtilityWarning, match="so a fit to them is served"):
        model, public, others = tumors(GaussianNB(), epsilon=0.05)
    assert model.score(*others) == public.score(*others)
    assert (model.combine_, model.private_weight_) == ("reference", 0.0)
    assert model.reference_comparison_.serves_public
    assert "and nothing that was released" in model.hint_


def test_other_people_are_no_reason_to_serve_the_public_fit():
    """A release with little noise that the public records speak against."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(400, 2))
    y = numbers[:, 0] + 0.1 * rng.normal(size=400)
    public = {"X_reference": numbers[:100], "y_reference": -y[:100]}
    model = private(Lasso(0.01), epsilon=100.0, **FEW)
    with pytest.warns(UtilityWarning, match="serve a fit to them, without noise"):
        model.fit(numbers[100:], y[100:], **public)
    assert (model.combine_, model.private_weight_) == (None, 1.0)
    assert model.score(numbers[100:], y[100:]) > 0.9


@pytest.mark.parametrize("classify", [False, True])
def test_forests_say_how_much_of_them_is_private(classify):
    forest = RandomForestClassifier if classify else RandomForestRegressor
    forest = forest(5, max_depth=3, random_state=0)
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(1100, 4))
    y = numbers[:, 0] + rng.normal(size=1100)
    y = (y > 0) * 1.0 if classify else y
    weights = []
    for epsilon in (0.01, 1.0, 1000.0):
        model = private(forest, sensitivity="bound", epsilon=epsilon)
        weights.append(fitted_beside(model, numbers, y, 100).private_weight_)
        told = "is of private records, and the rest of public ones; half of it would be"
        assert (told in model.hint_) == (weights[-1] < 0.1)
    assert 0.0 < weights[0] < 0.1 < weights[1] < weights[2]
    lost = private(forest, sensitivity="bound", epsilon=1e-7)
    fitted_beside(lost, numbers, y, 100)
    assert "0.0% is of private records, and the rest of public ones." in lost.hint_
    # With nearly no noise there are ten private records for each public one.
    assert weights[2] == pytest.approx(10 / 11, rel=0.01)
    exact = private(forest, sensitivity="bound", epsilon=np.inf)
    assert fitted_beside(exact, numbers, y, 100).private_weight_ == 1.0


@pytest.mark.parametrize("how", ["numbers", "of a sampler", "classes"])
def test_forests_of_wrong_private_targets_are_told(how):
    """By public records on which public trees do better, though splits know them."""
    classify = how == "classes"
    forest = RandomForestClassifier if classify else RandomForestRegressor
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(1600, 4))
    y = numbers[:, 0] + 0.3 * rng.normal(size=1600)
    y = y > 0 if classify else y
    public = {"X_reference": numbers[:100], "y_reference": y[:100]}
    source = "bound" if classify else SensitivitySampler(n_pairs=60)
    if how == "of a sampler":
        source.set_params(reference=TableReference(*public.values()))
        public = {}
    model = private(forest(5, max_depth=3, random_state=0), sensitivity=source)
    model.fit(numbers[100:], y[100:], **public)
    assert model.reference_comparison_ is None
    assert "more than half" not in model.hint_
    wrong = ~y if classify else -y
    with pytest.warns(UtilityWarning, match="alone score better .* serve a fit to"):
        model.fit(numbers[100:], wrong[100:], **public)
    assert model.compare_with_reference().advice in model.hint_


@pytest.mark.slow
def test_its_reference_can_be_audited():
    """Also for databases of another size than that of the release."""
    model = fitted(private(make_pipeline(preparation(), Ridge()), gamma=0.2))
    fresh, targets, _ = people(2000, 5)
    public = {"X_reference": X_PUBLIC, "y_reference": Y_PUBLIC}
    how = {"epsilon": 40.0, "n_blocks": 19, "random_state": 0}
    found = audit_reference(model, fresh, targets, **how, **public)
    assert found.noisy_count < 12
    assert found.n_records == 104


@pytest.mark.parametrize("n_targets", [1, 2])
def test_alone_it_is_corrected_as_well(n_targets):
    numbers = np.random.default_rng(2).normal(size=(400, 3))
    y = numbers @ np.ones((3, n_targets)) + np.arange(n_targets)
    y = y[:, 0] if n_targets == 1 else y
    model = fitted_beside(private(Ridge(), epsilon=10.0), numbers, y, 100)
    assert model.combine_ == "reference"
    assert model.estimator_.coef_.shape == (3,) if n_targets == 1 else (2, 3)
    assert model.score(numbers, y) > 0.99
