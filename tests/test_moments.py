"""Moments that are released once, and the models that are computed from them."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from checks_of_weights import WEIGHTS
from scipy import stats
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from skparisk import (
    KnownSensitivity,
    PrivateMoments,
    SchemaReference,
    SecretSample,
    SensitivitySampler,
    learn_reference,
)
from skparisk.exceptions import (
    CalibrationError,
    IncompatibleError,
    PrivacyLeakWarning,
    ReferenceWarning,
)
from skparisk.moments import ReleasedSums, positive_part
from skparisk.queries import MeanQuery, MomentsQuery
from skparisk.reference import TableReference

seeded = pytest.mark.filterwarnings(
    "ignore:noise_random_state:skparisk.exceptions.PrivacyLeakWarning"
)
FEW = SensitivitySampler(n_pairs=60, noise_shape="isotropic")


def people(n, seed=0, d=3):
    """Return features and a target that is linear in them, but for an error."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.3) + np.arange(d)
    return X, X @ np.arange(1, d + 1) + 2 + rng.normal(size=n)


PUBLIC = dict(zip(("X_reference", "y_reference"), people(400, 9), strict=True))
WIDE = {"sensitivity": "bound", "bounds": (-8, 12), "y_bounds": (-60, 90)}


@pytest.fixture(scope="module")
def exact():
    """Without noise: all that follows is known."""
    return PrivateMoments(epsilon=np.inf, random_state=0).fit(*people(300), **PUBLIC)


@pytest.fixture(scope="module")
def noisy():
    """With noise that is small against the sums."""
    with pytest.warns(PrivacyLeakWarning, match="noise_random_state"):
        return PrivateMoments(
            epsilon=5.0, random_state=0, noise_random_state=1, sensitivity=FEW
        ).fit(*people(20_000), **PUBLIC)


@pytest.mark.parametrize("alpha", [0, 3.0])
def test_ridge_is_that_of_scikit_learn(exact, alpha):
    """For any penalty and any features, from one release."""
    X, y = people(300)
    other = people(50, seed=1)[0]
    for features in (None, [2, 0]):
        some = slice(None) if features is None else features
        known = Ridge(alpha).fit(X[:, some], y)
        model = exact.ridge(alpha, features=features)
        np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-3)
        np.testing.assert_allclose(model.intercept_, known.intercept_, atol=1e-3)
        assert model.penalty_ == alpha
        found, expected = model.predict(other[:, some]), known.predict(other[:, some])
        np.testing.assert_allclose(found, expected, atol=0.01)
        assert model.score(X[:, some], y) == pytest.approx(known.score(X[:, some], y))
    least = exact.ridge()  # no noise, no penalty
    assert least.penalty_ == 0
    np.testing.assert_allclose(
        least.coef_, LinearRegression().fit(X, y).coef_, rtol=1e-3
    )


def test_several_targets_and_none():
    """A row of coefficients for each; without targets no regressions."""
    X, y = people(300)
    Y = np.column_stack([y, X[:, 0] - y])
    bounds = {**WIDE, "epsilon": np.inf}
    moments = PrivateMoments(**bounds).fit(X, Y)
    known = Ridge(2.0).fit(X, Y)
    np.testing.assert_allclose(moments.ridge(2.0).coef_, known.coef_, rtol=1e-3)
    np.testing.assert_allclose(moments.ridge(2.0).predict(X), known.predict(X), 0.01)
    second = LinearRegression().fit(X, Y[:, 1])
    np.testing.assert_allclose(moments.ols(target=1).coef_, second.coef_, rtol=1e-3)
    with pytest.raises(ValueError, match="number of targets, 2"):
        moments.ols(target=2)
    alone = PrivateMoments(
        sensitivity="bound", bounds=[(-8, 12)] * 3, epsilon=np.inf
    ).fit(X)
    np.testing.assert_allclose(alone.covariance(), np.cov(X.T), rtol=1e-3)
    with pytest.raises(ValueError, match="y must be given to fit"):
        alone.ridge()
    known = PrivateMoments(random_state=0, epsilon=np.inf).fit(
        X, X_reference=PUBLIC["X_reference"]
    )
    np.testing.assert_allclose(known.mean(), X.mean(axis=0), rtol=1e-3)


