"""Newton's method for the log loss: derivatives, steps and linear systems."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import expit

from skparisk.queries import _newton
from skparisk.queries._newton import LogLoss, _inverse

each_number_of_classes = pytest.mark.parametrize("n_classes", [2, 3, 4])


@dataclass
class Problem:
    """Records, and what is minimized over scores of all classes but the first."""

    design: np.ndarray
    codes: np.ndarray
    penalty: np.ndarray
    n_classes: int
    offsets: np.ndarray | None = None

    def loss(self, start=None):
        k = self.n_classes - 1
        start = np.zeros((k, len(self.penalty))) if start is None else start
        parts = self.codes, self.offsets, self.penalty, start
        return LogLoss(self.design.copy(), *parts)

    def take(self, rows):
        offsets = None if self.offsets is None else self.offsets[:, rows]
        some = self.design[rows], self.codes[rows]
        return Problem(*some, self.penalty, self.n_classes, offsets)

    @np.errstate(under="ignore")
    def point(self, weights, theta):
        """Return value, slope and curvature in extended precision."""
        k, X = self.n_classes - 1, self.design.astype(np.longdouble)
        scores = np.zeros((k + 1, len(X)), dtype=np.longdouble)
        scores[1:] = theta.astype(np.longdouble) @ X.T
        scores[1:] += 0.0 if self.offsets is None else self.offsets
        own = self.codes == np.arange(k + 1)[:, None]
        odds = np.exp(scores - (scores * own).sum(axis=0))
        others = (odds * ~own).sum(axis=0)
        p, rest = (part / (1 + others) for part in (odds, (1 - np.eye(k + 1)) @ odds))
        residuals = np.where(own, -others / (1 + others), p)[1:]
        shares = np.eye(k) - (k > 1) / (k + 1)
        pulled = shares @ theta * self.penalty
        value = weights @ np.log1p(others) + (theta * pulled).sum() / 2
        slope = weights * residuals @ X + pulled
        p, rest, curvature = p[1:], rest[1:], np.kron(shares, np.diag(self.penalty))
        whole = curvature.reshape(k, len(self.penalty), k, -1)
        for a in range(k):
            for b in range(k):
                share = p[a] * (rest[a] if a == b else -p[b])
                whole[a, :, b] += ((X.T * (weights * share)) @ X).astype(float)
        return value, slope, curvature

    def slope_left(self, weights, theta):
        """Return the slope, of what it was at zero."""
        slopes = [self.point(weights, at)[1] for at in (theta, 0 * theta)]
        return float(abs(slopes[0]).max() / abs(slopes[1]).max())


def make_problem(n_classes, n=30, seed=0, theta=None, scores=False):
    """Return a problem; with `theta`, records are of the class of its largest score."""
    rng = np.random.default_rng([seed, n_classes])
    design = rng.normal(size=(n, 3)) * [1.0, 0.1, 20.0]
    codes = rng.integers(n_classes, size=n)
    if theta is not None:
        codes = np.vstack([np.zeros(n), theta @ design.T]).argmax(axis=0)
    offsets = 2.0 * rng.normal(size=(n_classes - 1, n)) if scores else None
    return Problem(design, codes, np.array([0.3, 1.7, 0.0]), n_classes, offsets)


def make_weights(m, n):
    return np.random.default_rng(0).integers(4, size=(m, n)).astype(float)


@np.errstate(over="ignore")  # of a number of odds, which has no reciprocal then
def point_of(loss, weights, theta):
    """Return value, slope and curvature of one database, as the solver has them."""
    scores, theta = loss._scores(theta[None]), theta[None]
    value = loss._value(weights[None], theta, scores)
    slope = loss._slope(scores, weights[None], theta)
    return value[0], slope[0], loss._curvature(scores, weights[None])[0]


def is_close(found, exact, digits=1e-12):
    return abs(found - exact).max() <= digits * abs(exact).max()


@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize("size", [0.0, 0.3, 5.0, 60.0])
@pytest.mark.parametrize("of_largest", [True, False])
@each_number_of_classes
def test_derivatives_are_those_of_the_objective(n_classes, of_largest, size, scores):
    """Also where all classes are sure."""
    theta = size * np.random.default_rng(n_classes).normal(size=(n_classes - 1, 3))
    problem = make_problem(n_classes, 30, 0, theta if of_largest else None, scores)
    weights = make_weights(1, 30)[0]
    found = point_of(problem.loss(), weights, theta)
    for one, exact in zip(found, problem.point(weights, theta), strict=True):
        assert is_close(one, exact)


@pytest.mark.parametrize("k", [1, 3])
def test_no_residual_overflows_or_is_rounded_where_it_is_small(k):
    scores = np.array([30.0, -30.0, 700.0, -700.0, 1e4, -1e4])
    codes = np.arange(6) % 2
    loss = LogLoss(np.ones((6, 1)), codes, None, np.ones(1), np.zeros((k, 1)))
    signs = 1.0 - 2.0 * codes if k == 1 else 1.0
    given = np.full((1, k, 6), -1e4)  # no other class is likely
    given[:, 0] = scores * signs
    with np.errstate(over="ignore"):
        residuals = loss._residuals(given)
        curving, _ = loss._chances(given)
        curving = curving - curving**2 if k == 1 else curving
        value = loss._value(np.eye(6), np.zeros((6, k, 1)), given)
    p, rest = expit(scores), expit(-scores)
    expected = np.where(codes == 1, -rest, p)
    np.testing.assert_allclose(residuals[0, 0] * signs, expected, rtol=1e-13)
    np.testing.assert_allclose(curving[0, 0], p * rest if k == 1 else p, atol=1e-13)
    own = np.where(codes == 1, scores, 0.0)
    np.testing.assert_allclose(value, np.maximum(scores, 0) - own, atol=1e-12)


# Steps

HARD = [(2, 40), (2, 170), (3, 34), (3, 53), (3, 98), (3, 161), (4, 15), (4, 65)]


@pytest.mark.parametrize(("n_classes", "seed"), HARD)
def test_whole_steps_lead_astray_and_shorter_ones_do_not(n_classes, seed):
    rng = np.random.default_rng([seed, 8, n_classes, 3])
    X, codes = rng.standard_cauchy(size=(8, 3)), rng.integers(n_classes, size=8)
    X = np.column_stack([X, np.ones(8)])
    X /= np.linalg.norm(X, axis=0)
    problem = Problem(X, codes, np.array([1e-6] * 3 + [0.0]), n_classes)
    loss, theta, weights = problem.loss(), np.zeros((n_classes - 1, 4)), np.ones(8)
    with np.errstate(all="ignore"):
        for _ in range(60):
            if np.isfinite(theta).all():
                _, slope, curvature = point_of(loss, weights, theta)
                step = np.linalg.lstsq(curvature, slope.ravel(), rcond=1e-14)[0]
                theta = theta - step.reshape(theta.shape)
    (found,) = loss.minimize(weights[None]).theta
    assert not np.allclose(theta, found, rtol=0.1)
    assert problem.slope_left(weights, found) < 1e-12


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", [1.0, 30.0])
@each_number_of_classes
def test_it_ends_at_the_minimum_wherever_it_begins(n_classes, size):
    """From where all classes are sure, and mostly wrong."""
    problem, weights = make_problem(n_classes), make_weights(5, 30)
    exact = problem.loss().minimize(weights).theta
    start = size * np.random.default_rng(1).normal(size=exact.shape[1:])
    with np.errstate(all="ignore"):
        found = problem.loss(start).minimize(weights).theta
        near = (
            problem.loss()
            .minimize(weights)
            ._replace(theta=np.tile(start, (5, 1, 1)), since=np.full(5, np.inf))
        )
        again = problem.loss().minimize(weights, near).theta
    assert is_close(found, exact, 1e-9)
    assert is_close(again, exact, 1e-9)
    for w, theta in zip(weights, found, strict=True):
        assert problem.slope_left(w, theta) < 1e-11


# Each database by itself


@pytest.mark.slow
@pytest.mark.parametrize("far", [1.0, 1e3])
@pytest.mark.parametrize("scores", [False, True])
@each_number_of_classes
def test_databases_depend_on_no_other_and_on_no_row_they_lack(n_classes, scores, far):
    """Also where these are far, or have no minimizer."""
    problem, weights = make_problem(n_classes, 40, scores=scores), make_weights(7, 40)
    weights[:6, ::5] = 0.0
    problem.design[::5] *= far
    weights[0] = 1.0 * (np.arange(40) == 1)  # a single record, beside no penalty
    weights[1] *= 1e6
    with np.errstate(all="ignore"):
        whole = problem.loss().minimize(weights).theta
        for w, theta in zip(weights[1:], whole[1:], strict=True):
            few = problem.take(w > 0).loss()
            assert is_close(theta, problem.loss().minimize(w[None]).theta[0])
            assert is_close(theta, few.minimize(w[None, w > 0]).theta[0])
            assert problem.slope_left(w, theta) < 1e-10


@each_number_of_classes
def test_what_is_near_changes_nothing_but_rounding(n_classes):
    """Nor is it changed."""
    loss, weights = make_problem(n_classes).loss(), make_weights(6, 30)
    whole = loss.minimize(weights)
    for shift in (0, 1, 3):
        near = whole.take(np.roll(np.arange(6), shift))
        before = [part.copy() for part in near]
        found = loss.minimize(weights, near).theta
        assert is_close(found, whole.theta, 1e-9)
        for part, old in zip(near, before, strict=True):
            np.testing.assert_array_equal(part, old)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_does_not_converge_is_no_number(n_classes, monkeypatch):
    """Beside what does: a database that begins at its minimum."""
    loss, weights = make_problem(n_classes).loss(), make_weights(3, 30)
    whole = loss.minimize(weights)
    near = whole.take([0, 1, 1])
    with monkeypatch.context() as patch:
        patch.setattr(_newton, "_MOST_STEPS", 2)
        found = loss.minimize(weights, near).theta
        assert np.isnan(loss.minimize(weights).theta).all()
    assert is_close(found[:2], whole.theta[:2])
    assert np.isnan(found[2]).all()
    assert is_close(loss.minimize(weights, near).theta, whole.theta, 1e-9)


# Linear systems


@pytest.fixture(params=[0, 24])
def small(request, monkeypatch):
    """Invert systems one by one, or together."""
    monkeypatch.setattr(_newton, "_SMALL_SYSTEM", request.param)


@pytest.mark.parametrize(("least", "digits"), [(0.3, 1e-13), (1e-3, 1e-10)])
def test_systems_are_inverted_whatever_the_scales_of_columns(least, digits, small):
    """Exactly the same by powers of 4; beside a column of zeros."""
    rng, systems = np.random.default_rng(0), np.zeros((3, 4, 4))
    for system in systems:
        vectors, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        system[:3, :3] = vectors * [1.0, 2.0, least] @ vectors.T
    systems = (systems + systems.swapaxes(1, 2)) / 2
    found = _inverse(systems.copy())
    assert is_close(found[:, :3, :3], np.linalg.inv(systems[:, :3, :3]), digits)
    assert not found[:, 3, :3].any()
    assert np.isfinite(found).all()
    for powers in ([0, 40, -40, 0], [30, 31, 32, 1], [-30, -31, -32, 0]):
        scales = 4.0 ** np.array(powers)
        both = scales * scales[:, None]
        scaled = _inverse(systems * both) * both
        np.testing.assert_array_equal(scaled[:, :3, :3], found[:, :3, :3])


def test_a_system_without_an_inverse_holds_no_other_up(small):
    systems = np.stack([np.eye(2), np.full((2, 2), np.nan), np.ones((2, 2))])
    found = _inverse(systems)
    np.testing.assert_allclose(found[0], np.eye(2), rtol=1e-12)
    assert np.isnan(found[1]).all()
    assert np.isnan(found[2]).all()  # what rounding hides is not known


def test_what_has_no_inverse_is_no_number(monkeypatch):
    assert np.isnan(_newton._inverted(np.zeros((2, 3, 3)))).all()
    monkeypatch.setattr(_newton, "_SMALL_SYSTEM", 0)
    found = _inverse(np.array([[[1.0, 2.0], [2.0, 1.0]], [[4.0, 0.0], [0.0, 1.0]]]))
    assert np.isnan(found[0]).all()
    np.testing.assert_allclose(found[1], [[0.25, 0], [0, 1]], rtol=1e-12)


def test_large_systems_lead_where_small_ones_do(monkeypatch):
    problem, weights = make_problem(3), make_weights(3, 30)
    together = problem.loss().minimize(weights).theta
    monkeypatch.setattr(_newton, "_SMALL_SYSTEM", 5)  # rows are 6
    large = problem.loss().minimize(weights).theta
    assert is_close(large, together)
