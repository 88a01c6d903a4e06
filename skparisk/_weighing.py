"""A noisy answer and one of public records, weighed by how far each may be off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

__all__ = ["Weighed", "kept_of_noise", "weigh"]

Floats = NDArray[np.float64]

# Of releases from people alike, how many are taken for those of other people.
_FALSE_ALARMS = 0.05
# Fourth moment of Laplace noise of variance 1, minus one: the variance of its square.
_SQUARES_VARY = 5.0
_HALVINGS = 60
_MOST = 2.0**_HALVINGS
# Of a variance of 1: what is singular but for rounding can be solved for.
_RIDGE = 2.0**-36


@dataclass(frozen=True, eq=False)
class Weighed:
    """What a release and a public fit come to together.

    Parameters
    ----------
    values : ndarray of shape (n_outputs,)
        The weighed numbers.

    weight : float
        Mean weight of the release among the outputs, in [0, 1].

    shift : ndarray of shape (n_outputs,)
        Standard deviations of what public and private people differ in, 0 without a
        sign of it. In units of the outputs.
    """

    values: Floats
    weight: float
    shift: Floats


def weigh(
    released: Floats,
    public: Floats,
    *,
    noise: Floats,
    private: Floats,
    ratio: float,
    bias: Floats,
) -> Weighed:
    """Return the weighed mean of least error of a release and a public fit.

    `noise` is the covariance of the noise, `private` that of the private fit over
    people drawn by chance; that of the public fit is `ratio` times the latter, and it
    is off by something like `bias` besides.
    """
    distance = released - public
    largest = np.sqrt(np.diag(noise + private * (1 + ratio)) + bias**2)
    units = np.where(largest > 0, largest, 1.0)  # so that matrices are correlations
    noise, private = (each / np.outer(units, units) for each in (noise, private))
    of_public = ratio * private + np.outer(bias / units, bias / units)
    of_release = noise + private
    shift = estimate_shift(distance / units, of_public + of_release, private)
    of_public = of_public + shift
    gain = _gain(of_public, of_release)
    return Weighed(
        public + units * (gain @ (distance / units)),
        float(np.clip(np.trace(gain) / len(gain), 0.0, 1.0)),
        units * np.sqrt(np.diag(shift)),
    )


def kept_of_noise(noise: Floats, private: Floats, ratio: float) -> Floats:
    """Return what weighing leaves of errors of a release: a map of these.

    As for `weigh`, with public people who are like the private ones.
    """
    largest = np.sqrt(np.diag(noise + private * (1 + ratio)))
    units = np.where(largest > 0, largest, 1.0)
    noise, private = (each / np.outer(units, units) for each in (noise, private))
    return units[:, None] * _gain(ratio * private, noise + private) / units


def _gain(of_public: Floats, of_release: Floats) -> Floats:
    return of_public @ np.linalg.pinv(of_public + of_release, hermitian=True)


def estimate_shift(distance: Floats, covariance: Floats, spread: Floats) -> Floats:
    """Return the covariance of what people of two populations differ in.

    Outputs whose distance is beyond what chance explains are first, each by itself;
    then a multiple of `spread`, the least that makes the other distance no surprise.
    """
    n_outputs = len(distance)
    # Tail of Laplace noise, which is heavier than that of its sums and of answers.
    limit = np.log(n_outputs / _FALSE_ALARMS) ** 2 / 2
    variances = np.diag(covariance)
    single = np.where(distance**2 > limit * variances, distance**2 - variances, 0.0)
    shift = np.diag(single)
    most = n_outputs - ndtri(_FALSE_ALARMS) * np.sqrt(_SQUARES_VARY * n_outputs)

    # Along directions in which chance and spread are independent, and chance is 1.
    root = np.linalg.cholesky(covariance + shift + _RIDGE * np.eye(n_outputs))
    turned = np.linalg.solve(root, np.linalg.solve(root, spread).T)
    shares, axes = np.linalg.eigh((turned + turned.T) / 2)
    squares = (axes.T @ np.linalg.solve(root, distance)) ** 2

    def surprising(multiple: float) -> bool:
        return bool(np.sum(squares / (1 + multiple * np.maximum(shares, 0.0))) > most)

    if not surprising(0.0):
        return shift
    low, high = 0.0, 1.0
    # No spread explains a distance along what does not vary between samples.
    while surprising(high) and high < _MOST:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if surprising(middle) else (low, middle)
    return shift + high * spread
