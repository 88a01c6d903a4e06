"""What is learned is private, and its risk is what it says over the learned law."""

import warnings

import numpy as np
import pytest
from laws import assert_binomial_at_most, exceeds

from skparisk import SchemaReference, SensitivitySampler, learn_reference
from skparisk.datasets import load_census
from skparisk.queries import RidgeQuery
from skparisk.reference import Categories, Interval, TableReference, _synthesis
from skparisk.reference._synthesis import Axis, learn_copula
from skparisk.sensitivity import sample_differences

LEVEL = 1.0
GAMMA = 0.05


class FastLaplace:
    """The mechanism with continuous noise: that of its own is tested elsewhere."""

    def __init__(self, sensitivity, epsilon, n_outputs):
        self.noise_scale = sensitivity / epsilon

    def release(self, values, *, noise_random_state):
        return values + noise_random_state.laplace(
            scale=self.noise_scale, size=len(values)
        )


def laws_of(axes, columns, rng, n_laws):
    """Learn from the same records many times."""
    for _ in range(n_laws):
        yield learn_copula(axes, columns, LEVEL, rng=rng, noise_random_state=rng)


def odds_are_beyond(one, other, level):
    """Tell if an event is likelier for one of two databases than the level allows."""
    assert one + other > 100
    return exceeds(one, one + other, np.exp(level) / (1 + np.exp(level)))


def seen_of_counts(rng):
    """How often the category of the one record that differs seems to be frequent."""
    axes = [Axis.of(Categories(["a", "b"]), None, 2)]
    seen = []
    for first in "ba":
        values = np.array([first, *"aaaaaaaaa"], dtype=object)
        laws = laws_of(axes, [values], rng, 30_000)
        seen.append(sum(int(law.shares[0][1] > 0.35) for law in laws))
    return seen


def seen_of_signs(rng):
    """How often columns seem to go together, as they do in the record that differs."""
    axes = [Axis.of(Interval(0.0, 1.0), None, 4)] * 2
    one = np.resize([0.05, 0.95], 100)
    other = np.resize([0.05, 0.95, 0.95, 0.05], 100)
    seen = []
    for first in (0.05, 0.95):
        other[0] = first
        laws = laws_of(axes, [one, other], rng, 10_000)
        seen.append(sum(int((law.factor @ law.factor.T)[0, 1] > 1e-9) for law in laws))
    return seen


@pytest.mark.parametrize(
    ("seen", "level"), [(seen_of_counts, LEVEL), (seen_of_signs, LEVEL / 2)]
)
def test_what_is_learned_is_private(seen, level, monkeypatch):
    """A record that differs is not seen more often than the level allows.

    With half of the noise it is.
    """
    rng = np.random.default_rng(0)
    monkeypatch.setattr("skparisk.reference._synthesis.LaplaceMechanism", FastLaplace)
    assert not odds_are_beyond(*seen(rng), level)
    for name in ("histogram_sensitivity", "sign_sensitivity"):
        true = getattr(_synthesis, name)
        monkeypatch.setattr(_synthesis, name, lambda d, true=true: true(d) / 2)
    assert odds_are_beyond(*seen(rng), level)


def test_the_risk_is_that_of_the_learned_law():
    """Fresh pairs of it exceed the level as often as is claimed, and not more."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 2)).clip(-3, 3)
    y = (X.sum(axis=1) + rng.normal(size=400)).clip(-5, 5)
    schema = SchemaReference([(-3.0, 3.0)] * 2, target=(-5.0, 5.0))
    query, beyond, near, trials = RidgeQuery(1.0), 0, 0, 0
    for repeat in range(60):
        law = learn_reference(schema, X, y, epsilon=1.0).reference
        about = {"n_records": 320, "random_state": repeat}
        sampler = SensitivitySampler(query, reference=law, n_pairs=99, gamma=0.2)
        sampler.set_params(noise_shape="isotropic", **about)
        scale = sampler.fit(X, y).sensitivity_
        about["random_state"] = 10_000 + repeat
        fresh = sample_differences(query, law, n_pairs=100, n_features=2, **about)
        sizes = np.abs(fresh).sum(axis=1)
        # One pair of each, as those of one law are not independent of each other.
        beyond += int(sizes[0] > scale)
        near += int((sizes > 0.8 * scale).sum())
        trials += len(sizes)
    assert_binomial_at_most(beyond, 60, 0.2)
    assert exceeds(near, trials, 0.2)


@pytest.mark.parametrize(("n_records", "most"), [(500, 0.05), (2000, 0.065)])
def test_real_pairs_of_the_census_exceed_the_level_as_rarely(n_records, most):
    """On average over what is learned, at a total level of 1; for less than twice the
    noise that a table of all people would need.

    No theorem says so: it is what was measured, with room for a few standard errors.
    """
    X, y = load_census(return_X_y=True)
    X = X[:, [1, 2, 3, 5, 6, 7]] / [16, 49, 2401, 1, 1, 1]
    y = y.clip(0, 5000) / 1000
    schema = SchemaReference(
        [(9 / 16, 1.0), (3 / 49, 1.0), (9 / 2401, 1.0), [0, 1], [0, 1], [0, 1]],
        target=(0.0, 5.0),
    )
    query, n_released = RidgeQuery(1.0), n_records - n_records // 5
    real = SensitivitySampler(
        query,
        gamma=GAMMA,
        reference=TableReference(X, y),
        n_records=n_released,
        n_pairs=1999,
        noise_shape="isotropic",
        random_state=0,
    ).fit(X, y)
    shares, ratios = [], []
    for repeat in range(20):
        rows = np.random.default_rng(repeat).choice(len(X), n_records, replace=False)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "noise_random_state")
            split = learn_reference(
                schema, X[rows], y[rows], epsilon=1.0, noise_random_state=repeat
            )
        sampler = SensitivitySampler(
            query,
            gamma=GAMMA,
            reference=split.reference,
            noise_shape="isotropic",
            random_state=repeat,
        )
        others = rows[split.others]
        sensitivity = sampler.fit(X[others], y[others]).sensitivity_
        shares.append((real.sensitivities_ > sensitivity).mean())
        ratios.append(sensitivity / real.sensitivity_)
    assert np.mean(shares) <= most
    assert 1 < np.mean(ratios) < 2
