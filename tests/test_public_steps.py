"""Steps before a model, and what learns structure, are fitted on public records."""

import warnings
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import sklearn.frozen
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import StackingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, StandardScaler
from wrapped import private

from skparisk import IncompatibleError, PrivacyLedger, PrivateEstimator
from skparisk.core import Assumption

N_RECORDS, N_ROWS = 40, 600


def people(n_rows, seed):
    rng = np.random.default_rng(seed)
    town = rng.choice(["Graz", "Linz", "Wien"], n_rows)
    frame = pd.DataFrame({"town": town, "age": rng.normal(size=n_rows)})
    return frame, frame["age"].to_numpy() + rng.normal(size=n_rows)


def with_a_rare_town(n_rows, seed):
    frame, y = people(n_rows, seed)
    frame.loc[n_rows - 1, "town"] = "Ried"
    return frame, y


def fit(estimator, **parameters):
    reference = dict(
        zip(("X_reference", "y_reference"), with_a_rare_town(N_ROWS, 1), strict=True)
    )
    return private(estimator, **parameters).fit(*people(N_RECORDS, 0), **reference)


def encoder():
    return make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["town"]), (StandardScaler(), ["age"])
    )


class Counting(Ridge):
    """Knows how many records it was fitted to, each time."""

    sizes: ClassVar[list] = []

    def fit(self, X, y):
        self.sizes.append(len(y))
        return super().fit(X, y)


ENCODER = ("columntransformer",)


