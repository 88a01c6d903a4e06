"""Everything that draws noise is attacked, and nothing is found; with less it is.

What is exported, draws noise and has no audit here fails a test.
"""

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import Ridge

import skparisk
from skparisk import (
    KnownSensitivity,
    PrivateEstimator,
    PrivateGridSearchCV,
    PrivateKernelDensity,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivateRidge,
    PrivateTable,
    SchemaReference,
    SecretSample,
    SensitivitySampler,
    audit_claim,
    audit_reference,
    learn_reference,
    private_score,
)
from skparisk.core.exact import noise_source
from skparisk.core.noise import AdditiveNoise
from skparisk.mechanisms import (
    BernsteinMechanism,
    DiscreteMechanism,
    ExponentialChoice,
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    RandomizedResponse,
)
from skparisk.model_selection import ExponentialSelection
from skparisk.queries import FunctionQuery, MeanQuery
from skparisk.reference import CallableReference

EVIDENCE, NOTHING = "evidence against", "no evidence found"
# So many audits are made that none of them may be wrong by chance.
SURE = 1 - 1e-4
# A level that is that many times as high is flagged.
WORSE = 30


def people(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    return X, X @ [1.0, 2.0, 3.0] + rng.normal(size=n_rows)


def moved(X, *targets, to=4.0):
    """Return a database and its neighbor, with another first record."""
    other = X.copy()
    other[0] = to
    changed = [np.r_[1 - y[:1], y[1:]] for y in targets]
    return (X, *targets), (other, *changed)


X, Y = people(100, 0)
X_PUBLIC, Y_PUBLIC = people(600, 1)
BITS, BITS_PUBLIC = (Y > 0).astype(int), (Y_PUBLIC > 0).astype(int)
PUBLIC = {"X_reference": X_PUBLIC, "y_reference": Y_PUBLIC}
OF_LABELS = {"X_reference": X_PUBLIC, "y_reference": BITS_PUBLIC}
BOUNDS = {"y_bounds": (-10.0, 10.0)}
NUMBERS, CLASSES, COLUMN = moved(X, Y), moved(X, BITS), moved(X[:, :1])
# Of which one is 1 in the neighbor, and 0 here.
ZEROS = np.zeros((20, 1))
COUNT = (ZEROS,), (np.vstack([[[1.0]], ZEROS[1:]]),)


@dataclass(frozen=True)
class Case:
    """What is audited at a level, on which pair, and what else it takes."""

    make: Callable[[float], Any]
    pair: Any
    # None: that of its own certificate.
    claim: Any = None
    n_releases: int = 200
    public: dict[str, Any] = field(default_factory=dict)
    # What is exported that it shows, of which the name says nothing.
    shows: tuple[str, ...] = ()
    # A level that is flagged where 1 is claimed.
    worse: float = WORSE


def fit(kind, pair, public=None, *, n_releases=100, **parameters):
    """Return the case of an estimator with a level."""

    def make(epsilon):
        return kind(epsilon=epsilon, **parameters)

    return Case(make, pair, None, n_releases, public or {}, (kind.__name__,))


def draw(name, make, pair=COUNT, n_releases=2000):
    """Return the case of a function of (sum of the records, size) at a level."""

    def at(epsilon):
        drawn = make(epsilon)

        def release(database, size):
            return drawn(database[0].sum(), size)

        return release

    return Case(at, pair, 1.0, n_releases, {}, (name,))


# Mechanisms


def noisy(mechanism, values):
    return mechanism.prepare(values)(noise_source())


def laplace(epsilon):
    mechanism = LaplaceMechanism(1.0, epsilon)
    return lambda count, size: mechanism.release(np.full((size, 1), count))


def gaussian(epsilon):
    mechanism = GaussianMechanism(1.0, epsilon, 1e-9)
    return lambda count, size: mechanism.release(np.full((size, 1), count))


def additive(epsilon):
    noise = AdditiveNoise.at_least("laplace", 1 / epsilon, least_steps=2**20)
    return lambda count, size: noisy(noise, np.full((size, 1), count))


def exponential(epsilon):
    mechanism = ExponentialMechanism(1.0, epsilon)
    return lambda count, size: mechanism.choose(np.tile([count, 1 - count], (size, 1)))


def choice(epsilon):
    chosen = ExponentialChoice.at_least(2 / epsilon, least_steps=2**20)
    return lambda count, size: noisy(chosen, np.tile([count, 1 - count], (size, 1)))


def response(epsilon):
    mechanism = RandomizedResponse(epsilon=epsilon)
    return lambda count, size: mechanism.randomize(np.full(size, int(count)))


def discrete(epsilon):
    right = 1 / (1 + math.exp(-epsilon))
    mechanism = DiscreteMechanism([[right, 1 - right], [1 - right, right]])
    return lambda count, size: mechanism.sample(np.full(size, int(count)))


def bernstein(epsilon):
    """A function that moves by 1 everywhere, at all five nodes."""
    mechanism = BernsteinMechanism(1.0, epsilon, lattice_size=4)

    def draw(count, size):
        return [
            mechanism.release(lambda points: np.full(len(points), count)).values
            for _ in range(size)
        ]

    return draw


# Functions, and what is no estimator of numbers


def score(epsilon):
    class Zero(BaseEstimator):
        def predict(self, X):
            return np.zeros(len(X))

    def drawn(count, size):
        y = np.r_[np.ones(int(count)), np.zeros(20 - int(count))]
        known = {"scoring": "accuracy", "epsilon": epsilon}
        # 20 records of which 10 are right, so that nothing is clipped.
        labels = np.where(np.arange(20) % 2, y, 1 - y)
        scored = Zero(), ZEROS, labels
        return [private_score(*scored, **known).value for _ in range(size)]

    return drawn


def table(epsilon):
    """Counts and means of a frame; the neighbor moves a record to another group."""
    frame = pd.DataFrame({"sex": ["f", "m"] * 10, "age": [30.0, 50.0] * 10})
    private = PrivateTable(
        {"sex": ["f", "m"], "age": (18, 90)},
        counts=["sex", "age"],
        means={"age": "sex"},
        epsilon=epsilon,
    )

    def drawn(count, size):
        rows = frame.copy()
        rows.loc[0, ["sex", "age"]] = ["m", 90.0] if count else ["f", 18.0]
        answers = []
        for _ in range(size):
            private.fit(rows)
            asked = (private.count("sex"), private.count("age"))
            answers.append(np.concatenate([each["count"] for each in asked]))
        return answers

    return drawn


def sampled(epsilon):
    """Numbers of two pairs, of which all are as far apart: the risk is not needed."""
    sampler = SensitivitySampler(
        FunctionQuery(np.sum),
        epsilon=epsilon,
        gamma=0.2,
        reference=CallableReference(lambda n, rng: rng.integers(0, 2, (n, 1)) * 1.0),
        n_records=20,
        n_pairs=40,
        noise_shape="isotropic",
        random_state=0,
    ).fit(np.full((20, 1), 0.5))
    people = np.zeros((20, 1)), np.r_[[[1.0]], np.zeros((19, 1))]

    def drawn(count, size):
        return [sampler.release(people[int(count)]) for _ in range(size)]

    return drawn


def learned(epsilon):
    """The law of a column, by the mean of what is drawn from it."""
    how = {"epsilon": epsilon, "fraction": 0.5}
    schema = SchemaReference([(0, 1)])
    rows = np.zeros((40, 1)), np.r_[[[1.0]], np.zeros((39, 1))]

    def drawn(count, size):
        rng = np.random.default_rng()
        splits = [learn_reference(schema, rows[int(count)], **how) for _ in range(size)]
        return [split.reference.sample(2000, rng).mean() for split in splits]

    return drawn


def blocks(epsilon):
    """How many blocks of records exceed a level, of which one does by one record."""
    sampler = SensitivitySampler(
        MeanQuery(),
        gamma=0.2,
        reference=CallableReference(lambda n, rng: rng.random(size=(n, 1))),
        n_pairs=19,
        noise_shape="isotropic",
        random_state=0,
    )
    people = np.full((63, 1), 0.5)

    def count_at(record, epsilon):
        rows = people.copy()
        rows[record] = 50.0
        known = {"n_blocks": 3, "random_state": 0}
        return audit_reference(sampler, rows, epsilon=epsilon, **known).noisy_count

    # Records that are in no pair change nothing.
    found = [count_at(record, 1e9) for record in range(63)]
    telling, silent = int(np.argmax(found)), int(np.argmin(found))
    assert found[telling] == found[silent] + 1

    def drawn(count, size):
        record = telling if count else silent
        return [count_at(record, epsilon) for _ in range(size)]

    return drawn


def secret(epsilon):
    """One swap of a secret sample: at the loss that its distance and noise have."""
    rows = np.random.default_rng(0).lognormal(size=(30, 1))
    half = SecretSample(0.5).draw(rows)
    sampler = SensitivitySampler(
        FunctionQuery(np.mean), gamma=0.2, reference=half, n_pairs=19, random_state=0
    ).fit(rows)
    drawn = half.take_members(rows, None)[0]
    others = rows[~np.isin(rows, drawn)]
    swapped = np.r_[[[others[0]]], drawn[1:]]
    answers = np.mean(drawn), np.mean(swapped)
    apart = abs(answers[0] - answers[1])
    # What is claimed of this swap is its distance over the scale, here one.
    noise = AdditiveNoise.at_least(
        "laplace", sampler.mechanism_.noise_scale / epsilon, least_steps=2**20
    )
    unit = sampler.mechanism_.noise_scale / apart
    return lambda count, size: noisy(
        noise, np.full((size, 1), unit * answers[int(count)])
    )


RIDGE = {"sensitivity": "bound", "x_norm": 7.0} | BOUNDS
SEARCHED = PrivateRidge(**RIDGE)


def search(selection, n_releases=80):
    """Return the case of a search whose candidates have the level that is audited."""

    def make(epsilon):
        model = PrivateRidge(epsilon=epsilon, **RIDGE)
        chosen = selection
        if isinstance(chosen, BaseEstimator):
            chosen = type(selection)(**selection.get_params() | {"epsilon": epsilon})
        return PrivateGridSearchCV(model, {"alpha": [1.0, 100.0]}, selection=chosen)

    public = {name: rows[:60] for name, rows in PUBLIC.items()}
    shows = ("PrivateGridSearchCV",)
    # Far below what the bounds would allow a record to do.
    return Case(make, NUMBERS, None, n_releases, public, shows, worse=20_000)


CHEAP = SensitivitySampler(n_pairs=99)
DENSITY = {"bounds": [(-4.0, 4.0)], "bandwidth": 0.5}
FOREST = {"n_estimators": 3, "max_depth": 2, "random_state": 0}
CASES = {
    "ridge": fit(PrivateRidge, NUMBERS, PUBLIC),
    "ridge, both": fit(
        PrivateRidge, NUMBERS, PUBLIC, sensitivity=SensitivitySampler(randomness="both")
    ),
    "ridge, gaussian": fit(
        PrivateRidge,
        NUMBERS,
        PUBLIC,
        sensitivity=SensitivitySampler(law="gaussian", delta=1e-6),
    ),
    "ridge, known": fit(PrivateRidge, NUMBERS, sensitivity=KnownSensitivity(5.0)),
    "ridge, bound": fit(
        PrivateRidge, NUMBERS, sensitivity="bound", x_norm=7.0, **BOUNDS
    ),
    "logistic": fit(PrivateLogisticRegression, CLASSES, OF_LABELS),
    "machine": fit(PrivateLinearSVC, CLASSES, OF_LABELS),
    "moments": fit(PrivateMoments, NUMBERS, PUBLIC, n_releases=200),
    "density": fit(
        PrivateKernelDensity, COLUMN, {"X_reference": X_PUBLIC[:, :1]}, **DENSITY
    ),
    "wrapped": fit(
        PrivateEstimator, NUMBERS, PUBLIC, estimator=Ridge(), sensitivity=CHEAP
    ),
    "forest of labels": fit(
        PrivateEstimator,
        CLASSES,
        OF_LABELS,
        estimator=RandomForestClassifier(**FOREST),
        sensitivity=CHEAP,
    ),
    "forest of numbers": fit(
        PrivateEstimator,
        NUMBERS,
        PUBLIC,
        estimator=RandomForestRegressor(**FOREST),
        sensitivity=CHEAP,
    ),
    "search by reference": search("reference"),
    "search by choice": search(ExponentialSelection(**BOUNDS), n_releases=300),
    "laplace": draw("LaplaceMechanism", laplace),
    "gaussian": draw("GaussianMechanism", gaussian),
    "additive": draw("AdditiveNoise", additive),
    "exponential": draw("ExponentialMechanism", exponential),
    "choice": draw("ExponentialChoice", choice),
    "response": draw("RandomizedResponse", response),
    "discrete": draw("DiscreteMechanism", discrete),
    "bernstein": draw("BernsteinMechanism", bernstein),
    "score": draw("private_score", score),
    "table": draw("PrivateTable", table, n_releases=400),
    "sampled": draw("SensitivitySampler", sampled),
    "learned": draw("learn_reference", learned, n_releases=400),
    "blocks": draw("audit_reference", blocks, n_releases=120),
    "secret": draw("SecretSample", secret),
}


def draws_noise(thing):
    """Tell if a function or a class draws noise, or a method takes a seed for it."""
    if hasattr(thing, "prepare"):
        return True
    parts = [thing]
    if inspect.isclass(thing):
        parts += [part for _, part in inspect.getmembers(thing) if callable(part)]
    for part in parts:
        try:
            if "noise_random_state" in inspect.signature(part).parameters:
                return True
        except (TypeError, ValueError):  # what is built in has no signature
            continue
    return False


def exported():
    """Return the names of all that is exported and draws noise."""
    found = set()
    for module in pkgutil.iter_modules(skparisk.__path__):
        if not module.name.startswith("_"):
            home = importlib.import_module(f"skparisk.{module.name}")
            names = getattr(home, "__all__", ())
            found |= {name for name in names if draws_noise(getattr(home, name))}
    return found


def test_all_that_draws_noise_is_audited():
    """A new estimator, mechanism or function needs a case above."""
    shown = {name for case in CASES.values() for name in case.shows}
    assert exported() == shown
    assert {"PrivateRidge", "LaplaceMechanism", "private_score"} <= shown


def audited(case, epsilon, claim, confidence):
    return audit_claim(
        case.make(epsilon),
        *case.pair[0],
        pairs=[case.pair],
        claim=claim,
        n_releases=case.n_releases,
        fit_params=case.public,
        confidence=confidence,
        random_state=0,
    )


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_found_at_the_level_that_is_claimed(name):
    found = audited(CASES[name], 1.0, CASES[name].claim, SURE)
    assert found.verdict == NOTHING, found
    assert not found.claim.void


@pytest.mark.parametrize("name", CASES)
def test_a_far_higher_level_is_flagged(name):
    """The pair and the attack are such that something can be found."""
    found = audited(CASES[name], CASES[name].worse, 1.0, 0.95)
    assert found.verdict == EVIDENCE, found
