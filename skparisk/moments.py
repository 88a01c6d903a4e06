"""Sums of records and of their products: released once, for every model they serve."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from skparisk._checks import check_bounds
from skparisk._fitted import whole_fit
from skparisk._linear_predictions import LinearPredictions
from skparisk._matrix_noise import MatrixNoise
from skparisk._private import PrivateMixin
from skparisk._private_data import validate_private
from skparisk._training_data import (
    Groups,
    RowWeights,
    SensitivitySource,
    read_as_public,
    reference_table,
)
from skparisk.core.calibrate import Terms
from skparisk.core.checks import (
    IncompatibleError,
    check_at_least,
    check_choice,
    check_positive,
    check_probability,
    warn_caller,
)
from skparisk.core.claim import Certificate
from skparisk.core.laws import as_law
from skparisk.core.noise import AdditiveNoise
from skparisk.core.release import hide_values
from skparisk.exceptions import ReferenceWarning
from skparisk.queries import MomentsQuery
from skparisk.queries._moments import output_columns, shorten
from skparisk.reference import Reference, TableReference
from skparisk.reference._base import RecordPool, is_reference
from skparisk.sensitivity import KnownSensitivity, SensitivitySampler

__all__ = ["MomentsOLS", "MomentsPCA", "MomentsRidge", "PrivateMoments"]


Floats = NDArray[np.float64]
Columns = NDArray[np.intp]

# Draws of the noise whose size is looked at.
_N_DRAWS = 64
# Less of the largest eigenvalue is what rounding leaves.
_TINY = 2.0**-40
# One row in so many gives units, and is in no pair.
_ROWS_PER_UNIT_ROW = 5


@dataclass(frozen=True, eq=False)
class ReleasedSums:
    """Noisy sums of columns and of products of columns, and the noise in them."""

    # Shape (d * (d + 3) / 2,). As :class:`~skparisk.queries.MomentsQuery` orders them.
    sums: Floats
    # Variances of their noise, (n_outputs,), where it is uncorrelated: there may be too
    # many for a matrix. Else its covariance.
    noise: Floats
    # Rows that were summed; with noise where that is not public.
    n_records: float
    # Shape (d,). What columns were moved and divided by.
    center: Floats
    scale: Floats

    @property
    def n_columns(self) -> int:
        return len(self.center)

    @cached_property
    def places(self) -> tuple[Columns, Columns]:
        """Row and column of each output in `matrix`, of which row 0 is a constant's."""
        i, j = output_columns(self.n_columns)
        return i + 1, j + 1

    def as_matrix(self, outputs: Floats, constant: float = 0.0) -> Floats:
        """Return sums of products of all columns, the first of which is constant."""
        matrix = np.empty((self.n_columns + 1, self.n_columns + 1))
        i, j = self.places
        matrix[0, 0], matrix[i, j], matrix[j, i] = constant, outputs, outputs
        return matrix

    @cached_property
    def matrix(self) -> Floats:
        return self.as_matrix(self.sums, self.n_records)

    @property
    def mean(self) -> Floats:
        """Mean of each column, in scales from the center."""
        return self.matrix[0, 1:] / self.n_records

    @cached_property
    def centered(self) -> Floats:
        """Sums of products of columns about their means, in scales."""
        mean = self.mean
        return self.matrix[1:, 1:] - self.n_records * np.outer(mean, mean)

    def noise_size(self, columns: Columns) -> float:
        """Return the median spectral norm of seeded draws of the noise in products."""
        i, j = self.places
        among = np.flatnonzero(np.isin(i, columns + 1) & np.isin(j, columns + 1))
        rng, shape = np.random.default_rng(0), (_N_DRAWS, len(among))
        if not self.noise.any():
            return 0.0
        if self.noise.ndim == 1:
            draws = rng.standard_normal(shape) * np.sqrt(self.noise[among])
        else:
            covariance = self.noise[np.ix_(among, among)]
            draws = rng.multivariate_normal(
                np.zeros(len(among)), covariance, size=_N_DRAWS, method="eigh"
            )
        outputs = np.zeros(len(i))
        sizes = []
        for outputs[among] in draws:
            noise = self.as_matrix(outputs)
            sizes.append(np.linalg.norm(noise[1:, 1:], 2))
        return float(np.median(sizes))

    def noise_of_residuals(self, rows: Columns, weights: Floats) -> Floats:
        """Return the covariance of the noise in ``(matrix @ weights)[rows]``."""
        i, j = self.places
        effect = np.zeros((self.n_columns + 1, len(self.sums)))
        output = np.arange(len(self.sums))
        effect[i, output] = weights[j]
        effect[j, output] = weights[i]  # the same one on the diagonal
        effect = effect[rows]
        spread = effect * self.noise if self.noise.ndim == 1 else effect @ self.noise
        return np.asarray(spread @ effect.T)


