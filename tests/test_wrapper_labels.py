"""Classes of wrapped classifiers: labels of any kind, declared and missing ones."""

import numpy as np
import pytest
import sklearn
from query_pairs import RELATIONS, both_of, known_pairs
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from wrapped import (
    CHEAP,
    CLASSES,
    DECLARED,
    LABELS,
    LABELS_PUBLIC,
    X_PUBLIC,
    X,
    private,
    reference_for,
)

from skparisk import (
    CalibrationError,
    IncompatibleError,
    PrivacyLeakWarning,
    SensitivitySampler,
)
from skparisk.queries import (
    AttributeReader,
    EstimatorQuery,
    LinearSVCQuery,
    LogisticRegressionQuery,
    MeanQuery,
)
from skparisk.queries._labels import check_classes, label_codes
from skparisk.reference import CallableReference, RecordPool, TableReference


def test_classes_of_a_reference_that_are_no_labels_of_this_type():
    table = TableReference(X_PUBLIC, np.arange(160) % 2 / 2)
    sampler = clone(CHEAP).set_params(reference=table)
    with pytest.raises(ValueError, match="Unknown label type"):
        private(GaussianNB(), sensitivity=sampler).fit(X, np.arange(80) % 2)
    table = TableReference(X_PUBLIC, np.arange(160) % 2 * 300)
    sampler = clone(CHEAP).set_params(reference=table)
    with pytest.raises(
        ValueError, match=r"y has labels that are not among .*\[0, 300\]"
    ):
        private(GaussianNB(), sensitivity=sampler).fit(
            X, (np.arange(80) % 2 * 30).astype(np.int8)
        )


def test_strings_for_the_numbers_of_a_reference_on_the_sampler_are_declared():
    """Else the private labels would say which classes there are."""
    codes = np.unique(LABELS_PUBLIC, return_inverse=True)[1]
    sampler = clone(CHEAP).set_params(reference=TableReference(X_PUBLIC, codes))
    model = private(GaussianNB(), sensitivity=sampler)
    with pytest.raises(
        ValueError, match=r"not among the classes \[0, 1, 2\]. Declare all"
    ):
        model.fit(X, LABELS)
    model.set_params(classes=CLASSES).fit(X, LABELS)
    assert list(model.classes_) == CLASSES


def test_strings_for_the_numbers_that_a_function_makes():
    sampler = clone(CHEAP).set_params(
        reference=CallableReference(
            lambda n, rng: (rng.gamma(4.0, size=(n, 4)), rng.integers(3, size=n))
        )
    )
    model = private(GaussianNB(), sensitivity=sampler, classes=CLASSES).fit(X, LABELS)
    assert list(model.classes_) == CLASSES
    assert model.certificate_.private


@pytest.mark.slow
def test_classes_of_the_reference_win_and_a_missing_one_is_answered_with_zeros():
    two = LABELS != "cedar"
    for parameters in ({}, {"classes": ["cedar", "ash", "beech"]}):
        exact = private(LogisticRegression(), epsilon=np.inf, **parameters)
        reference = reference_for(LogisticRegression())
        exact.fit(X[two], LABELS[two], **reference)
        assert list(exact.classes_) == ["ash", "beech", "cedar"]
        assert (exact.estimator_.coef_ == 0).all()
        assert (exact.estimator_.intercept_ == 0).all()
        noisy = clone(exact).set_params(epsilon=1.0)
        noisy.fit(X[two], LABELS[two], **reference)
        assert (noisy.estimator_.coef_ != 0).all()
        assert noisy.certificate_.private


def test_fitted_sampler_of_a_query_without_classes_is_refused():
    sampler = SensitivitySampler(MeanQuery(), gamma=0.2, n_pairs=4).fit(X_PUBLIC)
    with pytest.raises(IncompatibleError, match="was fitted for MeanQuery"):
        private(GaussianNB(), sensitivity=sampler).fit(X, LABELS)


def test_many_classes_for_few_records_are_no_warning():
    model = private(GaussianNB(), classes=range(80), **DECLARED)
    assert model.fit(X, np.arange(80)).certificate_.private


def test_column_of_labels_warns_as_scikit_learn_does():
    with pytest.warns(sklearn.exceptions.DataConversionWarning, match="column-vector"):
        private(GaussianNB(), classes=CLASSES, **DECLARED).fit(X, LABELS[:, None])


def test_class_missing_in_the_first_sampled_database_is_named():
    labels = np.where(np.arange(160) == 0, "yew", LABELS_PUBLIC)
    model = private(GaussianNB(), sensitivity=SensitivitySampler(n_records=20))
    with pytest.raises(ValueError, match="class yew is missing from the first sampl"):
        model.fit(X[:20], LABELS[:20], X_reference=X_PUBLIC, y_reference=labels)


def test_class_missing_in_a_resample_of_private_data_is_not_named():
    model = private(GaussianNB(), classes=[*CLASSES, "yew"])
    with (
        pytest.warns(PrivacyLeakWarning, match="private data themselves"),
        pytest.raises(CalibrationError, match="is not shown because it may") as error,
    ):
        model.fit(X, LABELS)
    assert "yew" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    "query",
    [
        EstimatorQuery(
            LogisticRegression(),
            AttributeReader(("coef_",)),
            {"coef_": (3, 1)},
            classes=(0.0, 1.0, 2.0),
            labels=np.array([5, 6, 7]),
        ),
        LogisticRegressionQuery((0.0, 1.0, 2.0)),
        LinearSVCQuery((0.0, 1.0, 2.0)),
    ],
    ids=["refits", "logistic", "svc"],
)
def test_missing_classes_are_found_in_either_database(query, relation):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 1)), rng.integers(3, size=12).astype(float)
    records, changed = rng.integers(12, size=(40, 7)), rng.integers(7, size=40)
    other = rng.integers(12, size=40) if relation == "replace-one" else None
    pairs = known_pairs(RecordPool(X, y), records, changed, other)
    missing = [
        [len(np.unique(labels)) < 3 for _, labels in both_of(pairs, i)]
        for i in range(40)
    ]
    assert {(True, True), (False, False), (False, True)} <= set(map(tuple, missing))
    found = query.on_pool(pairs.pool, 7)(pairs)
    finite = np.isfinite(found.values).all(axis=1)
    np.testing.assert_array_equal(finite, ~np.any(missing, axis=1))
    assert "is missing in a database of" in found.failure


def test_label_codes():
    assert check_classes([3, 1.0]) == (1.0, 3.0)
    for bad in ([1], [1, 1], [1, np.inf], [np.nan, 1]):
        with pytest.raises(ValueError, match="at least two different finite numbers"):
            check_classes(bad)
    assert label_codes([3, 1, 1], (1.0, 3.0)).tolist() == [1, 0, 0]
    for label in (0, 2, 4):
        with pytest.raises(ValueError, match=r"not among the classes \(1.0, 3.0\)"):
            label_codes([1, label], (1.0, 3.0))
    with pytest.raises(ValueError, match=r"one dimension, got shape \(1, 2\)"):
        label_codes([[1, 3]], (1.0, 3.0))
