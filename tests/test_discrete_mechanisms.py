"""Discrete mechanisms: the released law, and what all mechanisms share."""

import math
import os
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from counts import rejects_counts, seeds
from hypothesis import given, settings
from hypothesis import strategies as st

from skparisk.mechanisms import (
    DiscreteMechanism,
    ExponentialMechanism,
    RandomizedResponse,
)

mpmath.mp.dps = 60


def count_urandom(monkeypatch):
    """Serve and count the operating system's bytes."""
    calls = []

    def urandom(count, real=os.urandom):
        calls.append(count)
        return real(count)

    monkeypatch.setattr(os, "urandom", urandom)
    return calls


# Discrete mechanisms


def rows_of_weights(n_inputs, n_outputs):
    number = st.one_of(st.floats(0, 1), st.floats(1e-12, 1e-3))
    row = st.lists(number, min_size=n_outputs, max_size=n_outputs).filter(
        lambda row: sum(row) > 0.01
    )
    return st.lists(row, min_size=n_inputs, max_size=n_inputs)


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(
    given=st.tuples(st.integers(1, 4), st.integers(1, 6)).flatmap(
        lambda shape: rows_of_weights(*shape)
    )
)
def test_the_released_law_is_the_nearest_of_whole_numbers(given):
    matrix = np.array(given) / np.sum(given, axis=1, keepdims=True)
    try:
        mechanism = DiscreteMechanism(matrix)
    except ValueError:
        small = matrix[(matrix > 0).all(axis=0) & np.ones(matrix.shape, bool)]
        assert small.min() < 2.0**-61
        return
    weights = [[int(w) for w in row] for row in mechanism.weights]
    for row, law in zip(weights, matrix.tolist(), strict=True):
        assert sum(row) == 2**62
        total = sum(Fraction(p) for p in law)
        exact = [Fraction(p) / total * 2**62 for p in law]
        left = [share % 1 for share in exact]
        extra = [weight > share for weight, share in zip(row, exact, strict=True)]
        taken = [r for r, more in zip(left, extra, strict=True) if more]
        others = [r for r, more in zip(left, extra, strict=True) if not more]
        assert min(taken, default=1) >= max(others, default=0)  # largest remainders
        for weight, p in zip(row, law, strict=True):
            assert abs(weight - Fraction(p) / total * 2**62) < 1
            assert p > 0 or weight == 0
    np.testing.assert_allclose(mechanism.matrix, matrix, rtol=1e-9, atol=2.0**-62)
    columns = [column for column in zip(*weights, strict=True) if any(column)]
    if any(min(column) == 0 for column in columns):
        assert mechanism.epsilon == math.inf
    else:
        exact = max(
            mpmath.log(mpmath.mpf(max(column)) / min(column)) for column in columns
        )
        assert exact <= mechanism.epsilon <= exact * (1 + mpmath.mpf(2) ** -49)


@pytest.mark.slow
@seeds
def test_outputs_follow_their_rows_and_no_other_level(seed):
    matrix = np.array([[0.5, 0.3, 0.2], [0.25, 0.3, 0.45], [0.2, 0.6, 0.2]])
    mechanism = DiscreteMechanism(matrix)
    inputs = np.tile([[0], [1], [2]], 50_000)
    outputs = mechanism.sample(inputs, noise_random_state=seed)
    assert outputs.shape == inputs.shape
    for row, drawn in zip(matrix, outputs, strict=True):
        assert not rejects_counts(drawn, row)
        for power in (0.8, 1.2):
            assert rejects_counts(drawn, row**power)
    assert mechanism.epsilon == pytest.approx(math.log(0.5 / 0.2), rel=1e-14)


def test_each_output_has_exactly_its_share_of_the_draws(monkeypatch):
    """At both ends of what belongs to each output."""
    rng = np.random.default_rng(0)
    for n_outputs in (1, 2, 3, 7, 8, 9):
        mechanism = DiscreteMechanism(rng.dirichlet(np.ones(n_outputs), size=3))
        for row in range(3):
            ends = np.cumsum(mechanism.weights[row])
            starts = ends - mechanism.weights[row]
            draws = np.concatenate([starts, ends - 1]).astype(np.uint64)
            monkeypatch.setattr(
                "skparisk.mechanisms._discrete.sample_uniform_integers",
                lambda *_, d=draws: d,
            )
            outputs = mechanism.sample(np.full(draws.size, row))
            np.testing.assert_array_equal(outputs, [*range(n_outputs)] * 2)


