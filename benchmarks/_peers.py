"""Two published mechanisms to compare with, and what can be checked of them.

`AdaSSP` is Algorithm 2 of Y.-X. Wang, "Revisiting differentially private linear
regression" (UAI 2018), as published: (epsilon, delta)-differential privacy where one
record is added or removed, which is the weaker relation.

`ObjectivePerturbation` is that of Chaudhuri, Monteleoni and Sarwate (JMLR 2011) in the
form of Kifer, Smith and Thakurta (COLT 2012): the penalty is as large as the Jacobian
needs. It is (epsilon, 0)-differentially private where one record is replaced. Its
constants are derived here for the replaced record: with A the Hessian of what both
databases share, the determinants of A + H and A + H' are apart by at most det(I +
A^-1 H), and the gradients by at most that of one record minus that of the other.

Both clip rows to a public norm, and have a constant column in place of an intercept,
so that it is penalized.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LogisticRegression

Floats = NDArray[np.float64]


def with_constant(X: Floats, x_norm: float) -> Floats:
    """Return rows clipped to a norm, with a column of ones."""
    lengths = np.maximum(np.linalg.norm(X, axis=1, keepdims=True), x_norm)
    return np.column_stack([X * (x_norm / lengths), np.ones(len(X))])


class AdaSSP(RegressorMixin, BaseEstimator):
    """Ridge regression from noisy moments, with a penalty that adapts to the noise."""

    def __init__(
        self,
        epsilon: float,
        *,
        x_norm: float,
        y_bounds: tuple[float, float],
        delta: float = 1e-6,
        failure: float = 0.05,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.x_norm = x_norm
        self.y_bounds = y_bounds
        self.delta = delta
        self.failure = failure
        self.random_state = random_state

    def fit(self, X: Floats, y: Floats) -> Self:
        rng = np.random.default_rng(self.random_state)
        Z = with_constant(X, self.x_norm)
        low, high = self.y_bounds
        self.center_ = (low + high) / 2
        y = np.clip(y, low, high) - self.center_
        d, square = Z.shape[1], self.x_norm**2 + 1
        scale = math.sqrt(math.log(6 / self.delta)) / (self.epsilon / 3)
        upper = np.triu(rng.standard_normal((d, d)))
        moments = Z.T @ Z + scale * square * (upper + np.triu(upper, 1).T)
        products = Z.T @ y + scale * math.sqrt(square) * (high - low) / 2 * (
            rng.standard_normal(d)
        )
        # Eigenvalues below zero are the rounding of a matrix without full rank.
        least = max(float(np.linalg.eigvalsh(Z.T @ Z)[0]), 0.0)
        least += scale * square * rng.standard_normal()
        least -= square * math.log(6 / self.delta) / (self.epsilon / 3)
        wanted = square * math.sqrt(
            d * math.log(6 / self.delta) * math.log(2 * d**2 / self.failure)
        )
        penalty = max(0.0, wanted / (self.epsilon / 3) - max(least, 0.0))
        self.coef_ = np.linalg.solve(moments + penalty * np.eye(d), products)
        return self

    def predict(self, X: Floats) -> Floats:
        return X @ self.coef_[:-1] + self.coef_[-1] + self.center_


class ObjectivePerturbation(ClassifierMixin, BaseEstimator):
    """Logistic regression whose objective has a random linear term."""

    def __init__(
        self,
        epsilon: float,
        *,
        x_norm: float,
        classes: Any,
        C: float = 1.0,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.x_norm = x_norm
        self.classes = classes
        self.C = C
        self.random_state = random_state

    def fit(self, X: Floats, y: Any) -> Self:
        rng = np.random.default_rng(self.random_state)
        self.classes_ = np.asarray(self.classes)
        Z, onehot = with_constant(X, self.x_norm), y[:, None] == self.classes_
        self.penalty_, slope = self.constants()
        shape = (n_rows(len(self.classes_)), Z.shape[1])
        direction = rng.standard_normal(shape)
        length = rng.gamma(direction.size, 1 / slope)
        linear = direction * (length / np.linalg.norm(direction))

        def objective(flat: Floats) -> tuple[float, Floats]:
            W = flat.reshape(shape)
            scores = scores_of(Z, W)
            value = -log_softmax(scores, axis=1)[onehot].sum()
            value += 0.5 * self.penalty_ * (W**2).sum() + (linear * W).sum()
            slopes = gradient(Z, onehot, W) + self.penalty_ * W + linear
            return value, slopes.ravel()

        found = minimize(
            objective,
            np.zeros(shape).ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 5000, "gtol": 1e-9, "ftol": 1e-15},
        )
        self.coef_ = found.x.reshape(shape)
        return self

    def constants(self) -> tuple[float, float]:
        """Return the penalty, and the rate of the exponential law of the term.

        At most half of epsilon is for the determinants, the rest for the gradients.
        """
        n_classes, square = len(self.classes), self.x_norm**2 + 1
        # Two classes: a Hessian of rank 1, at most 1/4 of the square. More: of rank
        # K - 1, with a trace of at most (K - 1) / K.
        rank, largest = (1, 0.25) if n_classes == 2 else (n_classes - 1, 1 / n_classes)
        needed = largest * square / math.expm1(min(self.epsilon / 2 / rank, 500.0))
        penalty = max(1 / self.C, needed)
        jacobian = rank * math.log1p(largest * square / penalty)
        apart = (2.0 if n_classes == 2 else 2 * math.sqrt(2)) * math.sqrt(square)
        return penalty, (self.epsilon - jacobian) / apart

    def predict_proba(self, X: Floats) -> Floats:
        scores = scores_of(np.column_stack([X, np.ones(len(X))]), self.coef_)
        return np.asarray(softmax(scores, axis=1))


def n_rows(n_classes: int) -> int:
    return 1 if n_classes == 2 else n_classes


def scores_of(Z: Floats, W: Floats) -> Floats:
    """Return a score of each class; of two, the first has none."""
    scores = Z @ W.T
    return scores if len(W) > 1 else np.column_stack([np.zeros(len(Z)), scores])


def gradient(Z: Floats, onehot: Any, W: Floats) -> Floats:
    """Return the gradient of the summed losses."""
    return (softmax(scores_of(Z, W), axis=1) - onehot)[:, -len(W) :].T @ Z


def hessian(Z: Floats, W: Floats) -> Floats:
    """Return the Hessian of the summed losses, of flattened coefficients."""
    P = softmax(scores_of(Z, W), axis=1)[:, -len(W) :]
    middle = np.einsum("nk,kl->nkl", P, np.eye(len(W))) - np.einsum("nk,nl->nkl", P, P)
    size = W.size
    return np.einsum("nkl,ni,nj->kilj", middle, Z, Z).reshape(size, size)


def check_peers() -> None:
    """Assert what is known: limits without noise, sensitivities, the privacy loss."""
    rng = np.random.default_rng(0)
    X, x_norm = rng.standard_normal((200, 3)), 2.0
    Z = with_constant(X, x_norm)
    y = X @ [1.0, -2.0, 0.5] + rng.standard_normal(200)
    plain = np.linalg.lstsq(Z, y, rcond=None)[0]
    bounds = {"x_norm": x_norm, "y_bounds": (-20.0, 20.0), "random_state": 0}
    assert np.allclose(AdaSSP(1e9, **bounds).fit(X, y).coef_, plain, atol=1e-4)
    # The three releases together, as Gaussian noise of one total sensitivity.
    for epsilon in (0.01, 0.1, 1.0, 10.0):
        mu = math.sqrt(3) * (epsilon / 3) / math.sqrt(math.log(6e6))
        spent = norm.cdf(-epsilon / mu + mu / 2)
        spent -= math.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2))
        assert spent <= 1e-6, "AdaSSP spends more than it says"
    for n_classes in (2, 4):
        check_objective(X, x_norm, n_classes, rng)


def check_objective(
    X: Floats, x_norm: float, n_classes: int, rng: np.random.Generator
) -> None:
    """Assert the limit of objective perturbation, and its loss at many solutions."""
    labels = rng.integers(n_classes, size=len(X))
    classes, Z = np.arange(n_classes), with_constant(X, x_norm)
    model = ObjectivePerturbation(
        1e9, x_norm=x_norm, classes=classes, C=0.3, random_state=0
    )
    plain = LogisticRegression(C=0.3, fit_intercept=False, tol=1e-10, max_iter=10**4)
    plain.fit(Z, labels)
    assert np.allclose(model.fit(X, labels).coef_, plain.coef_, atol=1e-4)
    losses = []
    for epsilon in (0.1, 1.0, 10.0):
        model.set_params(epsilon=epsilon)
        penalty, slope = model.constants()
        for trial in range(300):
            W = rng.standard_normal((n_rows(n_classes), Z.shape[1]))
            W *= rng.choice([0.0, 0.1, 1.0, 30.0])
            n = rng.choice([2, 20])
            rows = with_constant(100 * X[rng.integers(len(X), size=n)], x_norm)
            rows[trial % 2] = rows[0] * rng.choice([-1.0, 1.0])
            given = labels[rng.integers(len(X), size=n)]
            terms, volumes = [], []
            for left_out in (0, 1):
                kept = np.delete(rows, left_out, axis=0)
                onehot = np.delete(given, left_out)[:, None] == classes
                terms.append(-gradient(kept, onehot, W) - penalty * W)
                curved = hessian(kept, W) + penalty * np.eye(W.size)
                volumes.append(np.linalg.slogdet(curved)[1])
            lengths = [np.linalg.norm(term) for term in terms]
            loss = abs(slope * (lengths[1] - lengths[0]) + volumes[0] - volumes[1])
            losses.append(loss / epsilon)
    assert max(losses) <= 1, "objective perturbation loses more than epsilon"
    assert max(losses) >= 0.3, "objective perturbation is checked at harmless records"
