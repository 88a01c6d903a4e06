"""Released numbers are brought into the range that public records tell of."""

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler
from wrapped import (
    LABELS,
    LABELS_PUBLIC,
    POINTS,
    X_PUBLIC,
    Y_PUBLIC,
    X,
    Y,
    fit_declared,
    fit_plain,
    fit_public,
    private,
)

from skparisk.queries import AttributeReader
from skparisk.reference import SchemaReference, TableReference
from skparisk.wrappers._estimator import find_ranges
from skparisk.wrappers._public_records import PublicRecords

LOW, HIGH = X_PUBLIC.min(axis=0), X_PUBLIC.max(axis=0)
NOISY = {"epsilon": 1e-4}


def ranges_of(estimator, names, X_reference=X_PUBLIC, y_reference=None):
    table = X_reference
    if not isinstance(table, SchemaReference | TableReference):
        table = TableReference(table, y_reference)
    public = PublicRecords.draw(estimator, table, 80, np.random.SeedSequence(0), None)
    reader = AttributeReader(names)
    return find_ranges(
        estimator, public, [reader(fitted) for fitted in public.fits(estimator)]
    )


def test_locations_are_in_the_range_of_columns():
    for estimator, places in [
        (StandardScaler(), ["mean_"]),
        (MinMaxScaler(), ["data_max_", "data_min_"]),
        (RobustScaler(), ["center_"]),
        (PCA(2), ["mean_"]),
    ]:
        found = ranges_of(estimator, tuple(places))
        assert list(found) == places
        for low, high in found.values():
            np.testing.assert_array_equal([low, high], [LOW, HIGH])


class Own(StandardScaler):
    """An estimator whose mean_ may be anything."""


def test_what_may_be_anything_has_no_range():
    for estimator, names, table in [
        (Ridge(), ("coef_", "intercept_"), TableReference(X_PUBLIC, Y_PUBLIC)),
        (PCA(4), ("components_", "explained_variance_"), X_PUBLIC),
        (StandardScaler(), ("mean_",), TableReference(X_PUBLIC, sampling="split")),
        (StandardScaler(), ("n_samples_seen_",), X_PUBLIC),
        (Own(), ("mean_",), X_PUBLIC),
    ]:
        assert ranges_of(estimator, names, table) == {}


def test_declared_ranges_are_taken_as_they_are_declared():
    schema = SchemaReference([(0.0, 9.0)] * 4)
    found = ranges_of(StandardScaler(), ("mean_",), schema)
    np.testing.assert_array_equal(found["mean_"], [[0.0] * 4, [9.0] * 4])


def test_noise_leaves_variances_and_shares_in_their_range():
    reference = {"X_reference": X_PUBLIC, "y_reference": LABELS_PUBLIC}
    model = private(GaussianNB(), **NOISY).fit(X, LABELS, **reference).estimator_
    assert ((model.theta_ >= LOW) & (model.theta_ <= HIGH)).all()
    assert (model.var_ > 0).all()
    assert ((model.class_prior_ >= 0) & (model.class_prior_ <= 1)).all()
    assert model.class_prior_.sum() == pytest.approx(1)


def test_frames_have_the_same_ranges_as_arrays():
    names = list("abcd")
    private_, public = (pd.DataFrame(each, columns=names) for each in (X, X_PUBLIC))
    model = private(StandardScaler(), **NOISY).fit(private_, X_reference=public)
    mean = model.estimator_.mean_
    assert ((mean >= LOW) & (mean <= HIGH)).all()


def test_a_sampler_that_was_fitted_before_knows_the_ranges():
    first = fit_public(private(KMeans(3, n_init=1)))
    again = private(KMeans(3, n_init=1), sensitivity=first.sampler_, **NOISY).fit(X)
    centers = again.estimator_.cluster_centers_
    assert ((centers >= LOW) & (centers <= HIGH)).all()


def test_without_noise_nothing_is_clipped():
    """Also where the reference is narrower than the private records."""
    model = private(StandardScaler(), epsilon=np.inf)
    model.fit(X + 90, X_reference=X_PUBLIC)
    plain = fit_plain(StandardScaler()).fit(X + 90)
    np.testing.assert_array_equal(model.estimator_.mean_, plain.mean_)


def test_without_a_reference_there_are_no_ranges():
    model = fit_declared(private(StandardScaler(), epsilon=1e-4))
    assert np.abs(model.estimator_.mean_).max() > 90


def test_predictions_are_in_the_range_of_public_targets():
    forest = RandomForestRegressor(3, max_depth=2)
    model = private(forest, "predict", X_public=POINTS, **NOISY)
    predicted = fit_public(model).predict(POINTS)
    assert Y_PUBLIC.min() <= predicted.min() <= predicted.max() <= Y_PUBLIC.max()
    two = private(forest, "predict", X_public=POINTS, **NOISY).fit(
        X,
        np.stack([Y, 9 * Y], axis=1),
        X_reference=X_PUBLIC,
        y_reference=np.stack([Y_PUBLIC, 9 * Y_PUBLIC], axis=1),
    )
    assert np.abs(two.predict(POINTS)[:, 0]).max() <= np.abs(Y_PUBLIC).max()


def test_a_table_with_texts_has_no_ranges_of_columns():
    texts = TableReference(pd.DataFrame({"a": ["x", "y"] * 80}), Y_PUBLIC)
    assert ranges_of(DummyRegressor(), ("constant_",), texts) == {}


def test_a_known_sensitivity_clips_to_the_reference_as_well():
    model = private(StandardScaler(), sensitivity=1e6).fit(X, X_reference=X_PUBLIC)
    assert (model.estimator_.mean_ >= LOW).all()
    assert (model.estimator_.mean_ <= HIGH).all()
