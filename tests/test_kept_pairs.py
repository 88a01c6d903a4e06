"""Pairs that are drawn once: found again in a folder, added to, read from a file."""

import json
import multiprocessing
import pickle
import warnings
import zipfile
from contextlib import suppress

import joblib
import numpy as np
import pandas as pd
import pytest
from laws import exceeds
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV

from skparisk import (
    IncompatibleError,
    LearnedReference,
    PrivacyLeakWarning,
    PrivateEstimator,
    PrivateRidge,
    SchemaReference,
    SecretSample,
    SensitivitySampler,
)
from skparisk.calibration import Exchangeable
from skparisk.mechanisms import IsotropicShape
from skparisk.queries import FunctionQuery, MeanQuery, RidgeQuery
from skparisk.reference import (
    CallableReference,
    Categories,
    Domain,
    Interval,
    TableReference,
)
from skparisk.sensitivity import _drawing, _kept, _store
from skparisk.sensitivity._document import pack, unpack

RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(300, 2))
TARGETS = PUBLIC @ [1.0, -2.0] + RNG.normal(size=300)
PRIVATE = RNG.normal(size=(300, 2))


def own_mean(X):
    return X.mean(axis=0)


def sampler_of(memory=None, query=None, **parameters):
    given = {"n_pairs": 100, "random_state": 0, **parameters}
    return SensitivitySampler(query or MeanQuery(), memory=memory, **given)


def files_in(folder):
    return sorted(folder.rglob("*.npz"))


@pytest.fixture
def draws(monkeypatch):
    """Count how often pairs are drawn."""
    seen = []

    def spy(*args, **how):
        seen.append(how["n_pairs"])
        return draw(*args, **how)

    draw = _drawing.sample_pairs
    monkeypatch.setattr(_drawing, "sample_pairs", spy)
    return seen


def assert_same_pairs(one, other):
    """All that noise is calibrated from is the same, bit by bit."""
    for name in ("differences", "errors", "rounding", "answer", "weights"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for name in ("failure", "draw_seed", "schema", "n_neighbors", "n_independent"):
        assert getattr(one, name) == getattr(other, name)
    assert one.domain == other.domain


@pytest.mark.parametrize("kind", [str, lambda path: path, joblib.Memory])
def test_a_grid_draws_its_pairs_once(tmp_path, draws, kind):
    """And has what it has without a memory."""
    query = RidgeQuery(0.5)
    grid = [
        {"epsilon": 0.5},
        {"gamma": 0.2},
        {"law": "gaussian", "randomness": "both"},
        {"noise_shape": "diagonal"},
        {"calibration": "pac"},
        {"advantage": 0.2},
    ]
    for changed in grid:
        kept = sampler_of(kind(tmp_path), query, **changed).fit(PUBLIC, TARGETS)
        assert len(draws) == 1
        plain = sampler_of(None, query, **changed)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_drawing, "sample_pairs", _kept.sample_pairs)
            plain.fit(PUBLIC, TARGETS)
        assert_same_pairs(kept.pairs_, plain.pairs_)
        assert kept.certificate_ == plain.certificate_
        assert kept.noise_scale_ == plain.noise_scale_
    assert len(files_in(tmp_path)) == 1


def changed_table():
    X = PUBLIC.copy()
    X[299, 1] = np.nextafter(X[299, 1], np.inf)
    return X


@pytest.mark.parametrize(
    ("change", "X"),
    [
        ({"query": RidgeQuery(0.5 + 2**-52)}, PUBLIC),
        ({"query": RidgeQuery(0.5, fit_intercept=False)}, PUBLIC),
        ({"random_state": 1}, PUBLIC),
        ({"n_pairs": 101}, PUBLIC),
        ({"n_records": 299}, PUBLIC),
        ({"neighbors_per_database": 2}, PUBLIC),
        ({"relation": "add-remove", "n_records": 300}, PUBLIC),
        ({"reference": TableReference(PUBLIC, TARGETS, "bootstrap")}, PUBLIC),
        ({"reference": TableReference(PUBLIC, TARGETS, clip=True)}, PUBLIC),
        ({"reference": TableReference(PUBLIC, -TARGETS)}, PUBLIC),
        ({}, changed_table()),
    ],
)
def test_what_pairs_depend_on_is_known_by(tmp_path, draws, change, X):
    """Any change of it draws anew."""
    sampler_of(tmp_path, RidgeQuery(0.5)).fit(PUBLIC, TARGETS)
    other = sampler_of(tmp_path, RidgeQuery(0.5)).set_params(**change)
    if other.reference is not None:  # of which `X` only tells the columns
        other.set_params(n_records=300)
    other.fit(X, TARGETS)
    assert len(draws) == 2
    assert len(files_in(tmp_path)) == 2


