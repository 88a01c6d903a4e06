"""Pairs that are kept in a folder: how they are found, and what is never kept."""

import multiprocessing
import pickle
import warnings
from contextlib import suppress

import joblib
import numpy as np
import pandas as pd
import pytest
from kept import (
    PRIVATE,
    PUBLIC,
    TARGETS,
    assert_same_pairs,
    changed_table,
    files_in,
    own_mean,
    sampler_of,
)
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
)
from skparisk.queries import FunctionQuery, MeanQuery, RidgeQuery
from skparisk.reference import (
    CallableReference,
    TableReference,
)
from skparisk.sensitivity import _drawing, _kept, _store
from skparisk.sensitivity._document import FORMAT_VERSION, pack, unpack


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


@pytest.mark.parametrize(
    "other",
    [
        TableReference(PUBLIC, sampling="bootstrap"),
        TableReference(PUBLIC[::-1]),
        TableReference(PUBLIC, TARGETS),
        TableReference(pd.DataFrame(PUBLIC, columns=["a", "b"])),
    ],
    ids=["sampling", "order", "targets", "frame"],
)
def test_the_same_records_in_another_form_are_removed_as_well(tmp_path, other):
    sampler_of(tmp_path, reference=other).fit(PRIVATE)
    kept = sampler_of(tmp_path).fit(PUBLIC)
    assert len(files_in(tmp_path)) == 2
    with pytest.warns(PrivacyLeakWarning):
        kept.release(PUBLIC)
    assert not files_in(tmp_path)


def test_how_records_are_given_is_known_by(tmp_path, draws):
    """A function may answer otherwise where it is given a data frame."""
    frame = pd.DataFrame(PUBLIC, columns=["a", "b"])
    given = {"query": np.mean, "reference": TableReference(frame), "n_records": 50}
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
    grid = {"epsilon": [0.5, 1.0], "gamma": [0.05, 0.1]}
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
                unpack(path.read_bytes(), "skparisk.pairs", FORMAT_VERSION)
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0


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
