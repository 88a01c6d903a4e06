"""What wrapped estimators serve: the answers and methods of the released numbers."""

import re

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone, is_classifier, is_clusterer, is_regressor
from sklearn.cluster import KMeans
from sklearn.covariance import EllipticEnvelope, GraphicalLasso, ShrunkCovariance
from sklearn.decomposition import NMF, PCA, LatentDirichletAllocation, TruncatedSVD
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import (
    HuberRegressor,
    Lasso,
    LogisticRegression,
    Ridge,
    SGDClassifier,
)
from sklearn.mixture import GaussianMixture
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MinMaxScaler,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted
from wrapped import (
    DECLARED,
    X_PUBLIC,
    Y_PUBLIC,
    Odd,
    X,
    Y,
    assert_same,
    data_for,
    fit_declared,
    fit_plain,
    fit_public,
    private,
    served_methods,
)

from skparisk import PrivacyLeakWarning
from skparisk.wrappers._template import complete, known_class

# What is served without noise is the estimator itself


RECIPES = [
    Ridge(),
    LogisticRegression(max_iter=20),
    LinearDiscriminantAnalysis(),
    GaussianNB(),
    BernoulliNB(binarize=1.0),
    PCA(2),
    TruncatedSVD(2),
    StandardScaler(),
    MinMaxScaler(),
    EllipticEnvelope(),
    GraphicalLasso(0.1),
    ShrunkCovariance(),
    GaussianMixture(2, random_state=0),
    LatentDirichletAllocation(2, max_iter=3),
    NMF(2, max_iter=5000),
    QuadraticDiscriminantAnalysis(),
]
VARIANTS = [
    Ridge(fit_intercept=False),
    LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1),
    GaussianNB(priors=[0.2, 0.3, 0.5]),
    BernoulliNB(binarize=1.0, fit_prior=False),
    PCA(),
    PCA(3, whiten=True),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    MinMaxScaler(feature_range=(-2, 3), clip=True),
    *(
        GaussianMixture(2, covariance_type=kind, random_state=0)
        for kind in ("diag", "spherical", "tied")
    ),
    QuadraticDiscriminantAnalysis(priors=[0.2, 0.3, 0.5]),
]
# They need what is not released, as nothing else needs it.
UNSERVED = {
    PCA: {"score", "score_samples"},
    LinearDiscriminantAnalysis: {"transform"},
    EllipticEnvelope: {"score"},
    LatentDirichletAllocation: {"score"},
}


def ask(fitted, method, data):
    if method == "get_feature_names_out":
        return fitted.get_feature_names_out()
    return getattr(fitted, method)(*(data if method == "score" else data[:1]))


def test_only_the_very_class_is_known():
    """Neither what is derived from it, nor what only has its name."""

    class Derived(PCA):
        pass

    impostor = type("PCA", (BaseEstimator,), {"__module__": PCA.__module__})
    assert known_class(PCA()) == "PCA"
    assert known_class(Derived()) == known_class(impostor()) == ""
    assert complete(Derived(), {"explained_variance_": np.array([-1.0])}) == {}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("estimator", RECIPES + VARIANTS, ids=repr)
def test_infinite_epsilon_is_the_estimator_itself(estimator):
    plain = fit_plain(estimator)
    model = fit_declared(private(estimator, epsilon=np.inf))
    expected = served_methods(plain) - UNSERVED.get(type(estimator), set())
    assert served_methods(model) == expected
    for method in expected:
        assert_same(
            ask(model, method, data_for(estimator)),
            ask(plain, method, data_for(estimator)),
        )
    if hasattr(plain, "inverse_transform"):
        reduced = plain.transform(X)
        assert_same(model.inverse_transform(reduced), plain.inverse_transform(reduced))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("estimator", RECIPES + VARIANTS, ids=repr)
def test_noise_leaves_no_number_that_cannot_be_served(estimator):
    """Noise far above the signal takes variances and probabilities out of range."""
    model = fit_declared(private(estimator, epsilon=0.01))
    for method in served_methods(model) - {"get_feature_names_out"}:
        with np.errstate(divide="ignore"):  # the logarithm of a probability of 0
            answer = ask(model, method, data_for(estimator))
        if method in ("predict_proba", "score") or answer.dtype.kind == "f":
            usable = ~np.isnan(answer) if "log" in method else np.isfinite(answer)
            assert usable.all(), method
        if method == "predict_proba":
            assert ((answer >= 0) & (answer <= 1)).all()
            np.testing.assert_allclose(answer.sum(axis=1), 1.0)


