"""What is released of whole pipelines and mixtures is as private as it is claimed.

Each fit has a table of its own, a random sample of the population: steps that learn
structure are fitted on it, and what is released is found on it. One fresh pair of the
population follows each fit, so that the exact binomial test applies. The pair may have
categories that the table lacks.
"""

import functools
import pickle

import numpy as np
import pandas as pd
import pytest
from laws import SEEDS, assert_law, rejects_law, violates
from scipy import stats
from sklearn.compose import make_column_transformer
from sklearn.ensemble import StackingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skparisk import PrivacyLeakWarning, PrivateEstimator, SensitivitySampler
from skparisk.reference import CallableReference, TableReference
from skparisk.sensitivity import sample_differences
from skparisk.wrappers import _estimator

GAMMA = 0.2
N_PAIRS = 9  # the second largest of them is exceeded at the risk GAMMA, and not below
N_FITS = 50
N_RECORDS = 40
N_ROWS = 400  # of a table: databases are drawn without replacement
N_NOISES = 1200
TOWNS = ["Graz", "Wien", "Linz", "Ried", "Enns", "Lunz"]


def people(n_records, rng):
    """Return categories, of which some are rare, beside numbers; some are missing."""
    town = rng.choice(TOWNS, n_records, p=[0.4, 0.3, 0.2, 0.06, 0.035, 0.005])
    age = rng.normal(45, 12, n_records)
    income = rng.lognormal(0, 0.5, n_records)
    y = (age - 45) / 20 + (town == "Wien") + income + rng.normal(size=n_records) - 1.5
    frame = pd.DataFrame({"town": town, "age": age, "income": income})
    frame.loc[rng.random(n_records) < 0.1, "town"] = None
    frame.loc[rng.random(n_records) < 0.2, "age"] = np.nan
    return frame, y


def voters(n_records, rng):
    X, y = people(n_records, rng)
    return X, 1.0 * (y > 0)


def numbers(n_records, rng):
    X = rng.normal(size=(n_records, 3))
    return X, X @ [1.0, -2.0, 0.5] + rng.normal(size=n_records)


def groups(n_records, rng):
    """Two groups that no fit confuses."""
    group = rng.random((n_records, 1)) < 0.4
    return rng.normal(size=(n_records, 2)) + 12.0 * group


def pipeline(model):
    return make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), ["town"]),
            (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "income"]),
        ),
        model,
    )


MEMBERS = [("ridge", Ridge()), ("lasso", Lasso(0.1))]
MIXTURE = GaussianMixture(2, means_init=[[0.0, 0.0], [12.0, 12.0]], random_state=0)
CASES = {
    "Ridge of a frame": (pipeline(Ridge()), people),
    "LogisticRegression of a frame": (pipeline(LogisticRegression()), voters),
    "GaussianMixture": (MIXTURE, groups),
    "StackingRegressor": (StackingRegressor(MEMBERS, Ridge(), cv=2), numbers),
}


def drawn(draw, n_records, rng):
    """Return records, and targets if there are any, as arguments."""
    found = draw(n_records, rng)
    return found if isinstance(found, tuple) else (found,)


def fit(case, rng, n_pairs=N_PAIRS, combine="auto"):
    """Return a model that is fitted to its own table and database, and the database."""
    estimator, draw = CASES[case]
    model = PrivateEstimator(
        estimator,
        gamma=GAMMA,
        combine=combine,
        sensitivity=SensitivitySampler(n_pairs=n_pairs),
        random_state=int(rng.integers(2**31)),
    )
    table = TableReference(*drawn(draw, N_ROWS, rng))
    data = drawn(draw, N_RECORDS, rng)
    return model.fit(*data, X_reference=table), data


def fresh_losses(case, seed):
    """Return the loss of one fresh pair after each fit, over epsilon."""
    rng = np.random.default_rng(seed)
    losses = []
    for _ in range(N_FITS):
        # Else what is worse than public records is refused.
        combine = None if case == "StackingRegressor" else "auto"
        model, (X, *_) = fit(case, rng, combine=combine)
        fresh = sample_differences(
            model.sampler_.query_,
            CallableReference(CASES[case][1]),
            n_pairs=1,
            n_records=N_RECORDS,
            n_features=X.shape[1],
            random_state=int(rng.integers(2**31)),
        )
        losses.append(np.abs(fresh).sum() / model.noise_scale_ / model.epsilon_)
    assert model.risk_ == pytest.approx(GAMMA)
    assert ("columntransformer" in model.public_steps_) == ("of a" in case)
    return np.array(losses)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES)