def test_means_covariances_and_components(exact):
    """As numpy and scikit-learn find them."""
    X, y = people(300)
    Z = np.column_stack([X, y])
    np.testing.assert_allclose(exact.mean(), Z.mean(axis=0), rtol=1e-3)
    np.testing.assert_allclose(exact.covariance(), np.cov(Z.T), rtol=1e-3)
    for features in (None, [0, 2]):
        some = slice(None) if features is None else features
        known = PCA(2).fit(X[:, some])
        model = exact.pca(2, features=features)
        signs = np.sign((model.components_ * known.components_).sum(axis=1))
        np.testing.assert_allclose(
            model.components_ * signs[:, None], known.components_, atol=0.01
        )
        for name in ("explained_variance_", "explained_variance_ratio_", "mean_"):
            np.testing.assert_allclose(
                getattr(model, name), getattr(known, name), rtol=1e-3
            )
        rows = X[:5, some]
        found = model.transform(rows)
        np.testing.assert_allclose(found * signs, known.transform(rows), atol=0.05)
        again = model.inverse_transform(found)
        np.testing.assert_allclose(
            again, known.inverse_transform(known.transform(rows)), atol=0.05
        )
    assert list(exact.pca(2).get_feature_names_out()) == ["momentspca0", "momentspca1"]
    with pytest.raises(ValueError, match="at most the 3 features, got 4"):
        exact.pca(4)


def test_least_squares_without_noise(exact):
    """Standard errors and intervals as those of the textbook."""
    X, y = people(300)
    A = np.column_stack([np.ones(300), X])
    coef, rss = np.linalg.lstsq(A, y)[:2]
    covariance = rss[0] / 296 * np.linalg.inv(A.T @ A)
    model = exact.ols()
    np.testing.assert_allclose(model.covariance_, covariance, rtol=5e-3)
    np.testing.assert_allclose(
        [model.intercept_stderr_, *model.stderr_], np.diag(covariance) ** 0.5, rtol=5e-3
    )
    reach = stats.t.ppf(0.95, 296) * np.diag(covariance) ** 0.5
    np.testing.assert_allclose(
        model.confint(0.9), np.column_stack([coef - reach, coef + reach]), rtol=0.01
    )
    assert model.residual_variance_ == pytest.approx(rss[0] / 296, rel=1e-3)
    assert not model.noise_covariance_.any()
    assert model.dof_ == 296
    one = exact.ols(features=[1])
    assert one.coef_[0] == pytest.approx(LinearRegression().fit(X[:, [1]], y).coef_[0])


def test_least_squares_that_noise_hides():
    """Is refused, and ridge stands in; so it is with more features than records."""
    X, y = people(30)
    moments = PrivateMoments(epsilon=0.01, **WIDE).fit(X, y)
    with pytest.raises(ValueError, match="features must be fewer"):
        moments.ols()
    assert np.isfinite(moments.ridge().coef_).all()
    assert np.isfinite(moments.ridge(1.0).coef_).all()
    assert (np.linalg.eigvalsh(moments.covariance()) >= -1e-6).all()
    few = PrivateMoments(**{**WIDE, "epsilon": np.inf}).fit(X[:3], y[:3])
    with pytest.raises(ValueError, match="features must be fewer"):
        few.ols()


def test_intervals_are_wider_by_what_the_noise_adds(noisy):
    """Beside those of the same sums without noise."""
    model = noisy.ols()
    plain = LinearRegression().fit(*people(20_000))
    assert (np.diag(model.noise_covariance_) > 0).all()
    assert (np.diag(model.covariance_) > np.diag(model.noise_covariance_)).all()
    gaps = model.coef_ - plain.coef_
    errors = np.diag(model.noise_covariance_)[1:] ** 0.5
    assert (np.abs(gaps) < 5 * errors).all()


