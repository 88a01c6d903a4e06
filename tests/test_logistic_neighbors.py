"""Curvature of neighbors in logistic regression, against matrices of all numbers."""

import numpy as np
import pytest
from scipy.optimize import minimize

from skparisk.queries._logistic_neighbors import (
    InverseOfNeighbors,
    Swapped,
    inverse_curvature,
)
from skparisk.queries._logistic_records import SharedRecords

SHAPES = [(1, 1, 1), (1, 4, 3), (3, 1, 3), (3, 4, 3), (2, 3, 1)]  # k, q, r


def probabilities(Z, v):
    scores = np.column_stack([np.zeros(len(Z)), Z @ v.T])
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (odds / odds.sum(axis=1, keepdims=True))[:, 1:]


def curvature(z, p):
    """Return that of the loss of one record, flat over logits and columns."""
    return np.kron(np.diag(p) - np.outer(p, p), np.outer(z, z))


def some_records(k, q, n=40):
    """Return records, one of no length and many of no weight, and a database."""
    rng = np.random.default_rng([k, q])
    Z, codes = rng.normal(size=(n, q)), rng.integers(k + 1, size=n)
    Z[0] = 0
    of_class = (codes == np.arange(1, k + 1)[:, None]).astype(float)
    roots = rng.normal(size=(k * q, k * q))
    penalty = np.eye(k * q) + 0.01 * roots @ roots.T
    records = SharedRecords(Z, of_class, 0 * of_class, penalty)
    return records, rng.integers(9, size=n).astype(float), rng.normal(size=(k, q)), rng


def whole_curvature(records, counts, v):
    parts = zip(counts, records.Z, probabilities(records.Z, v), strict=True)
    return records.penalty + sum(c * curvature(z, p) for c, z, p in parts)


def assert_close(found, expected, share=1e-4):
    np.testing.assert_allclose(found, expected, atol=share * np.abs(expected).max())


@pytest.mark.parametrize(("k", "q", "r"), SHAPES)
def test_the_inverse_of_one_database_is_that_of_its_curvature(k, q, r):
    records, counts, v, rng = some_records(k, q)
    inverse = inverse_curvature(records, counts, v)
    expected = np.linalg.inv(whole_curvature(records, counts, v))
    assert inverse.matrix.dtype == np.float32
    assert_close(inverse.matrix, expected)
    slopes = rng.normal(size=(r, k, q))
    found = inverse.times(slopes)
    assert found.dtype == np.float32  # half the time
    assert_close(found.reshape(r, -1), slopes.reshape(r, -1) @ expected)
    assert inverse.some(np.ones(r, dtype=bool)) is inverse


def test_without_an_inverse_there_is_an_error():
    records, counts, v, _ = some_records(2, 3)
    negative = SharedRecords(records.Z, records.of_class, v, -1e3 * np.eye(6))
    with pytest.raises(np.linalg.LinAlgError, match="the curvature of a database"):
        inverse_curvature(negative, counts, v)


def led_to(whole, first, removed, added):
    """Return where the neighbors' losses are least, and their curvature there.

    With that of the database's losses as at `first`, and of the record that it lacks.
    """
    z, of_class = removed
    p = probabilities(z[None], first)[0]
    less, slope = curvature(z, p), np.kron(p - of_class, z)
    if added is None:
        return first.ravel() + np.linalg.solve(whole - less, slope), whole - less
    z_added, its_class = added

    def value(flat):
        d = flat - first.ravel()
        scores = z_added @ flat.reshape(first.shape).T
        loss = np.logaddexp.reduce(np.append(scores, 0.0)) - its_class @ scores
        return 0.5 * d @ (whole - less) @ d - slope @ d + loss

    def slopes(flat):
        p = probabilities(z_added[None], flat.reshape(first.shape))[0]
        d = flat - first.ravel()
        return (whole - less) @ d - slope + np.kron(p - its_class, z_added)

    def second(flat):
        p = probabilities(z_added[None], flat.reshape(first.shape))[0]
        return whole - less + curvature(z_added, p)

    found = minimize(
        value, first.ravel(), jac=slopes, hess=second, method="trust-exact", tol=1e-9
    )
    return found.x, second(found.x)


@pytest.mark.parametrize("with_added", [True, False])
@pytest.mark.parametrize("far", [0.1, 1.0, 7.0])
@pytest.mark.parametrize(("k", "q", "r"), SHAPES)
def test_neighbors_begin_where_their_records_lead(k, q, r, far, with_added):
    """Also where a record that is added is far from where it leads."""
    records, counts, first, rng = some_records(k, q)
    counts[:10] = 1 + counts[:10]
    inverse = inverse_curvature(records, counts, first)
    removed = Swapped(records.Z[1 : 1 + r], records.of_class[:, 1 : 1 + r].T)
    added = None
    if with_added:
        # Of the class that is least expected, the more so, the farther they are.
        Z = rng.normal(size=(r, q)) - first[0]
        Z *= far / np.linalg.norm(Z, axis=1, keepdims=True)
        added = Swapped(Z, np.eye(k)[(Z @ first.T).argmin(axis=1)])
    found, start = InverseOfNeighbors.of(inverse, first, removed, added)
    assert {x.dtype for x in (found.Z, found.columns, found.core)} == {
        np.dtype(np.float32)
    }
    whole = whole_curvature(records, counts, first)
    slopes = rng.normal(size=(r, k, q))
    products = found.times(slopes)
    few = np.arange(r) != 1
    assert_close(found.some(few).times(slopes[few]), products[few])
    for i in range(r):
        place, second = led_to(
            whole,
            first,
            (removed.Z[i], removed.of_class[i]),
            None if added is None else (added.Z[i], added.of_class[i]),
        )
        assert_close(start[i].ravel(), place, 1e-3)
        expected = np.linalg.solve(second, slopes[i].ravel())
        assert_close(products[i].ravel(), expected, 1e-3)


@pytest.mark.parametrize("score", [-12.0, -2.0, 3.0])
def test_a_record_may_lead_far_within_a_few_steps(score):
    """Its score m moves by 20 times what is expected of the other class there."""
    records = SharedRecords(
        np.zeros((2, 1)), np.ones((1, 2)), np.ones((1, 2)), np.full((1, 1), 5.0)
    )
    first = np.full((1, 1), score / 10)
    inverse = inverse_curvature(records, np.ones(2), first)
    swapped = [Swapped(np.full((1, 1), z), np.ones((1, 1))) for z in (0.0, 10.0)]
    _, start = InverseOfNeighbors.of(inverse, first, *swapped)
    m = 10 * start.item()
    assert m - score == pytest.approx(20 / (1 + np.exp(m)), rel=1e-5)


def test_a_record_that_is_too_far_holds_no_other_up():
    records, counts, first, rng = some_records(2, 3)
    inverse = inverse_curvature(records, counts, first)
    removed = Swapped(records.Z[1:3], records.of_class[:, 1:3].T)
    added = Swapped(rng.normal(size=(2, 3)), np.eye(2))
    _, expected = InverseOfNeighbors.of(inverse, first, removed, added)
    added.Z[1] = -1e3 * first[1]
    _, start = InverseOfNeighbors.of(inverse, first, removed, added)
    np.testing.assert_allclose(start[0], expected[0], rtol=1e-9)
