"""PrivateKernelDensity: private kernel density estimation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import roots_legendre
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from skparisk._checks import check_bounds
from skparisk._fitted import whole_fit
from skparisk._private import PrivateMixin
from skparisk._private_data import validate_private
from skparisk._training_data import Groups, read_as_public, reference_table
from skparisk.core.checks import check_at_least
from skparisk.mechanisms import BernsteinPolynomial
from skparisk.queries import DensityQuery
from skparisk.sensitivity import KnownSensitivity

__all__ = ["PrivateKernelDensity"]

# Quadrature: points along each feature, and in all.
_MOST_POINTS_PER_AXIS = 1024
_MOST_POINTS = 2**20
# Of the positive coefficients' mass; a smaller part that is left is noise.
_LEAST_SHARE = 2.0**-20


class PrivateKernelDensity(PrivateMixin, DensityMixin, BaseEstimator):
    """Private kernel density estimate.

    Evaluates scikit-learn's `KernelDensity` at the nodes of a lattice on a public
    box, releases these values once, with noise, and puts an iterated Bernstein
    polynomial in between, from which everything else is computed.

    Parameters
    ----------
    bandwidth, kernel : float, str, default=1.0 and "gaussian"
        As in scikit-learn's `KernelDensity`.

    bounds : pair of float or sequence of pairs, default=(0.0, 1.0)
        Lowest and highest value, of all features or of each, public. Private records
        are clipped to them, silently. Outside this box the density is 0.

    lattice_size : int, default=10
        Intervals of the lattice along each feature, k >= 1; at most 2**20 nodes,
        (k + 1)**n_features. The more, the less the polynomial smooths, and the more
        noise there is.

    order : int, default=3
        Iterations of the Bernstein operator, h >= 1. A higher order smooths the
        function less, and enlarges the noise more.

    epsilon, gamma : float, default=1.0 and 0.05
        Privacy level, in (0, inf], and risk, in (0, 1): :ref:`private-parameters`.

    sensitivity : SensitivitySampler, float, "bound" or None, default=None
        Where the sensitivity of the values at the nodes comes from:
        :ref:`private-parameters`. "bound" is the number of nodes times
        :func:`~skparisk.queries.kernel_density_sensitivity_bound`.

    n_jobs, random_state, noise_random_state, verbose
        For the sampling of pairs, and the noise: :ref:`private-parameters`.

    Attributes
    ----------
    polynomial_ : BernsteinPolynomial
        The release: noisy values and the polynomial in between, on the unit cube in
        place of the box; density per unit of the data.

    mass_ : float
        Integral of the polynomial's positive part over the box, the divisor of the
        density; 0 if hardly anything is positive, and the density is uniform.

    bounds_ : ndarray of shape (n_features, 2)
        The box.

    epsilon_, gamma_, risk_, confidence_ : float
    sensitivity_, noise_scale_, noise_epsilon_, noise_to_spread_ : float
    certificate_, sampler_, n_features_in_, feature_names_in_ : objects
        The claim, the noise and the data: :ref:`private-attributes`.

    Notes
    -----
    **Guarantee**. As for all private estimators: :ref:`private-parameters`. The
    polynomial is post-processing (Rubinstein and Aldà, ICML 2017, Corollary 14).

    The mass is found by Gauss-Legendre quadrature, with up to 1024 points along each
    feature and 2**20 in all. It is exact where the polynomial is nowhere negative (for
    up to 2046 intervals); else, as a rule, to 1e-4 for up to six features and to 1e-2
    for more.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.density import PrivateKernelDensity
    >>> public, private = np.random.default_rng(0).beta(2, 5, size=(2, 1000, 1))
    >>> model = PrivateKernelDensity(bandwidth=0.1, epsilon=1.0, random_state=0)
    >>> model = model.fit(private, X_reference=public)
    >>> model.pdf([[0.2], [1.5]]).shape, model.risk_ <= 0.05
    ((2,), True)
    """

    def __init__(
        self,
        bandwidth: float = 1.0,
        *,
        kernel: str = "gaussian",
        bounds: Any = (0.0, 1.0),
        lattice_size: int = 10,
        order: int = 3,
        epsilon: float = 1.0,
        gamma: float = 0.05,
        sensitivity: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        noise_random_state: Any = None,
        verbose: int | None = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.bounds = bounds
        self.lattice_size = lattice_size
        self.order = order
        self.epsilon = epsilon
        self.gamma = gamma
        self.sensitivity = sensitivity
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.noise_random_state = noise_random_state
        self.verbose = verbose

    @whole_fit
    def fit(self, X: Any, y: Any = None, *, X_reference: Any = None) -> Self:
        """Estimate the density, and release its values at the nodes with noise.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Private records.

        y : ignored
            For the interface of scikit-learn.

        X_reference : array-like of shape (n_rows, n_features), default=None
            Public records, clipped to the bounds: :ref:`private-fit`.

        Raises
        ------
        ValueError, CalibrationError, IncompatibleError
            These and the warnings are in :ref:`private-fit`.
        """
        source = self._check_privacy({})
        order = check_at_least(self.order, "order", 1)
        listed = isinstance(self.bounds, Sequence | np.ndarray)
        single = listed and all(map(np.isscalar, self.bounds))
        box = check_bounds([self.bounds] if single else self.bounds, "bounds")
        table = reference_table(X_reference, None, needs_y=False)
        Groups().check(source, table)
        private, _ = read_as_public(source, table, X)
        records = validate_private(self, private, dtype=np.float64)
        pairs: Any = box if len(box) > 1 else np.tile(box, (records.shape[1], 1))
        query = DensityQuery(pairs, self.bandwidth, self.kernel, self.lattice_size)
        clipped = query.clip(records)
        data = self._recognize(source, X, clipped, None, table)
        if isinstance(source, str):
            n_nodes = len(query.nodes)
            bound = query.sup_bound(len(records)) * n_nodes
            released = self._release_known(
                query, records, None, KnownSensitivity(bound), proven=True
            )
        else:
            if data.reference_is_private:
                # As a reference they are within the bounds; they need no names then.
                data = dataclasses.replace(data, X=clipped)
            released = self._release(source, query, data)
        shape = (query.lattice_size + 1,) * len(query.bounds)
        self.bounds_ = np.array(query.bounds)
        self.polynomial_ = BernsteinPolynomial(released.reshape(shape), order)
        volume = float(np.prod(self.bounds_[:, 1] - self.bounds_[:, 0]))
        self.mass_ = volume * _positive_mass(self.polynomial_)
        return self

    def pdf(self, X: Any) -> NDArray[np.float64]:
        """Return the released density at points, of shape (n_rows,).

        Per unit of the data, >= 0; 0 outside the bounds. Integrates to one.
        """
        check_is_fitted(self, "certificate_")
        X = validate_private(self, X, dtype=np.float64, reset=False)
        low, high = self.bounds_.T
        inside = ((low <= X) & (high >= X)).all(axis=1)
        density = np.zeros(len(X))
        if self.mass_:
            values = self.polynomial_((X[inside] - low) / (high - low))
            density[inside] = values.clip(min=0) / self.mass_
        else:
            density[inside] = 1 / np.prod(high - low)
        return density

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithm of `pdf`; -inf where the density is 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.pdf(X))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the sum of `score_samples`; of private points it is a release."""
        return float(self.score_samples(X).sum())


def _positive_mass(polynomial: BernsteinPolynomial) -> float:
    """Return the integral of the positive part, or 0 if hardly any is left."""
    per_axis = int(_MOST_POINTS ** (1 / polynomial.n_dims) * (1 + 2.0**-40))
    points, weights = _quadrature(min(per_axis, _MOST_POINTS_PER_AXIS))
    positive = polynomial.on_grid([(points + 1) / 2] * polynomial.n_dims).clip(min=0)
    for _ in range(polynomial.n_dims):
        positive = np.tensordot(positive, weights / 2, axes=(0, 0))
    mass = float(positive)
    at_most = polynomial.coefficients.clip(min=0).mean()  # nowhere below it
    return mass if mass > _LEAST_SHARE * at_most else 0.0


@cache
def _quadrature(n_points: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return points and weights on [-1, 1]; to find them takes long."""
    points, weights = roots_legendre(n_points)
    return points, weights