def positive_part(matrix: Floats) -> tuple[Floats, Floats]:
    """Return the nearest positive semidefinite matrix, as eigenvalues and vectors."""
    values, vectors = np.linalg.eigh(matrix)
    return values.clip(min=0.0), vectors


@dataclass(frozen=True, eq=False)
class Units:
    """Where columns are measured from, in what, and how far records may be."""

    center: Floats
    scale: Floats
    limit: float = 32.0
    radius: float | None = None

    def query(
        self, n_records: int, n_targets: int, *, counts_rows: bool = False
    ) -> MomentsQuery:
        """Return the sums in these units."""
        return MomentsQuery(
            self.center.tolist(),
            self.scale.tolist(),
            n_records,
            n_targets,
            self.limit,
            self.radius,
            counts_rows,
        )

    def of(self, columns: Columns) -> Units:
        """Return the units of some features."""
        return replace(self, center=self.center[columns], scale=self.scale[columns])

    @property
    def box(self) -> Units:
        """Where single columns may be, targets as well: that has no radius."""
        return replace(self, radius=None)

    def move(self, X: Floats) -> Floats:
        """Return features that are moved as those of records that are summed."""
        with np.errstate(over="ignore"):
            z = ((X - self.center) / self.scale).clip(-self.limit, self.limit)
        z = z if self.radius is None else shorten(z, self.radius)
        return np.asarray(self.center + self.scale * z)


def declared_units(
    bounds: Any,
    y_bounds: Any,
    reference: Reference | None,
    widths: tuple[int, int],
    reach: Any,
) -> Units | None:
    """Return units in which declared bounds are [-1, 1]; None without any."""
    share = check_positive(reach, "reach")
    if share > 1:
        raise ValueError(f"reach must be at most 1, got {reach!r}.")
    names = ("bounds", "y_bounds")
    boxes: list[Any] = [bounds, y_bounds]
    if bounds is None:
        if y_bounds is not None:
            raise ValueError(
                f"y_bounds must be None without bounds, got {y_bounds!r}: give both."
            )
        domain = None if reference is None else reference.domain
        if domain is not None:
            boxes = [domain.box, domain.target_box]
        if boxes[0] is None or (widths[1] and boxes[1] is None):
            if share < 1:
                raise ValueError(f"reach must be 1.0 without bounds, got {reach!r}.")
            return None
        boxes = [None if box is None else box.T for box in boxes]
    elif widths[1] and y_bounds is None:
        raise ValueError("y_bounds must be given with bounds, for the targets.")
    ends = [
        check_bounds(box, name, width)
        for box, name, width in zip(boxes, names, widths, strict=True)
        if width
    ]
    low, high = np.concatenate(ends).T
    radius = share * math.sqrt(widths[0]) if share < 1 else None
    return Units(low / 2 + high / 2, high / 2 - low / 2, 1.0, radius)