@pytest.mark.parametrize("name", ["versions", "build", "_settings"])
def test_another_version_draws_anew(tmp_path, draws, monkeypatch, name):
    """Also of scikit-learn's settings, and of sources that are worked on."""
    sampler_of(tmp_path).fit(PUBLIC)
    other = "0" * 64 if name == "build" else {"numpy": "0.0"}
    monkeypatch.setattr(_store, name, lambda: other)
    sampler_of(tmp_path).fit(PUBLIC)
    assert len(draws) == 2


def test_what_does_not_change_pairs_does_not_draw(tmp_path, draws):
    """Nor does it change what is found."""
    first = sampler_of(tmp_path).fit(PUBLIC)
    again = sampler_of(tmp_path, n_jobs=2, verbose=1).fit(PUBLIC)
    also = clone(first).set_params(memory=joblib.Memory(tmp_path)).fit(PUBLIC)
    assert len(draws) == 1
    assert_same_pairs(again.pairs_, also.pairs_)
    more = also.extend(150, PUBLIC)
    assert_same_pairs(more.pairs_, first.extend(150, PUBLIC).pairs_)
    assert len(files_in(tmp_path)) == 1
    sampler_of(joblib.Memory(None)).fit(PUBLIC)  # which keeps nothing
    assert len(draws) == 2


def closure(factor):
    return lambda X: factor * X.mean(axis=0)


class OwnQuery(MeanQuery):
    """A class that may do anything."""


@pytest.mark.parametrize(
    ("query", "what"),
    [
        (own_mean, "own_mean"),
        (closure(2.0), "<lambda>"),
        (OwnQuery(), "OwnQuery"),
        (FunctionQuery(np.vectorize(own_mean)), "own_mean"),
    ],
)
def test_a_query_that_is_not_known_again_is_refused(tmp_path, draws, query, what):
    """Its pairs might be found for another of the same name."""
    with pytest.raises(ValueError, match=rf"memory must be None .* query: .*{what}"):
        sampler_of(tmp_path, query).fit(PUBLIC)
    assert not draws
    assert not files_in(tmp_path)


def test_a_reference_that_is_not_known_again_is_refused(tmp_path, draws):
    reference = CallableReference(lambda n, rng: rng.normal(size=(n, 2)))
    with pytest.raises(ValueError, match=r"memory .* this reference: .*<lambda>"):
        sampler_of(tmp_path, reference=reference).fit(PUBLIC)
    assert not draws


@pytest.mark.parametrize("seed", [None, np.random.RandomState(0), True])
def test_a_memory_needs_a_seed(tmp_path, seed):
    with pytest.raises(ValueError, match="random_state must be a whole number with"):
        sampler_of(tmp_path, random_state=seed).fit(PUBLIC)
    with pytest.raises(ValueError, match="memory must be None, the path"):
        sampler_of(7).fit(PUBLIC)


def ridge(tmp_path, **parameters):
    sampler = sampler_of(tmp_path, random_state=None)
    sampler.set_params(query=None, **parameters)
    return PrivateRidge(sensitivity=sampler, random_state=0, noise_random_state=0)


