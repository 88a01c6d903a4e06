"""Attacks on private searches: the chosen parameters tell neighbors apart, but not more
than the certificate says; and they do tell where the choice has too little noise.

Candidates predict a label that they were told, so that all there is to learn of the
records is which candidate was chosen.
"""

import itertools
import math

import numpy as np
import pytest
from laws import FALSE_ALARM, SEEDS
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin

from skparisk.ledger import spend
from skparisk.mechanisms import ExponentialMechanism
from skparisk.model_selection import (
    ExponentialSelection,
    PrivateGridSearchCV,
)

LEVEL = 2.4


class Guess(ClassifierMixin, BaseEstimator):
    """Predicts a label; `number` makes candidates differ that predict the same.

    It is taken for a part of the library.
    """

    __module__ = "skparisk.made_up"

    def __init__(self, label=0, number=0):
        self.label = label
        self.number = number

    def fit(self, X, y):
        spend(0.01)
        return self

    def predict(self, X):
        return np.full(len(X), self.label)


def search(random_state):
    """Return a search whose first candidate alone predicts 0, and three others 1."""
    others = {"label": [1], "number": [0, 1, 2]}
    return PrivateGridSearchCV(
        Guess(),
        [{"label": [0]}, others],
        selection=ExponentialSelection(epsilon=LEVEL),
        random_state=random_state,
    )


def count_choices(search, label):
    """Count which candidate is chosen on five records with one label.

    One of them is held out, so that it alone counts, and a neighbor changes it.
    """
    chosen = np.zeros(4, dtype=int)
    for _ in range(400):  # enough for the bounds to be apart
        chosen[search.fit(np.zeros((5, 1)), np.full(5, label)).best_index_] += 1
    return chosen


def largest_certain_loss(counts, others):
    """Return a level that is exceeded, but for a false alarm: over all events.

    The bounds of Clopper and Pearson hold for all events together.
    """
    n_outcomes = len(counts)
    events = [
        list(event)
        for size in range(1, n_outcomes)
        for event in itertools.combinations(range(n_outcomes), size)
    ]
    share = FALSE_ALARM / (4 * len(events))
    level = 0.0
    for event, (one, other) in itertools.product(
        events, [(counts, others), (others, counts)]
    ):
        hits, misses = one[event].sum(), other[event].sum()
        least = stats.beta.ppf(share, hits, one.sum() - hits + 1) if hits else 0.0
        most = stats.beta.isf(share, misses + 1, other.sum() - misses)
        if least > 0:
            level = max(level, math.log(least / most))
    return level


def attack(search):
    return largest_certain_loss(*(count_choices(search, label) for label in (0, 1)))


def with_level(mechanism, factor):
    """Return a mechanism that spends more than it is asked for."""
    return lambda sensitivity, epsilon: mechanism(sensitivity, factor * epsilon)


@pytest.mark.parametrize("seed", SEEDS)
def test_chosen_parameters_tell_neighbors_apart_as_far_as_is_certified(seed):
    attacked = search(random_state=seed)
    found = attack(attacked)
    assert attacked.certificate_.epsilon == LEVEL
    assert attacked.certificate_.private
    assert 0 < found <= LEVEL  # the loss is 1.75 here


def test_the_attack_notices_a_choice_with_too_little_noise(monkeypatch):
    """Almost by the scores themselves."""
    careless = with_level(ExponentialMechanism, 160)
    monkeypatch.setattr(
        "skparisk.model_selection._exponential.ExponentialMechanism", careless
    )
    attacked = search(random_state=0)
    assert attack(attacked) > LEVEL
    assert attacked.certificate_.epsilon == LEVEL


def test_the_bound_is_below_the_loss_of_a_known_law_and_not_far():
    """Randomized response at level 1, and the same answers for both."""
    share = math.e / (1 + math.e)
    rng = np.random.default_rng(0)
    one, other = (np.bincount(rng.random(10**5) < p) for p in (share, 1 - share))
    assert 0.9 < largest_certain_loss(one, other) < 1
    assert largest_certain_loss(one, one) == 0
