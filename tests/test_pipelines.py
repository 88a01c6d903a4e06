"""A pipeline is public up to its last step; linear models correct a public fit."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from skparisk import (
    PrivateEstimator,
    PrivateLogisticRegression,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.audit import audit_reference
from skparisk.core.checks import IncompatibleError
from skparisk.queries import FunctionQuery
from skparisk.reference import TableReference
from skparisk.sensitivity import sample_differences
from skparisk.wrappers import _public_steps

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


def fitted(model, y=Y, y_public=Y_PUBLIC):
    return model.fit(X, y, X_reference=X_PUBLIC, y_reference=y_public)


def two(labels):
    return np.where(labels > 0, "high", "low")


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
    assert model.public_steps_ == (
        "columntransformer__onehotencoder",
        "columntransformer__pipeline__simpleimputer",
        "columntransformer__pipeline__standardscaler",
    )
    shown = model.reference_comparison_
    assert shown.public_only == by_hand.reference_comparison_.public_only


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


@pytest.mark.parametrize(
    "last",
    [
        Lasso(0.1),
        Ridge(positive=True),
        LogisticRegression(class_weight="balanced"),
        LogisticRegression(l1_ratio=0.5, solver="saga"),
        LinearSVC(),
    ],
    ids=repr,
)
def test_others_are_fitted_as_they_are(last):
    regress = isinstance(last, Lasso | Ridge)
    data = (Y, Y_PUBLIC) if regress else (two(LABELS), two(LABELS_PUBLIC))
    few = {"sensitivity": SensitivitySampler(n_pairs=4), "gamma": 0.3}
    model = fitted(private(make_pipeline(preparation(), last), **few), *data)
    assert model.combine_ is None
    assert model.private_weight_ == 1.0
    with pytest.raises(ValueError, match="is not of a linear model"):
        fitted(model.set_params(combine="reference"), *data)


def test_records_of_a_pool_are_transformed_once_with_the_same_differences():
    model = fitted(private(make_pipeline(preparation(), Lasso(0.1)), gamma=0.2))
    query = model.sampler_.query_
    table = TableReference(X_PUBLIC, Y_PUBLIC)
    how = {"n_pairs": 5, "n_records": 60, "n_features": 3, "random_state": 0}
    plain = sample_differences(FunctionQuery(lambda X, y: query(X, y)), table, **how)
    found = sample_differences(query, table, **how)
    np.testing.assert_allclose(found, plain, atol=1e-9)


def test_without_noise_it_is_the_pipeline_itself():
    columns, public = X[["age"]], X_PUBLIC[["age"]]
    pipe = make_pipeline(StandardScaler(), Ridge())
    model = private(pipe, epsilon=np.inf)
    model.fit(columns, Y, X_reference=public, y_reference=Y_PUBLIC)
    expected = clone(pipe).fit(columns, Y).predict(columns)
    np.testing.assert_allclose(model.predict(columns), expected, rtol=1e-9)
    assert (model.public_steps_, model.combine_) == ((), None)


def test_a_sampler_that_is_fitted_serves_other_fits():
    model = fitted(private(make_pipeline(preparation(), Ridge())))
    again = private(make_pipeline(preparation(), Ridge()), sensitivity=model.sampler_)
    other = pickle.loads(pickle.dumps(again)).fit(X, Y)
    np.testing.assert_allclose(other.estimator_[-1].coef_, model.estimator_[-1].coef_)
    assert other.combine_ == "reference"
    assert other.public_steps_ == model.public_steps_
    with pytest.raises(IncompatibleError, match="got combine=None"):
        again.set_params(combine=None).fit(X, Y)


def test_steps_by_their_names_are_released():
    names = ("steps.standardscaler.mean_", "steps.ridge.coef_")
    pipe = make_pipeline(StandardScaler(), Ridge())
    model = private(pipe, release=names, gamma=0.2).fit(
        X[["age"]], Y, X_reference=X_PUBLIC[["age"]], y_reference=Y_PUBLIC
    )
    assert (model.public_steps_, model.combine_) == ((), None)
    assert model.released_.shape == (2,)


class Centered(TransformerMixin, BaseEstimator):
    """Subtracts the mean of the records that it is given, each time."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return np.asarray(X) - np.mean(np.asarray(X), axis=0)


def test_steps_that_look_at_other_records_stay_inside():
    """Behind such a step a sampled neighbor would not be transformed alike."""
    pipe = make_pipeline(Centered(), StandardScaler(), Ridge())
    numbers, public = X[["age"]].to_numpy(), X_PUBLIC[["age"]].to_numpy()
    model = private(pipe, gamma=0.2)
    model.fit(numbers, Y, X_reference=public, y_reference=Y_PUBLIC)
    assert (model.public_steps_, model.combine_) == ((), None)


def test_pairs_are_of_rows_that_steps_which_look_at_targets_have_not_seen():
    pipe = make_pipeline(preparation(), SelectKBest(f_regression, k=2), Ridge())
    model = fitted(private(pipe, gamma=0.2))
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


@pytest.mark.slow
def test_the_risk_holds_for_new_people_behind_steps_that_look_at_targets(monkeypatch):
    """And not where pairs are of rows that the steps have seen."""
    kept = [beyond(seed) for seed in range(24)]
    error = np.std(kept) / np.sqrt(len(kept))
    assert np.mean(kept) < 0.1 + 3 * error
    monkeypatch.setattr(_public_steps, "_look_at_targets", lambda *arguments: [])
    broken = [beyond(seed) for seed in range(24)]
    assert np.mean(broken) > 0.1 + 2 * np.std(broken) / np.sqrt(len(broken))
    assert np.mean(broken) > 1.5 * np.mean(kept)


def test_what_is_not_released_is_of_all_public_records():
    numbers = np.random.default_rng(0).normal(size=(200, 3)) * [3.0, 2.0, 1.0]
    public = np.random.default_rng(1).normal(size=(90, 3)) * [3.0, 2.0, 1.0]
    model = private(PCA(2), gamma=0.2).fit(numbers, X_reference=public)
    expected = PCA(2).fit(public).explained_variance_
    np.testing.assert_array_equal(model.estimator_.explained_variance_, expected)


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
    model = private(Ridge(), epsilon=10.0)
    model.fit(numbers[100:], y[100:], X_reference=numbers[:100], y_reference=y[:100])
    assert model.combine_ == "reference"
    assert model.estimator_.coef_.shape == (3,) if n_targets == 1 else (2, 3)
    assert model.score(numbers, y) > 0.99