@pytest.mark.filterwarnings("ignore::skparisk.PrivacyLeakWarning")
@pytest.mark.filterwarnings("ignore::skparisk.ReferenceWarning")
@pytest.mark.parametrize("kind", ["training", "shared", "half", "draw", "learned"])
def test_private_references_never_touch_the_folder(tmp_path, kind):
    """Nor does what is learned from private records anew in each fit."""
    parameters, given = {}, {}
    if kind == "shared":
        given = {"X_reference": PUBLIC[:200], "y_reference": TARGETS[:200]}
    elif kind in ("half", "draw"):
        half = SecretSample(0.5)
        parameters["reference"] = half if kind == "half" else half.draw(PUBLIC)
    elif kind == "learned":
        schema = SchemaReference([(-5, 5), (-5, 5)], target=(-9, 9))
        parameters["reference"] = LearnedReference(schema, epsilon=1.0)
    model = ridge(tmp_path, **parameters).fit(PUBLIC, TARGETS, **given)
    assert model.sampler_.noise_scale_ > 0
    assert [*tmp_path.iterdir()] == []
    sampler = sampler_of(tmp_path, np.mean)
    sampler.set_params(query=None).fit_transform(PUBLIC)
    assert [*tmp_path.iterdir()] == []


def test_a_reference_that_turns_out_private_is_removed(tmp_path):
    """All that there is of it; other references stay."""
    sampler_of(tmp_path, n_pairs=99).fit(PUBLIC)
    sampler_of(tmp_path).fit(PRIVATE)
    kept = sampler_of(tmp_path).fit(PUBLIC)
    assert len(files_in(tmp_path)) == 3
    with pytest.warns(PrivacyLeakWarning):
        kept.release(PUBLIC)
    (left,) = files_in(tmp_path)
    again = sampler_of(tmp_path).fit(PUBLIC)
    again.release(PRIVATE)
    assert len(files_in(tmp_path)) == 2
    for path in files_in(tmp_path):  # gone already: nothing to remove
        if path != left:
            path.unlink()
            path.parent.rmdir()
    with pytest.warns(PrivacyLeakWarning):
        again.release(PUBLIC)
    assert files_in(tmp_path) == [left]


def test_how_records_are_given_is_known_by(tmp_path, draws):
    """A function may answer otherwise where it is given a data frame."""
    frame = pd.DataFrame(PUBLIC, columns=["a", "b"])
    given = {"query": np.std, "reference": TableReference(frame), "n_records": 50}
    sampler_of(tmp_path, **given).fit(frame)
    sampler_of(tmp_path, **given).fit(PUBLIC)
    assert len(draws) == 2
    sampler_of(tmp_path, **given).fit(frame.rename(index=str))
    assert len(draws) == 2


def test_columns_are_compared_with_those_of_pairs_that_are_found(tmp_path):
    """Also where a reference has no columns of its own: see `CallableReference`."""
    frame = pd.DataFrame(PUBLIC, columns=["a", "b"])
    query = FunctionQuery(np.mean)
    reference = TableReference(frame)
    sampler = sampler_of(tmp_path, query, reference=reference, n_records=50)
    sampler.fit(frame)
    with pytest.raises(IncompatibleError, match="lacks the column 'c'"):
        sampler.fit(frame.rename(columns={"b": "c"}))


@pytest.mark.parametrize("n_splits", [3])
def test_a_search_draws_once_for_folds_of_a_size(tmp_path, draws, n_splits):
    """Through the parameters of an estimator, and clones of it."""
    reference = TableReference(PRIVATE, PRIVATE @ [1.0, -1.0])
    model = PrivateRidge(random_state=0, noise_random_state=0).set_params(
        sensitivity__memory=tmp_path,
        sensitivity__reference=reference,
        sensitivity__n_pairs=100,
    )
    grid = {"epsilon": [0.5, 1.0, 2.0], "gamma": [0.05, 0.1]}
    search = GridSearchCV(model, grid, cv=n_splits, refit=False)
    with pytest.warns(PrivacyLeakWarning):
        search.fit(PUBLIC, TARGETS)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(draws) == 1
    without = clone(model).set_params(sensitivity__memory=None)
    with pytest.warns(PrivacyLeakWarning):
        kept = model.fit(PUBLIC, TARGETS)
    with pytest.warns(PrivacyLeakWarning):
        plain = without.fit(PUBLIC, TARGETS)
    np.testing.assert_array_equal(kept.coef_, plain.coef_)
    assert kept.certificate_ == plain.certificate_


