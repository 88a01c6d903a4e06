"""Nothing but the release tells about the private data of a wrapped estimator."""

import warnings
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Lasso, Ridge, SGDRegressor
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.validation import validate_data
from wrapped import (
    CHEAP,
    DECLARED,
    POINTS,
    SECOND,
    X_PUBLIC,
    Y_PUBLIC,
    X,
    Y,
    fit_declared,
    fit_plain,
    fit_public,
    private,
)

from skparisk import (
    KnownSensitivity,
    PrivacyLeakWarning,
    TableReference,
    UtilityWarning,
)
from skparisk.queries import AttributeReader, EstimatorQuery
from skparisk.queries._estimator import repeatable
from skparisk.queries._state import find_numbers

# What stays on the model


@pytest.mark.parametrize("estimator", [PCA(2), GaussianNB(), StandardScaler()])
def test_numbers_of_made_up_records_are_not_shown(estimator):
    model = fit_declared(private(estimator))
    shown = find_numbers(model.estimator_)
    plain = find_numbers(fit_plain(estimator))
    for name in plain.keys() - set(model.template_.places):
        if name.endswith("_"):
            assert np.isnan(shown[name]).all(), name


NAMED = TableReference(pd.DataFrame(X_PUBLIC, columns=list("abcd")), Y_PUBLIC)
WAYS = {
    "sampled": ({}, True),
    "on the sampler": (
        {"sensitivity": clone(CHEAP).set_params(reference=NAMED)},
        False,
    ),
    "declared": (DECLARED, False),
    "another law": (
        {"sensitivity": KnownSensitivity(1.0, norm="l2", law="gaussian", at_risk=True)},
        False,
    ),
}


def test_what_one_private_record_has_in_an_empty_column_is_not_kept():
    """That a column is empty but for one person would tell about this person."""
    frame = pd.DataFrame(X, columns=list("abcd")).assign(note=None)
    public = pd.DataFrame(X_PUBLIC, columns=list("abcd")).assign(note=None)
    schemas = []
    for note in (None, "ill"):
        frame.loc[0, "note"] = note
        pipe = make_pipeline(
            make_column_transformer((StandardScaler(), ["a"])), Ridge()
        )
        model = private(pipe).fit(frame, Y, X_reference=public, y_reference=Y_PUBLIC)
        again = private(pipe, sensitivity=model.sampler_).fit(frame, Y)
        schemas += [model.schema_, model.sampler_.pairs_.schema, again.schema_]
    assert {schema.kinds for schema in schemas} == {("number",) * 4 + ("missing",)}


def test_training_data_given_as_reference_are_no_public_reference():
    model = private(PCA(2))
    with pytest.warns(PrivacyLeakWarning, match="from the private data themselves"):
        model.fit(X, X_reference=X.tolist())
    assert model.sampler_.query_.anchor is None
    assert not model.certificate_.private


@pytest.mark.parametrize("release", ["auto", ("cluster_centers_",), ("inertia_",)])
def test_labels_of_records_are_never_kept(release):
    """Not without noise either, where the release is scikit-learn's."""
    assert not hasattr(fit_public(private(KMeans(3, n_init=1), release)), "labels_")
    exact = private(KMeans(3, n_init=1), release, epsilon=np.inf, **DECLARED).fit(X)
    assert not hasattr(exact, "labels_")
    if release == "auto":
        plain = KMeans(3, n_init=1, random_state=0).fit(X)
        np.testing.assert_array_equal(exact.predict(X), plain.labels_)


# Nothing but the release tells about the private data


SECRET = 60.0


class Fussy(RegressorMixin, BaseEstimator):
    """Fails, or warns, about what only the private data have."""

    def __init__(self, how="raise", verbose=0):
        self.how = how
        self.verbose = verbose

    def fit(self, X, y):
        X, y = validate_data(self, X, y)
        if self.verbose:
            print("the largest is", X.max())
        self.coef_ = np.array([X.mean(), y.mean()])
        if X.max() >= SECRET:
            if self.how == "raise":
                raise RuntimeError(f"too large: {X.max()}")
            if self.how == "warn":
                warnings.warn(f"too large: {X.max()}", stacklevel=2)
                np.log(X - X)
            elif self.how == "shape":
                self.coef_ = np.zeros(int(X.max()))
            elif self.how == "attribute":
                del self.coef_
            elif self.how == "infinite":
                self.coef_ = self.coef_ / 0.0
        return self

    def predict(self, X):
        return np.full(len(X), self.coef_[0])


FAR = np.where(X.max() == X, SECRET, X)


@pytest.mark.parametrize("way", ["sampled", "declared", "another law"])
@pytest.mark.parametrize("how", ["raise", "shape", "attribute", "infinite"])
def test_failure_on_private_data_shows_nothing_of_them(how, way):
    model = private(Fussy(how), ("coef_",), **WAYS[way][0])
    reference = SECOND if WAYS[way][1] else {}
    with pytest.raises(ValueError, match="has no answer on the private data") as error:
        model.fit(FAR, Y, **reference)
    assert "60" not in str(error.value)
    assert error.value.__context__ is None
    assert error.value.__cause__ is None
    assert not hasattr(model, "estimator_")


