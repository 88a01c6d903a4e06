import math
import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from laws import (
    FALSE_ALARM,
    SEEDS,
    assert_binomial_at_most,
    assert_law,
    exceeds,
    rejects_law,
)
from scipy import stats

from skparisk.core.exact import (
    mix_uniform,
    noise_source,
    random_order,
    sample_bernoulli_exp,
    sample_bernoulli_gaussian,
    sample_discrete_gaussian,
    sample_discrete_laplace,
    sample_uniform_integers,
)
from skparisk.core.noise import AdditiveNoise, NoiseShape, to_float


class Law(NamedTuple):
    """A sampler of noise, and what is known of its law."""

    sample: Callable[..., np.ndarray]
    weight: Callable[..., np.ndarray]  # proportional to the probability of z
    reach: int  # how many scales away only one draw in 400 is
    limit: Any  # the law on a fine grid
    power: int
    moment: Callable[[int], float]  # the mean of |z|**power


LAPLACE = Law(
    sample=sample_discrete_laplace,
    weight=lambda z, scale: np.exp(-np.abs(z) / scale),
    reach=6,
    limit=stats.laplace,
    power=1,
    moment=lambda scale: 1 / math.sinh(1 / scale),
)
GAUSSIAN = Law(
    sample=sample_discrete_gaussian,
    weight=lambda z, scale: np.exp(-((z / scale) ** 2) / 2),
    reach=3,
    limit=stats.norm,
    power=2,
    moment=lambda scale: scale**2,  # at scale 1, 2e-7 less
)