def units_of_rows(pool: RecordPool, widths: tuple[int, int]) -> Units:
    """Return means and standard deviations of public rows."""
    parts = [pool.X, *([pool.y] if widths[1] else [])]
    columns = [np.asarray(part, np.float64).reshape(len(part), -1) for part in parts]
    found = tuple(part.shape[1] for part in columns)
    if found != widths[: len(found)]:
        raise IncompatibleError(
            f"The reference has {found} columns of features and targets, but the "
            f"data have {widths[: len(found)]}: the numbers must be equal."
        )
    rows = np.concatenate(columns, axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        scale = rows.std(axis=0)
    if not np.isfinite(scale).all():
        raise ValueError(
            "X_reference and y_reference must have numbers whose squares are finite, "
            "up to about 1e150: give all in other units."
        )
    # A column that does not vary there may do so elsewhere.
    scale[scale <= 2.0**-30 * np.abs(rows).max(axis=0)] = 1.0
    return Units(rows.mean(axis=0), scale)


def pair_rows(
    table: TableReference,
    sampler: SensitivitySampler,
    n_outputs: int,
    *,
    with_units: bool,
) -> tuple[RecordPool, TableReference]:
    """Return rows for units, and a table each row of which is used in one pair.

    All of both where the rows are too few for the risk, or for the shape of the noise
    to be learned from as many pairs as there are outputs. The sampler is given the
    number of pairs there are.
    """
    n_apart = max(2, table.n_records // _ROWS_PER_UNIT_ROW) if with_units else 0
    asked: Terms = sampler._terms
    n_pairs = min(asked.n_pairs, (table.n_records - n_apart) // 2)
    try:
        terms = sampler._agree(n_pairs)
    except ValueError:  # too few, also to learn a shape from
        return table.pool, table
    if asked.n_shape_pairs and terms.n_shape_pairs < n_outputs:
        return table.pool, table
    # The same for each seed, as units are used with the pairs of any.
    rows = np.random.default_rng(table.n_records).permutation(table.n_records)
    paired = table._with(table.pool.part(rows[n_apart:]))
    paired._sketch = table.sketch  # of all rows, by which to know them again
    paired.sampling = "used-once"
    sampler.set_params(n_pairs=n_pairs)
    sampler._terms = terms
    return table.pool.part(rows[:n_apart]), paired


# A constant against a usual feature, which is near the best on the stand-ins of the
# noise; a penalty of the size of the noise is as well.
_CONSTANT = 0.6


class FromMoments(BaseEstimator):
    """A model of released sums."""

    certificate_: Certificate
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    _units: Units

    def fit(self, X: Any, y: Any = None) -> NoReturn:
        """Raise IncompatibleError: a fit to records would release without noise."""
        raise IncompatibleError(
            f"{type(self).__name__} is computed from released sums and cannot be "
            "fitted to records: make it from a PrivateMoments, as with moments.ridge()."
        )

    def of(self, moments: Any, columns: Columns) -> Self:
        """Take over the claim of the moments, and names and units of the features."""
        self.certificate_ = moments.certificate_
        self.n_features_in_ = len(columns)
        self._units = moments._units.of(columns)
        if hasattr(moments, "feature_names_in_"):
            self.feature_names_in_ = moments.feature_names_in_[columns]
        return self

    def _check(self, X: Any) -> Floats:
        """Return records that are moved to where those that were summed are."""
        X = validate_private(self, X, dtype=np.float64, reset=False)
        return self._units.move(X)


class _Linear(LinearPredictions, FromMoments):
    """A linear function of the features, within the bounds of the targets."""

    _target_units: Units

    def _find_units(self) -> tuple[Units, Units]:
        return self._units, self._target_units


class MomentsRidge(_Linear):
    """Ridge regression from released sums; made by :meth:`PrivateMoments.ridge`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients.

    intercept_ : float or ndarray of shape (n_targets,)
        Intercept, not penalized but with "auto".

    penalty_ : float
        Penalty: of coefficients in the units of the data; with "auto" in units of
        `scale_`, and of the intercept as well.

    certificate_, n_features_in_, feature_names_in_ : objects
        The claim of the release, and the features: :ref:`private-attributes`.
    """

    penalty_: float


class MomentsOLS(_Linear):
    """Least squares from released sums; made by :meth:`PrivateMoments.ols`.

    Attributes
    ----------
    coef_, stderr_ : ndarray of shape (n_features,)
        Coefficients, and their standard errors: by the draw of records, and the noise.

    intercept_, intercept_stderr_ : float
        The same of the intercept.

    covariance_, noise_covariance_ : ndarray of shape (n_features + 1, n_features + 1)
        Covariance of the intercept and the coefficients, and the part of the noise.

    residual_variance_ : float
        Of the targets about their predictions, without the noise.

    dof_ : int
        Records less parameters.

    certificate_, n_features_in_, feature_names_in_ : objects
        The claim of the release, and the features: :ref:`private-attributes`.
    """

    stderr_: Floats
    intercept_stderr_: float
    covariance_: Floats
    noise_covariance_: Floats
    residual_variance_: float
    dof_: float

    def confint(self, level: float = 0.95) -> Floats:
        """Return confidence intervals that include the noise.

        Parameters
        ----------
        level : float, default=0.95
            Probability that an interval holds the coefficient, in (0, 1).

        Returns
        -------
        intervals : ndarray of shape (n_features + 1, 2)
            Of the intercept and of each coefficient.
        """
        level = check_probability(level, "level")
        center = np.concatenate([[self.intercept_], self.coef_])
        stderr = np.concatenate([[self.intercept_stderr_], self.stderr_])
        reach = stats.t.ppf(0.5 + level / 2, self.dof_) * stderr
        return np.column_stack([center - reach, center + reach])


class MomentsPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FromMoments):
    """Principal components from released sums; made by :meth:`PrivateMoments.pca`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Directions, in order of decreasing variance.

    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,)
        Variance along each, and its share of all.

    mean_ : ndarray of shape (n_features,)
        Mean of each feature.

    certificate_, n_features_in_, feature_names_in_ : objects
        The claim of the release, and the features: :ref:`private-attributes`.
    """

    components_: Floats
    explained_variance_: Floats
    explained_variance_ratio_: Floats
    mean_: Floats

    def transform(self, X: Any) -> Floats:
        """Return the coordinates of records along the components.

        Of shape (n_rows, n_components), for `X` of shape (n_rows, n_features).
        """
        return np.asarray((self._check(X) - self.mean_) @ self.components_.T)

    def inverse_transform(self, X: Any) -> Floats:
        """Return the records with given coordinates: the inverse of `transform`."""
        return np.asarray(np.asarray(X) @ self.components_ + self.mean_)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


def fit_ridge(
    sums: ReleasedSums, alpha: float, features: Columns, targets: Columns
) -> MomentsRidge:
    """Return ridge regression as scikit-learn's, with an intercept of no penalty."""
    about, scale = sums.centered, sums.scale[features]
    values, vectors = positive_part(about[np.ix_(features, features)])
    # The penalty is of coefficients in units of the data.
    matrix = (vectors * values) @ vectors.T + np.diag(alpha / scale**2)
    theta = np.linalg.pinv(matrix, hermitian=True) @ about[np.ix_(features, targets)]
    mean = sums.mean
    constant = mean[targets] - mean[features] @ theta
    return _in_units(sums, constant, theta, features, targets)


def fit_damped(sums: ReleasedSums, features: Columns, targets: Columns) -> MomentsRidge:
    """Return ridge regression, also of the intercept, with a penalty like the noise."""
    rows = np.concatenate([[0], features + 1])
    matrix = sums.matrix[np.ix_(rows, rows)]
    penalty = sums.noise_size(features)
    usual = np.trace(matrix[1:, 1:]) / len(features) / sums.n_records
    units = np.ones(len(rows))
    units[0] = _CONSTANT * math.sqrt(max(usual, 2.0**-10))
    values, vectors = positive_part(units[:, None] * matrix * units)
    damped, shares = values + penalty, np.zeros_like(values)
    np.divide(1.0, damped, out=shares, where=damped > _TINY * damped.max())
    inverse = (vectors * shares) @ vectors.T
    products = units[:, None] * sums.matrix[np.ix_(rows, targets + 1)]
    theta = units[:, None] * (inverse @ products)
    model = _in_units(sums, theta[0], theta[1:], features, targets)
    model.penalty_ = penalty
    return model


def _in_units(
    sums: ReleasedSums,
    constant: Floats,
    theta: Floats,
    features: Columns,
    targets: Columns,
) -> MomentsRidge:
    """Return a model of data in their own units."""
    model = MomentsRidge()
    units = sums.scale[targets]
    coef = (theta / sums.scale[features][:, None] * units).T
    base = sums.center[targets] + units * constant
    model.coef_, model.intercept_ = coef, base - coef @ sums.center[features]
    return model


def fit_ols(sums: ReleasedSums, features: Columns, target: int) -> MomentsOLS:
    """Return least squares with standard errors, by the delta method."""
    rows = np.concatenate([[0], features + 1])
    matrix = sums.matrix[np.ix_(rows, rows)]
    dof = sums.n_records - len(rows)
    if dof < 1 or np.linalg.eigvalsh(matrix)[0] <= 0:
        raise ValueError(
            f"features must be fewer for least squares: of {len(features)} features "
            "and an intercept the released sums do not tell all directions from noise. "
            "Name some of them, or use ridge."
        )
    inverse = np.linalg.inv(matrix)
    theta = inverse @ sums.matrix[rows, target + 1]
    weights = np.zeros(sums.n_columns + 1)
    weights[rows], weights[target + 1] = -theta, 1.0
    noise = sums.noise_of_residuals(rows, weights)
    # The noise that least squares has followed makes residuals look smaller.
    squares = weights @ sums.matrix @ weights + np.sum(inverse * noise)
    variance = max(float(squares), 0.0) / dof
    # Back to the units of the data, in which the intercept depends on all.
    unit = sums.scale[target]
    back = np.diag(np.concatenate([[unit], unit / sums.scale[features]]))
    back[0, 1:] = -np.diag(back)[1:] * sums.center[features]
    of_noise = back @ inverse @ noise @ inverse @ back.T
    model = MomentsOLS()
    found = back @ theta
    model.intercept_ = float(found[0] + sums.center[target])
    model.coef_ = found[1:]
    model.covariance_ = variance * back @ inverse @ back.T + of_noise
    model.noise_covariance_ = of_noise
    errors = np.sqrt(np.diag(model.covariance_))
    model.intercept_stderr_, model.stderr_ = float(errors[0]), errors[1:]
    model.residual_variance_ = variance * float(unit) ** 2
    model.dof_ = dof
    return model


_NEW_PEOPLE = "not known: the units of the sums were taken from this table as well"


class PrivateMoments(PrivateMixin, BaseEstimator):
    """Sums of records and of their products, released once, with noise.

    From the released sums follow, as post-processing: ridge regression for any penalty,
    and least squares with standard errors that know the noise, for any features; means,
    covariances and principal components.

    Parameters
    ----------
    epsilon, gamma : float, default=1.0 and 0.05
        Privacy level, in (0, inf], and risk, in (0, 1): :ref:`private-parameters`.

    sensitivity : SensitivitySampler, KnownSensitivity, "bound" or None, default=None
        Source of the sensitivity: :ref:`private-parameters`. "bound" is proven for
        records within `bounds`, or the bounds of a schema. A known one covers all sums
        together, scaled to bounds of [-1, 1].

    bounds : pair of float or sequence of pairs, default=None
        Lowest and highest value, of all features or of each, public. Private records
        are clipped to them, silently. None: the bounds of the reference, if it is a
        schema.

    y_bounds : pair of float or sequence of pairs, default=None
        The same for the targets, with `bounds`.

    reach : float, default=1.0
        With bounds: largest root mean square of the features of a record, in (0, 1], in
        units where bounds are [-1, 1]. Longer records are shortened, silently, also for
        predictions. The smaller, the less noise there is.

    n_jobs, random_state, noise_random_state, verbose
        For the sampling of pairs, and the noise: :ref:`private-parameters`.

    Attributes
    ----------
    sums_ : ndarray of shape (n_outputs,)
        The released sums of all columns, features first, and of the products of columns
        i and j, i <= j; in units of `scale_` from `center_`.

    noise_covariance_ : ndarray of shape (n_outputs,) or (n_outputs, n_outputs)
        Covariance of their noise; variances alone, if it is uncorrelated.

    center_, scale_ : ndarray of shape (n_columns,)
        Public: middles and half widths of the bounds, or means and standard deviations
        of some public records.

    n_rows_ : float
        How many rows were summed; with noise where people have several. Or the sum of
        their weights, with noise, in units of the mean public one.

    n_records_, n_targets_ : int
        Summed records, a public number (people, if they have several rows), and columns
        of the targets.

    epsilon_, gamma_, risk_, confidence_ : float
    sensitivity_, noise_scale_, noise_epsilon_, noise_to_spread_ : float
    certificate_, sampler_, n_features_in_, feature_names_in_ : objects
        The claim, the noise and the data: :ref:`private-attributes`.

    Notes
    -----
    **Guarantee** (:ref:`thm-moments`). As for all private estimators:
    :ref:`private-parameters`. Sums of neighboring databases differ as two records do,
    whatever the others are. So each row of a public table is used in one pair, if there
    are enough for the risk and for the shape of the noise. The risk is then over
    *people* of the population behind the table. One row in five gives units alone.
    Records more than 32 scales from the center are moved there, and all are rounded to
    a fine grid. After ``randomness="both"`` post-processing has a delta.

    Examples
    --------
    >>> from skparisk import PrivateMoments
    >>> from skparisk.datasets import load_census
    >>> X, y = load_census(return_X_y=True)
    >>> moments = PrivateMoments(epsilon=1.0, random_state=0)
    >>> public = {"X_reference": X[9000:], "y_reference": y[9000:]}
    >>> moments = moments.fit(X[:9000], y[:9000], **public)
    >>> moments.ridge().predict(X[:2]).shape, moments.pca(2).components_.shape
    ((2,), (2, 8))
    """

    _takes_parts = True
    n_features_in_: int

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        gamma: float = 0.05,
        sensitivity: Any = None,
        bounds: Any = None,
        y_bounds: Any = None,
        reach: float = 1.0,
        n_jobs: int | None = None,
        random_state: Any = None,
        noise_random_state: Any = None,
        verbose: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.gamma = gamma
        self.sensitivity = sensitivity
        self.bounds = bounds
        self.y_bounds = y_bounds
        self.reach = reach
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.noise_random_state = noise_random_state
        self.verbose = verbose

    @whole_fit
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        sample_weight: Any = None,
        X_reference: Any = None,
        y_reference: Any = None,
        groups_reference: Any = None,
        sample_weight_reference: Any = None,
    ) -> Self:
        """Sum the records, and release the sums with noise.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Private records. A Dask array or frame is read in parts: :doc:`/scale`.

        y : array-like of shape (n_records,) or (n_records, n_targets), default=None
            Their targets. None: no regressions.

        X_reference, y_reference : array-like, default=None
            Public records, and their targets: :ref:`private-fit`.

        groups, groups_reference, sample_weight, sample_weight_reference : array-like
            Whose each private and each public row is, and how much it counts:
            :ref:`private-fit`. The number of private rows, or the sum of their weights,
            is then one of the sums.

        Raises
        ------
        ValueError, CalibrationError, IncompatibleError
            These and the warnings are in :ref:`private-fit`. Also if there are neither
            bounds nor public records.
        """
        source = self._check_privacy({})
        if isinstance(source, SensitivitySampler) and source.relation != "replace-one":
            raise ValueError(
                "relation must be 'replace-one' for moments, which take the number of "
                f"records as public; got {source.relation!r}."
            )
        table = reference_table(
            X_reference, y_reference, groups_reference, needs_y=y is not None
        )
        rows = RowWeights(sample_weight, sample_weight_reference)
        table = rows.of_public(source, table)
        people = Groups(groups)
        people.check(source, table)
        private = read_as_public(source, table, X, y)
        if y is None:
            features = validate_private(self, private[0], dtype=np.float64)
            targets = None
        else:
            features, targets = validate_private(
                self, *private, dtype=np.float64, multi_output=True, y_numeric=True
            )
            targets = hide_values(np.asarray, targets, dtype=np.float64)
        n_targets = 0 if targets is None else targets.size // len(targets)
        widths = (features.shape[1], n_targets)
        query = self._fitted_query(source, widths)
        units, paired = None, table
        if query is None:
            units, paired = self._find_units(source, table, widths, X_reference)
        own = rows.of_private(features)
        features, targets, own = people.of_private(features, targets, own)
        data = self._recognize(source, X, features, targets, table, people)
        if data.reference_is_private:
            raise ValueError(
                "X_reference must hold no private records, because the units of the "
                "sums are taken from it, without noise: give public records, or bounds "
                "and sensitivity='bound'."
            )
        data = dataclasses.replace(data, table=paired)
        if units is not None:
            n_most, several = data.n_records, groups is not None
            if several:
                assert isinstance(source, SensitivitySampler)
                known = source.reference if paired is None else paired
                if data.draw is not None:  # pairs come from its people
                    known = data.draw.reference(features, targets)
                n_most = known.most_rows(n_most)
            counts_rows = several or own is not None
            query = units.query(n_most, n_targets, counts_rows=counts_rows)
        assert query is not None
        query, data = data.weighted(query, source, own)
        if source == "bound":
            self._release_matrix(query, features, targets)
        else:
            self.sums_ = self._release(source, query, data)
            self.noise_covariance_ = self._noise_covariance(source)
        self.n_rows_: float = data.n_records
        if query.counts_rows:
            self._warn_of_rows(query)
            self.n_rows_ = max(float(self.sums_[-1]), 1.0)
            self.sums_ = self.sums_[:-1]
            kept = (slice(-1),) * self.noise_covariance_.ndim
            self.noise_covariance_ = self.noise_covariance_[kept]
        if query.limit > 1:  # without bounds, rows gave the units, and maybe the pairs
            self._say_of_new_people(_NEW_PEOPLE)
        self.center_, self.scale_ = np.array(query.center), np.array(query.scale)
        self._units = Units(self.center_, self.scale_, query.limit, query.radius)
        self.n_records_, self.n_targets_ = data.n_records, n_targets
        return self

    def _warn_of_rows(self, query: MomentsQuery) -> None:
        """Warn if all public people have as many rows, so that this is not released."""
        assert self.sampler_ is not None
        constant = getattr(self.sampler_.mechanism_, "constant", None)
        if constant is not None and query.n_outputs - 1 in constant.outputs:
            warn_caller(
                "All people of the reference have as many rows, or as much weight, so "
                "that the sum of these is not released: means and models are right if "
                "private people have as much.",
                ReferenceWarning,
            )

    def ridge(
        self, alpha: float | str = "auto", *, features: Sequence[Any] | None = None
    ) -> MomentsRidge:
        """Return ridge regression of the targets.

        Parameters
        ----------
        alpha : float or "auto", default="auto"
            Penalty, >= 0, as in scikit-learn's `Ridge`. "auto": the spectral norm
            of the noise in the products of the features, in the median; of coefficients
            in units of `scale_`, and of the intercept as well.

        features : sequence of int or str, default=None
            Columns to use, by position or name. None: all.

        Raises
        ------
        ValueError
            If there are no targets, or a parameter is out of range.
        """
        columns = self._columns(features)
        if isinstance(alpha, str):
            check_choice(alpha, "alpha", ("auto",))
            model = fit_damped(self._sums, columns, self._targets())
        else:
            if alpha != 0:
                check_positive(alpha, "alpha")
            model = fit_ridge(self._sums, float(alpha), columns, self._targets())
            model.penalty_ = float(alpha)
        if self.n_targets_ == 1:
            model.coef_, model.intercept_ = model.coef_[0], float(model.intercept_[0])
        model._target_units = self._units_of_targets
        return model.of(self, columns)

    def ols(
        self, *, features: Sequence[Any] | None = None, target: int = 0
    ) -> MomentsOLS:
        """Return least squares with standard errors.

        They assume residuals of one variance, and count the noise to first order: good
        where it is small against the sums of squares of the features.

        Parameters
        ----------
        features : sequence of int or str, default=None
            As of `ridge`.

        target : int, default=0
            Which of several targets.

        Raises
        ------
        ValueError
            If there are no targets, or the noise hides some direction of the features;
            or rows have weights, for which no standard errors are known.
        """
        columns, targets = self._columns(features), self._targets()
        if self.sampler_ is not None and self.sampler_.query_.sample_weights:
            raise ValueError(
                "sample_weight must be None in fit for least squares: standard errors "
                "depend on how a survey was designed. Use ridge(0) for coefficients."
            )
        index = check_at_least(target, "target", 0)
        if index >= len(targets):
            raise ValueError(
                f"target must be below the number of targets, {len(targets)}; got "
                f"{target!r}."
            )
        model = fit_ols(self._sums, columns, int(targets[index]))
        model._target_units = self._units.box.of(targets[[index]])
        return model.of(self, columns)

    def pca(
        self, n_components: int, *, features: Sequence[Any] | None = None
    ) -> MomentsPCA:
        """Return principal components of the features.

        Parameters
        ----------
        n_components : int
            Directions, from 1 to the number of features.

        features : sequence of int or str, default=None
            As of `ridge`.

        Raises
        ------
        ValueError
            If a parameter is out of range.
        """
        columns = self._columns(features)
        k = check_at_least(n_components, "n_components", 1)
        if k > len(columns):
            raise ValueError(
                f"n_components must be at most the {len(columns)} features, got {k}."
            )
        chosen = self.covariance()[np.ix_(columns, columns)]
        values, vectors = positive_part(chosen)
        order = np.argsort(-values)[:k]
        components = vectors[:, order].T
        largest = np.argmax(np.abs(components), axis=1)
        components *= np.sign(components[np.arange(k), largest])[:, None]
        model = MomentsPCA()
        model.components_, model.mean_ = components, self.mean()[columns]
        model.explained_variance_ = values[order]
        total = values.sum()
        shares = np.divide(values[order], total, out=np.zeros(k), where=total > 0)
        model.explained_variance_ratio_ = shares
        return model.of(self, columns)

    def mean(self) -> Floats:
        """Return the mean of each column, targets last, of shape (n_columns,).

        Within the bounds, if there are any.
        """
        return np.asarray(
            self._units.box.move(self.center_ + self.scale_ * self._sums.mean)
        )

    def covariance(self) -> Floats:
        """Return the covariance of columns, of shape (n_columns, n_columns).

        Targets last. The nearest positive semidefinite matrix in units of `scale_`.
        """
        values, vectors = positive_part(self._sums.centered / max(self.n_rows_ - 1, 1))
        matrix = (vectors * values) @ vectors.T
        return np.asarray(self.scale_[:, None] * matrix * self.scale_)

    @property
    def _sums(self) -> ReleasedSums:
        check_is_fitted(self, "certificate_")
        return ReleasedSums(
            self.sums_,
            self.noise_covariance_,
            self.n_rows_,
            self.center_,
            self.scale_,
        )

    @property
    def _units_of_targets(self) -> Units:
        """Where targets may be."""
        return self._units.box.of(self._targets())

    def _targets(self) -> Columns:
        """Return the columns of the targets."""
        if not self.n_targets_:
            raise ValueError("y must be given to fit, for regressions: there was none.")
        return np.arange(self.n_targets_) + self.n_features_in_

    def _columns(self, features: Sequence[Any] | None) -> Columns:
        """Return positions of features that are named or numbered."""
        check_is_fitted(self, "certificate_")
        known = list(range(self.n_features_in_))
        if features is None:
            return np.array(known)
        if self._units.radius is not None:
            raise ValueError(
                "features must be None with a reach below 1, because records were "
                f"shortened by all of their features; got {features!r}."
            )
        names = list(getattr(self, "feature_names_in_", ()))
        found = []
        for feature in features:
            if isinstance(feature, str) and feature in names:
                found.append(names.index(feature))
            elif type(feature) is not bool and feature in known:
                found.append(int(feature))
            else:
                raise ValueError(
                    f"features must be names or positions of the "
                    f"{self.n_features_in_} features, got {feature!r}."
                )
        if not found or len(set(found)) < len(found):
            raise ValueError(
                f"features must be at least one, each once, got {features!r}."
            )
        return np.array(found)

    def _fitted_query(
        self, source: SensitivitySource, widths: tuple[int, int]
    ) -> MomentsQuery | None:
        """Return the query of a fitted sampler, of which there are units already."""
        if not (isinstance(source, SensitivitySampler) and hasattr(source, "query_")):
            return None
        query = source.query_
        if (
            not isinstance(query, MomentsQuery)
            or (query.n_columns - query.n_targets, query.n_targets) != widths
        ):
            raise IncompatibleError(
                f"The SensitivitySampler was fitted for {query}, but sums of "
                f"{widths[0]} features and {widths[1]} targets are to be released."
            )
        declared = declared_units(self.bounds, self.y_bounds, None, widths, self.reach)
        if declared and declared.query(query.n_records, widths[1]) != query:
            raise IncompatibleError(
                f"The SensitivitySampler was fitted for {query}, and not for sums "
                "within these bounds: give it without bounds, or another sampler."
            )
        return query

    def _find_units(
        self,
        source: SensitivitySource,
        table: Reference | None,
        widths: tuple[int, int],
        given: Any,
    ) -> tuple[Units, Reference | None]:
        """Return units, and the reference with each of its rows in one pair."""
        sampler = source if isinstance(source, SensitivitySampler) else None
        reference = table
        if table is None and sampler is not None and is_reference(sampler.reference):
            reference = sampler.reference
        units = declared_units(
            self.bounds, self.y_bounds, reference, widths, self.reach
        )
        if units is None and sampler is None:
            raise ValueError(
                f"bounds must be given with sensitivity={source!r}, or a schema as "
                "X_reference."
            )
        pool = reference.whole if reference is not None else None
        if units is None and pool is None:
            raise ValueError(
                "X_reference must be public records for the units of the sums, or "
                "bounds be given; neither was."
            )
        if sampler is not None and table is not None and not is_reference(given):
            assert isinstance(table, TableReference)  # of arrays
            n_columns = sum(widths)
            pool, table = pair_rows(
                table,
                sampler,
                n_columns * (n_columns + 3) // 2 + bool(table.rows_per_person),
                with_units=units is None,
            )
        if units is None:
            assert pool is not None
            units = units_of_rows(pool.numbers, widths)
        return units, table

    def _release_matrix(
        self, query: MomentsQuery, features: Floats, targets: Floats | None
    ) -> None:
        """Release with noise for the proven bound."""
        n_features = query.n_columns - query.n_targets
        squared = float(n_features)
        if query.radius is not None:
            squared = min(squared, query.radius**2)
        noise = MatrixNoise(n_features, query.n_targets, squared, float(self.epsilon))
        certificate = noise.certificate(len(features))
        # What takes memory comes before the charge.
        self.noise_covariance_ = noise.variances()
        self.sums_ = self._release_planned(
            query, features, targets, lambda n_outputs: (noise, certificate)
        )

    def _noise_covariance(self, source: SensitivitySource) -> Floats:
        """Return the covariance of the noise of a law that was added."""
        if self.sampler_ is not None:
            noise = self.sampler_.mechanism_
            assert isinstance(noise, AdditiveNoise)  # a law that chooses is refused
            if noise.shape.name != "whitened":
                return noise.deviations() ** 2
            return noise.covariance()
        law = as_law(source.law if isinstance(source, KnownSensitivity) else "laplace")
        return np.full(len(self.sums_), (self.noise_scale_ * law.deviation) ** 2)
