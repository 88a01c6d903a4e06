"""Every release of the library is charged to open ledgers, before its noise."""

import ast
import math
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Lasso
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

import skparisk
from skparisk import (
    BudgetExceededError,
    IncompatibleError,
    PrivateEstimator,
    PrivateKernelDensity,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.core import exact
from skparisk.core.claim import Leak, as_certificate
from skparisk.core.noise import AdditiveNoise
from skparisk.core.release import draw
from skparisk.ledger import OPEN, PrivacyLedger
from skparisk.mechanisms import (
    BernsteinMechanism,
    DiscreteMechanism,
    ExponentialChoice,
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    RandomizedResponse,
)

rng = np.random.default_rng(0)
X, X_public = rng.uniform(size=(2, 40, 2))
y, y_public = rng.uniform(size=(2, 40))
labels = np.tile([0, 1], 20)
pairs = SensitivitySampler(n_pairs=19, random_state=0)
fitted = SensitivitySampler(np.median, n_pairs=19, random_state=0).fit(X_public)
local = SensitivitySampler(n_pairs=19, random_state=0).fit(X_public)
gaussian = clone(fitted).set_params(law="gaussian", delta=1e-5).fit(X_public)
scores = clone(fitted).set_params(query=lambda X: X.mean(axis=0), law="exponential")
scores.fit(X_public)
coin = DiscreteMechanism([[0.75, 0.25], [0.25, 0.75]])
reference = {"X_reference": X_public, "y_reference": y_public}
class_reference = {"X_reference": X_public, "y_reference": labels}


def known(model):
    return model.set_params(sensitivity=0.1)


# What is released, and what it costs: privacy level, delta, risk.
KNOWN_RIDGE = known(PrivateRidge(epsilon=0.5))
OF_TWO = {"sensitivity": "bound", "bounds": (0, 1), "y_bounds": (0, 1)}
PROVEN = {"sensitivity": "bound", "x_norm": 1.0, "y_bounds": (0, 1)}
THREE = np.zeros((5, 3), dtype=int)
PAIRS = (1.0, 0.0, 0.05)


def response(answers):
    return RandomizedResponse(epsilon=1.0).randomize(answers)


def search():
    return GridSearchCV(KNOWN_RIDGE, {"alpha": [1, 2, 3]}, cv=4).fit(X, y)


def logistic():
    model = PrivateLogisticRegression(sensitivity=pairs)
    return model.fit(X, labels, **class_reference)


def polynomial():
    return BernsteinMechanism(1, 0.5, lattice_size=2).release(np.ones(3))


RELEASES = {
    "laplace": (lambda: LaplaceMechanism(1, 0.5).release([1.0]), (0.5,)),
    "laplace, 3 rows": (lambda: LaplaceMechanism(1, 0.5).release([[1]] * 3), (1.5,)),
    "laplace, infinite": (
        lambda: LaplaceMechanism(1, math.inf).release([1.0]),
        (math.inf,),
    ),
    "gaussian": (lambda: GaussianMechanism(1, 0.5, 1e-5).release([1.0]), (0.5, 1e-5)),
    "exponential": (lambda: ExponentialMechanism(1, 0.5).choose([1.0, 2.0]), (0.5,)),
    "exponential, 2 rows": (
        lambda: ExponentialMechanism(1, 0.5).choose(np.eye(2)),
        (1.0,),
    ),
    "discrete, 2 inputs": (lambda: coin.sample([0, 1]), (2 * coin.epsilon,)),
    "randomized response": (lambda: response([0, 1]), (1.0,)),
    "randomized response, 3 questions": (lambda: response(THREE), (3.0,)),
    "bernstein": (polynomial, (0.5,)),
    "sampler": (lambda: fitted.release(X), PAIRS),
    "sampler, gaussian": (lambda: gaussian.release(X), (1.0, 1e-5, 0.05)),
    "sampler, exponential": (lambda: scores.release(X), PAIRS),
    "records": (lambda: local.transform(X), PAIRS),
    "ridge": (lambda: PrivateRidge(sensitivity=pairs).fit(X, y, **reference), PAIRS),
    "ridge, known": (lambda: clone(KNOWN_RIDGE).fit(X, y), (0.5,)),
    "ridge, bound": (lambda: PrivateRidge(epsilon=0.5, **PROVEN).fit(X, y), (0.5,)),
    "logistic": (logistic, PAIRS),
    "svc": (lambda: known(PrivateLinearSVC(classes=[0, 1])).fit(X, labels), (1.0,)),
    "density": (lambda: known(PrivateKernelDensity(lattice_size=2)).fit(X), (1.0,)),
    "moments": (lambda: PrivateMoments(**OF_TWO).fit(X, y), (1.0,)),
    "any estimator": (lambda: known(PrivateEstimator(Lasso(0.1))).fit(X, y), (1.0,)),
    "pipeline": (
        lambda: make_pipeline(Normalizer(), known(PrivateRidge())).fit(X, y),
        (1.0,),
    ),
    "cross-validation": (lambda: cross_val_score(KNOWN_RIDGE, X, y, cv=5), (2.5,)),
    "search, threads": (search, (0.5 * 13,)),
}


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.filterwarnings("ignore:The parameters were chosen by scores")
def test_a_release_is_charged_what_it_guarantees(name):
    release, cost = RELEASES[name]
    expected = as_certificate(cost)
    with PrivacyLedger(math.inf, delta=0.5, gamma=1.0) as ledger:
        release()
    spent = ledger.spent
    assert spent.epsilon == pytest.approx(expected.epsilon, rel=1e-12)
    assert spent.delta == pytest.approx(expected.delta)
    assert spent.risk <= expected.risk
    assert (spent.risk > 0) == (expected.risk > 0)
    assert spent.void == expected.void


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", RELEASES)
def test_a_refused_release_draws_no_noise(name, monkeypatch):
    release, cost = RELEASES[name]
    with PrivacyLedger(0.99 * min(cost[0], 0.5)) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(exact, "os", SimpleNamespace(urandom=_no_noise))
            with pytest.raises((BudgetExceededError, ValueError)) as refused:
                release()
        assert ledger.spent.epsilon == 0
    if not name.startswith(("cross", "search")):  # which turn it into a score of NaN
        assert isinstance(refused.value, BudgetExceededError)
        assert refused.value.limit[0] < cost[0]


def _no_noise(size):
    raise AssertionError("noise was drawn")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
def test_copies_spend_from_the_one_budget():
    """A cap of 1 does not let five folds through at 1 each."""
    with PrivacyLedger(1.0) as ledger:
        found = cross_val_score(known(PrivateRidge()), X, y, cv=5)
        assert np.isnan(found).sum() == 4
        with pytest.raises(BudgetExceededError):
            cross_val_score(known(PrivateRidge()), X, y, error_score="raise")
        assert ledger.spent.epsilon == 1.0


def test_mechanisms_record_who_they_are_and_whether_noise_was_seeded():
    """A guarantee only if nobody can repeat the noise."""
    for release in [
        partial(LaplaceMechanism(1, 0.5).release, [1.0]),
        partial(GaussianMechanism(1, 0.5, 1e-6).release, [1.0]),
        partial(ExponentialMechanism(1, 0.5).choose, [1.0, 2.0]),
        partial(coin.sample, [0]),
        partial(RandomizedResponse(3, epsilon=0.5).randomize, [0]),
        partial(BernsteinMechanism(1, 0.5, lattice_size=2).release, [0, 1, 0]),
    ]:
        with PrivacyLedger(10.0, delta=0.1) as ledger:
            release()
            assert not ledger.spent.void
            release(noise_random_state=0)
            assert ledger.spent.void
        mechanism = release.func.__self__
        drawn_by = getattr(mechanism, "laplace", mechanism)  # of BernsteinMechanism
        for entry in ledger.releases:
            assert entry.note.startswith(type(drawn_by).__name__)


def test_seeded_noise_of_a_declared_charge_is_none_either():
    """Whatever the certificate says that comes with it; once, if it says so itself."""
    noise = AdditiveNoise.at_least("laplace", 1.0)
    choice = ExponentialChoice.at_least(1.0)
    for mechanism in (noise, choice):
        release = partial(draw, mechanism, [1.0], ledger=OPEN)
        with PrivacyLedger(1.0) as ledger:
            release([as_certificate(0.5)], noise_random_state=0)
            first = ledger.spent
            assert first.void
            release([first], noise_random_state=0)
            assert ledger.spent.leaks == first.leaks == {Leak.SEEDED_NOISE}
        with PrivacyLedger(1.0) as ledger:
            release([as_certificate(0.5)])
            assert not ledger.spent.void


def test_leaks_are_recorded():
    with pytest.warns(skparisk.PrivacyLeakWarning), PrivacyLedger(1.0) as ledger:
        known(PrivateLinearSVC()).fit(X, labels)
    assert ledger.spent.leaks == {Leak.PRIVATE_CLASSES}
    assert ledger.spent.n_releases == 1
    assert "releases: 1\n" in str(ledger)
    assert ": no release, NOT private (classes)\n" in str(ledger)
    with pytest.warns(skparisk.PrivacyLeakWarning), PrivacyLedger(1.0) as ledger:
        clone(local).fit_transform(X)
    assert ledger.spent.leaks == {Leak.PRIVATE_REFERENCE}


def test_noise_without_a_level_is_refused_inside_only():
    noise = AdditiveNoise.at_least("laplace", 1.0)
    choice = ExponentialChoice.at_least(1.0)
    with PrivacyLedger(math.inf):
        for mechanism in (noise, choice, fitted.mechanism_):
            what = type(mechanism).__name__
            told = f"^{what} .* level is not known"
            with pytest.raises(IncompatibleError, match=told):
                draw(mechanism, [1.0], None, OPEN)
        draw(noise, [1.0], [as_certificate(0.5)], OPEN)
    for mechanism in (noise, choice):
        draw(mechanism, [1.0], None, OPEN)


def test_noise_is_drawn_by_those_who_charge_only():
    """What samples noise is imported by laws, and by modules that charge for it.

    Laws draw when they are asked: by `AdditiveNoise`, as it charges, and for releases
    that are simulated on public records, from a seed.
    """
    root = Path(skparisk.__file__).parent
    importers, asking = set(), set()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.ImportFrom)
                and node.module == "skparisk.core.exact"
                and any(name.name.startswith("sample_") for name in node.names)
            ):
                importers.add(path.relative_to(root).as_posix())
            if (
                isinstance(node, ast.Attribute)
                and node.attr == "sample"
                and ast.unparse(node).endswith("law.sample")
            ):
                asking.add(path.relative_to(root).as_posix())
    simulated = "linear_model/_penalty_choice.py"
    assert asking == {"core/noise.py", simulated}
    assert importers == {
        "_matrix_noise.py",
        "audit/_limits.py",
        "core/laws.py",
        "mechanisms/_discrete.py",
        "mechanisms/_exponential.py",
    }


def test_that_there_is_no_answer_is_charged_as_an_answer_is():
    """Or a query that fails on purpose asks about any record, as often as it likes."""

    def asks(X):
        return np.nan if X[:, 0].max() > 0.5 else X.mean()

    sampler = SensitivitySampler(asks, n_pairs=19, random_state=0).fit(X_public / 9)
    ledger = PrivacyLedger(1.5)
    with ledger, pytest.raises(ValueError, match="charged as for an answer"):
        sampler.release(X)
    (entry,) = ledger.releases
    assert entry.certificate.epsilon == sampler.epsilon
    assert entry.note.endswith(": no answer")
    with ledger, pytest.raises(BudgetExceededError):
        sampler.release(X)