laws = pytest.mark.parametrize("law", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
bernoullis = pytest.mark.parametrize(
    ("sample", "exponent"),
    [
        (sample_bernoulli_exp, lambda x: x),
        (sample_bernoulli_gaussian, lambda x: x**2 / 2),
    ],
    ids=["exp", "gaussian"],
)

seeds = pytest.mark.parametrize("seed", SEEDS)


class ScriptedSource:
    """Serves a fixed string of bytes, and fails when asked for more."""

    def __init__(self, script):
        self.script = script
        self.served = 0

    def __call__(self, count):
        start, self.served = self.served, self.served + count
        if self.served > len(self.script):
            raise EOFError
        return self.script[start : self.served]


class CountingSource:
    """Serves seeded bytes, and keeps how many each call asked for."""

    def __init__(self, seed=0):
        self.bytes = noise_source(seed)
        self.requests = []

    def __call__(self, count):
        self.requests.append(count)
        return self.bytes(count)


def rejects_counts(observed, probabilities):
    """Tell if a chi-square test refuses the probabilities of some cells."""
    expected = np.sum(observed) * np.asarray(probabilities)
    return stats.chisquare(observed, expected).pvalue < FALSE_ALARM


def rejects_probability(successes, trials, probability):
    """Tell if a two-sided exact binomial test refuses a probability."""
    return stats.binomtest(int(successes), trials, probability).pvalue < FALSE_ALARM


def exact_cells(law, scale, reach):
    """Return the exact probabilities of <= -reach, -reach + 1, ..., >= reach."""
    z = np.arange(-reach - math.ceil(40 * scale), reach + math.ceil(40 * scale) + 1)
    weights = law.weight(z, scale)
    cells = np.bincount(np.clip(z, -reach, reach) + reach, weights)
    return cells / np.sum(weights)


def tail(law, scale, reach):
    """Return the exact probability of at least `reach`, on either side."""
    return 2 * exact_cells(law, scale, reach)[-1]


# The source


@laws
def test_without_a_seed_the_bytes_are_the_operating_systems(law, monkeypatch):
    """None means os.urandom, and the samplers draw from nothing else."""
    assert noise_source() is os.urandom
    assert noise_source(None) is os.urandom
    calls = []

    def urandom(count, real=os.urandom):
        calls.append(count)
        return real(count)

    monkeypatch.setattr(os, "urandom", urandom)
    before = np.random.get_state()[1].copy()
    law.sample(5, 100, noise_source())
    assert sum(calls) >= 100
    np.testing.assert_array_equal(np.random.get_state()[1], before)


def test_a_seeded_source_repeats():
    """The same seed gives the same noise; going on with it gives fresh noise."""
    for law in [LAPLACE, GAUSSIAN]:
        for make in [
            lambda: 7,
            lambda: np.int64(7),
            lambda: np.random.RandomState(7),
            lambda: np.random.default_rng(7),
        ]:
            source = noise_source(make())
            first = law.sample(2**40, 50, source)
            again = law.sample(2**40, 50, noise_source(make()))
            np.testing.assert_array_equal(first, again)
            assert not np.array_equal(first, law.sample(2**40, 50, source))


# Uniform integers


def test_uniform_is_exact_over_all_words():
    """Fed every word once, each value comes equally often: no bias at all."""
    for width, upper in [
        *((1, upper) for upper in range(2, 257)),
        *((2, upper) for upper in (257, 300, 32769, 65535, 65536)),
    ]:
        check_words(width, upper)


def check_words(width, upper):
    every_word = np.arange(256**width, dtype=f"<u{width}").tobytes()
    repeats = 256**width // 2 ** (upper - 1).bit_length()
    draws = sample_uniform_integers(upper, repeats * upper, ScriptedSource(every_word))
    counts = np.bincount(draws.astype(np.int64))
    np.testing.assert_array_equal(counts, np.full(upper, repeats))


def test_uniform_rejects_what_is_not_below_upper():
    """Bits above those of upper - 1 are dropped; values >= upper are drawn again."""
    for upper in [5, 2**8 + 1, 2**16 + 1, 2**32 + 1, 2**63 - 1]:
        bits = (upper - 1).bit_length()
        width = next(width for width in (1, 2, 4, 8) if bits <= 8 * width)
        words = [upper, 0, 2**bits - 1, upper - 1, 2 ** (8 * width) - 2**bits + 2]
        script = b"".join(word.to_bytes(width, "little") for word in words)
        source = ScriptedSource(script)
        draws = sample_uniform_integers(upper, 3, source)
        assert draws.tolist() == [0, upper - 1, 2]
        assert source.served == len(script)


@seeds
@pytest.mark.parametrize("upper", [1, 3, 2**32 + 1, 2**63])
def test_uniform_law(upper, seed):
    """Uniform over the whole range and in the low bits, whatever the upper bound."""
    draws = sample_uniform_integers(upper, 50_000, noise_source(seed))
    assert draws.dtype == np.uint64
    assert draws.shape == (50_000,)
    assert int(draws.max()) < upper
    cells = min(upper, 16)
    high = [int(draw) * cells // upper for draw in draws]
    low = draws % np.uint64(cells)
    for cell in (high, low.astype(np.int64)):
        observed = np.bincount(cell, minlength=cells)
        assert observed.size == cells
        if cells > 1:
            assert not rejects_counts(observed, np.full(cells, 1 / cells))


def test_uniform_asks_for_few_bytes_in_whole_words():
    """A power of two costs one shortest word per draw, and 1 costs nothing."""
    for upper, width in [
        *[(1, 0), (2, 1), (2**8, 1), (2**9, 2), (2**16, 2), (2**17, 4)],
        *[(2**32, 4), (2**33, 8), (2**63, 8)],
    ]:
        source = CountingSource()
        sample_uniform_integers(upper, 100, source)
        assert source.requests == ([100 * width] if width else [])


@pytest.mark.parametrize(("upper", "width"), [(3, 1), (257, 2), (65_537, 4)])
def test_uniform_redraws_only_what_is_missing(upper, width):
    """A rejection costs one word more, never a whole new array."""
    source = CountingSource()
    sample_uniform_integers(upper, 1000, source)
    assert source.requests[0] == 1000 * width
    assert all(count % width == 0 for count in source.requests)
    assert source.requests == sorted(source.requests, reverse=True)


def test_uniform_refuses_a_bad_upper_bound():
    """The message has the name, the value and what is allowed."""
    for upper in [0, -1, 2**63 + 1, 2.0, True, "3", None]:
        with pytest.raises(ValueError, match=r"upper must be .* \[1, 2\*\*63\], got "):
            sample_uniform_integers(upper, 3, noise_source(0))


# Bernoulli(exp(-a/d)) and Bernoulli(exp(-(a/d)²/2))


@pytest.mark.sampled(1)
@bernoullis
@pytest.mark.parametrize(("a", "d"), [(0, 3), (1, 1), (1, 3), (3, 4)])
def test_bernoulli_is_exact_over_all_bytes(a, d, sample, exponent):
    """Enumerating every byte string encloses the probability."""
    # Up to k = 8 and d = 8 only the low three bits of a byte count: 8 equal cases.
    decided = {True: Fraction(0), False: Fraction(0)}
    scripts = [b""]
    for length in range(6):
        undecided = []
        for script in scripts:
            try:
                (answer,) = sample(
                    np.array([a], dtype=np.uint64), d, ScriptedSource(script)
                )
            except EOFError:
                undecided.append(script)
            else:
                decided[bool(answer)] += Fraction(1, 8**length)
        scripts = [script + bytes([low]) for script in undecided for low in range(8)]
    assert decided[True] <= math.exp(-exponent(a / d)) <= 1 - decided[False]
    assert decided[True] + decided[False] >= 0.9


@seeds
@bernoullis
@pytest.mark.parametrize("denominator", [1, 7, 2**63])
def test_bernoulli_frequencies(denominator, sample, exponent, seed):
    """Each element has its own probability, and 10 % off it is noticed."""
    trials = 100_000
    numerators = sorted({0, denominator // 2, denominator - 1, denominator})
    numerator = np.tile(np.array(numerators, dtype=np.uint64), trials)
    answers = sample(numerator, denominator, noise_source(seed))
    assert answers.dtype == np.bool_
    answers = answers.reshape(trials, len(numerators))
    for a, successes in zip(numerators, answers.sum(axis=0), strict=True):
        probability = math.exp(-exponent(a / denominator))
        assert not rejects_probability(successes, trials, probability)
        for factor in (0.9, 1.1):
            wrong = 1 - factor * (1 - probability)
            assert a == 0 or rejects_probability(successes, trials, wrong)


def test_bernoulli_of_zero_is_always_true():
    """exp(0) = 1, with no exception."""
    for sample, exponent in [
        (sample_bernoulli_exp, lambda x: x),
        (sample_bernoulli_gaussian, lambda x: x**2 / 2),
    ]:
        zeros = np.zeros(10_000, dtype=np.uint64)
        assert exponent(0) == 0
        assert sample(zeros, 2**40, noise_source()).all()


@bernoullis
def test_bernoulli_of_nothing_is_nothing(sample, exponent):
    """An empty array asks for no bytes."""
    empty = np.empty(0, dtype=np.uint64)
    assert sample(empty, 3, ScriptedSource(b"")).shape == (0,)


@bernoullis
def test_bernoulli_refuses_a_fraction_above_one(sample, exponent):
    """Algorithm 1 would be wrong there, silently."""
    numerator = np.array([1, 4], dtype=np.uint64)
    with pytest.raises(ValueError, match=r"\[0, denominator\], got 4 for .* 3\."):
        sample(numerator, 3, noise_source(0))


# Discrete Laplace and discrete Gaussian


@seeds
@laws
@pytest.mark.parametrize("scale", [1, 3, 10])
def test_small_scale_law(scale, law, seed):
    """The exact probabilities hold cell by cell; 10 % off on either side they fail."""
    noise = law.sample(scale, 100_000, noise_source(seed))
    reach = law.reach * scale
    cells = np.bincount(np.clip(noise, -reach, reach) + reach, minlength=2 * reach + 1)
    assert not rejects_counts(cells, exact_cells(law, scale, reach))
    for factor in (0.9, 1.1):
        assert rejects_counts(cells, exact_cells(law, factor * scale, reach))


@seeds
@laws
def test_tail(law, seed):
    """Far from zero there are as many draws as there must be; not 10 % off."""
    noise = law.sample(10, 300_000, noise_source(seed))
    reach = law.reach * 10
    far = np.sum(np.abs(noise) >= reach)
    assert not rejects_probability(far, noise.size, tail(law, 10, reach))
    for scale in (9, 11):
        assert rejects_probability(far, noise.size, tail(law, scale, reach))


@seeds
@laws
@pytest.mark.parametrize("scale", [3**25, 2**52])
def test_large_scale_law(scale, law, seed):
    """On a fine grid it is the continuous law, and none with 10 % less or more."""
    noise = law.sample(scale, 50_000, noise_source(seed))
    assert_law(noise, law.limit(scale=scale).cdf)
    for factor in (0.9, 1.1):
        assert rejects_law(noise, law.limit(scale=factor * scale).cdf)


@seeds
@laws
def test_low_bits_are_not_lost(law, seed):
    """At the largest scale the lowest bits of a draw are still uniform."""
    noise = law.sample(2**52, 50_000, noise_source(seed))
    low = np.bincount(noise & 15, minlength=16)
    assert not rejects_counts(low, np.full(16, 1 / 16))


@seeds
@laws
def test_consecutive_draws_are_independent(law, seed):
    """Filling slots in the order of acceptance links no draw to the next."""
    noise = law.sample(2**40, 50_000, noise_source(seed)).astype(float)
    for values in (noise, np.abs(noise)):
        ranks = stats.rankdata(values)
        assert stats.pearsonr(ranks[:-1], ranks[1:]).pvalue >= FALSE_ALARM


def test_noise_has_the_size_asked_for():
    """Integers in an array of that length, and nothing drawn for an empty one."""
    for law in [LAPLACE, GAUSSIAN]:
        for size in [0, 1, 2, 1000]:
            source = CountingSource()
            noise = law.sample(np.int64(2**40), size, source)
            assert noise.dtype == np.int64
            assert noise.shape == (size,)
            assert (size == 0) == (source.requests == [])


@pytest.mark.parametrize(
    ("law", "tries", "steps"),
    [
        # A byte 255 at k = 2 makes V = 0.
        (LAPLACE, 16, [255]),
        # V = 0 and the same once more, as exp(-1/2) needs a byte at k = 1; then X = 0.
        (GAUSSIAN, 18, [0, 255, 0, 255, 255]),
    ],
    ids=["laplace", "gaussian"],
)
def test_negative_zeros_are_drawn_again(law, tries, steps):
    """A round of nothing but -0 fills no slot; +0 in the next round fills them."""
    # Scale 1 and 5 slots: every step takes one byte per try, and the sign is the last.
    script = b"".join(bytes([step]) * tries for step in [*steps, 255, *steps, 0])
    source = ScriptedSource(script)
    assert law.sample(1, 5, source).tolist() == [0] * 5
    assert source.served == len(script)


def test_bad_scale_is_refused_before_anything_is_drawn():
    """The message has the name, the value and what is allowed."""
    for law in [LAPLACE, GAUSSIAN]:
        for scale in [0, -1, 2**52 + 1, 1.0, math.nan, math.inf, True, "1", None]:
            source = CountingSource()
            with pytest.raises(
                ValueError, match=r"scale must be .* \[1, 2\*\*52\], got "
            ) as e:
                law.sample(scale, 3, source)
            assert repr(scale) in str(e.value)
            assert source.requests == []


# The assertions these tests rest on


@seeds
def test_assert_law_tells_right_from_wrong(seed):
    """A reference sampler passes; another scale fails, with a message."""
    sample = np.random.default_rng(seed).laplace(size=50_000)
    assert_law(sample, stats.laplace.cdf)
    assert not rejects_law(sample, stats.laplace.cdf)
    for factor in (0.9, 1.1):
        wrong = stats.laplace(scale=factor).cdf
        assert rejects_law(sample, wrong)
        with pytest.raises(AssertionError, match="50000 draws are"):
            assert_law(sample, wrong)


def test_assert_binomial_at_most_is_exact_and_one_sided():
    """The tail of 20 failures in 20 trials is p**20: it decides at FALSE_ALARM."""
    edge = FALSE_ALARM ** (1 / 20)
    assert not exceeds(20, 20, 1.001 * edge)
    assert exceeds(20, 20, 0.999 * edge)
    assert not exceeds(0, 1000, 0.9)
    assert_binomial_at_most(20, 20, 1.001 * edge)
    with pytest.raises(AssertionError, match="20 of 20 trials failed"):
        assert_binomial_at_most(20, 20, 0.999 * edge)


@pytest.mark.slow
def test_uniform_numbers_are_mixed_in():
    """As rarely as is asked, and with each outcome as often."""
    source = np.random.default_rng(0).bytes
    tries = 20_000
    drawn = [
        tuple(mix_uniform([1, -9], source, bits=4, rarely=2)) for _ in range(tries)
    ]
    plain = (1, -8)  # moved to the end
    counts = np.array([drawn.count((a, b)) for a in range(-8, 8) for b in range(-8, 8)])
    assert counts.sum() == tries
    others = np.delete(counts, (1 + 8) * 16)
    assert drawn.count(plain) == counts[(1 + 8) * 16]
    assert stats.chisquare(others).pvalue > FALSE_ALARM
    mixed = stats.binomtest(others.sum(), tries, 255 / 256 / 4)
    assert mixed.pvalue > FALSE_ALARM
    for wrong in (0.9, 1.1):
        refuted = stats.binomtest(others.sum(), tries, wrong * 255 / 256 / 4)
        assert refuted.pvalue < FALSE_ALARM


def test_numbers_that_are_mixed_keep_their_ends():
    """All are of 120 bits; uniform ones come with 60 zero bits."""
    assert mix_uniform([5, 2**130, -(2**130)], os.urandom) == [5, 2**119 - 1, -(2**119)]
    assert mix_uniform([5, 6], bytes) == [-(2**119)] * 2
    # One of 60 bits decides: that beyond them is not looked at.
    for bit, kept in ((59, True), (60, False)):
        word = (2**bit).to_bytes(8, "little")
        assert (mix_uniform([5], lambda n, word=word: word * (n // 8)) == [5]) == kept
    words = iter([bytes(8), np.array([3, 7, 1, 2], dtype="<u8").tobytes()])
    mixed = [(high << 60) + low - 2**119 for high, low in ((3, 7), (1, 2))]
    assert mix_uniform([5, 6], lambda n: next(words)) == mixed


def test_an_order_is_that_of_whole_numbers():
    """As floats, some of 64 random bits are none, or equal."""
    drawn = np.array([2**63, 2**64 - 1, 1, 2**63 + 1], dtype=np.uint64)
    assert random_order(4, lambda n: drawn.tobytes()).tolist() == [2, 0, 3, 1]


def test_numbers_beyond_the_largest_are_infinite_with_their_sign():
    assert [to_float(sign, 1024) for sign in (1, -1)] == [math.inf, -math.inf]
    assert [to_float(sign, 1023) for sign in (1, -1)] == [2.0**1023, -(2.0**1023)]


def test_deviations_are_those_of_the_shape():
    shape = NoiseShape([1.0, 4.0])
    noise = AdditiveNoise.at_least("gaussian", 0.5, n_outputs=2, shape=shape)
    np.testing.assert_allclose(noise.deviations(), [0.5, 2.0], rtol=1e-11)


def test_shapes_of_many_outputs_must_be_better_conditioned():
    """Rounding costs more: of 128 outputs the limit is a quarter, 2**18."""
    for n, limit in ((2, 20), (128, 18)):
        for power, refused in ((-0.4, False), (0.4, True)):
            factor = np.eye(n)
            factor[:2, :2] = [[1.0, 1.0], [1.0, 1.0 + 4 / 2.0 ** (limit + power)]]
            if refused:
                with pytest.raises(ValueError, match="factor must be 1, of shape"):
                    NoiseShape(factor)
            else:
                NoiseShape(factor)
