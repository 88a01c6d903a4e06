"""Weights of a survey: part of a record, and never above the largest public one."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_lines import FIT_WAGES as FIT
from command_lines import refused, write_wages
from scipy.stats import binomtest
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    HuberRegressor,
    Lars,
    LinearRegression,
    LogisticRegression,
    Ridge,
    SGDRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skparisk import (
    IncompatibleError,
    PrivateEstimator,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivateRidge,
    audit_reference,
)
from skparisk.__main__ import main
from skparisk.exceptions import ReferenceWarning, UtilityWarning
from skparisk.reference import TableReference

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{kind.__module__}.{kind.__name__}")
    for kind in (ReferenceWarning, UtilityWarning)
]
GAMMA, N_PUBLIC, N = 0.1, 400, 1500


def population(n, seed):
    """Return rows, targets that depend on weights, and weights that vary much."""
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(n, 3)), rng.gamma(0.3, 900.0, size=n)
    y = X @ [1.0, 2.0, -1.0] + (weights > 500) + rng.normal(size=n)
    return X, y, weights


X_PUBLIC, Y_PUBLIC, PUBLIC = population(N_PUBLIC, 1)
X, Y, WEIGHTS = population(N, 2)
LABELS = [y > 0 for y in (Y, Y_PUBLIC)]
THREE = [np.digitize(y, [-1.0, 1.0]) for y in (Y, Y_PUBLIC)]


def fitted(model, y=(Y, Y_PUBLIC), **given):
    known = {
        "sample_weight": WEIGHTS,
        "X_reference": X_PUBLIC,
        "y_reference": y[1],
        "sample_weight_reference": PUBLIC,
    }
    return model.fit(X, y[0], **known | given)


# What scikit-learn is to be given for the same fit.
USED = np.minimum(WEIGHTS, PUBLIC.max()) / PUBLIC.mean()
EXACT = {"tol": 1e-10, "max_iter": 10_000}


@pytest.mark.parametrize(
    ("model", "same", "y"),
    [
        (PrivateRidge(2.0), Ridge(2.0), (Y, Y_PUBLIC)),
        (
            PrivateRidge((2.0, 3.0), fit_intercept=False),
            Ridge([2.0, 3.0], fit_intercept=False),
            (np.stack([Y, Y**2], 1), np.stack([Y_PUBLIC, Y_PUBLIC**2], 1)),
        ),
        (PrivateLogisticRegression(C=0.5), LogisticRegression(C=0.5, **EXACT), LABELS),
        (PrivateLogisticRegression(C=2.0), LogisticRegression(C=2.0, **EXACT), THREE),
        (PrivateLinearSVC(C=0.5), LinearSVC(C=0.5, **EXACT), LABELS),
        (
            PrivateLinearSVC(C=0.01, loss="hinge"),
            LinearSVC(C=0.01, loss="hinge", tol=1e-10, max_iter=10**6),
            LABELS,
        ),
        (PrivateEstimator(LinearRegression()), LinearRegression(), (Y, Y_PUBLIC)),
        (
            PrivateEstimator(LogisticRegression(**EXACT)),
            LogisticRegression(**EXACT),
            LABELS,
        ),
    ],
)
def test_without_noise_it_is_the_weighted_fit_of_scikit_learn(model, same, y):
    model.set_params(epsilon=np.inf, gamma=0.3, sensitivity__n_pairs=20)
    released = fitted(model.set_params(random_state=0), y)
    same.fit(X, y[0], sample_weight=USED)
    served = getattr(released, "estimator_", released)
    np.testing.assert_allclose(served.coef_, same.coef_, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(served.intercept_, same.intercept_, atol=1e-5)


def test_without_noise_moments_are_weighted():
    model = PrivateMoments(epsilon=np.inf, random_state=0)
    moments = fitted(model)
    known = moments.sampler_.query_.sample_weights  # of the rows that pairs are of
    used = np.minimum(WEIGHTS, known.most) / known.mean
    columns = np.column_stack([X, Y])
    mean = np.average(columns, axis=0, weights=used)
    np.testing.assert_allclose(moments.mean(), mean, rtol=1e-5, atol=1e-5)
    centered = columns - mean
    products = (used[:, None] * centered).T @ centered
    np.testing.assert_allclose(
        moments.covariance() * (moments.n_rows_ - 1), products, atol=0.05
    )
    assert moments.n_rows_ == pytest.approx(used.sum(), rel=1e-5)
    same = Ridge(0.0).fit(X, Y, sample_weight=used)
    np.testing.assert_allclose(moments.ridge(0).coef_, same.coef_, atol=1e-4)
    with pytest.raises(ValueError, match="sample_weight must be None in fit for least"):
        moments.ols()
    alone = PrivateMoments(epsilon=np.inf, random_state=0).fit(
        X, sample_weight=WEIGHTS, X_reference=X_PUBLIC, sample_weight_reference=PUBLIC
    )
    np.testing.assert_allclose(alone.mean(), mean[:-1], rtol=1e-5, atol=1e-5)


def test_sums_of_weighted_records_are_exact():
    query = fitted(PrivateMoments(random_state=0)).sampler_.query_
    rows, order = np.column_stack([Y, WEIGHTS]), np.random.default_rng(0).permutation(N)
    whole = query(X, rows)
    np.testing.assert_array_equal(whole, query(X[order], rows[order]))
    np.testing.assert_array_equal(
        whole - query(X[1:], rows[1:]), query(X[:1], rows[:1])
    )


@pytest.mark.parametrize(
    "combine", [None, pytest.param("auto", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    ("model", "y"),
    [
        (PrivateRidge(), (Y, Y_PUBLIC)),
        (PrivateLogisticRegression(), LABELS),
        pytest.param(PrivateLogisticRegression(), THREE, marks=pytest.mark.slow),
        (PrivateEstimator(make_pipeline(StandardScaler(), Ridge())), (Y, Y_PUBLIC)),
        pytest.param(
            PrivateEstimator(HuberRegressor()), (Y, Y_PUBLIC), marks=pytest.mark.slow
        ),
        (PrivateEstimator(SGDRegressor()), (Y, Y_PUBLIC)),
    ],
)
def test_only_the_ratio_of_weights_matters(model, y, combine):
    """Noise, penalty and what is compared are the same; and not as without weights."""
    model.set_params(combine=combine, random_state=0)
    model.set_params(gamma=0.3, sensitivity__n_pairs=30)
    first = fitted(model, y).sampler_
    again = fitted(
        model, y, sample_weight=8 * WEIGHTS, sample_weight_reference=8 * PUBLIC
    ).sampler_
    assert again.noise_scale_ == first.noise_scale_
    alike = fitted(model, y, sample_weight=None, sample_weight_reference=None)
    assert alike.noise_scale_ != first.noise_scale_
    assert "no weight counts as more" in str(first.certificate_)
    assert "no weight counts as more" not in str(alike.certificate_)


def test_with_equal_weights_it_is_as_without():
    ones = {"sample_weight": np.full(N, 3.0), "sample_weight_reference": [3.0] * 400}
    none = dict.fromkeys(ones)
    for model, y in (
        (PrivateRidge(random_state=0), (Y, Y_PUBLIC)),
        (PrivateLogisticRegression(random_state=0), LABELS),
    ):
        weighted, alone = (fitted(model, y, **given) for given in (ones, none))
        for name in ("noise_scale_", "sensitivity_"):
            found, expected = getattr(weighted, name), getattr(alone, name)
            assert found == pytest.approx(expected, rel=1e-9)
        penalty = "alpha_" if y[0] is Y else "C_"
        assert getattr(weighted, penalty) == getattr(alone, penalty)


def test_a_far_weight_counts_as_the_largest_public_one():
    model = PrivateRidge(1.0, epsilon=np.inf, random_state=0)
    far = np.where(np.arange(N) == 7, 1e300, WEIGHTS)
    most = np.where(np.arange(N) == 7, PUBLIC.max(), WEIGHTS)
    first, second = (fitted(model, sample_weight=each).coef_ for each in (far, most))
    np.testing.assert_array_equal(first, second)


def test_nobody_may_count_for_anything():
    for model, y in (
        (PrivateRidge(1.0), (Y, Y_PUBLIC)),
        (PrivateLogisticRegression(C=1.0), LABELS),
    ):
        assert np.isfinite(fitted(model, y, sample_weight=np.zeros(N)).coef_).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "y"),
    [
        (PrivateRidge(), (Y, Y_PUBLIC)),
        (PrivateRidge(combine=None), (Y, Y_PUBLIC)),
        (PrivateLogisticRegression(), LABELS),
        (PrivateLogisticRegression(combine=None), LABELS),
        (PrivateEstimator(make_pipeline(StandardScaler(), Ridge())), (Y, Y_PUBLIC)),
        (PrivateMoments(), (Y, Y_PUBLIC)),
    ],
)
def test_fresh_people_are_protected_and_a_claim_without_weights_fails(model, y):
    model.set_params(gamma=GAMMA, random_state=0)
    n_fresh = 500
    X_new, y_new, w_new = population(n_fresh, 3)
    y_new = y_new > 0 if y is LABELS else y_new

    def beyond(sampler):
        """Return how often a fresh person in the place of another is beyond epsilon."""
        noise, query = sampler.mechanism_, model.sampler_.query_
        X_all, y_all = np.concatenate([X, X_new]), np.concatenate([y[0], y_new])
        targets = np.column_stack([y_all, np.concatenate([WEIGHTS, w_new])])
        answer, found = query(X, targets[:N]), 0
        for one in range(n_fresh):
            rows = np.where(np.arange(N) == one, N + one, np.arange(N))
            apart = answer - query(X_all[rows], targets[rows])
            apart = noise.shape.whiten(apart[None, : sampler.n_outputs_])
            found += np.abs(apart).sum() > noise.noise_scale
        return found

    held = beyond(fitted(model, y).sampler_)
    assert binomtest(held, n_fresh, GAMMA, alternative="greater").pvalue > 1e-3
    if y is not LABELS:  # few rows have so much weight that labels do not bound it
        nothing = {"sample_weight": None, "sample_weight_reference": None}
        alike = clone(model)
        failed = beyond(fitted(alike, y, **nothing).sampler_)
        p_value = binomtest(failed, n_fresh, GAMMA, alternative="greater").pvalue
        assert p_value < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [PrivateRidge(1.0), PrivateLogisticRegression(C=1.0, combine=None)]
)
def test_a_tenth_more_or_less_noise_would_be_seen(model):
    """Pairs of "split" are drawn like two new people: the risk is exactly gamma."""
    n_pairs, n_half, n_tables, n_new = 119, 238, 200, 100
    model.set_params(gamma=GAMMA, sensitivity__n_pairs=n_pairs, random_state=0)
    model.set_params(sensitivity__noise_shape="isotropic")
    labels = isinstance(model, PrivateLogisticRegression)

    def people(n, seed):
        """Return rows, and targets or labels; weights that vary less than above."""
        rng = np.random.default_rng([seed, n])
        X, weights = rng.normal(size=(n, 3)), rng.exponential(900.0, size=n)
        y = X @ [1.0, 2.0, -1.0] + (weights > 500) + rng.normal(size=n)
        return X, y > 0 if labels else y, weights

    lengths = np.empty((n_tables, n_new))
    for table in range(n_tables):
        X_public, y_public, public = people(2 * n_half, 3 * table)
        # As the others of a pair are: rows of half a table, again and again.
        again = np.random.default_rng(table).integers(n_half, size=299)
        shared = [part[again] for part in people(n_half, 3 * table + 1)]
        new = people(2 * n_new, 3 * table + 2)
        sampler = model.fit(
            *shared[:2],
            sample_weight=shared[2],
            X_reference=TableReference(X_public, y_public, "split"),
            sample_weight_reference=public,
        ).sampler_
        noise, query = sampler.mechanism_, sampler.query_
        for one in range(n_new):
            answers = []
            for person in (2 * one, 2 * one + 1):
                X, y, weights = (
                    np.concatenate([part, fresh[[person]]])
                    for part, fresh in zip(shared, new, strict=True)
                )
                answers.append(query(X, np.column_stack([y, weights])))
            apart = noise.shape.whiten((answers[0] - answers[1])[None])
            lengths[table, one] = np.abs(apart).sum() / noise.noise_scale
    least, exact, most = (
        (np.mean(beyond) - GAMMA) / (np.std(beyond, ddof=1) / n_tables**0.5)
        for beyond in ((lengths > factor).mean(axis=1) for factor in (1.1, 1.0, 0.9))
    )
    assert least < -3 < exact < 3 < most


def test_weights_stay_with_the_rows_of_people():
    ids, public = np.arange(N) // 3, 1000 + np.arange(N_PUBLIC) // 2
    model = PrivateRidge(1.0, epsilon=np.inf)
    rng = np.random.default_rng(0)
    mixed, also = rng.permutation(N), rng.permutation(N_PUBLIC)
    found = model.fit(
        X[mixed],
        Y[mixed],
        groups=ids[mixed],
        sample_weight=WEIGHTS[mixed],
        X_reference=X_PUBLIC[also],
        y_reference=Y_PUBLIC[also],
        groups_reference=public[also],
        sample_weight_reference=PUBLIC[also],
    ).coef_
    expected = Ridge(1.0).fit(X, Y, USED).coef_
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    model.set_params(epsilon=1.0, random_state=0)
    noise = [
        fitted(
            model,
            groups=ids,
            X_reference=X_PUBLIC[rows],
            y_reference=Y_PUBLIC[rows],
            groups_reference=public[rows],
            sample_weight_reference=PUBLIC[rows],
        ).noise_scale_
        for rows in (np.arange(N_PUBLIC), np.argsort(public % 7, kind="stable"))
    ]
    assert noise[0] == pytest.approx(noise[1], rel=0.2)


def test_a_fitted_sampler_knows_the_weights():
    first = fitted(PrivateRidge(random_state=0))
    again = PrivateRidge(
        first.penalty_choice_, sensitivity=FrozenEstimator(first.sampler_), epsilon=2.0
    )
    given = dict.fromkeys(("X_reference", "y_reference", "sample_weight_reference"))
    assert fitted(again, **given).noise_scale_ < first.noise_scale_
    with pytest.raises(ValueError, match="sample_weight must be given as well"):
        fitted(again, sample_weight=None, **given)
    with pytest.raises(ValueError, match="what was sampled before has its weights"):
        fitted(again, X_reference=None, y_reference=None)
    with pytest.raises(IncompatibleError, match="is of records with weights, which"):
        first.sampler_.release(X, Y)
    with pytest.raises(IncompatibleError, match="is of records with weights, which"):
        audit_reference(
            fitted(PrivateRidge(1.0, combine=None)).sampler_,
            X[:, :],
            Y,
            epsilon=2.0,
            gamma=0.3,
            X_reference=X_PUBLIC,
            y_reference=Y_PUBLIC,
        )


# Of a ridge.
BAD = [
    ({"sample_weight": None}, "sample_weight must be given as well"),
    ({"sample_weight": -WEIGHTS}, "must be a finite number >= 0"),
    ({"sample_weight": WEIGHTS[1:]}, "for each row"),
    ({"sample_weight": ["x"] * N}, "sample_weight"),
    ({"sample_weight": pd.DataFrame(WEIGHTS)}, "0 for each row, and nothing else"),
    ({"sample_weight": np.ma.masked_less(WEIGHTS, 1.0)}, "be a finite number >= 0"),
    ({"sample_weight_reference": PUBLIC * np.nan}, "_reference must be a finite num"),
    ({"sample_weight_reference": 0 * PUBLIC}, "a mean above 0 that is finite"),
    ({"sample_weight_reference": 0 * PUBLIC + 1e308}, "a mean above 0 that is finite"),
    ({"X_reference": None, "y_reference": None}, "unless X_reference has public rec"),
]


@pytest.mark.parametrize(
    ("model", "given", "message"),
    [
        *((PrivateRidge(), *case) for case in BAD),
        (
            PrivateLogisticRegression(),
            {"sample_weight_reference": None},
            "sample_weight_reference must be given as well",
        ),
        (PrivateRidge(sensitivity=1.0), {}, "that is declared or proven"),
        (PrivateMoments(), {"sample_weight": None}, "sample_weight must be given"),
        (PrivateMoments(sensitivity="bound", bounds=(-9, 9)), {}, "declared or proven"),
    ],
)
def test_bad_weights_are_refused(model, given, message):
    with pytest.raises(ValueError, match=message):
        fitted(model, **given)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (RandomForestRegressor(3), "for what is released as sums"),
        (make_pipeline(StandardScaler(), Lars()), "as Lars takes none in fit"),
    ],
)
def test_models_without_weights_are_refused(estimator, message):
    with pytest.raises(IncompatibleError, match=message):
        fitted(PrivateEstimator(estimator))


@pytest.fixture
def _tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    public = X_PUBLIC, Y_PUBLIC, PUBLIC
    write_wages("counts", public=public, mine=(X, Y, WEIGHTS))


@pytest.mark.usefixtures("_tables")
def test_the_command_line_takes_a_column_of_weights(capsys):
    frame = pd.read_csv("mine.csv", index_col=0).astype({"counts": object})
    frame.loc[[3, 4, 5], "counts"] = ["", "-7", "1e999"]
    frame.to_csv("mine.csv")
    assert main([*FIT, "--weight", "counts"]) == 0
    assert "no weight counts as more than the largest" in capsys.readouterr().out
    assert Path("model.skops").exists()


@pytest.mark.usefixtures("_tables")
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--weight", "nothing"], "has no column 'nothing' for --weight"),
        (["--weight", "wage"], "must be neither the target nor dropped"),
        (["--weight", "counts", "--person", "counts"], "another column than --person"),
        (["--weight", "counts", "--test", "mine.csv"], "rows that count alike"),
    ],
)
def test_bad_columns_are_refused_in_one_line(more, message, capsys):
    assert message in refused([*FIT, *more], capsys)