def test_the_noise_is_known():
    """Covariance of what sums are off by, and of residuals, over many draws."""
    rng = np.random.default_rng(0)
    d, n = 3, 50
    root = rng.normal(size=(9, 9))
    noise = root @ root.T
    sums = ReleasedSums(rng.normal(size=9), noise, n, np.zeros(d), np.ones(d))
    weights, rows = rng.normal(size=4), np.array([0, 1, 3])
    draws = rng.multivariate_normal(np.zeros(9), noise, size=100_000)
    i, j = sums.places
    residuals = np.zeros((len(draws), 4))
    for output, draw in enumerate(draws.T):
        residuals[:, i[output]] += draw * weights[j[output]]
        if i[output] != j[output]:
            residuals[:, j[output]] += draw * weights[i[output]]
    np.testing.assert_allclose(
        sums.noise_of_residuals(rows, weights),
        np.cov(residuals[:, rows].T),
        rtol=0.05,
        atol=0.3,
    )
    plain = ReleasedSums(np.zeros(9), np.eye(9), n, np.zeros(d), np.ones(d))
    sizes = [
        np.linalg.norm(plain.as_matrix(draw)[1:, 1:], 2)
        for draw in rng.normal(size=(2000, 9))
    ]
    assert plain.noise_size(np.arange(3)) == pytest.approx(np.median(sizes), rel=0.15)
    assert plain.noise_size(np.array([1])) < plain.noise_size(np.arange(3))
    assert positive_part(np.diag([-1.0, 2.0]))[0].tolist() == [0, 2]


def test_derived_models_say_what_they_are(noisy):
    """They have the certificate and cannot be fitted; copies are the same."""
    for model in (noisy.ridge(), noisy.ols(), noisy.pca(2)):
        assert model.certificate_ is noisy.certificate_
        assert model.n_features_in_ == 3
        for refused in (model, clone(model)):
            with pytest.raises(IncompatibleError, match="cannot be fitted"):
                refused.fit(*people(10))
        X = people(5)[0]
        act = getattr(model, "predict", None) or model.transform
        again = copy.deepcopy(pickle.loads(pickle.dumps(model)))
        same = getattr(again, "predict", None) or again.transform
        np.testing.assert_array_equal(act(X), same(X))
        assert clone(FrozenEstimator(model)).estimator is model
        with pytest.raises(ValueError, match="expecting 3 features"):
            act(X[:, :2])


def test_features_by_name():
    """Or by position, each once; a model knows the names of its own."""
    X, y = people(300)
    frame = pd.DataFrame(X, columns=["age", "wage", "years"])
    moments = PrivateMoments(**{**WIDE, "epsilon": np.inf}).fit(frame, y)
    model = moments.ridge(1.0, features=["years", "age"])
    assert list(model.feature_names_in_) == ["years", "age"]
    expected = Ridge(1.0).fit(X[:, [2, 0]], y).predict(X[:, [2, 0]])
    np.testing.assert_allclose(model.predict(frame[["years", "age"]]), expected, 0.01)
    for wrong in (["height"], [3], [True, "age"], [[]], [-1]):
        with pytest.raises(ValueError, match="names or positions of the 3"):
            moments.ridge(features=wrong)
    for wrong in ([], ["age", 0]):
        with pytest.raises(ValueError, match="at least one, each once"):
            moments.pca(1, features=wrong)
    with pytest.raises(ValueError, match="alpha must be"):
        moments.ridge(-1.0)
    with pytest.raises(ValueError, match="alpha must be one of 'auto'"):
        moments.ridge("best")
    with pytest.raises(ValueError, match="level must be"):
        moments.ols().confint(1.0)