def test_any_estimator_of_scikit_learn_is_known_again(tmp_path, draws):
    frame = pd.DataFrame(PUBLIC, columns=["a", "b"])
    people = pd.DataFrame(PRIVATE, columns=["a", "b"])
    model = PrivateEstimator(LinearRegression(), random_state=0).set_params(
        sensitivity__memory=tmp_path, sensitivity__n_pairs=30, gamma=0.2
    )
    for epsilon in (1.0, 2.0):
        model.set_params(epsilon=epsilon)
        model.fit(people, TARGETS, X_reference=frame, y_reference=-TARGETS)
    assert len(draws) == 1


@pytest.mark.parametrize("damage", ["cut", "flipped", "renamed", "pickle", "format"])
def test_a_damaged_entry_is_drawn_again(tmp_path, draws, damage):
    """With a warning; it is then whole again."""
    whole = sampler_of(tmp_path).fit(PUBLIC)
    (path,) = files_in(tmp_path)
    data = path.read_bytes()
    if damage == "cut":
        path.write_bytes(data[:-100])
    elif damage == "flipped":
        place = data.index(whole.differences_.tobytes())
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    elif damage == "renamed":
        sampler_of(tmp_path, n_pairs=99).fit(PUBLIC)
        (other,) = {*files_in(tmp_path)} - {path}
        other.replace(path)
    elif damage == "pickle":
        path.write_bytes(pickle.dumps(whole))
    else:
        path.write_bytes(pack("skparisk.pairs", 0, {}, {}))
    drawn = len(draws)
    with pytest.warns(UserWarning, match=r"are drawn again, because the file"):
        again = sampler_of(tmp_path).fit(PUBLIC)
    assert len(draws) == drawn + 1
    assert_same_pairs(again.pairs_, whole.pairs_)
    assert path.read_bytes() == data
    sampler_of(tmp_path).fit(PUBLIC)
    assert len(draws) == drawn + 1


def write_often(folder, n_times):
    warnings.simplefilter("error")
    for _ in range(n_times):
        sampler_of(folder, n_pairs=19, gamma=0.1).fit(PUBLIC)
        for path in files_in(folder):
            path.unlink(missing_ok=True)


@pytest.mark.slow
def test_processes_may_write_one_entry(tmp_path):
    """What is there is whole at any time: damage would be a warning, so an error."""
    sampler_of(tmp_path, n_pairs=19, gamma=0.1).fit(PUBLIC)
    fork = multiprocessing.get_context("spawn")
    writers = [fork.Process(target=write_often, args=(tmp_path, 40)) for _ in range(2)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        for path in tmp_path.rglob("*.npz"):
            with suppress(FileNotFoundError):
                unpack(path.read_bytes(), "skparisk.pairs", 1)
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0


def test_nothing_is_left_of_a_write_that_fails(tmp_path, monkeypatch):
    """And what was there before stays."""
    path = tmp_path / "mean.npz"
    fitted = sampler_of().fit(PUBLIC)
    fitted.save(path)
    before = path.read_bytes()

    def fail(*names):
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="no space"):
        fitted.save(path)
    assert files_in(tmp_path) == [path]
    assert path.read_bytes() == before


