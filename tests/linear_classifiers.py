"""Shells and data that the tests of private linear classifiers share."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.optimize import lsq_linear
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from skparisk import PrivateLinearSVC, PrivateLogisticRegression, SensitivitySampler
from skparisk.reference import TableReference

SLOPES = np.array([[3.0, -1.0, 0.0], [0.0, 2.0, -1.0], [-1.0, 0.0, 2.0]])


def make_data(n_records, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_records, 3))
    scores = X @ SLOPES[:, :n_classes] + 2 * rng.normal(size=(n_records, n_classes))
    return X, scores.argmax(axis=1)


X, Y = make_data(100)
X_PUBLIC, Y_PUBLIC = make_data(150, seed=1)
PUBLIC = {"X_reference": X_PUBLIC, "y_reference": Y_PUBLIC}
FEW = SensitivitySampler(n_pairs=19)
LOGISTIC = PrivateLogisticRegression(1.0, sensitivity=FEW, random_state=0)
SQUARED = PrivateLinearSVC(1.0, sensitivity=FEW, random_state=0)
HINGE = PrivateLinearSVC(1.0, loss="hinge", sensitivity=FEW, random_state=0)
SHELLS = {"logistic": LOGISTIC, "squared hinge": SQUARED, "hinge": HINGE}
# What both losses of a support vector machine do alike.
each_shell = pytest.mark.parametrize(
    "shell", [LOGISTIC, SQUARED], ids=["logistic", "squared hinge"]
)


def in_turn(cases):
    """Return each case beside a shell, all of which have their turn."""
    return [*zip(itertools.cycle(SHELLS.values()), cases, strict=False)]


classes_2_3 = pytest.mark.parametrize("n_classes", [2, 3])
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])
BOUND = {"sensitivity": "bound", "x_norm": 2.0}


def public_table(n_classes=2):
    return TableReference(*make_data(150, n_classes, seed=1))


def ways(shell, n_classes=2):
    """Return parameters and the public records, for each way that there is."""
    public = dict(zip(PUBLIC, make_data(150, n_classes, seed=1), strict=True))
    on_sampler = SensitivitySampler(n_pairs=19, reference=public_table(n_classes))
    classes = list(range(n_classes))
    found = {
        "sampled": ({}, public),
        "on the sampler": ({"sensitivity": on_sampler}, {}),
        "declared": ({"sensitivity": 0.5, "classes": classes}, {}),
    }
    if shell is LOGISTIC:
        found["bound"] = (BOUND | {"classes": classes}, {})
    return found


def make(shell, **parameters):
    return clone(shell).set_params(**parameters)


def exact(shell, **parameters):
    """Return a model without noise."""
    return make(shell, epsilon=np.inf, **{"sensitivity": 1.0} | parameters)


def numbers_of(model):
    return np.concatenate([model.coef_.ravel(), model.intercept_])


def scikit_learn(shell, X, y, **parameters):
    """Fit what scikit-learn has, as tight as it gets."""
    own = shell.get_params() | parameters
    if isinstance(shell, PrivateLogisticRegression):
        names = ("C", "fit_intercept")
        model = LogisticRegression(solver="newton-cholesky", tol=1e-15, max_iter=1000)
    else:
        names = ("C", "fit_intercept", "loss", "intercept_scaling")
        dual = own["loss"] == "hinge"
        model = LinearSVC(dual=dual, tol=1e-10, max_iter=10**5, random_state=0)
    model.set_params(**{name: own[name] for name in names})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def optimality(model, X, signs, k):
    """Return how far the subgradient of a support vector machine stays from 0.

    Relative to the coefficients, which it would be where there were no records.
    """
    s = model.intercept_scaling
    w = model.coef_[k]
    if model.fit_intercept:
        X, w = np.column_stack([X, np.full(len(X), s)]), [*w, model.intercept_[k] / s]
    Z, w = signs[:, None] * X, np.asarray(w)
    short = 1 - Z @ w
    if model.loss == "squared_hinge":
        rest = w - 2 * model.C * short.clip(min=0) @ Z
    else:
        on, charged = abs(short) < 1e-6, short >= 1e-6
        rest = w - model.C * Z[charged].sum(axis=0)
        # Any share of a record's loss counts where it is on the margin.
        if on.any():
            shares = lsq_linear(Z[on].T, rest, (0, model.C), tol=1e-14).x
            rest = rest - shares @ Z[on]
    return np.linalg.norm(rest) / np.linalg.norm(w)