def test_records_are_in_one_pair_each():
    """But those for units; the certificate is over the population."""
    public = people(200, seed=4)
    sampler = SensitivitySampler(
        n_pairs=1000, randomness="both", law="gaussian", noise_shape="isotropic"
    )
    moments = PrivateMoments(sensitivity=sampler, random_state=0).fit(
        *people(300), X_reference=public[0], y_reference=public[1]
    )
    assert len(moments.sampler_.differences_) == 80  # 160 rows; 40 are for units
    evidence = moments.certificate_.evidence
    assert "no row used twice" in evidence.reference
    assert evidence.for_new_people is None
    rows = np.column_stack(public)
    apart = np.random.default_rng(200).permutation(200)[:40]
    np.testing.assert_allclose(moments.center_, rows[apart].mean(axis=0))
    np.testing.assert_allclose(moments.scale_, rows[apart].std(axis=0))
    # With bounds no rows are needed for units.
    bounds = {"bounds": (-8, 12), "y_bounds": (-60, 90)}
    moments = PrivateMoments(sensitivity=sampler, **bounds).fit(
        *people(300), X_reference=public[0], y_reference=public[1]
    )
    assert len(moments.sampler_.differences_) == 100
    np.testing.assert_allclose(moments.scale_, [10, 10, 10, 75])


def test_too_few_rows_are_used_again():
    """A table that cannot certify the risk with each row once; or one that says how."""
    X, y = people(30, seed=4)
    with pytest.warns(ReferenceWarning, match="15 pairs"):
        moments = PrivateMoments(sensitivity=FEW, random_state=0).fit(
            *people(300), X_reference=X, y_reference=y
        )
    assert len(moments.sampler_.differences_) == 60
    assert "not known" in moments.certificate_.evidence.for_new_people
    assert moments.sampler_.certificate_ is moments.certificate_
    again = moments.sampler_.calibrate(epsilon=2.0).certificate_
    assert "not known" in again.evidence.for_new_people
    np.testing.assert_allclose(moments.center_, [*X.mean(axis=0), y.mean()])
    shaped = SensitivitySampler(n_pairs=60, noise_shape="whitened")
    for n_rows, n_pairs in ((60, 60), (80, 32)):  # half of 24 pairs, for 14 outputs
        X, y = people(n_rows, seed=4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReferenceWarning)
            moments = PrivateMoments(sensitivity=shaped, gamma=0.1).fit(
                *people(300), X_reference=X, y_reference=y
            )
        assert len(moments.sampler_.differences_) == n_pairs
    table = TableReference(*people(200, seed=4))
    moments = PrivateMoments(sensitivity=FEW).fit(*people(300), X_reference=table)
    assert "not known" in moments.certificate_.evidence.for_new_people
    bounded = PrivateMoments(sensitivity=FEW, bounds=(-8, 12), y_bounds=(-60, 90))
    bounded.fit(*people(300), X_reference=table)
    assert "larger" in bounded.certificate_.evidence.for_new_people
    table = TableReference(*people(200, seed=4), sampling="split")
    with pytest.raises(ValueError, match="bounds be given"):  # no rows for units
        PrivateMoments(sensitivity=FEW).fit(*people(300), X_reference=table)


@seeded
def test_bounds_alone():
    """The noise is for the proven sensitivity, smaller where records are shorter."""
    X, y = people(3000)
    halves = ((0.5, 0.5 * 3**0.5), (np.float32(0.5), 0.5 * 3**0.5))
    for reach, radius in ((1.0, None), *halves):
        moments = PrivateMoments(
            **WIDE, reach=reach, epsilon=2.0, noise_random_state=0
        ).fit(X, y)
        certificate = moments.certificate_
        assert (certificate.risk, moments.sampler_) == (0, None)
        assert certificate.delta == 0
        assert certificate.evidence.calibration == "bound"
        assert certificate.evidence.norm == "trace"
        squared = 3.0 if radius is None else radius**2
        assert moments.sensitivity_ == pytest.approx(2 * squared * (1 + 1 / 16 + 1 / 2))
        assert moments.noise_scale_ == pytest.approx(moments.sensitivity_ / 2, rel=1e-6)
        assert moments.noise_epsilon_ <= 2.0
        query = MomentsQuery(
            moments.center_, moments.scale_, 3000, 1, limit=1.0, radius=radius
        )
        deviations = np.sqrt(moments.noise_covariance_)
        gaps = (moments.sums_ - query(X, y)) / deviations
        assert np.abs(gaps).max() < 10
        assert np.abs(gaps).mean() == pytest.approx(0.75, abs=0.5)
    assert (
        moments.noise_scale_
        < PrivateMoments(epsilon=2.0, **WIDE).fit(X, y).noise_scale_
    )
    with pytest.raises(ValueError, match="features must be None with a reach below 1"):
        moments.ridge(features=[0])
    # Records are shortened as those that were summed.
    far = 1e6 * np.ones((1, 3))
    z = (moments.ridge()._check(far) - moments.center_[:3]) / moments.scale_[:3]
    assert np.linalg.norm(z) == pytest.approx(0.5 * 3**0.5)


