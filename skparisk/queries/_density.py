"""Kernel density estimates on a lattice as a query."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from skparisk._checks import check_bounds
from skparisk.core.checks import check_at_least, check_choice, check_positive
from skparisk.mechanisms._bernstein import count_nodes
from skparisk.queries._base import Floats
from skparisk.queries._sums import SumQuery

_EVERYWHERE: dict[str, Callable[[Floats], Floats]] = {
    "gaussian": lambda u: np.exp(-0.5 * u * u),
    "exponential": lambda u: np.exp(-u),
}
# Zero from a distance of one bandwidth on.
_COMPACT: dict[str, Callable[[Floats], Floats]] = {
    "tophat": np.ones_like,
    "epanechnikov": lambda u: 1 - u * u,
    "linear": lambda u: 1 - u,
    "cosine": lambda u: np.cos(0.5 * np.pi * u),
}
KERNELS = (*_EVERYWHERE, *_COMPACT)


def kernel_density_sensitivity_bound(
    n_records: int, bandwidth: float, n_dims: int, kernel: str = "gaussian"
) -> float:
    """Bound the change of a kernel density estimate by one record, anywhere.

    Parameters
    ----------
    n_records : int
        Records of a database, n >= 1.

    bandwidth : float
        Bandwidth h > 0, in units of the data.

    n_dims : int
        Features, d >= 1.

    kernel : str, default="gaussian"
        A kernel of scikit-learn's `KernelDensity`.

    Returns
    -------
    bound : float
        K(0) / (n h**d), the sup-norm global sensitivity for replace-one, in units of
        density per unit of the data.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the kernel has no finite peak.

    Notes
    -----
    **Guarantee**. The estimate at x is the mean of K((x - X_i)/h)/h**d over the
    records, where K is between 0 and K(0). Replacing a record changes one term, from
    one number between 0 and K(0)/h**d to another. It is attained: by a record at x
    that moves far away. The values at L points have an l1 sensitivity of at most L
    times that (Aldà and Rubinstein 2017, Section 5).

    Examples
    --------
    >>> from skparisk.queries import kernel_density_sensitivity_bound
    >>> kernel_density_sensitivity_bound(100, 0.5, n_dims=1, kernel="tophat")
    0.01
    """
    n_records = check_at_least(n_records, "n_records", 1)
    return _peak(bandwidth, check_at_least(n_dims, "n_dims", 1), kernel) / n_records


def _peak(bandwidth: Any, n_dims: int, kernel: Any) -> float:
    """Return the density of one record at itself, normalized by scikit-learn."""
    check_positive(bandwidth, "bandwidth")
    check_choice(kernel, "kernel", KERNELS)
    record = np.zeros((1, n_dims))
    from sklearn.neighbors import KernelDensity  # with much of scikit-learn

    density = KernelDensity(kernel=kernel, bandwidth=bandwidth).fit(record)
    with np.errstate(over="ignore"):
        peak = float(np.exp(density.score_samples(record)[0]))
    if not 0 < peak < math.inf:  # NaN: the cosine kernel in 4 or 8 dimensions
        raise ValueError(
            f"kernel={kernel!r} and bandwidth={bandwidth!r} must have a finite density "
            f"above 0 in {n_dims} dimensions, got {peak!r}."
        )
    return peak


@dataclass(frozen=True)
class DensityQuery(SumQuery):
    """Kernel density estimate at the nodes of a lattice on a box.

    Parameters
    ----------
    bounds : sequence of (float, float)
        Lowest and highest value of each feature, public. Private records are clipped
        to them; the lattice spans them.

    bandwidth : float
        Bandwidth of the kernel, > 0, in units of the data.

    kernel : {"gaussian", "exponential", "tophat", "epanechnikov", "linear", \
            "cosine"}, default="gaussian"
        As in scikit-learn's `KernelDensity`, normalized as there (where the cosine
        kernel does not integrate to one in an even number of dimensions).

    lattice_size : int, default=10
        Intervals along each feature, k >= 1; at most 2**20 nodes, (k + 1)**n_features.

    Attributes
    ----------
    nodes : ndarray of shape (n_nodes, n_features)
        The nodes, in units of the data, the last feature changing fastest.

    Raises
    ------
    ValueError
        If a parameter is out of range, or there are too many nodes.

    Notes
    -----
    The answer is the estimate at each node, in density per unit of the data: the
    `BernsteinPolynomial` of it, reshaped, is the estimate in between.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.queries import DensityQuery
    >>> query = DensityQuery([(0, 4)], bandwidth=1.0, kernel="linear", lattice_size=4)
    >>> query(np.array([[1.0], [2.5]])).tolist()
    [0.0, 0.5, 0.25, 0.25, 0.0]
    """

    bounds: tuple[tuple[float, float], ...]
    bandwidth: float
    kernel: str = "gaussian"
    lattice_size: int = 10

    is_mean = True

    def __post_init__(self) -> None:
        ends = check_bounds(self.bounds, "bounds").tolist()
        object.__setattr__(self, "bounds", tuple(map(tuple, ends)))
        object.__setattr__(
            self, "bandwidth", check_positive(self.bandwidth, "bandwidth")
        )
        count_nodes(self.lattice_size, len(self.bounds))
        object.__setattr__(self, "lattice_size", int(self.lattice_size))
        _peak(self.bandwidth, len(self.bounds), self.kernel)

    @cached_property
    def nodes(self) -> Floats:
        grids = np.meshgrid(*self._axes, indexing="ij")
        return np.stack([grid.ravel() for grid in grids], axis=1)

    def sup_bound(self, n_records: int) -> float:
        """Bound the change of any output by one record.

        Parameters
        ----------
        n_records : int
            Records of a database, >= 1.

        Returns
        -------
        bound : float
            :func:`kernel_density_sensitivity_bound`, plus the rounding error of the
            answers.
        """
        exact = kernel_density_sensitivity_bound(
            n_records, self.bandwidth, len(self.bounds), self.kernel
        )
        # A sum loses at most 2**-53 of its total for each addition that a term goes
        # through, and a term is off by a few ulps itself (16). Two answers: 2**-52.
        return exact + (n_records + 16) * 2.0**-52 * self._height

    def rows(self, X: Any, y: Any) -> Floats:
        """Return the density of each record by itself, and 1."""
        X = self.clip(np.asarray(X, dtype=np.float64))
        with np.errstate(all="ignore"):
            # Squared distances add up over the axes: each axis is a factor more nodes,
            # and no array of (records, nodes, features) is ever made.
            squared = np.zeros((len(X), 1))
            for column, axis in zip(X.T, self._axes, strict=True):
                squares = (column[:, None] - axis) ** 2
                squared = (squared[:, :, None] + squares[:, None]).reshape(len(X), -1)
            distance = np.sqrt(squared)
            if self.kernel in _EVERYWHERE:
                shape = _EVERYWHERE[self.kernel](distance / self.bandwidth)
            else:
                shape, near = np.zeros_like(distance), distance < self.bandwidth
                shape[near] = _COMPACT[self.kernel](distance[near] / self.bandwidth)
        return np.column_stack([shape * self._height, np.ones(len(X))])

    def finish(self, sums: Floats) -> Floats:
        """Return means."""
        return sums[:, :-1] / sums[:, -1:]

    def clip(self, X: Floats) -> Floats:
        """Return records within the bounds.

        Parameters
        ----------
        X : ndarray of shape (n_records, n_features)
            Records.

        Returns
        -------
        clipped : ndarray of the shape of `X`
        """
        if X.ndim != 2 or X.shape[1] != len(self.bounds):
            raise ValueError(
                f"bounds must be one pair for each feature, got {len(self.bounds)} for "
                f"records of shape {X.shape}."
            )
        low, high = np.array(self.bounds).T
        return X.clip(low, high)

    @cached_property
    def _axes(self) -> list[Floats]:
        return [np.linspace(*pair, self.lattice_size + 1) for pair in self.bounds]

    @cached_property
    def _height(self) -> float:
        return _peak(self.bandwidth, len(self.bounds), self.kernel)
