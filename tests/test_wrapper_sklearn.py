"""Wrapped estimators as part of scikit-learn: searches, pipelines, data frames."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from wrapped import (
    X_PUBLIC,
    Y_PUBLIC,
    X,
    Y,
    fit_public,
    private,
)

from skparisk import PrivacyLeakWarning
from skparisk.core import Leak


def test_set_output():
    frame = pd.DataFrame(X, columns=list("abcd"), index=np.arange(80) + 5)
    public = pd.DataFrame(X_PUBLIC, columns=list("abcd"))
    for estimator, names in (
        (PCA(2), ["pca0", "pca1"]),
        (StandardScaler(), "abcd"),
        (MinMaxScaler(), "abcd"),
    ):
        model = private(estimator)
        assert model.set_output(transform="pandas") is model
        transformed = model.fit_transform(frame, X_reference=public)
        assert list(transformed.columns) == list(names)
        assert list(transformed.index) == list(frame.index)
        assert list(model.get_feature_names_out()) == list(names)
        model.set_output(transform="default")
        assert isinstance(model.transform(frame), np.ndarray)
        model.set_output()
        assert isinstance(model.transform(frame), np.ndarray)


def test_names_of_columns_may_be_given():
    model = fit_public(private(StandardScaler()))
    assert list(model.get_feature_names_out(list("wxyz"))) == list("wxyz")


def test_reference_is_routed_through_a_pipeline():
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = private(StandardScaler(), epsilon=20.0)
        scaler.set_fit_request(X_reference=True, y_reference=False)
        ridge = private(Ridge()).set_fit_request(X_reference=True, y_reference=True)
        pipeline = make_pipeline(scaler, ridge, transform_input=["X_reference"])
        pipeline.fit(X, Y, X_reference=X_PUBLIC, y_reference=Y_PUBLIC)
        first, last = pipeline[0], pipeline[-1]
        assert first.certificate_.private
        assert last.certificate_.private
        direct = private(Ridge()).fit(
            first.transform(X),
            Y,
            X_reference=X_PUBLIC,
            y_reference=Y_PUBLIC,
        )
        assert (
            last.certificate_.evidence.n_records
            == direct.certificate_.evidence.n_records
        )
        plain = make_pipeline(StandardScaler(), ridge, transform_input=["X_reference"])
        with pytest.warns(PrivacyLeakWarning, match="standardscaler to public data"):
            plain.fit(X, Y, X_reference=X_PUBLIC, y_reference=Y_PUBLIC)
        scaler = StandardScaler().fit(X)
        direct = private(Ridge()).fit(
            scaler.transform(X),
            Y,
            X_reference=scaler.transform(X_PUBLIC),
            y_reference=Y_PUBLIC,
        )
        certificate = direct.certificate_.weaken(leaks=[Leak.LEARNS_MORE])
        assert plain[-1].certificate_ == certificate
        plain.set_params(standardscaler=FrozenEstimator(scaler.fit(X_PUBLIC)))
        search = GridSearchCV(plain, {"privateestimator__epsilon": [1.0, 2.0]}, cv=2)
        with pytest.warns(PrivacyLeakWarning, match="The parameters were chosen"):
            search.fit(X, Y, X_reference=X_PUBLIC, y_reference=Y_PUBLIC)
        assert search.best_estimator_[-1].certificate_.leaks == {Leak.CHOSEN}
