"""A fit tells of private records what it releases with noise, and nothing else.

All else is the same for other records of the same form, if the release is: attributes,
also inside of objects, warnings, what is shown, and what ledgers are told.
"""

import copy
import math
import warnings
from unittest import mock

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skparisk import (
    PrivateEstimator,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.ledger import PrivacyLedger, spend
from skparisk.mechanisms import AdditiveNoise
from skparisk.model_selection import PrivateGridSearchCV

SETTINGS = {"gamma": 0.2, "random_state": 0}
GAUSSIAN = {"law": "gaussian", "randomness": "both", "noise_shape": "auto"}


def records(seed, n_records, kind):
    """Return a frame of numbers, gaps and categories, and targets."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=(n_records, 3))
    if kind == "far away":
        size = 1e5 * size + 7
    frame = pd.DataFrame(size, columns=["a", "b", "c"])
    job = rng.choice(["miner", "baker"], n_records).astype(object)
    if kind == "unlike the reference":
        frame["a"], job = 1.0, np.full(n_records, "pilot", dtype=object)
        frame.index = [f"person {number}" for number in range(n_records)]
        frame.attrs = {"secret": 1}
    frame["gap"] = np.where(rng.random(n_records) < 0.3, np.nan, size[:, 0])
    frame["job"] = job
    y = size @ [1.0, 2.0, 3.0] + rng.normal(size=n_records)
    labels = np.where(y > 0, "ash", "oak")
    if kind == "unlike the reference":
        labels[:] = "oak"
    return frame, y, labels


PUBLIC = records(0, 120, "like the reference")
KINDS = ["like the reference", "far away", "unlike the reference"]
PREPARE = make_column_transformer(
    (StandardScaler(), ["a", "b", "c"]),
    (SimpleImputer(), ["gap"]),
    (OneHotEncoder(handle_unknown="ignore"), ["job"]),
)


def sampler(**parameters):
    return SensitivitySampler(n_pairs=60, **parameters)


def wrapped(estimator):
    few = SensitivitySampler(n_pairs=12)
    return PrivateEstimator(estimator, sensitivity=few, **SETTINGS)


# What is fitted, to what: all columns, or those of numbers; targets, labels or nothing.
FITS = {
    "ridge": (PrivateRidge(sensitivity=sampler(), **SETTINGS), "numbers", "targets"),
    "ridge, corrections": (
        PrivateRidge(sensitivity=sampler(), combine="reference", **SETTINGS),
        "numbers",
        "targets",
    ),
    "logistic": (
        PrivateLogisticRegression(sensitivity=sampler(**GAUSSIAN), **SETTINGS),
        "numbers",
        "labels",
    ),
    "logistic, corrections": (
        PrivateLogisticRegression(
            sensitivity=sampler(), combine="reference", **SETTINGS
        ),
        "numbers",
        "labels",
    ),
    "SVM": (PrivateLinearSVC(sensitivity=sampler(), **SETTINGS), "numbers", "labels"),
    "moments": (
        PrivateMoments(sensitivity=sampler(), **SETTINGS),
        "numbers",
        "targets",
    ),
    "pipeline": (wrapped(make_pipeline(PREPARE, Ridge())), "all", "targets"),
    "tree": (
        wrapped(make_pipeline(PREPARE, DecisionTreeClassifier(max_depth=3))),
        "all",
        "labels",
    ),
    "forest": (wrapped(RandomForestRegressor(3, max_depth=2)), "numbers", "targets"),
    "naive Bayes": (wrapped(GaussianNB()), "numbers", "labels"),
    "components": (wrapped(PCA(2)), "numbers", "nothing"),
    "clusters": (wrapped(KMeans(2, n_init=1)), "numbers", "nothing"),
    "search": (
        PrivateGridSearchCV(
            PrivateRidge(sensitivity=sampler(), **SETTINGS),
            {"alpha": [1.0, 100.0]},
            random_state=0,
        ),
        "numbers",
        "targets",
    ),
}


def released(noise, values, *, charges, note, noise_random_state):
    """Return what knows nothing of the values."""
    for charge in charges:
        spend(charge, note=note)
    return np.full(np.shape(values), 0.25)


def told(model, columns, target, kind):
    """Return all that a fit tells."""

    def given(frame, y, labels):
        X = frame if columns == "all" else frame[["a", "b", "c"]]
        return (X, *{"targets": (y,), "labels": (labels,), "nothing": ()}[target])

    names = ("X_reference", "y_reference")
    public = dict(zip(names, given(*PUBLIC), strict=False))
    private = given(*records(1 + KINDS.index(kind), 90, kind))
    with (
        mock.patch.object(AdditiveNoise, "release", released),
        warnings.catch_warnings(record=True) as caught,
        PrivacyLedger(math.inf) as ledger,
    ):
        warnings.simplefilter("always")
        fitted = copy.deepcopy(model).fit(*private, **public)
    return {
        "attributes": {name: joblib.hash(held) for name, held in vars(fitted).items()},
        "certificate": fitted.certificate_.to_dict(curve=True),
        "warnings": [(each.category, str(each.message)) for each in caught],
        "shown": repr(fitted),
        "ledger": [(entry.certificate, entry.note) for entry in ledger.releases],
    }


@pytest.mark.parametrize("name", FITS)
def test_nothing_but_the_release_depends_on_private_records(name):
    first, *others = (told(*FITS[name], kind) for kind in KINDS)
    for other in others:
        assert other == first


class KeepsOne(PrivateRidge):
    """Keeps a number of the private records."""

    def fit(self, X, y, **public):
        super().fit(X, y, **public)
        self.sampler_.seen = float(np.asarray(X)[0, 0])
        return self


class WarnsOfOne(PrivateRidge):
    """Tells a number of the private records in a warning."""

    def fit(self, X, y, **public):
        warnings.warn(f"The first is {np.asarray(X)[0, 0]}.", stacklevel=2)
        return super().fit(X, y, **public)


@pytest.mark.parametrize(
    ("kind", "what"), [(KeepsOne, "attributes"), (WarnsOfOne, "warnings")]
)
def test_one_number_more_is_noticed(kind, what):
    leaky = kind(sensitivity=sampler(), **SETTINGS), "numbers", "targets"
    first, other = (told(*leaky, each) for each in KINDS[:2])
    assert [name for name in first if first[name] != other[name]] == [what]


def test_releases_with_their_own_noise_are_noticed():
    with mock.patch(f"{__name__}.released", AdditiveNoise.release):
        first, other = (told(*FITS["ridge"], each) for each in KINDS[:2])
    assert first["attributes"] != other["attributes"]