REFERENCES = {
    "leave-out": TableReference(PUBLIC, TARGETS),
    "bootstrap": TableReference(PUBLIC, TARGETS, "bootstrap"),
    "split": TableReference(*(np.tile(a.T, 4).T for a in (PUBLIC, TARGETS)), "split"),
    "disjoint": TableReference(PUBLIC, TARGETS, "disjoint"),
}


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("query", [MeanQuery(), RidgeQuery(1.0), own_mean])
def test_more_pairs_are_those_of_all_at_once(name, query):
    """Bit by bit: from within the first block, its end, and a later block."""
    reference = REFERENCES[name]
    n_records, most = (2, 100) if name == "disjoint" else (40, 200)
    if name == "split":
        most = 150
    given = {"reference": reference, "n_records": n_records, "gamma": 0.1}
    at_once = sampler_of(None, query, n_pairs=most, **given).fit(PUBLIC, TARGETS)
    for n_pairs in (20, 64, 99):
        fewer = sampler_of(None, query, n_pairs=n_pairs, **given).fit(PUBLIC, TARGETS)
        before = fewer.differences_.copy()
        more = fewer.extend(most)
        assert_same_pairs(more.pairs_, at_once.pairs_)
        assert more.noise_scale_ == at_once.noise_scale_
        assert more.n_pairs == more.n_pairs_ == most
        np.testing.assert_array_equal(fewer.differences_, before)
        assert fewer.n_pairs == n_pairs
        whole = n_pairs // 64 * 64
        np.testing.assert_array_equal(more.differences_[:whole], before[:whole])


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_more_databases_with_several_neighbors(relation):
    """Which may be added again, and with a seed that nobody knows."""
    given = {"n_records": 50, "neighbors_per_database": 4, "relation": relation}
    given["reference"] = REFERENCES["leave-out"]
    sampler = sampler_of(None, RidgeQuery(1.0), n_pairs=4 * 70, **given)
    for seed in (3, np.random.RandomState(4)):
        sampler.set_params(random_state=seed).fit(PUBLIC, TARGETS)
        twice = sampler.extend(4 * 100).extend(4 * 130, None)
        once = sampler.extend(4 * 130)
        assert_same_pairs(twice.pairs_, once.pairs_)
        assert twice.certificate_ == once.certificate_
    sampler.set_params(random_state=3)
    at_once = clone(sampler).set_params(n_pairs=4 * 130).fit(PUBLIC, TARGETS)
    fitted = sampler.fit(PUBLIC, TARGETS)
    assert_same_pairs(fitted.extend(4 * 130).pairs_, at_once.pairs_)
    with pytest.raises(ValueError, match="n_pairs must be a multiple of"):
        sampler.extend(4 * 130 + 1)


def failing_mean(X):
    """Answer few of the databases."""
    if X[0, 0] > 0.5:
        raise ArithmeticError(f"{X[0, 0]:.3f}")
    return X.mean(axis=0)


def test_databases_without_an_answer_stay_as_they_are():
    """Rounding and reasons are those of the pairs that there are in the end."""
    given = {"gamma": 0.7, "noise_shape": "isotropic", "n_records": 60}
    fewer = sampler_of(None, failing_mean, n_pairs=70, **given).fit(PUBLIC)
    at_once = sampler_of(None, failing_mean, n_pairs=140, **given).fit(PUBLIC)
    assert np.isinf(fewer.differences_).any()
    assert_same_pairs(fewer.extend(140, PUBLIC).pairs_, at_once.pairs_)


def test_a_sampler_of_an_estimator_is_extended_with_its_reference():
    sampler = SensitivitySampler(n_pairs=50)
    model = PrivateRidge(sensitivity=sampler, gamma=0.1, random_state=0)
    fit = {"X_reference": PRIVATE, "y_reference": -TARGETS}
    fitted = model.fit(PUBLIC, TARGETS, **fit).sampler_
    more = fitted.extend(90, PRIVATE, -TARGETS)
    at_once = clone(model).set_params(sensitivity__n_pairs=90)
    assert_same_pairs(at_once.fit(PUBLIC, TARGETS, **fit).sampler_.pairs_, more.pairs_)
    taken = PrivateRidge(sensitivity=more, gamma=0.1).fit(PUBLIC, TARGETS)
    assert "settled without a look" in " ".join(taken.certificate_.caveats)