@seeded
def test_nothing_served_is_beyond_the_bounds():
    """Means and predictions are clipped to them, in units and shapes of their own."""
    X, y = people(20)
    Y = np.column_stack([y, -y])
    bounds = {"bounds": (-1, 1), "y_bounds": [(-1, 1), (2, 5)], "sensitivity": "bound"}
    for seed in range(3):
        moments = PrivateMoments(epsilon=0.05, noise_random_state=seed, **bounds)
        moments.fit(X, Y)
        assert np.abs(moments._sums.mean).max() > 1
        low, high = np.array([*[(-1, 1)] * 4, (2, 5)]).T
        assert ((low <= moments.mean()) & (moments.mean() <= high)).all()
        found = moments.ridge(1.0).predict(X)
        assert found.shape == Y.shape
        assert ((low[3:] <= found) & (found <= high[3:])).all()


def test_bounds_of_a_schema():
    """It is enough, as bounds, and as a reference."""
    X, y = people(200)
    schema = SchemaReference([(-8, 12)] * 3, target=(-60, 90))
    moments = PrivateMoments(sensitivity="bound").fit(X, y, X_reference=schema)
    np.testing.assert_allclose(moments.center_, [2, 2, 2, 15])
    sampled = PrivateMoments(sensitivity=FEW).fit(X, y, X_reference=schema)
    assert "declared schema" in sampled.certificate_.evidence.reference
    inside = SensitivitySampler(n_pairs=60, reference=schema)
    sampled = PrivateMoments(sensitivity=inside).fit(X, y)
    np.testing.assert_allclose(sampled.scale_, [10, 10, 10, 75])


def test_known_sensitivity():
    """Of another law, in units of the bounds."""
    X, y = people(200)
    known = KnownSensitivity(8.0, norm="l2", law="gaussian", delta=1e-6)
    moments = PrivateMoments(
        sensitivity=known, bounds=(-8, 12), y_bounds=[(-60, 90)]
    ).fit(X, y)
    np.testing.assert_allclose(
        moments.noise_covariance_, np.full(14, moments.noise_scale_**2)
    )
    plain = PrivateMoments(sensitivity=8.0, bounds=(-8, 12), y_bounds=(-60, 90))
    plain.fit(X, y)
    np.testing.assert_allclose(
        plain.noise_covariance_, np.full(14, 2 * plain.noise_scale_**2)
    )


@seeded
def test_a_fitted_sampler_again(noisy):
    """Its pairs and units serve other levels, and refuse other data."""
    moments = PrivateMoments(epsilon=1.0, sensitivity=noisy.sampler_)
    again = moments.fit(*people(20_000, seed=5))
    assert again.noise_scale_ == pytest.approx(5 * noisy.noise_scale_, rel=1e-3)
    np.testing.assert_array_equal(again.center_, noisy.center_)
    with pytest.raises(IncompatibleError, match="sums of 2 features and 1 targets"):
        moments.fit(people(20_000)[0][:, :2], people(20_000)[1])
    other = SensitivitySampler(MeanQuery(), n_pairs=60).fit(people(30)[0])
    with pytest.raises(IncompatibleError, match="fitted for MeanQuery"):
        PrivateMoments(sensitivity=other).fit(*people(30))
    with pytest.raises(IncompatibleError, match="not for sums within these bounds"):
        moments.set_params(bounds=(-8, 12), y_bounds=(-60, 90)).fit(*people(30))


