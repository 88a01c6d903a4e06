"""PrivateMoments: sums that are released once, and the models they serve."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skparisk._fitted import whole_fit
from skparisk._private import PrivateMixin
from skparisk._private_data import validate_private
from skparisk._training_data import (
    Groups,
    SensitivitySource,
    read_as_public,
    reference_table,
)
from skparisk.core.checks import (
    IncompatibleError,
    check_at_least,
    check_choice,
    check_positive,
    warn_caller,
)
from skparisk.core.laws import as_law
from skparisk.core.noise import AdditiveNoise
from skparisk.core.release import hide_values
from skparisk.exceptions import ReferenceWarning
from skparisk.moments._models import (
    MomentsLDA,
    MomentsOLS,
    MomentsPCA,
    MomentsRidge,
    fit_damped,
    fit_lda,
    fit_ols,
    fit_pca,
    fit_ridge,
)
from skparisk.moments._noise import MatrixNoise
from skparisk.moments._sums import (
    Columns,
    Floats,
    ReleasedSums,
    Units,
    declared_units,
    pair_rows,
    positive_part,
    units_of_rows,
)
from skparisk.queries import MomentsQuery
from skparisk.reference import Reference, TableReference
from skparisk.reference._base import is_reference
from skparisk.sensitivity import KnownSensitivity, SensitivitySampler

_NEW_PEOPLE = "not known: the units of the sums were taken from this table as well"


class PrivateMoments(PrivateMixin, BaseEstimator):
    """Sums of records and of their products, released once, with noise.

    From the released sums follow, as post-processing: ridge regression for any penalty,
    and least squares with standard errors that know the noise, for any features; linear
    discriminants; means, covariances, correlations and principal components.

    Parameters
    ----------
    epsilon, gamma : float, default=1.0 and 0.05
        Privacy level, in (0, inf], and risk, in (0, 1): :ref:`private-parameters`.

    sensitivity : SensitivitySampler, KnownSensitivity, "bound" or None, default=None
        Where the sensitivity comes from: :ref:`private-parameters`. "bound" is proven
        for records in `bounds`, or in those of a schema. A known one, such as
        :func:`~skparisk.queries.moments_sensitivity_bound`, is for bounds of [-1, 1].

    bounds : pair of float or sequence of pairs, default=None
        Lowest and highest value, of all features or of each, public. Private records
        are clipped to them, silently. None: those of the reference, if it is a schema.

    y_bounds : pair of float or sequence of pairs, default=None
        The same for the targets, with `bounds`.

    reach : float, default=1.0
        With bounds: largest root mean square of the features of a record, in (0, 1],
        in units where bounds are [-1, 1]. Longer records are shortened, silently, also
        those that models predict from. The smaller, the less noise there is.

    n_jobs, random_state, noise_random_state, verbose
        Of the sampling of pairs, and of the noise: :ref:`private-parameters`.

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
        How many rows were summed; with noise where people have several.

    n_records_, n_targets_ : int
        Records that were summed, which is public (people, where these have several
        rows), and columns of the targets.

    epsilon_, gamma_, risk_, confidence_ : float
    sensitivity_, noise_scale_, noise_epsilon_, noise_to_spread_ : float
    certificate_, sampler_, n_features_in_, feature_names_in_ : objects
        The claim, the noise and the data: :ref:`private-attributes`.

    Notes
    -----
    **Guarantee** (:ref:`thm-moments`). That of all private estimators:
    :ref:`private-parameters`. Sums of neighboring databases differ as two records do,
    whatever the others are. So each row of a public table is used in one pair, if there
    are enough for the risk and for the shape of the noise: the risk is then over
    *people* of the population that the table was drawn from. One row in five gives
    units alone. Records more than 32 scales from the center are moved there, and all
    are rounded to a fine grid. After ``randomness="both"`` post-processing has a delta.

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
        X_reference: Any = None,
        y_reference: Any = None,
        groups_reference: Any = None,
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

        groups, groups_reference : array-like, default=None
            Whose each private and each public row is, if people have several:
            :ref:`private-fit`. How many rows there are is then one of the sums.

        Raises
        ------
        ValueError, CalibrationError, IncompatibleError
            For these, and what it warns of, see :ref:`private-fit`. Also if there are
            neither bounds nor public records.
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
        features, targets = people.of_private(features, targets)
        data = self._recognize(
            source,
            X,
            features,
            targets,
            table,
            overlap=people.overlaps(source, table),
        )
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
                n_most = known.most_rows(n_most)
            query = units.query(n_most, n_targets, counts_rows=several)
        assert query is not None
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
                "All people of the reference have the same number of rows, so that how "
                "many there are is not released: means and models are right if private "
                "people have as many.",
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
            If there are no targets, or the noise hides some direction of the features.
        """
        columns, targets = self._columns(features), self._targets()
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
        model = fit_pca(self.covariance(), self.mean(), n_components, columns)
        return model.of(self, columns)

    def lda(
        self, classes: Sequence[Any] | None = None, *, features: Any = None
    ) -> MomentsLDA:
        """Return linear discriminants of classes.

        The summed targets must be 1 or 0 in a column for each class, or in one column
        for two classes.

        Parameters
        ----------
        classes : sequence, default=None
            Labels, in the order of the columns; of a single column the one for 0 first.
            None: 0, 1, ...

        features : sequence of int or str, default=None
            As of `ridge`.

        Raises
        ------
        ValueError
            If there are no targets, or another number of classes.
        """
        columns, targets = self._columns(features), self._targets()
        n_classes = max(2, len(targets))
        labels = np.arange(n_classes) if classes is None else np.asarray(classes)
        if labels.shape != (n_classes,) or len(np.unique(labels)) < n_classes:
            raise ValueError(
                f"classes must be {n_classes} different labels, one for each that the "
                f"targets tell, got {classes!r}."
            )
        model = fit_lda(self._sums, labels, columns, targets, self._units)
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

        Targets last. The nearest that is positive semidefinite in units of `scale_`.
        """
        values, vectors = positive_part(self._sums.centered / max(self.n_rows_ - 1, 1))
        matrix = (vectors * values) @ vectors.T
        return np.asarray(self.scale_[:, None] * matrix * self.scale_)

    def correlation(self) -> Floats:
        """Return the correlation of columns, of shape (n_columns, n_columns).

        Targets last. In [-1, 1]; 0 with a column that varies by less than three
        standard deviations of the noise, as a ratio of noise would be any number.
        """
        covariance = self.covariance()
        deviations = np.sqrt(np.diag(covariance))
        seen = self._sums.vary & (deviations > 0)
        units = np.divide(1.0, deviations, out=np.zeros_like(deviations), where=seen)
        correlation = (units[:, None] * covariance * units).clip(-1, 1)
        np.fill_diagonal(correlation, 1.0)
        return np.asarray(correlation)

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