def test_what_cannot_be_extended_is_refused():
    """With what would do instead."""
    table = sampler_of().fit(PUBLIC)
    for n_pairs in (100, 99, 150.0, "auto"):
        with pytest.raises(ValueError, match="n_pairs must be a whole number >= 101"):
            table.extend(n_pairs, PUBLIC)
    with pytest.raises(ValueError, match="X must be given again"):
        table.extend(200)
    with pytest.raises(IncompatibleError, match="is another one than"):
        table.extend(200, changed_table())
    again = sampler_of(reference=TableReference(PUBLIC), n_records=5).fit(PUBLIC)
    with pytest.raises(ValueError, match="X must be None where"):
        again.extend(200, PUBLIC)
    made = SchemaReference([(0, 1), (0, 1)])
    declared = sampler_of(reference=made, n_records=5).fit(PUBLIC)
    with pytest.raises(ValueError, match="records of all pairs together"):
        declared.extend(200)
    drawn = sampler_of(reference=lambda n, rng: rng.normal(size=(n, 2)), n_records=5)
    with pytest.raises(IncompatibleError, match="cannot be known again as"):
        drawn.fit(PUBLIC).extend(200)
    once = sampler_of(reference=REFERENCES["disjoint"], n_records=2).fit(PUBLIC)
    with pytest.raises(ValueError, match="at least 303 rows"):
        once.extend(101)
    with pytest.warns(PrivacyLeakWarning):
        table.release(PUBLIC)
    with pytest.raises(IncompatibleError, match="came from private data"):
        table.extend(200, PUBLIC)


def test_other_versions_do_not_extend(monkeypatch):
    fitted = sampler_of().fit(PUBLIC)
    monkeypatch.setattr(_drawing, "versions", lambda: {"numpy": "0.0"})
    with pytest.raises(IncompatibleError, match="by the same versions"):
        fitted.extend(200, PUBLIC)


SAVED = {
    "mean": (MeanQuery(), {}),
    "whitened": (RidgeQuery(1.0), {"noise_shape": "whitened", "gamma": 0.1}),
    "both": (RidgeQuery(1.0), {"randomness": "both", "law": "gaussian"}),
    "neighbors": (RidgeQuery(1.0), {"neighbors_per_database": 2, "gamma": 0.2}),
    "infinite": (MeanQuery(), {"epsilon": np.float64(np.inf)}),
    "advantage": (MeanQuery(), {"advantage": 0.2}),
    "pac": (MeanQuery(), {"calibration": "pac", "noise_random_state": 3}),
    "records": (None, {"n_pairs": 50}),
    "numpy": (np.median, {"relation": "add-remove", "n_records": 20}),
}


@pytest.mark.parametrize("name", SAVED)
@pytest.mark.filterwarnings("ignore::skparisk.PrivacyLeakWarning")
def test_a_sampler_is_read_as_it_was_written(tmp_path, name):
    """With its noise, and what it is to refuse."""
    query, given = SAVED[name]
    reference = TableReference(PUBLIC, TARGETS)
    given = {"n_pairs": 100, "reference": reference, "n_records": 300, **given}
    if query is None:
        given["n_records"] = None
    fitted = SensitivitySampler(query, random_state=0, **given).fit(PUBLIC, TARGETS)
    fitted.save(tmp_path / "sampler.npz")
    read = SensitivitySampler.load(tmp_path / "sampler.npz", query=query)
    assert_same_pairs(read.pairs_, fitted.pairs_)
    assert read.certificate_ == fitted.certificate_
    assert read.query_ == fitted.query_
    own = {**fitted.get_params(), "reference": None, "random_state": None}
    assert read.get_params() == own
    assert {*vars(read)} == {*vars(fitted)}
    state = {"noise_random_state": 0}
    if name == "infinite":
        return
    noise = [s.set_params(**state).calibrate().mechanism_ for s in (read, fitted)]
    assert noise[0].noise_scale == noise[1].noise_scale
    more = 2 * len(fitted.pairs_)
    read.set_params(reference=reference)
    assert_same_pairs(read.extend(more).pairs_, fitted.extend(more).pairs_)


def test_what_was_read_knows_private_records_again(tmp_path):
    """And the columns, and the domain."""
    frame = pd.DataFrame(PUBLIC, columns=["a", "b"])
    reference = TableReference(frame, clip=True)
    sampler = sampler_of(query=np.mean, reference=reference, n_records=300, n_pairs=99)
    sampler.fit(frame).save(tmp_path / "s.npz")
    read = SensitivitySampler.load(tmp_path / "s.npz", np.mean)
    assert [*read.feature_names_in_] == ["a", "b"]
    assert read.pairs_.domain == reference.domain
    with pytest.raises(ValueError, match="feature names should match"):
        read.release(pd.DataFrame(PRIVATE, columns=["a", "c"]))
    with pytest.warns(PrivacyLeakWarning):
        read.release(frame.sample(frac=1, random_state=0))
    with pytest.raises(IncompatibleError, match="came from private data"):
        read.save(tmp_path / "t.npz")
    assert files_in(tmp_path) == [tmp_path / "s.npz"]


