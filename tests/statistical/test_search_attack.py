"""Attacks on private searches: the chosen parameters tell neighbors apart, but not more
than the certificate says; and they do tell where the choice has too little noise.

Candidates predict a label that they were told, so that all there is to learn of the
records is which candidate was chosen.
"""

import numpy as np
import pytest
from laws import SEEDS
from pair_attacks import attack_pair
from sklearn.base import BaseEstimator, ClassifierMixin

from skparisk.ledger import spend
from skparisk.mechanisms import ExponentialMechanism
from skparisk.model_selection import ExponentialSelection, PrivateGridSearchCV

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


def choice(search, label):
    """Return which candidate is chosen on five records with one label.

    One of them is held out, so that it alone counts, and a neighbor changes it.
    """
    return search.fit(np.zeros((5, 1)), np.full(5, label)).best_index_


def attack(search):
    """Return a level that the choice exceeds for sure, but for a false alarm."""

    def release(label, size):
        return np.eye(4)[[choice(search, label) for _ in range(size)]]

    return attack_pair(
        release, 0, 1, n_releases=400, confidence=1 - 1e-4, random_state=0
    ).lower_bound


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
