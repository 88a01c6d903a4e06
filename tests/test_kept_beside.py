"""What public records come to alone, kept beside the pairs of the same records."""

import numpy as np
import pytest
from kept import PRIVATE, PUBLIC, TARGETS, files_in, sampler_of
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import NearestCentroid

from skparisk import (
    PrivacyLeakWarning,
    PrivateEstimator,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateRidge,
)
from skparisk._public_fit import Alone, PublicFit
from skparisk.reference import TableReference
from skparisk.sensitivity import _store

pytestmark = pytest.mark.filterwarnings("ignore::skparisk.ReferenceWarning")

LABELS = TARGETS > 0
GIVEN = PRIVATE @ [1.0, -2.0]


class OwnRidge(PrivateRidge):
    def score(self, X, y, sample_weight=None):
        return float(self.epsilon)


@pytest.fixture
def scored(monkeypatch):
    """Count how often public records are scored."""
    seen = []

    def spy(fit, score):
        seen.append(fit)
        return alone(fit, score)

    alone = PublicFit.alone
    monkeypatch.setattr(PublicFit, "alone", spy)
    return seen


def fitted(model, folder, X=PUBLIC, y=TARGETS, given=GIVEN, **parameters):
    """Return a fit beside public records, whose pairs are kept in a folder."""
    sampler = sampler_of(folder, random_state=None, n_pairs=30, gamma=0.2)
    model = clone(model).set_params(
        gamma=0.2,
        random_state=0,
        noise_random_state=0,
        sensitivity=sampler.set_params(query=None),
        **parameters,
    )
    with pytest.warns(PrivacyLeakWarning):
        return model.fit(PRIVATE, given, X_reference=X, y_reference=y)


@pytest.mark.parametrize(
    ("model", "y", "given"),
    [
        (PrivateRidge(1.0), TARGETS, GIVEN),
        (PrivateRidge(1.0), TARGETS.reshape(-1, 1), GIVEN.reshape(-1, 1)),
        (PrivateRidge(1.0, combine="reference"), TARGETS, GIVEN),
        (PrivateLogisticRegression(1.0), LABELS, GIVEN > 0),
        (PrivateLinearSVC(1.0), np.where(LABELS, "b", "a"), np.where(GIVEN > 0, *"ba")),
        (PrivateEstimator(LinearRegression()), TARGETS, GIVEN),
        (PrivateEstimator(LogisticRegression()), LABELS, GIVEN > 0),
    ],
    ids=["ridge", "column", "combined", "logistic", "texts", "wrapped", "wrapped too"],
)
def test_a_grid_scores_public_records_once(tmp_path, scored, model, y, given):
    """And has what it has without a memory."""
    for changed in ({}, {"epsilon": 2.0}, {"epsilon": 2.0}):
        kept = fitted(model, tmp_path, y=y, given=given, **changed)
        assert len(scored) == 1
    plain = fitted(model, None, y=y, given=given, epsilon=2.0)
    assert len(scored) == 2
    assert kept.reference_comparison_ == plain.reference_comparison_
    np.testing.assert_array_equal(kept.released_, plain.released_)


def changed_targets():
    y = TARGETS.copy()
    y[0] = np.nextafter(y[0], np.inf)
    return y


@pytest.mark.parametrize(
    "change",
    [
        {"y": changed_targets()},
        {"X": PUBLIC[:, ::-1].copy()},
        {"X": TableReference(PUBLIC, TARGETS, sampling="bootstrap"), "y": None},
        {"alpha": 2.0},
        {"fit_intercept": False},
        {"model": PrivateRidge()},
    ],
    ids=["y", "X", "sampling", "alpha", "intercept", "usual"],
)
def test_what_scores_follow_from_is_known_by(tmp_path, scored, change):
    fitted(PrivateRidge(1.0), tmp_path)
    model = change.pop("model", PrivateRidge(1.0))
    found = fitted(model, tmp_path, **change)
    assert len(scored) > 1
    plain = fitted(model, None, **change)
    assert found.reference_comparison_ == plain.reference_comparison_


@pytest.mark.parametrize("wrapped", [False, True])
def test_whether_what_is_released_is_clipped_is_known_by(tmp_path, scored, wrapped):
    """As it is for noise, of a wrapped estimator."""
    model = PrivateEstimator(LinearRegression()) if wrapped else PrivateRidge(1.0)
    for epsilon in (1.0, np.inf):
        found = fitted(model, tmp_path, epsilon=epsilon)
        plain = fitted(model, None, epsilon=epsilon)
        assert found.reference_comparison_ == plain.reference_comparison_
    assert len(scored) == (4 if wrapped else 3)