def test_every_kind_of_column_is_written(tmp_path):
    """Ranges of numbers, dates and durations, categories, and what is free."""
    columns = [
        Interval(0.1, 7),
        Interval(np.datetime64("2020-01-01"), np.datetime64("2021-01-01"), True),
        Interval(np.timedelta64(1, "s"), np.timedelta64(9, "s")),
        Categories(["f", None, "m"], "m"),
        Categories([True, np.float64(2.5)]),
        None,
    ]
    fitted = sampler_of().fit(PUBLIC)
    fitted.pairs_.domain = Domain(columns, [Categories([3, 1])])
    fitted.save(tmp_path / "s.npz")
    read = SensitivitySampler.load(tmp_path / "s.npz", MeanQuery())
    assert read.pairs_.domain == fitted.pairs_.domain
    assert read.pairs_.domain.columns[3].default == "m"
    fitted.pairs_.domain = Domain([Categories([np.datetime64("2020")])])
    with pytest.raises(ValueError, match="a category must be a text, a number"):
        fitted.save(tmp_path / "s.npz")


def test_a_query_of_ones_own_is_the_callers_word(tmp_path):
    """What is known of it is its name, and the certificate says so."""
    fitted = sampler_of(query=own_mean).fit(PUBLIC)
    fitted.save(tmp_path / "s.npz")
    read = SensitivitySampler.load(tmp_path / "s.npz", query=own_mean)
    assert read.noise_scale_ == fitted.noise_scale_
    (caveat,) = {*read.certificate_.caveats} - {*fitted.certificate_.caveats}
    assert "query own_mean, which cannot be known again, is the caller's" in caveat
    read.save(tmp_path / "t.npz")
    again = SensitivitySampler.load(tmp_path / "t.npz", query=own_mean)
    assert again.certificate_ == read.certificate_


@pytest.mark.parametrize("query", [None, np.mean, np.ptp, own_mean, RidgeQuery(2.0)])
def test_pairs_of_another_query_are_refused(tmp_path, query):
    sampler_of(query=RidgeQuery(1.0)).fit(PUBLIC, TARGETS).save(tmp_path / "s.npz")
    with pytest.raises(IncompatibleError, match="has pairs of the query RidgeQuery"):
        SensitivitySampler.load(tmp_path / "s.npz", query=query)


def rewritten(data, **changes):
    """Return a file whose digest is right, with another text."""
    document, arrays = unpack(data, "skparisk.sampler", 1)
    given = {**document, **changes}
    kind, version = given.pop("format"), given.pop("format_version")
    return pack(kind, version, given, arrays)


def test_each_kind_of_damage_has_its_message(tmp_path):
    """And nothing of a file is trusted then."""
    fitted = sampler_of().fit(PUBLIC)
    path = tmp_path / "s.npz"
    fitted.save(path)
    data = path.read_bytes()
    place = data.index(fitted.differences_.tobytes())
    flipped = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
    other = {"skparisk": "0.0", "numpy": np.__version__}
    versions = {**json_of(data)["versions"], **other}
    wrong = {
        "is truncated": data[: len(data) // 2],
        "has been altered: its archive": flipped,
        "has been altered: its digest": crc_repaired(path, fitted),
        "is no file of skparisk.sampler": b"not an archive",
        r"is a file of skparisk.pairs, and not": rewritten(
            data, format="skparisk.pairs"
        ),
        "has version 2 of the format": rewritten(data, format_version=2),
        "does not describe sampled pairs": rewritten(data, schema=None),
    }
    for message, damaged in wrong.items():
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=message):
            SensitivitySampler.load(path, query=MeanQuery())
    path.write_bytes(rewritten(data, versions=versions))
    with pytest.raises(IncompatibleError, match=r"written with skparisk 0\.0 \(here"):
        SensitivitySampler.load(path, query=MeanQuery())
    with pytest.raises(FileNotFoundError):
        SensitivitySampler.load(tmp_path / "none.npz", query=MeanQuery())
    path.write_bytes(data)
    SensitivitySampler.load(path, query=MeanQuery())


