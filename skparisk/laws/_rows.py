"""Sums and norms of rows that neither overflow nor lose what cancels."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

_Floats = NDArray[np.float64]

# No standard noise comes near; products with it stay within the range of floats.
_LARGEST_NOISE = 1e150


def row_norms(values: _Floats, order: float) -> _Floats:
    """Return the l1, l2 or sup norm of each row; squares do not vanish or overflow."""
    if order == math.inf:
        return np.asarray(np.abs(values).max(axis=1))
    if order == 1:
        return np.asarray(np.abs(values).sum(axis=1))
    scaled, exponents = rescale(values)
    return np.ldexp(np.sqrt(np.einsum("ij,ij->i", scaled, scaled)), exponents)


def rescale(v: _Floats) -> tuple[_Floats, NDArray[np.int32]]:
    """Divide each row by a power of two: its largest size is then in [1, 2), or 0."""
    exponents = np.frexp(np.abs(v).max(axis=1))[1] - 1
    return v / np.ldexp(1.0, exponents)[:, np.newaxis], exponents


def row_sums(terms: _Floats, start: _Floats | float = 0) -> _Floats:
    """Return start plus the sum of each row, accurate also where terms cancel.

    The leading digits are split off on a grid so coarse that sums on it are exact
    (Rump, Ogita and Oishi 2008).
    """
    exponents = np.frexp(np.abs(terms).max(axis=1, keepdims=True))[1]
    grid = np.ldexp(1.0, exponents + terms.shape[1].bit_length())
    leading = (grid + terms) - grid
    return (start + leading.sum(axis=1)) + (terms - leading).sum(axis=1)


def check_pairs(differences: ArrayLike, noise: ArrayLike) -> tuple[_Floats, _Floats]:
    """Return differences of pairs, and a vector of standard noise for each."""
    v = np.asarray(differences, dtype=np.float64)
    draws = np.asarray(noise, dtype=np.float64)
    if v.ndim != 2 or v.shape[1] == 0:
        raise ValueError(
            "differences must be of shape (n_pairs, n_outputs) with n_outputs >= 1, "
            f"got shape {v.shape}."
        )
    if draws.shape != v.shape:
        raise ValueError(
            f"noise must be of the shape of differences, {v.shape}, got {draws.shape}."
        )
    if not np.isfinite(v).all():
        raise ValueError("differences must be finite, got NaN or infinity.")
    if not np.abs(draws).max(initial=0) <= _LARGEST_NOISE:
        raise ValueError(
            f"noise must be standard noise, of size at most {_LARGEST_NOISE:g}, got "
            f"{np.abs(draws).max()}."
        )
    return v, draws