def test_noise_leaves_the_knots_of_splines_sorted():
    splines = make_pipeline(SplineTransformer(4), Ridge())
    model = private(splines, sensitivity=30.0).fit(X, Y)
    fitted = model.estimator_.named_steps["splinetransformer"].bsplines_
    assert all((np.diff(spline.t) >= 0).all() for spline in fitted)
    assert np.isfinite(model.predict(X)).all()


def test_numbers_out_of_their_range_are_mended_and_the_others_stay():
    naive = complete(
        GaussianNB(),
        {
            "var_": np.array([[2.0, -1.0], [0.0, 3.0]]),
            "class_prior_": np.array([0.6, 0.6, -0.1]),
        },
    )
    np.testing.assert_allclose(naive["var_"], [[2.0, 3e-9], [3e-9, 3.0]])
    np.testing.assert_allclose(naive["class_prior_"], [0.5, 0.5, 0.0], atol=1e-9)
    assert (naive["class_prior_"] > 0).all()
    scaler = complete(StandardScaler(), {"scale_": np.array([-1.0, 2])})
    np.testing.assert_allclose(scaler["scale_"], [2e-9, 2.0])
    nothing = complete(StandardScaler(), {"scale_": np.zeros(2)})
    assert nothing["scale_"].tolist() == [1.0, 1.0]
    below = {"feature_log_prob_": np.array([-1.0, 0.5])}
    mended = complete(BernoulliNB(), below)["feature_log_prob_"]
    assert mended[0] == -1.0
    assert -1e-8 < mended[1] < 0.0
    assert complete(BernoulliNB(), {"class_log_prior_": np.zeros(2)}) == {}