def test_models_are_fitted_once_to_the_whole_table(monkeypatch):
    """What of them is not released is from there. Others are of the private size."""
    monkeypatch.setattr(PrivateEstimator, "_find_public_fit", lambda *arguments: None)
    Counting.sizes.clear()
    model = fit(make_pipeline(encoder(), Counting()))
    assert Counting.sizes.count(N_ROWS) == 1
    assert sorted({*Counting.sizes}) == [N_RECORDS, N_RECORDS * 5 // 4, N_ROWS]
    assert model.public_steps_ == ENCODER
    # The encoder knows the one record of a rare town.
    assert model.estimator_[-1].coef_.shape == (5,)


def test_of_very_many_records_public_fits_are_to_fewer(monkeypatch):
    """Steps transform some of them together, which changes no answer."""
    whole = fit(make_pipeline(encoder(), Ridge()), combine="auto").sampler_.query_
    frame, y = people(N_RECORDS, 0)
    answer = whole(frame, y)
    monkeypatch.setattr("skparisk.wrappers._linear_steps._ROWS_AT_ONCE", 16)
    np.testing.assert_allclose(whole(frame, y), answer, rtol=1e-12)
    monkeypatch.setattr("skparisk.wrappers._public._MOST_RECORDS", 20)
    monkeypatch.setattr(PrivateEstimator, "_find_public_fit", lambda *arguments: None)
    Counting.sizes.clear()
    model = fit(make_pipeline(encoder(), Counting()))
    assert {20, 25} < {*Counting.sizes}
    assert model.certificate_.evidence.n_records == N_RECORDS


def test_structure_that_a_model_has_inside_is_refused():
    """Unless it is frozen: then it is public."""
    binned = KBinsDiscretizer(3, strategy="uniform")
    stacked = StackingRegressor([("binned", make_pipeline(binned, Ridge()))], Ridge())
    with pytest.raises(IncompatibleError, match=r"KBinsDiscretizer and .* inside of P"):
        fit(make_pipeline(encoder(), stacked))
    (records, y), (public, known) = people(N_RECORDS, 0), people(N_ROWS, 1)
    frozen = sklearn.frozen.FrozenEstimator(binned.fit(public[["age"]]))
    inside = StackingRegressor([("binned", make_pipeline(frozen, Ridge()))], Ridge())
    model = private(inside)
    model.fit(records[["age"]], y, X_reference=public[["age"]], y_reference=known)
    assert model.public_steps_ == ()
    assert model.predict(records[["age"]]).shape == y.shape


def test_models_that_have_steps_inside_are_watched_with_all_of_them():
    """Also where the public step is before them, and the table has targets."""
    scaled = TransformedTargetRegressor(Ridge(), transformer=StandardScaler())
    model = fit(make_pipeline(encoder(), scaled))
    assert model.public_steps_ == ENCODER
    inside = "steps.transformedtargetregressor.transformer_.mean_"
    assert inside in model.template_.places


@pytest.mark.sampled(1)
@pytest.mark.parametrize("last", ["passthrough", None])
def test_pipelines_without_a_model_are_fitted_as_they_are(last):
    model = fit(make_pipeline(encoder(), last))
    assert model.public_steps_ == ("columntransformer__onehotencoder",)
    assert model.transform(people(3, 2)[0]).shape == (3, 5)


class Holding(TransformerMixin, BaseEstimator):
    """Fits an encoder that it holds in a way of its own, as other packages do."""

    def __init__(self, encoder):
        self.encoder = encoder

    def fit(self, X, y=None):
        self.encoder_ = clone(self.encoder)
        self.encoder_.fit_transform(X[["town"]])
        return self

    def transform(self, X):
        codes = self.encoder_.transform(X[["town"]])
        return np.column_stack([codes, X["age"]])


def test_an_encoder_that_another_step_holds_is_fitted_with_it():
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    model = fit(make_pipeline(Holding(encoder), Ridge()))
    assert model.public_steps_ == ("holding",)
    assert model.predict(people(5, 2)[0]).shape == (5,)
    fitted = model.estimator_.named_steps["holding"]
    assert "Ried" in fitted.encoder_.categories_[0]


def test_a_model_that_says_what_its_targets_are_like_is_fitted_to_records():
    """As LightGBM does."""

    class Saying(Ridge):
        def __sklearn_tags__(self):
            tags = super().__sklearn_tags__()
            tags.target_tags.one_d_labels = True
            return tags

    X, y = people(N_ROWS, 1)
    model = private(Saying())
    model.fit(
        X[["age"]][:N_RECORDS],
        y[:N_RECORDS],
        X_reference=X[["age"]][N_RECORDS:],
        y_reference=y[N_RECORDS:],
    )
    assert model.estimator_.coef_.shape == (1,)


def test_private_records_are_fitted_in_the_precision_of_sampled_ones():
    """Rounded to single precision, they would move further than pairs do."""
    X, known = (
        pd.DataFrame(np.random.default_rng(seed).normal(1e3, 1, (n, 2))).astype(
            "float32"
        )
        for n, seed in ((300, 0), (4800, 1))
    )
    model = private(make_pipeline(SimpleImputer(), PCA(1)), gamma=0.2)
    query = model.fit(X, X_reference=known).sampler_.query_
    assert query.front.transform(X).dtype == "float32"
    answer = query.split(query(X))["steps.pca.mean_"]
    np.testing.assert_allclose(answer, X.to_numpy(np.float64).mean(axis=0), rtol=1e-14)


@pytest.mark.parametrize("step", [StandardScaler(), None])
def test_noise_for_another_level_rests_on_the_same(step):
    frozen = FrozenEstimator(StandardScaler().fit(np.eye(3, 2)))
    model = private(make_pipeline(step or frozen, Lasso(0.1)), gamma=0.2)
    rng = np.random.default_rng(0)
    X, known = rng.normal(size=(2, 200, 2))
    model.fit(X, X[:, 0], X_reference=known, y_reference=known[:, 0])
    claim = model.certificate_
    code = Assumption.FROZEN_PARTS if step is None else Assumption.PUBLIC_STEPS
    other = model.sampler_.calibrate(epsilon=2.0)
    assert code in claim.assumptions == other.certificate_.assumptions
    with PrivacyLedger(9.0) as ledger:
        other.release(X, X[:, 0])
    assert ledger.releases[0].certificate.assumptions == claim.assumptions


def test_predictions_at_points_need_rows_for_each_record():
    X, known = np.random.default_rng(0).normal(size=(2, 300, 2))
    model = private(Ridge(), gamma=0.2, release="predict", X_public=np.eye(2))
    for n_records, told in ((75, False), (76, True)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            rows = X[:n_records]
            model.fit(rows, rows[:, 0], X_reference=known, y_reference=known[:, 0])
        claim = model.certificate_
        assert (Assumption.ROWS_PER_RECORD in claim.assumptions) == told
        assert any("4 times the 76" in str(each.message) for each in caught) == told