def test_labels_are_known_by(tmp_path, scored):
    """Beside the pairs that they have in common, as queries know numbers alone."""
    model = PrivateLogisticRegression(1.0)
    for labels in (np.array([0, 1]), np.array(["a", "b"])):
        given = {"y": labels[LABELS.astype(int)], "given": labels[(GIVEN > 0) * 1]}
        found = fitted(model, tmp_path, **given)
        plain = fitted(model, None, **given)
        assert found.reference_comparison_ == plain.reference_comparison_
    assert len(scored) == 4
    assert len(files_in(tmp_path)) == 3


def test_another_version_scores_anew(tmp_path, scored, monkeypatch):
    """Beside the pairs that it draws anew."""
    fitted(PrivateRidge(1.0), tmp_path)
    monkeypatch.setattr(_store, "build", lambda: "another")
    fitted(PrivateRidge(1.0), tmp_path)
    assert len(scored) == 2


@pytest.mark.parametrize(
    ("model", "y", "given"),
    [
        (OwnRidge(1.0), TARGETS, GIVEN),
        (PrivateEstimator(NearestCentroid()), LABELS, GIVEN > 0),
    ],
    ids=["a class of one's own", "means that noise has a say in"],
)
def test_scores_that_may_follow_from_the_level_are_not_kept(
    tmp_path, scored, model, y, given
):
    for epsilon in (1.0, 2.0):
        found = fitted(model, tmp_path, y=y, given=given, epsilon=epsilon)
        if isinstance(model, OwnRidge):
            assert found.reference_comparison_.public_only == epsilon
    assert len(scored) == 2
    assert len(files_in(tmp_path)) == 1


def test_what_has_no_score_is_kept_as_well(tmp_path, scored, monkeypatch):
    monkeypatch.setattr(PublicFit, "alone", lambda *_: Alone(None, None))
    first = fitted(PrivateRidge(1.0), tmp_path)
    monkeypatch.setattr(PublicFit, "alone", None)
    again = fitted(PrivateRidge(1.0), tmp_path)
    assert first.reference_comparison_ is again.reference_comparison_ is None


def test_scores_of_a_reference_that_turns_out_private_are_removed(tmp_path):
    """From memory as well."""
    for _ in range(2):
        model = fitted(PrivateRidge(1.0), tmp_path)
    assert len(files_in(tmp_path)) == 2
    assert _store._contents.cache_info().currsize > 0
    with pytest.warns(PrivacyLeakWarning):
        model.sampler_.release(PUBLIC, TARGETS)
    assert not files_in(tmp_path)
    assert _store._contents.cache_info().currsize == 0


@pytest.mark.parametrize("small", [2**20, 0], ids=["small", "large"])
def test_the_contents_of_small_files_stay_in_memory(tmp_path, monkeypatch, small):
    """And cannot be changed there; a fit has the same from others."""
    _store._contents.cache_clear()
    monkeypatch.setattr(_store, "_SMALL", small)
    fits = [fitted(PrivateRidge(1.0), tmp_path) for _ in range(3)]
    assert _store._contents.cache_info().hits == (2 if small else 0)
    assert {tuple(fit.released_) for fit in fits} == {tuple(fits[0].released_)}
    assert len({str(fit.reference_comparison_) for fit in fits}) == 1
    with pytest.raises(ValueError, match="read-only"):
        fits[2].sampler_.pairs_.differences[:] = 0.0


def test_nothing_is_kept_beside_pairs_of_private_records(tmp_path, scored):
    """Nor are they scored, as that would be a release."""
    fitted(PrivateRidge(1.0), tmp_path, X=PRIVATE, y=GIVEN)
    assert not scored
    assert not files_in(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "renamed"])
def test_damaged_scores_are_made_again(tmp_path, scored, damage):
    """With a warning; the file is then whole again."""
    whole = fitted(PrivateRidge(1.0), tmp_path)
    (path,) = tmp_path.rglob("beside-*.npz")
    data = path.read_bytes()
    if damage == "cut":
        path.write_bytes(data[:-100])
    else:
        fitted(PrivateRidge(2.0), tmp_path)
        (other,) = {*tmp_path.rglob("beside-*.npz")} - {path}
        other.replace(path)
    n_scored = len(scored)
    with pytest.warns(UserWarning, match="is made again, because the file"):
        again = fitted(PrivateRidge(1.0), tmp_path)
    assert len(scored) == n_scored + 1
    assert again.reference_comparison_ == whole.reference_comparison_
    assert path.read_bytes() == data