SAMPLED = [
    Ridge(),
    Lasso(0.01),
    LogisticRegression(max_iter=20),
    LinearSVC(max_iter=50),
    GaussianNB(),
    PCA(2),
    PCA(2, whiten=True),
    StandardScaler(),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("estimator", SAMPLED, ids=repr)
def test_hardly_any_noise_is_nearly_the_estimator_itself(estimator, in_order):
    """The noise of each number is that of the certificate: none besides, none less."""
    model = fit_public(private(estimator, epsilon=1e9, combine=None))
    exact = fit_declared(private(estimator, epsilon=np.inf))
    query = model.sampler_.query_
    plain = {name: getattr(exact.estimator_, name) for name in query.shapes}
    if query.align is not None:
        plain = query.align(plain, query.anchor)
    noise = np.concatenate(
        [np.ravel(getattr(model.estimator_, name) - plain[name]) for name in plain]
    )
    assert (noise != 0).all()
    assert np.abs(noise).max() < 40 * model.noise_scale_


def test_targets_in_columns():
    targets = np.c_[Y, -Y]
    ridge = Ridge().fit(X, targets)
    model = private(Ridge(), epsilon=np.inf).fit(
        X, targets, X_reference=X_PUBLIC, y_reference=np.c_[Y_PUBLIC, Y_PUBLIC]
    )
    assert_same(model.predict(X), ridge.predict(X))
    assert model.score(X, targets) == pytest.approx(ridge.score(X, targets))
    weights = np.arange(80.0)
    assert model.score(X, targets, weights) == ridge.score(X, targets, weights)
    column = private(Ridge(), epsilon=np.inf, **DECLARED).fit(X, Y[:, None])
    assert column.predict(X).shape == Ridge().fit(X, Y[:, None]).predict(X).shape


# Methods: what can be served is there, and the rest says what it needs


def test_unfitted_models_say_so():
    model = private(KMeans(3))
    for method in ("predict", "transform", "score"):
        with pytest.raises(NotFittedError):
            getattr(model, method)(X)
    with pytest.raises(NotFittedError):
        private(PCA(2)).inverse_transform(X[:, :2])
    with pytest.raises(NotFittedError):
        model.get_feature_names_out()
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


@pytest.mark.parametrize(
    ("estimator", "release", "method", "missing"),
    [
        (Ridge(), ("coef_",), "predict", "intercept_"),
        (GaussianNB(), ("theta_", "class_prior_"), "predict", "var_"),
        (MinMaxScaler(), ("min_",), "transform", "scale_"),
        (LogisticRegression(fit_intercept=False), ("n_iter_",), "predict", "coef_"),
    ],
    ids=repr,
)
def test_what_was_not_released_is_named_by_who_needs_it(
    estimator, release, method, missing
):
    model = fit_declared(private(estimator, release))
    with pytest.raises(AttributeError) as refused:
        getattr(model, method)(X)
    needs = rf"^{method} of .* needs .*{missing}.* as well: give release=\(.*{missing}"
    assert re.search(needs, str(refused.value.__cause__))


@pytest.mark.parametrize(
    ("release", "served"),
    [
        ("auto", False),
        (("mean_", "components_"), False),
        (("mean_", "components_", "explained_variance_", "noise_variance_"), True),
    ],
)
def test_methods_with_needs_of_their_own_are_offered_if_these_are_met(release, served):
    model = fit_public(private(PCA(2), release, epsilon=np.inf))
    assert hasattr(model, "score") == hasattr(model, "score_samples") == served
    if not served:
        with pytest.raises(AttributeError) as refused:
            _ = model.score_samples
        needed = "needs noise_variance_ and explained_variance_ as well: give release=("
        assert needed in str(refused.value.__cause__)
    else:
        assert_same(model.score_samples(X), PCA(2).fit(X).score_samples(X))


def test_densities_are_sampled_and_scored_from_what_was_released():
    mixture = GaussianMixture(2, random_state=0)
    model = private(mixture, epsilon=np.inf, **DECLARED).fit(X)
    plain = clone(mixture).fit(X)
    for answer, expected in zip(model.sample(5), plain.sample(5), strict=True):
        assert_same(answer, expected)
    assert_same(model.score_samples(X), plain.score_samples(X))
    np.testing.assert_array_equal(
        clone(model).fit_predict(X), clone(mixture).fit_predict(X)
    )


def test_fit_transform_and_fit_predict_use_what_was_released():
    scaled = private(StandardScaler(), noise_random_state=0)
    with pytest.warns(PrivacyLeakWarning):
        first = scaled.fit_transform(X, X_reference=X_PUBLIC)
    np.testing.assert_array_equal(first, scaled.transform(X))
    assert np.abs(first - StandardScaler().fit_transform(X)).min() > 1e-6
    clustered = private(KMeans(3, n_init=1))
    labels = clustered.fit_predict(X, X_reference=X_PUBLIC)
    np.testing.assert_array_equal(labels, clustered.predict(X))


def test_methods_that_nothing_released_would_serve():
    model = fit_declared(private(Odd(failure=RuntimeError("no")), ("mean_",)))
    with pytest.raises(AttributeError) as refused:
        model.predict(X)
    needs = "predict of Odd needs more than released numbers."
    assert str(refused.value.__cause__) == needs


def test_methods_that_the_estimator_lacks_are_lacking():
    for estimator in (LinearSVC(), SGDClassifier(), SVC()):
        assert not hasattr(private(estimator), "predict_proba")
    assert hasattr(private(SGDClassifier(loss="log_loss")), "predict_proba")
    assert not hasattr(private(StandardScaler()), "predict")
    assert not hasattr(private(StandardScaler()), "fit_predict")
    assert not hasattr(private(Ridge()), "transform")
    assert not hasattr(private(Ridge()), "sample")
    assert not hasattr(private(Ridge()), "set_output")
    assert not hasattr(private(SGDClassifier()), "partial_fit")


def test_type_and_tags_are_those_of_the_estimator():
    checks = (is_regressor, is_classifier, is_clusterer)
    for estimator in (Ridge(), GaussianNB(), KMeans(), PCA(), MultinomialNB()):
        model = private(estimator)
        assert [f(model) for f in checks] == [f(estimator) for f in checks]
        ours, theirs = get_tags(model), get_tags(estimator)
        assert ours.estimator_type == theirs.estimator_type
        assert ours.target_tags.required == theirs.target_tags.required
        assert ours.input_tags.positive_only == theirs.input_tags.positive_only
        assert (ours.transformer_tags is None) == (theirs.transformer_tags is None)
        assert ours.non_deterministic
        assert not get_tags(model.set_params(epsilon=np.inf)).non_deterministic
    assert get_tags(private(PCA())).transformer_tags.preserves_dtype == ["float64"]
    assert get_tags(private(Ridge())).target_tags.multi_output
    assert not get_tags(private(HuberRegressor())).target_tags.multi_output
    forest = RandomForestClassifier()
    assert get_tags(forest).target_tags.multi_output
    assert not get_tags(private(forest)).target_tags.multi_output
    assert not get_tags(private(forest)).classifier_tags.multi_label
    pipeline = make_pipeline(StandardScaler(), Ridge())
    assert get_tags(private(pipeline)).target_tags.required
    assert get_tags(private(Ridge)).estimator_type is None


@pytest.mark.parametrize(
    "estimator",
    [GaussianMixture(), ShrunkCovariance(), QuantileTransformer(n_quantiles=9)],
)
def test_what_was_not_released_is_not_completed(estimator):
    fitted = estimator.fit(X)
    assert complete(fitted, {}) == {}