def test_fresh_pairs_of_the_population_exceed_epsilon_at_most_at_the_risk(case, seed):
    losses = fresh_losses(case, seed)
    assert not violates(losses, GAMMA)
    assert violates(losses, GAMMA, noise=0.25)


@pytest.fixture
def served(monkeypatch):
    """All vectors that were given to what serves them, in the order of the fits."""
    found = []

    def serve(model, reader, released, *rest, serve=_estimator.serve):
        found.append(np.concatenate([part.ravel() for part in released.values()]))
        return serve(model, reader, released, *rest)

    monkeypatch.setattr("skparisk.wrappers._estimator.serve", serve)
    return found


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES)
def test_each_served_number_has_the_noise_that_is_claimed(case, seed, served):
    """Nothing of the answer is released without noise, or with less."""
    # What is combined with a public fit is served in part.
    model, data = fit(case, np.random.default_rng(seed), combine=None)
    query, scale = model.sampler_.query_, model.noise_scale_
    answer = query(*data)
    assert len(answer) == model.certificate_.evidence.n_outputs
    served.clear()
    model.set_params(sensitivity=model.sampler_)
    for _ in range(-(-N_NOISES // len(answer))):
        model.fit(*data)
    noise = (np.array(served) - answer) / scale
    if case == "GaussianMixture":  # weights are brought back to be shares
        noise = noise[:, 2:]
    assert_law(noise.ravel(), stats.laplace.cdf)
    for column in noise.T:
        assert_law(column, stats.laplace.cdf)
    for share in (1 / 3, 3):
        assert rejects_law(share * noise.ravel(), stats.laplace.cdf)
    noise[:, 0] = 0.0  # one number as it is
    assert rejects_law(noise[:, 0], stats.laplace.cdf)


METHODS = ("predict", "predict_proba", "score_samples", "decision_function")


def everything_shown(model, points):
    """Return all that a fitted model answers and says, in bytes."""
    methods = [name for name in METHODS if hasattr(model, name)]
    answers = [getattr(model, name)(points) for name in methods]
    parts = [answers, str(model.certificate_), vars(model.estimator_), model.template_]
    return [pickle.dumps(part) for part in parts]


def fixed_release(release, model, *rest, vectors):
    """Release as always, and then return the vector that the first fit released."""
    vectors.append(release(model, *rest))
    return vectors[0].copy()


@pytest.mark.parametrize("case", CASES)
def test_what_is_served_depends_on_private_records_by_the_release_alone(
    case, monkeypatch
):
    estimator, draw = CASES[case]
    rng = np.random.default_rng(0)
    table = TableReference(*drawn(draw, N_ROWS, rng))
    one, other = (drawn(draw, N_RECORDS, rng) for _ in range(2))
    points, *_ = drawn(draw, 20, rng)

    def shown(data):
        model = PrivateEstimator(
            estimator,
            gamma=GAMMA,
            # Else the public fit may be served, whatever private records there are.
            combine=None if case == "StackingRegressor" else "auto",
            sensitivity=SensitivitySampler(n_pairs=N_PAIRS),
            random_state=0,
            noise_random_state=0,
        )
        with pytest.warns(PrivacyLeakWarning):
            model.fit(*data, X_reference=table)
        return everything_shown(model, points)

    first = shown(one)
    assert shown(one) == first
    assert shown(other)[0] != first[0]
    vectors = []
    release = functools.partialmethod(
        functools.partial(fixed_release, PrivateEstimator._release, vectors=vectors)
    )
    monkeypatch.setattr(PrivateEstimator, "_release", release)
    assert shown(one) == first
    assert shown(other) == first
    assert (vectors[0] != vectors[1]).any()


def test_categories_that_only_private_records_have_are_not_shown():
    """Two databases that a public encoder cannot tell apart are served alike."""
    rng = np.random.default_rng(1)
    X_reference, y_reference = people(N_ROWS, rng)
    X, y = people(N_RECORDS, rng)
    points, _ = people(20, rng)
    shown = []
    for town in ("Kiel", "a secret"):
        model = PrivateEstimator(
            pipeline(Ridge()),
            gamma=GAMMA,
            sensitivity=SensitivitySampler(n_pairs=N_PAIRS),
            random_state=0,
            noise_random_state=0,
        )
        private = X.assign(town=X["town"].mask(X["income"] > 1.0, town))
        assert (private["town"] == town).sum() > 10
        with pytest.warns(PrivacyLeakWarning):
            model.fit(private, y, X_reference=X_reference, y_reference=y_reference)
        shown.append(everything_shown(model, points))
        assert not any(b"secret" in part for part in shown[-1])
    assert shown[0] == shown[1]
