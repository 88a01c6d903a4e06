"""Data, estimators and searches for tests of private searches."""

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    RegressorMixin,
    TransformerMixin,
)

from skparisk import PrivateRidge, SensitivitySampler
from skparisk.ledger import spend
from skparisk.model_selection import ExponentialSelection, PrivateGridSearchCV

SELECTIONS = ("reference", "exponential")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
Y = X @ [1.0, -2.0] + 0.1 * RNG.normal(size=300)
WITH_GAPS = np.where(np.arange(300)[:, None] == 7, np.nan, X)
X_PUBLIC = RNG.normal(size=(120, 2))
Y_PUBLIC = X_PUBLIC @ [1.0, -2.0] + 0.1 * RNG.normal(size=120)
PUBLIC = {"X_reference": X_PUBLIC, "y_reference": Y_PUBLIC}
BOUNDS = (-8.0, 8.0)
ALPHAS = {"alpha": [1e-3, 1e6]}  # the first is right, the second is far too large
CHEAP = SensitivitySampler(n_pairs=40)


class Constant(RegressorMixin, BaseEstimator):
    """Charges a level, looks at nothing and predicts one number.

    It is taken for a part of the library whose parameters do not tell its level.
    """

    __module__ = "skparisk.made_up"
    seen: list = []  # noqa: RUF012 - of all clones

    def __init__(self, value=0.0, *, level=0.25):
        self.value = value
        self.level = level

    def fit(self, X, y, X_reference=None, y_reference=None):
        if self.level is not None:
            spend(self.level)
        self.n_features_in_ = X.shape[1]
        Constant.seen.append((self, X, y, X_reference, y_reference))
        return self

    def predict(self, X):
        return np.full(X.shape[0], self.value)


class Label(ClassifierMixin, Constant):
    """Predicts one label."""

    __module__ = "skparisk.made_up"


def private_search(estimator, grid, selection, **parameters):
    """Return a search whose selection has those of the parameters that are its own."""
    given = {"random_state": 0} | parameters
    if selection == "exponential":
        given = {"y_bounds": BOUNDS} | given
        own = ExponentialSelection().get_params().keys() & given.keys()
        selection = ExponentialSelection(**{name: given.pop(name) for name in own})
    return PrivateGridSearchCV(estimator, grid, selection=selection, **given)


def known(**parameters):
    return PrivateRidge(sensitivity=0.1, **parameters)


class Fill(TransformerMixin, BaseEstimator):
    """Looks at each value by itself, and has nothing to learn."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.nan_to_num(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = True
        return tags