@pytest.mark.parametrize("way", ["sampled", "declared", "another law"])
def test_warnings_of_private_fits_are_not_shown(way):
    model = private(Fussy("warn"), ("coef_",), **WAYS[way][0])
    with np.errstate(all="raise"), warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        model.fit(FAR, Y, **(SECOND if WAYS[way][1] else {}))
        hard = private(Lasso(1e-9, max_iter=1), **WAYS[way][0])
        hard.fit(FAR, Y, **(SECOND if WAYS[way][1] else {}))
    # It is told of the release, as all that is public.
    assert {each.category for each in shown} <= {UtilityWarning}
    with pytest.warns(sklearn.exceptions.ConvergenceWarning):
        Lasso(1e-9, max_iter=1).fit(FAR, Y)


@pytest.mark.parametrize(
    ("estimator", "release"),
    [
        (Fussy("fine", verbose=1), ("coef_",)),
        (Fussy("fine", verbose=True), ("coef_",)),
        (LinearSVC(verbose=1, max_iter=20), "auto"),
        (KMeans(2, verbose=1, n_init=1), "auto"),
        (SGDRegressor(verbose=1, max_iter=2), "auto"),
        (GradientBoostingRegressor(n_estimators=2, verbose=2), "predict"),
        (make_pipeline(StandardScaler(), Fussy(verbose=1), verbose=True), "predict"),
    ],
    ids=repr,
)
def test_nothing_is_printed(estimator, release, capfd):
    points = POINTS if release == "predict" else None
    model = private(estimator, release, X_public=points)
    fit_public(model)
    fit_declared(model)
    assert capfd.readouterr() == ("", "")
    params = model.estimator.get_params()
    assert any(v for n, v in params.items() if n.endswith("verbose"))  # as it was


def test_random_state_of_none_is_fixed_and_fits_are_functions_of_the_data():
    model = private(KMeans(3, n_init=1), epsilon=np.inf, **DECLARED)
    centers = [clone(model).fit(X).estimator_.cluster_centers_ for _ in range(2)]
    np.testing.assert_array_equal(*centers)
    plain = KMeans(3, n_init=1, random_state=0).fit(X)
    np.testing.assert_array_equal(centers[0], plain.cluster_centers_)
    assert model.estimator.random_state is None
    pipeline = make_pipeline(StandardScaler(), RandomForestRegressor(2, verbose=1))
    fixed = repeatable(pipeline).get_params()
    assert fixed["randomforestregressor__random_state"] == 0
    assert fixed["randomforestregressor__verbose"] == 0
    assert repeatable(KMeans(random_state=7)).random_state == 7


def test_splitters_caches_and_workers_leave_nothing_to_chance_and_no_trace():
    splitter = ShuffleSplit(2)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), SVC(), memory="somewhere"),
        {"svc__C": [1.0, 2.0]},
        cv=splitter,
        n_jobs=2,
    )
    fixed = repeatable(search).get_params()
    assert fixed["cv"].random_state == 0
    assert fixed["n_jobs"] is None
    assert fixed["estimator__memory"] is None
    assert fixed["estimator__svc__random_state"] == 0
    assert splitter.random_state is None
    assert (search.n_jobs, search.estimator.memory) == (2, "somewhere")
    seeded = ShuffleSplit(2, random_state=7)
    assert repeatable(search.set_params(cv=seeded)).cv.random_state == 7
    assert repeatable(search.set_params(cv=3)).cv == 3


class Told(Ridge):
    """Calls what it was given, as estimators of scikit-learn 1.9 do."""

    called = ()

    def set_callbacks(self, *callbacks):
        """Keep them."""
        self.called = callbacks
        return self

    def __sklearn_clone__(self):
        return Told(self.alpha).set_callbacks(*self.called)

    def fit(self, X, y):
        """Call them with the records."""
        for callback in self.called:
            callback(X)
        return super().fit(X, y)


@pytest.mark.parametrize("nested", [False, True])
def test_callbacks_are_not_told_of_private_fits(nested):
    """They stay on what was given, and nothing is called."""
    seen = []
    told = Told().set_callbacks(seen.append)
    estimator = make_pipeline(StandardScaler(), told) if nested else told
    fit_public(private(estimator))
    fit_declared(private(estimator))
    assert seen == []
    assert told.called
    estimator.fit(X, Y)
    assert len(seen) == 1


class Noted:
    """A callback of scikit-learn that notes for whom it was set up."""

    kinds: ClassVar[list[type]] = []

    def setup(self, estimator, context):
        self.kinds.append(type(estimator))

    def on_fit_task_begin(self, estimator, context):
        """Do nothing, as at the end."""

    def on_fit_task_end(self, estimator, context):
        """Do nothing."""

    teardown = on_fit_task_end


def test_callbacks_of_scikit_learn_are_not_called():
    """They are given records, and the fit as it is without noise."""
    pytest.importorskip("sklearn.callback")
    scaler = StandardScaler().set_callbacks(Noted())
    fit_public(private(make_pipeline(scaler, Ridge())))
    assert Noted.kinds == []
    scaler.fit(X)
    assert Noted.kinds == [StandardScaler]


def test_query_is_a_function_also_where_a_generator_is_given():
    state = np.random.RandomState(3)
    query = EstimatorQuery(
        KMeans(3, n_init=1, random_state=state),
        AttributeReader(("cluster_centers_",)),
        {"cluster_centers_": (3, 4)},
    )
    np.testing.assert_array_equal(query(X), query(X))