def json_of(data):
    return unpack(data, "skparisk.sampler", 1)[0]


def crc_repaired(path, fitted):
    """Return an archive that is whole, with one difference altered."""
    with np.load(path, allow_pickle=False) as archive:
        members = {name: archive[name] for name in archive.files}
    members["differences"] = fitted.differences_ / 2
    with (path.parent / "altered").open("wb") as file:
        np.savez(file, **members)
    return (path.parent / "altered").read_bytes()


def test_a_file_is_plain(tmp_path):
    """Numpy reads it, and no member is a pickle, or any private record."""
    fitted = sampler_of().fit(PUBLIC)
    fitted.save(tmp_path / "s.npz")
    with np.load(tmp_path / "s.npz", allow_pickle=False) as archive:
        assert {archive[name].dtype.kind for name in archive.files} <= set("fuU")
        document = json.loads(archive["document"].tobytes())
    assert document["format"] == "skparisk.sampler"
    with zipfile.ZipFile(tmp_path / "s.npz") as archive:
        assert {name.rpartition(".")[2] for name in archive.namelist()} == {"npy"}


def test_what_is_not_saved_is_refused(tmp_path):
    path = tmp_path / "s.npz"
    shaped = sampler_of(noise_shape=IsotropicShape()).fit(PUBLIC)
    with pytest.raises(ValueError, match="noise_shape must be a text, a number or"):
        shaped.save(path)
    changed = sampler_of().fit(PUBLIC).set_params(epsilon=2.0)
    with pytest.raises(ValueError, match="must be those that the noise was calib"):
        changed.save(path)
    changed.calibrate().save(path)
    assert SensitivitySampler.load(path, MeanQuery()).epsilon == 2.0
    schema = SchemaReference([(-9, 9), (-9, 9)])
    split = LearnedReference(schema, epsilon=1.0).learn(PUBLIC)
    learned = sampler_of(reference=split.reference).fit(PUBLIC)
    with pytest.raises(IncompatibleError, match="learned from private records are"):
        learned.save(path)


def test_pairs_of_a_learned_law_are_found_again(tmp_path, draws):
    """Where it was learned once: what is learned with noise is public."""
    schema = SchemaReference([(-9, 9), (-9, 9)])
    split = LearnedReference(schema, epsilon=1.0).learn(PUBLIC)
    others = split.remaining(PUBLIC)
    for epsilon in (1.0, 2.0):
        sampler = sampler_of(tmp_path, reference=split.reference, epsilon=epsilon)
        assert sampler.fit(others).pairs_.learning is split.reference.learning
    assert len(draws) == 1
    again = LearnedReference(schema, epsilon=1.0).learn(PUBLIC)
    sampler_of(tmp_path, reference=again.reference).fit(others)
    assert len(draws) == 2


@pytest.mark.slow
def test_a_number_of_pairs_that_is_chosen_by_a_look_has_a_larger_risk():
    """Not so one that is settled before; and never k times as large, for k numbers."""
    gamma, trials, numbers = 0.05, 20_000, (19, 39, 59)
    sizes = np.random.default_rng(0).exponential(size=(trials, max(numbers) + 1))
    rule, fresh = Exchangeable(), sizes[:, -1]
    scales = []
    for n_pairs in numbers:
        index = rule.order_index(n_pairs, gamma)
        scales.append(np.sort(sizes[:, :n_pairs], axis=1)[:, index - 1])
    for settled in scales:
        assert not exceeds(np.count_nonzero(fresh > settled), trials, gamma)
    chosen = np.count_nonzero(fresh > np.min(scales, axis=0))
    assert exceeds(chosen, trials, gamma)
    assert not exceeds(chosen, trials, len(numbers) * gamma)
