"""A fit tells of private records what it releases with noise, and nothing else.

All else is the same for other records of the same form, if the release is: attributes,
also inside of objects, pickles, warnings, errors, what is shown and printed, and what
ledgers are told.
"""

import io
import math
import pickle
import re
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skparisk import (
    CalibrationError,
    PrivacyLeakWarning,
    PrivateEstimator,
    PrivateKernelDensity,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivateRidge,
    PrivateTable,
    SchemaReference,
    SecretSample,
    SensitivitySampler,
    TableReference,
    _progress,
    audit_reference,
    learn_reference,
    mechanisms,
    private_score,
)
from skparisk._matrix_noise import MatrixNoise
from skparisk.audit._limits import CountNoise
from skparisk.core.noise import AdditiveNoise
from skparisk.ledger import PrivacyLedger, spend
from skparisk.model_selection import ExponentialSelection, PrivateGridSearchCV

SETTINGS = {"gamma": 0.2, "random_state": 0}
GAUSSIAN = {"law": "gaussian", "randomness": "both", "noise_shape": "auto"}
NUMBERS = ["a", "b", "c"]
N, ADDED = 90, "add-remove"


def records(seed, n_records, kind):
    """Return a frame of numbers, gaps and categories, and targets."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=(n_records, 3))
    if kind == "far away, sorted":
        size = np.sort(1e5 * size + 7, axis=0)
    frame = pd.DataFrame(size, columns=NUMBERS)
    job = rng.choice(["miner", "baker"], n_records).astype(object)
    if kind == "constant, unlike the reference":
        frame["a"], job = 1.0, np.full(n_records, "pilot", dtype=object)
        frame.index = [f"person {number}" for number in range(n_records)]
        frame.attrs = {"secret": 1}
    frame["gap"] = np.where(rng.random(n_records) < 0.3, np.nan, size[:, 0])
    frame["job"] = job
    y = size @ [1.0, 2.0, 3.0] + rng.normal(size=n_records)
    labels = np.where(y > 0, "ash", "oak")
    if kind == "constant, unlike the reference":
        frame["b"], frame["c"], frame["gap"], y[:], labels[:] = *[3.0] * 4, "oak"
    if kind in ("huge", "lawless"):
        frame[["b", "c"]] *= 1e100 if kind == "huge" else 1e300
        y *= 1e100
    if kind in ("missing", "lawless"):
        frame["gap"], frame["job"] = np.nan, None
    if kind == "lawless":
        labels[7] = "elm"
    return frame, y, labels


# The last but one differ in columns with gaps alone; the last needs public bounds.
KINDS = ["like the reference", "far away, sorted", "constant, unlike the reference"]
KINDS += ["huge", "missing", "lawless"]
PUBLIC = records(0, 120, KINDS[0])
POINTS = PUBLIC[0][NUMBERS]
PREPARE = make_column_transformer(
    (StandardScaler(), NUMBERS),
    (SimpleImputer(keep_empty_features=True), ["gap"]),
    (OneHotEncoder(handle_unknown="ignore"), ["job"]),
)
TREE = make_pipeline(PREPARE, DecisionTreeClassifier(max_depth=3))
BALL = {"sensitivity": "bound", "x_norm": 9.0, "classes": ["ash", "oak"]}
BOX = {"sensitivity": "bound", "y_bounds": (-9, 9)}
BY_HOLD_OUT = ExponentialSelection(y_bounds=(-9, 9))


def sampler(*query, **parameters):
    return SensitivitySampler(*query, **{"n_pairs": 60, **parameters})


def paired(kind, *given, **parameters):
    return kind(*given, **{"sensitivity": sampler(), **SETTINGS, **parameters})


def wrapped(*given, **parameters):
    few = SensitivitySampler(n_pairs=12)
    return paired(PrivateEstimator, *given, **{"sensitivity": few, **parameters})


def search(selection, **parameters):
    grid, given = {"alpha": [1.0, 100.0]}, {"selection": selection, "random_state": 0}
    return PrivateGridSearchCV(paired(PrivateRidge), grid, **given, **parameters)


# What is fitted, by what it is fitted to: all columns, those of numbers, or these as an
# array; targets, labels or nothing; and what is public, if not as many records.
FORMS = {
    ("numbers", "targets"): {
        "ridge": paired(PrivateRidge),
        "ridge, corrections": paired(PrivateRidge, combine="reference"),
        "ridge, declared": PrivateRidge(sensitivity=0.1),
        "moments": paired(PrivateMoments),
        "forest": wrapped(RandomForestRegressor(3, max_depth=2)),
        "predictions": wrapped(
            KNeighborsRegressor(30), "predict", X_public=POINTS[:5], combine=None
        ),
        "search": search("reference"),
        "search by hold-out": search(BY_HOLD_OUT, noise_random_state=0),
    },
    ("numbers", "labels"): {
        "logistic": paired(PrivateLogisticRegression, sensitivity=sampler(**GAUSSIAN)),
        "logistic, corrections": paired(PrivateLogisticRegression, combine="reference"),
        "SVM": paired(PrivateLinearSVC),
        "naive Bayes": wrapped(GaussianNB(), combine=None),
    },
    ("numbers", "nothing"): {
        "components": wrapped(PCA(2)),
        "clusters": wrapped(KMeans(2, n_init=1)),
        "density": paired(PrivateKernelDensity, bounds=(-9, 9), lattice_size=2),
    },
    ("all", "targets"): {"pipeline": wrapped(make_pipeline(PREPARE, Ridge()))},
    ("all", "labels"): {"tree": wrapped(TREE)},
    ("numbers", "targets", "none"): {
        "moments, bound": PrivateMoments(bounds=(-9, 9), **BOX),
        "ridge, bound": PrivateRidge(1.0, x_norm=9.0, **BOX),
    },
    ("numbers", "labels", "none"): {
        "logistic, bound": PrivateLogisticRegression(1.0, **BALL)
    },
    ("numbers", "targets", "schema"): {"ridge, schema": paired(PrivateRidge)},
    ("numbers", "labels", "schema"): {
        "logistic, schema": paired(PrivateLogisticRegression),
        "SVM, schema": paired(PrivateLinearSVC),
    },
    ("all", "labels", "schema"): {"tree, schema": wrapped(TREE)},
}
FITS = {n: (model, *form) for form in FORMS for n, model in FORMS[form].items()}


def given(columns, target, frame, y, labels):
    """Return what `fit` is given: records, and targets or labels or neither."""
    X = frame if columns == "all" else frame[NUMBERS]
    X = X.to_numpy() if columns == "array" else X
    return (X, *{"targets": (y,), "labels": (labels,), "nothing": ()}[target])


def declared(columns, target):
    """Return a schema of the columns and of the targets."""
    held = dict.fromkeys(NUMBERS, (-9, 9))
    if columns == "all":
        held |= {"gap": (-9, 9), "job": ["miner", "baker"]}
    return SchemaReference(
        held,
        target={"targets": (-40, 40), "labels": ["ash", "oak"]}[target],
        missing={"gap": 0.3} if columns == "all" else None,
    )


def fitting(model, columns, target, public="records", broken=lambda *private: private):
    """Return what fits a model to private records, with the lines of its progress."""
    names, found = ("X_reference", "y_reference"), given(columns, target, *PUBLIC)
    reference = dict(zip(names, found, strict=False)) if public == "records" else {}
    if public == "schema":
        reference = {names[0]: declared(columns, target)}

    def act(*private):
        verbose = {"verbose": 1} if hasattr(model, "verbose") else {}
        loud = clone(model).set_params(**verbose)
        return loud.fit(*broken(*given(columns, target, *private)), **reference)

    return act


def asking(sampler, method="release"):
    """Return what asks a sampler that was fitted to public records."""

    def act(frame, *others):
        fitted = clone(sampler).set_params(**SETTINGS).fit(POINTS)
        return fitted, getattr(fitted, method)(frame[NUMBERS])

    return act


def middle(X):
    return np.median(X, axis=0)


def counting(relation):
    schema = {"a": (-9, 9), "gap": (-9, 9), "job": ["miner", "baker"]}
    asked = {"counts": ["job", ("job", "a")], "means": {"gap": "job"}}

    def act(frame, *others):
        table = PrivateTable(schema, **asked, relation=relation).fit(frame)
        return table, table.count("job"), table.mean("gap", "job"), table.quantile("a")

    return act


def scoring(scoring, model, target, **options):
    model = clone(model).fit(*given("numbers", target, *PUBLIC))
    options |= {"scoring": scoring, "epsilon": 1.0}
    return lambda *private: private_score(
        model, *given("numbers", target, *private), **options
    )


def learning(frame, y, labels):
    schema, X = SchemaReference([(-9, 9)] * 3, target=(-40, 40)), frame[NUMBERS]
    split = learn_reference(schema, X.to_numpy(), y, epsilon=1.0, noise_random_state=0)
    model = paired(PrivateRidge, sensitivity=sampler(reference=split.reference))
    return model.fit(X.to_numpy()[split.others], y[split.others])


def auditing(frame, *others):
    audited = sampler(middle, reference=TableReference(POINTS), **SETTINGS)
    options = {"n_blocks": 3, "random_state": 0, "noise_random_state": 0}
    return audited, audit_reference(audited, frame[NUMBERS], epsilon=2.0, **options)


# Where all is clipped to what is public.
CLIPPED = {
    "table": counting("replace-one"),
    "table, a record more": counting(ADDED),
    "accuracy": scoring("accuracy", GaussianNB(), "labels"),
    "confusion": scoring("confusion_matrix", DecisionTreeClassifier(), "labels"),
    "probabilities": scoring("brier_score", GaussianNB(), "labels"),
    "error": scoring("mean_squared_error", Ridge(), "targets", y_bounds=(-9, 9)),
}
CASES = CLIPPED | {
    "function": asking(sampler(middle, n_records=N)),
    "function, a record more": asking(sampler(middle, n_records=N, relation=ADDED)),
    "records": asking(sampler(), "transform"),
    "choice": asking(sampler(middle, n_records=N, law="exponential")),
    "audit": auditing,
    "learned": learning,
}
CASES |= {name: fitting(*fit) for name, fit in FITS.items()}


def kinds_of(name):
    """Return kinds of records that have an answer, and differ in what is looked at."""
    if name in CLIPPED or "schema" in FITS.get(name, ())[3:]:
        return [KINDS[0], "lawless"]
    if name == "pipeline":  # for time; the tree has the same steps
        return ["constant, unlike the reference", "missing"]
    return KINDS[: {"SVM": -3, "tree": -1}.get(name, -2)]


def preparing(draw):
    """Return what stands for `prepare`, and draws what knows nothing of the values."""
    return lambda mechanism, values: lambda source: draw(values)


NUMBERS_ALIKE = preparing(lambda values: np.full(np.shape(values), 0.25))
REPLACED = [
    (AdditiveNoise, "prepare", NUMBERS_ALIKE),
    (MatrixNoise, "prepare", NUMBERS_ALIKE),
    (mechanisms.ExponentialChoice, "prepare", preparing(lambda scores: 0)),
    (mechanisms.ExponentialMechanism, "prepare", preparing(lambda scores: 0)),
    (mechanisms.RandomizedResponse, "prepare", preparing(np.zeros_like)),
    (CountNoise, "prepare", preparing(lambda count: 1)),
]


def state(thing):
    """Return hashes of attributes and properties, or of what is no estimator."""
    if not isinstance(thing, BaseEstimator):
        return joblib.hash(thing)
    shown = {name for name in dir(thing) if name[0] != "_" and name.endswith("_")}
    names = sorted(shown | vars(thing).keys())
    return {name: joblib.hash(getattr(thing, name, None)) for name in names}


def page(thing):
    """Return what a notebook shows, without addresses, and numbers of boxes."""
    html = getattr(thing, "_repr_html_", str)()
    return re.sub(r"-id-\d+|x[0-9a-f]{8,}", "", html)


def told(act, kind, replaced=REPLACED, paged=True):
    """Return all that an act on private records tells, but for times."""
    printed, found, error = io.StringIO(), (), None
    with (
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(record=True) as caught,
        PrivacyLedger(math.inf) as ledger,
        redirect_stdout(printed),
        redirect_stderr(printed),
    ):
        warnings.simplefilter("always")
        patch.setitem(sys.modules, "tqdm.auto", None)
        for place in [*replaced, (_progress, "perf_counter", int)]:
            patch.setattr(*place)
        try:
            found = act(*records(1 + KINDS.index(kind), N, kind))
        except Exception as failure:
            error = type(failure), str(failure), str(failure.__context__)
    found = found if isinstance(found, tuple) else (found,)
    claims = [each.certificate_ for each in found if hasattr(each, "certificate_")]
    return {
        "attributes": [state(thing) for thing in found],
        "pickle": [pickle.dumps(thing) for thing in found],
        "certificate": [claim.to_dict(curve=True) for claim in claims],
        "warnings": [(each.category, str(each.message)) for each in caught],
        "shown": [*map(repr, found), *map(str, claims)],
        "pages": [page(thing) for thing in (*found, *claims) if paged],
        "printed": re.sub("elapsed: .*", "", printed.getvalue()),
        "error": error,
        "ledger": [(entry.certificate, entry.note) for entry in ledger.releases],
    }


def assert_same(act, kinds, **options):
    """Compare all kinds; pages, which take long, of the first and the last."""
    first = told(act, kinds[0], **options)
    assert first["error"] is None
    for kind in kinds[1:]:
        paged = kind == kinds[-1]
        other = told(act, kind, paged=paged, **options)
        assert other == (first if paged else {**first, "pages": []})


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_nothing_but_the_release_depends_on_private_records(name):
    assert_same(CASES[name], kinds_of(name))


NODES = mechanisms.BernsteinMechanism(1.0, 1.0, lattice_size=2)
# What is asked about numbers, or about the label of each record.
MECHANISMS = {
    "Laplace": lambda X, i: mechanisms.LaplaceMechanism(1.0, 1.0, 3).release(X),
    "Gaussian": lambda X, i: mechanisms.GaussianMechanism(1.0, 1.0, 1e-6, 3).release(X),
    "choice": lambda X, i: mechanisms.ExponentialMechanism(1.0, 1.0).choose(X),
    "response": lambda X, i: mechanisms.RandomizedResponse(2, epsilon=1.0).randomize(i),
    "outputs": lambda X, i: mechanisms.DiscreteMechanism(np.eye(2)).sample(i),
    "nodes": lambda X, i: NODES.release(X[0]).values,
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanisms_tell_nothing_but_what_they_release(name):
    def act(frame, y, labels):
        return MECHANISMS[name](frame[NUMBERS].to_numpy(), (labels == "ash") * 1).shape

    assert_same(act, KINDS, replaced=())


# What private records and targets may be that they should not.
BROKEN = {
    "a column less": lambda X, y: (X.iloc[:, 1:], y),
    "another name": lambda X, y: (X.rename(columns={"a": "A"}), y),
    "an array": lambda X, y: (X.to_numpy(), y),
    "a text": lambda X, y: (X.assign(b=[f"{b} secret" for b in X["b"]]), y),
    "infinite": lambda X, y: (X.where(X["a"] < X["a"].max(), np.inf), y),
    "a record less": lambda X, y: (X.iloc[1:], y),
}


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("name", ["ridge", "logistic", "SVM", "moments"])
def test_errors_are_the_same_for_other_private_records(name, how):
    act = fitting(*FITS[name], broken=BROKEN[how])
    first, other = (told(act, kind) for kind in KINDS[:2])
    assert first["error"] is not None
    assert other == first


# What follows from the scale, which depends on private pairs, as certificates say; and
# names with "noise".
SCALED = {"certificate_", "hint_", "sampler_", "sensitivity_"}


@pytest.mark.parametrize("reference", [SecretSample(0.5), None])
def test_of_private_pairs_the_scale_alone_is_told(reference):
    model = paired(PrivateRidge, sensitivity=sampler(reference=reference))
    act, seen = fitting(model, "numbers", "targets", "none"), []
    for kind in (*KINDS[:2], "huge"):
        each = told(act, kind)
        assert each["error"] is None
        (hashes,), (shown, *_) = each["attributes"], each["shown"]
        names = {name for name in hashes if "noise" not in name} - SCALED
        others = {name: hashes[name] for name in names}, shown.partition("\n#")[0]
        seen.append((others, each["warnings"], each["printed"]))
    assert seen[0] == seen[1] == seen[2]


def test_why_private_pairs_cannot_be_calibrated_to_is_not_told():
    same = np.full((N, 1), 3.0)
    one_far = np.where(np.arange(N)[:, None], same, 1e200)
    model, seen = paired(PrivateRidge, 1.0), []
    for X in (same, one_far):
        with pytest.warns(PrivacyLeakWarning), pytest.raises(CalibrationError) as error:
            model.fit(X, X[:, 0])
        seen.append((str(error.value), str(error.value.__context__)))
    assert seen[0] == seen[1]


class Leaky(PrivateRidge):
    """Tells a number of the private records."""

    leak = None

    def fit(self, X, y, **public):
        super().fit(X, y, **public)
        self.leak(float(np.asarray(X)[0, 0]))
        return self


# How the number is told, and where that is noticed.
LEAKS = {
    "attributes pickle": lambda model, one: setattr(model.sampler_, "seen", one),
    "warnings": lambda model, one: warnings.warn(f"{one}", stacklevel=2),
    "printed": lambda model, one: print(one, file=sys.stderr),
    "ledger": lambda model, one: spend(0.5, note=f"{one}"),
    "error": lambda model, one: int(f"number {one}"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEAKS)
def test_one_number_more_is_noticed(name, monkeypatch):
    monkeypatch.setattr(Leaky, "leak", LEAKS[name])
    act = fitting(paired(Leaky), "numbers", "targets")
    first, other = (told(act, each) for each in KINDS[:2])
    assert [key for key in first if first[key] != other[key]] == name.split()


def test_releases_with_their_own_noise_are_noticed():
    first, other = (told(CASES["ridge"], each, replaced=()) for each in KINDS[:2])
    assert first["attributes"] != other["attributes"]
