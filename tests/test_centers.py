"""KMeans takes one step from public centers, by sums that one record moves so far."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from skparisk import PrivateEstimator, SensitivitySampler
from skparisk.core.checks import CalibrationError, IncompatibleError
from skparisk.queries._leaves import CentersQuery

PEOPLE, _ = make_blobs(11_200, 2, centers=5, cluster_std=1.5, random_state=0)
PUBLIC, PRIVATE, OTHERS = np.split(PEOPLE, [200, 10_200])
MODEL = KMeans(5, n_init=4, random_state=0)
SEEDS = {"random_state": 0, "noise_random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::skparisk.PrivacyLeakWarning")


def private(estimator=MODEL, **parameters):
    return PrivateEstimator(estimator, **(SEEDS | parameters))


def queries_of(model, X, public):
    """Return the query of a fit, which only a sampler keeps."""
    pairs = SensitivitySampler(n_pairs=99, noise_shape="isotropic")
    shell = private(model, sensitivity=pairs, gamma=0.2)
    return shell.fit(X, X_reference=public).sampler_.query_


def test_it_is_as_good_as_public_centers_with_pure_privacy():
    public = MODEL.fit(PUBLIC).score(OTHERS)
    for epsilon in (0.1, 1.0):
        model = private(epsilon=epsilon).fit(PRIVATE, X_reference=PUBLIC)
        assert model.score(OTHERS) > 1.02 * public  # scores are below 0
        claim = model.certificate_
        assert (claim.epsilon, claim.delta, claim.risk) == (epsilon, 0.0, 0.0)
        assert model.sampler_ is None
        assert model.public_steps_ == ("centers",)
    assert model.template_.places == ("cluster_centers_",)
    assert model.private_weight_ > 0.9
    assert not hasattr(model, "labels_")


def test_few_public_people_give_a_start_that_private_ones_move():
    few = PUBLIC[:15]
    public = KMeans(5, n_init=4, random_state=0).fit(few).score(OTHERS)
    assert private().fit(PRIVATE, X_reference=few).score(OTHERS) > 0.9 * public


@pytest.mark.parametrize("kind", [KMeans, MiniBatchKMeans])
def test_without_noise_centers_are_means_of_the_nearest(kind):
    estimator = kind(5, n_init=1, random_state=0)
    model = private(estimator, epsilon=np.inf).fit(PRIVATE, X_reference=PUBLIC)
    start = estimator.fit(PUBLIC).cluster_centers_
    nearest = ((PRIVATE[:, None] - start) ** 2).sum(axis=2).argmin(axis=1)
    around = PUBLIC - start[estimator.predict(PUBLIC)]
    deviation = np.sqrt((around**2).sum(axis=0) / (len(PUBLIC) - 5))
    reach = np.maximum(np.abs(around).max(axis=0), 4 * deviation)
    apart = (PRIVATE - start[nearest]).clip(-reach, reach)
    means = [apart[nearest == cell].mean(axis=0) for cell in range(5)]
    np.testing.assert_allclose(model.estimator_.cluster_centers_, start + means)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_no_neighbors_are_farther_apart_than_the_bound_and_some_are_nearly(relation):
    query = queries_of(MODEL, PRIVATE[:50], PUBLIC)
    assert isinstance(query, CentersQuery)
    rng = np.random.default_rng(0)
    far = np.array([[1e9, -1e9], [-1e9, 1e9], [1e300, 1e300], [-1e9, -1e9]])
    ends = np.concatenate([far, PUBLIC[:60], rng.normal(0, 20, size=(60, 2))])
    distances = []
    for one in ends:
        first = np.concatenate([PRIVATE[:9], [one]])
        for other in ends[:9]:
            second = PRIVATE[:9]
            if relation == "replace-one":
                second = np.concatenate([second, [other]])
            distances.append(np.abs(query(first) - query(second)).sum())
    bound = query.bound("l1", relation)
    assert 0.7 * bound < max(distances) <= bound


def test_a_record_moves_by_itself_alone_whoever_else_there_is():
    query = queries_of(MODEL, PRIVATE[:50], PUBLIC)
    each = sum(query(row[None]) for row in PRIVATE[:40])
    np.testing.assert_array_equal(query(PRIVATE[:40]), each)


def test_pairs_are_of_the_half_of_a_table_that_made_no_centers():
    pairs = SensitivitySampler(n_pairs=99)
    model = private(sensitivity=pairs, gamma=0.2).fit(PRIVATE, X_reference=PUBLIC)
    assert f"a table of {len(PUBLIC) // 2} rows" in str(model.certificate_)
    again = private(sensitivity=model.sampler_, gamma=0.2).fit(PRIVATE)
    centers = model.estimator_.cluster_centers_
    np.testing.assert_array_equal(again.estimator_.cluster_centers_, centers)


def towns(n_rows, seed, names=("Graz", "Linz")):
    rng = np.random.default_rng(seed)
    age = rng.normal(40, 10, n_rows)
    return pd.DataFrame({"town": rng.choice(names, n_rows), "age": age})


def test_steps_before_are_public_and_no_record_is_refused():
    columns = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["town"]), (StandardScaler(), ["age"])
    )
    model = private(make_pipeline(columns, KMeans(2, n_init=1)))
    people = towns(300, 0)
    people.loc[0, "town"] = "Ried"
    model.fit(people, X_reference=towns(100, 1))
    assert model.public_steps_ == ("columntransformer", "centers")
    assert model.estimator_[-1].cluster_centers_.shape == (2, 3)
    assert set(model.predict(towns(9, 2))) <= {0, 1}


def test_nearest_centers_do_not_depend_on_who_is_refused():
    """A refused record changes the order in memory, in which distances are summed."""
    rng = np.random.default_rng(0)
    names = [f"c{number}" for number in range(12)]
    people = pd.DataFrame(rng.normal(size=(250, 12)), columns=names)
    people["town"] = rng.choice(["Graz", "Linz"], 250)
    columns = make_column_transformer(
        (OneHotEncoder(), ["town"]), ("passthrough", names)
    )
    pipe = make_pipeline(columns, KMeans(2, n_init=1))
    query = queries_of(pipe, people[:50], people[50:])
    first, second = query.leaves.centers
    along, numbers = second - first, rng.normal(size=(64, 12))
    coded = np.column_stack([np.ones(64), np.zeros(64), numbers])
    off = (coded - (first + second) / 2) @ along / (along[2:] @ along[2:])
    ties = pd.DataFrame(numbers - np.outer(off, along[2:]), columns=names)
    ties["town"] = "Graz"
    other = ties.copy()
    other.loc[0, "town"] = "Ried"
    assert np.abs(query(ties) - query(other)).sum() <= query.bound()
    each = sum(query(ties[row : row + 1]) for row in range(64))
    np.testing.assert_array_equal(query(ties), each)


def visits(X):
    return np.repeat(X, X[:, 0].astype(int).clip(0), axis=0)


def short(X):
    return X[:, : 1 + (X[:, 0] > 5).sum()] if len(X) == 1 else X


@pytest.mark.parametrize("step", [visits, short])
def test_a_step_that_returns_more_than_a_row_refuses_the_record(step):
    flag = 1.0 if step is visits else 9.0
    people = np.column_stack([np.full(110, flag), PUBLIC[:110, :1]])
    pipe = make_pipeline(FunctionTransformer(step), KMeans(2, n_init=1))
    query = queries_of(pipe, people[:30], people[30:])
    many = people[:9].copy()
    many[0, 0] = 51.0 - 50 * (step is short)
    assert np.abs(query(people[:9]) - query(many)).sum() <= query.bound()


@pytest.mark.parametrize(
    "step",
    [
        PCA(1),
        FrozenEstimator(PCA(2).fit(PUBLIC)),
        make_pipeline(FunctionTransformer(csr_matrix), TruncatedSVD(1, random_state=0)),
        make_pipeline("passthrough", FunctionTransformer(np.tanh)),
    ],
    ids=["PCA", "frozen", "sparse", "not known"],
)
def test_steps_before_see_records_by_themselves(step):
    query = queries_of(make_pipeline(step, KMeans(2, n_init=1)), PRIVATE[:30], PUBLIC)
    each = sum(query(row[None]) for row in PRIVATE[:20])
    np.testing.assert_array_equal(query(PRIVATE[:20]), each)
    moved = query(PRIVATE[:20][::-1])  # rounding does not depend on places
    np.testing.assert_array_equal(query(PRIVATE[:20]), moved)


def test_where_few_people_are_in_a_cluster_the_bound_is_advised():
    people = np.random.default_rng(0).normal(size=(600, 2))
    people[::20] = 10 * people[::20] + 60
    pairs = SensitivitySampler(n_pairs=100)
    model = private(KMeans(2, n_init=1, random_state=0), sensitivity=pairs, gamma=0.2)
    with pytest.raises(CalibrationError, match=r"few people.*sensitivity=.bound., "):
        model.fit(people[300:], X_reference=people[:300])
    model.set_params(sensitivity="bound").fit(people[300:], X_reference=people[:300])
    assert model.certificate_.risk == 0.0


def centered(X):
    return X - np.mean(X, axis=0)


def nothing(X):
    return np.full_like(X, np.nan) if len(X) == 1 and X[0, 0] > 1e6 else X


def test_what_is_no_number_behind_the_steps_is_in_the_middle():
    pipe = make_pipeline(FunctionTransformer(nothing), KMeans(2, n_init=1))
    query = queries_of(pipe, PRIVATE[:30], PUBLIC)
    assert np.isfinite(query(np.array([[1e9, 0.0]]))).all()


@pytest.mark.parametrize(
    ("estimator", "public", "error", "words"),
    [
        (MODEL, None, IncompatibleError, "KMeans starts from public centers: give X_"),
        (MODEL, np.ones((40, 2)), ValueError, "n_clusters must be at most the number"),
        (
            make_pipeline(FunctionTransformer(centered), MODEL),
            PUBLIC,
            IncompatibleError,
            "steps before KMeans must transform each record by itself",
        ),
    ],
    ids=["no reference", "one record", "company"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_there_are_no_public_centers_for_is_refused(
    estimator, public, error, words
):
    with pytest.raises(error, match=words):
        private(estimator).fit(PRIVATE, X_reference=public)