def test_an_output_of_some_inputs_only_is_no_privacy():
    mechanism = DiscreteMechanism([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    assert mechanism.epsilon == math.inf
    assert set(mechanism.sample([1] * 100)) == {0}
    assert set(mechanism.sample([0] * 100)) == {0, 1}


def test_a_probability_that_becomes_zero_is_not_silently_infinite():
    tiny = 2.0**-70
    with pytest.raises(ValueError, match=r"matrix must have no probability.*8.47e-22"):
        DiscreteMechanism([[1.0, tiny, 0], [0.5, 0.5, 0]])
    # All of a column may vanish, and what is infinite anyway may stay so.
    gone = DiscreteMechanism([[1.0, tiny], [1.0, 2 * tiny]])
    assert gone.epsilon == 0
    assert DiscreteMechanism([[1, tiny, 0], [0.4, 0.5, 0.1]]).epsilon == math.inf


def test_what_is_no_law_is_refused():
    for matrix, message in [
        ([0.5, 0.5], "matrix must have the shape"),
        (np.zeros((0, 2)), "matrix must have the shape"),
        (np.zeros((2, 0)), "matrix must have the shape"),
        ([[1.5, -0.5]], "matrix must hold numbers in"),
        ([[math.nan, 1.0]], "matrix must hold numbers in"),
        ([[1.5, 0.5]], "matrix must hold numbers in"),
        ([[0.5, 0.5], [0.5, 0.4]], "sum of 0.9"),
        ([[0.5, 0.5], [1.0, 1.0]], "sum of 2"),
        ([[0.5, 0.5 + 2e-9]], "matrix must have rows that sum to 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            DiscreteMechanism(matrix)
        DiscreteMechanism([[0.5, 0.5 + 5e-10]])


def test_an_input_that_is_no_row_is_refused_without_naming_it():
    for inputs in [[2], [-1], [0.0], ["0"], np.uint64(2**63), [None]]:
        mechanism = DiscreteMechanism(np.eye(2))
        with pytest.raises(
            ValueError, match=r"^inputs must be whole numbers in \[0, 2\)\.$"
        ):
            mechanism.sample(inputs)


# All of them


RELEASES = {
    "exponential": lambda seed: ExponentialMechanism(1.0, 1.0).choose(
        np.zeros((200, 7)), noise_random_state=seed
    ),
    "discrete": lambda seed: DiscreteMechanism(np.full((2, 4), 0.25)).sample(
        [0, 1] * 100, noise_random_state=seed
    ),
    "response": lambda seed: RandomizedResponse(9, epsilon=1.0).randomize(
        [4] * 200, noise_random_state=seed
    ),
}
releases = pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)


@releases
def test_noise_is_from_the_operating_system_alone(release, monkeypatch):
    """What is released is a function of its bytes, and numpy's state is untouched."""
    calls = count_urandom(monkeypatch)
    before = np.random.get_state()[1].copy()
    assert not np.array_equal(release(None), release(None))
    assert sum(calls) >= 100
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    repeated = []
    for _ in range(2):
        monkeypatch.setattr(os, "urandom", np.random.RandomState(3).bytes)
        repeated.append(release(None))
    np.testing.assert_array_equal(*repeated)


@releases
def test_a_seed_repeats_and_takes_nothing_from_the_system(release, monkeypatch):
    calls = count_urandom(monkeypatch)
    first, again = release(7), release(7)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, release(8))
    generator = np.random.default_rng(7)
    assert not np.array_equal(release(generator), release(generator))
    np.testing.assert_array_equal(release(np.random.RandomState(7)), first)
    assert not calls
    with pytest.raises(ValueError, match="noise_random_state"):
        release("seed")