def test_other_references_need_bounds():
    """A secret half, and a law that is learned."""
    X, y = people(400)
    bounds = {"bounds": (-8, 12), "y_bounds": (-60, 90)}
    half = SensitivitySampler(n_pairs=60, reference=SecretSample(0.5))
    assert PrivateMoments(sensitivity=half, **bounds).fit(X, y).n_records_ == 200
    schema = SchemaReference([(-8, 12)] * 3, target=(-60, 90))
    split = learn_reference(schema, X, y, epsilon=1.0)
    learned = SensitivitySampler(n_pairs=60, reference=split.reference)
    moments = PrivateMoments(sensitivity=learned, **bounds)
    moments.fit(X[split.others], y[split.others])
    assert moments.n_records_ < 400
    with pytest.raises(ValueError, match="bounds be given"):
        PrivateMoments(sensitivity=half).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "public", "message"),
    [
        ({}, {}, "X_reference must be public records"),
        ({"sensitivity": "bound"}, {}, "bounds must be given"),
        ({"sensitivity": "bound", "bounds": (0, 1)}, {}, "y_bounds must be given"),
        ({"y_bounds": (0, 1)}, PUBLIC, "without bounds"),
        ({"reach": 0.5}, PUBLIC, "reach must be 1.0 without bounds"),
        ({"reach": 1.5}, PUBLIC, "reach must be at most 1"),
        ({**WIDE, "reach": 0.0}, {}, "reach must be"),
        ({**WIDE, "bounds": (1, 1)}, {}, "lowest < highest"),
        ({**WIDE, "bounds": [(0, 1)] * 2}, {}, "each of the 3 columns"),
        ({**WIDE, "bounds": "all"}, {}, "bounds must be a pair"),
        ({**WIDE, "y_bounds": (0, np.inf)}, {}, "y_bounds must be a pair"),
        (
            {"sensitivity": SensitivitySampler(relation="add-remove")},
            PUBLIC,
            "relation must be 'replace-one'",
        ),
    ],
)
def test_parameters_are_checked(parameters, public, message):
    """Before anything is drawn."""
    with pytest.raises(ValueError, match=message):
        PrivateMoments(**parameters).fit(*people(50), **public)


def test_private_records_as_a_reference():
    """Are refused: units would be released without noise."""
    X, y = people(60)
    with (
        pytest.warns(PrivacyLeakWarning),
        pytest.raises(ValueError, match="must hold no private records"),
    ):
        PrivateMoments(sensitivity=FEW).fit(X, y, X_reference=X, y_reference=y)


def test_reference_of_other_columns():
    """As many features and targets as the data have."""
    X, y = people(100, seed=3)
    with pytest.raises(IncompatibleError, match="the numbers must be equal"):
        PrivateMoments(sensitivity=FEW).fit(
            *people(50), X_reference=X[:, :2], y_reference=y
        )
    with pytest.raises(ValueError, match="whose squares are finite"):
        PrivateMoments(sensitivity=FEW).fit(
            *people(50), X_reference=1e200 * X, y_reference=y
        )
    moments = PrivateMoments(sensitivity=FEW).fit(
        people(50)[0], X_reference=np.column_stack([X[:, :2], np.ones(100)])
    )
    assert moments.scale_[2] == 1  # it does not vary there


def test_too_few_pairs_for_any_sampling():
    """A risk that no number of pairs asked for certifies is refused as elsewhere."""
    with pytest.raises(CalibrationError):
        PrivateMoments(
            gamma=0.001,
            sensitivity=SensitivitySampler(n_pairs=20, noise_shape="isotropic"),
        ).fit(*people(50), **PUBLIC)


@parametrize_with_checks(
    [PrivateMoments(sensitivity="bound", bounds=(-100, 100), y_bounds=(-100, 100))],
    expected_failed_checks=lambda estimator: WEIGHTS,
)
def test_estimator_checks(estimator, check):
    """Those of scikit-learn."""
    check(estimator)
