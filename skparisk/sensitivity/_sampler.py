"""The estimator that samples pairs, calibrates noise and releases answers."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from skparisk._fitted import forget_fit
from skparisk._secure_noise import noise_source
from skparisk._validate import (
    check_at_least,
    check_choice,
    check_epsilon,
    check_n_jobs,
    check_probability,
    check_random_state,
    check_verbose,
)
from skparisk.calibration import (
    HEURISTIC_CLAIM,
    Calibration,
    RiskCertificate,
    as_calibration,
)
from skparisk.exceptions import (
    HeuristicGuaranteeWarning,
    IncompatibleError,
    warn_caller,
    warn_if_seeded,
    warn_private_reference,
)
from skparisk.neighbors import RELATIONS, check_n_records
from skparisk.queries import Query, RecordQuery, as_query, check_answer
from skparisk.reference import Reference, TableReference, as_reference, fingerprint
from skparisk.sensitivity._certify import certify_sensitivities
from skparisk.sensitivity._parallel import sample_differences

__all__ = ["SensitivitySampler"]

RANDOMNESS = ("implicit",)
MECHANISMS = ("laplace",)


class SensitivitySampler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Sample the sensitivity of a query, and calibrate noise to it.

    Pairs of neighboring databases are drawn from a public reference, the query
    is answered on both, and the noise is calibrated to a high quantile of how far
    the answers are apart. What results is (epsilon, gamma)-random differential
    privacy: outside a risk gamma, the privacy loss is at most epsilon.

    Parameters
    ----------
    query : callable, Query or None, default=None
        ``f(X)`` or ``f(X, y)`` of arrays of floats (also where data frames are
        given), returns a number or a vector; see
        :class:`~skparisk.queries.FunctionQuery`. None: each record by itself (the
        local model), see `transform`.

    epsilon : float, default=1.0
        Privacy level, in (0, inf]. Unitless. Infinite: no noise.

    gamma : float, default=0.05
        Risk, in (0, 1): probability that the privacy loss exceeds `epsilon`.

    randomness : {"implicit"}, default="implicit"
        What the risk is taken over: the pair of databases.

    mechanism : {"laplace"}, default="laplace"
        Law of the noise. The distance of answers is their l1 norm.

    calibration : {"exchangeable", "pac", "dkw", "bessel"}, default="exchangeable"
        Which order statistic of the sampled sensitivities is used; see
        :mod:`skparisk.calibration`. "bessel" reproduces a paper and warns.

    failure_prob : float, default=0.05
        For "pac" and "bessel": probability, over the sampled pairs, that the risk
        is larger than claimed, in (0, 1).

    reference : Reference or callable, default=None
        Where the records of the sampled databases come from:
        :class:`~skparisk.reference.TableReference`, `DensityReference`,
        `BoxReference`, or ``(n_records, rng) -> X or (X, y)``. Must be public or
        simulated. None: the data given to `fit`.

    n_records : int, default=None
        Records of a database, >= 1. None: as many as `fit` is given; 1 if `query`
        is None.

    relation : {"replace-one", "add-remove"}, default="replace-one"
        Neighbors differ in one record, or one has one record less. With
        "add-remove", `n_records` is the size of the larger database: it and one
        record less are answered, and any other size is refused, so that the size is
        public but for that one record.

    n_pairs : int, default=1000
        Sampled pairs. More pairs mean a risk closer to `gamma`, so less noise;
        see :func:`~skparisk.calibration.required_pairs` for the least.

    n_jobs : int, default=None
        Workers of joblib. The result does not depend on it.

    random_state : int, RandomState, Generator or None, default=None
        Seeds the sampling of pairs, which is public; never the noise.

    noise_random_state : int, RandomState, Generator or None, default=None
        None: the noise comes from the operating system's cryptographic source.
        Anything else is for tests, and warns: the release is then not private.

    verbose : int or None, default=0
        Above 0: a progress bar where tqdm is installed, else joblib's messages.

    Attributes
    ----------
    differences_ : ndarray of shape (n_pairs, n_outputs)
        Answer on the first database minus answer on the second, for each pair.
        Missing, as `sensitivities_`, where the reference was private.

    sensitivities_ : ndarray of shape (n_pairs,)
        Their l1 norms.

    sensitivity_ : float
        The one that the noise is calibrated to.

    noise_scale_ : float
        Scale of the noise of each output.

    noise_epsilon_ : float
        ``sensitivity_ / noise_scale_``.

    risk_ : float
        Achieved risk, at most `gamma` (but for "bessel", whose claim is its own).

    certificate_ : RiskCertificate
        The whole claim; prints as a paragraph.

    mechanism_ : LaplaceMechanism
        Adds the noise.

    query_ : Query
        What was sampled.

    n_records_, n_outputs_, n_features_in_ : int
        Records, released numbers and features of a database.

    feature_names_in_ : ndarray of str
        Where `X` had names.

    reference_fingerprint_ : bytes or None
        Of the public table, if there is one, to notice if it is released itself.

    Notes
    -----
    **Guarantee**. Rubinstein and Aldà, ICML 2017, Definition 4 and Algorithms 1
    and 2, with the order statistic of `calibration`. The caller must ensure that
    the reference is public, that it describes the population, and that `query`
    is a function of the database alone.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk import SensitivitySampler
    >>> rng = np.random.default_rng(0)
    >>> public, private = rng.exponential(size=(2, 500, 1))
    >>> sampler = SensitivitySampler(np.mean, epsilon=1.0, gamma=0.1, random_state=0)
    >>> sampler.fit(public).release(private).shape
    (1,)
    >>> sampler.risk_ <= 0.1
    True
    """

    certificate_: RiskCertificate

    def __init__(
        self,
        query: Any = None,
        *,
        epsilon: float = 1.0,
        gamma: float = 0.05,
        randomness: str = "implicit",
        mechanism: str = "laplace",
        calibration: str = "exchangeable",
        failure_prob: float = 0.05,
        reference: Any = None,
        n_records: int | None = None,
        relation: str = "replace-one",
        n_pairs: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        noise_random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.query = query
        self.epsilon = epsilon
        self.gamma = gamma
        self.randomness = randomness
        self.mechanism = mechanism
        self.calibration = calibration
        self.failure_prob = failure_prob
        self.reference = reference
        self.n_records = n_records
        self.relation = relation
        self.n_pairs = n_pairs
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.noise_random_state = noise_random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Sample pairs from the reference and calibrate the noise.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The public reference, unless `reference` is given: then it only tells
            the columns and, if `n_records` is None, the number of records.

        y : array-like of shape (n_rows,) or (n_rows, n_targets), default=None
            Targets, if `query` takes them.

        Returns
        -------
        self : SensitivitySampler

        Raises
        ------
        ValueError
            If a parameter is out of range, a number is not finite, targets are
            missing, or the query does not return numbers, always as many.

        CalibrationError
            If `n_pairs` cannot certify `gamma`, or the sensitivity at `gamma` is 0.

        IncompatibleError
            If the reference has other columns than `X`.
        """
        forget_fit(self)
        query, rule = self._check_parameters()
        X, y = self._check_data(query, X, y, reset=True)
        reference: Reference = (
            TableReference(X, y)
            if self.reference is None
            else as_reference(self.reference)
        )
        names = getattr(self, "feature_names_in_", None)
        reference.check_columns(X.shape[1], None if names is None else tuple(names))
        n_records = self._choose_n_records(query, len(X))
        differences = sample_differences(
            query,
            reference,
            n_pairs=int(self.n_pairs),
            n_records=n_records,
            n_features=X.shape[1],
            relation=self.relation,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            verbose=check_verbose(self.verbose),
        )
        self._certify(
            np.abs(differences).sum(axis=1),
            rule,
            n_records=n_records,
            n_outputs=differences.shape[1],
            mechanism=self.mechanism,
            randomness=self.randomness,
            relation=self.relation,
            reference=reference.description,
        )
        self.query_ = query
        differences.flags.writeable = False
        self.differences_ = differences
        self.reference_fingerprint_ = reference.fingerprint
        return self

    def calibrate(
        self, *, epsilon: float | None = None, gamma: float | None = None
    ) -> Self:
        """Return a sampler for another target, from the same sampled pairs.

        It takes `calibration`, `failure_prob` and `noise_random_state` as they are
        set now; what was sampled stays what it was at `fit`.

        Parameters
        ----------
        epsilon, gamma : float, default=None
            As the parameters of the class. None: as they are set now.

        Returns
        -------
        sampler : SensitivitySampler
            Fitted; shares the sampled pairs with this one, which stays as it is.

        Raises
        ------
        CalibrationError
            If the sampled pairs cannot certify `gamma`, or the sensitivity is 0.

        IncompatibleError
            If the pairs are not kept, as they came from private data.
        """
        self._check_pairs_kept()
        other: Self = copy.copy(self)
        targets = {"epsilon": epsilon, "gamma": gamma}
        other.set_params(**{k: v for k, v in targets.items() if v is not None})
        check_epsilon(other.epsilon)
        check_probability(other.gamma, "gamma")
        noise_source(other.noise_random_state)
        sampled = (
            "n_records",
            "n_outputs",
            "mechanism",
            "randomness",
            "relation",
            "reference",
        )
        other._certify(
            self.sensitivities_,
            as_calibration(other.calibration, other.failure_prob),
            **{name: getattr(self.certificate_, name) for name in sampled},
        )
        return other

    def sensitivity_at(self, gamma: float) -> float:
        """Return the sensitivity for another risk, from the same sampled pairs.

        Parameters
        ----------
        gamma : float
            Risk in (0, 1), fixed without a look at the sampled pairs.

        Returns
        -------
        sensitivity : float

        Raises
        ------
        CalibrationError
            If the sampled pairs cannot certify `gamma`.

        IncompatibleError
            If the pairs are not kept, as they came from private data.
        """
        self._check_pairs_kept()
        gamma = check_probability(gamma, "gamma")
        rule = as_calibration(self.calibration, self.failure_prob)
        index = rule.order_index(len(self.sensitivities_), gamma)
        return float(np.partition(self.sensitivities_, index - 1)[index - 1])

    def release(self, X: Any, y: Any = None) -> NDArray[np.float64]:
        """Answer the query on private data, with fresh noise.

        Each call spends its own privacy budget.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Private records, as many as were sampled (with "add-remove", or one
            less).

        y : array-like of shape (n_records,) or (n_records, n_targets), default=None
            Their targets.

        Returns
        -------
        released : ndarray of shape (n_outputs,)

        Raises
        ------
        ValueError
            If the data or the answer are not finite numbers, or targets are missing.

        IncompatibleError
            If the data have another number of records than was sampled for, the
            answer another number of outputs, or the noise was seeded after `fit`.

        Warns
        -----
        PrivacyLeakWarning
            If the data are the very ones that the pairs were sampled from: the
            certificate then says so, and the pairs are dropped.
        """
        check_is_fitted(self, "certificate_")
        X, y = self._check_data(self.query_, X, y, reset=False)
        check_n_records(len(X), self.n_records_, self.certificate_.relation)
        with np.errstate(all="ignore"):  # a warning would be a release of its own
            answer = check_answer(self.query_(X, y), "the private data")
        if len(answer) != self.n_outputs_:
            raise IncompatibleError(
                f"The query was sampled with {self.n_outputs_} outputs and returned "
                f"{len(answer)} on the private data."
            )
        self._withhold_own_reference(X)
        return self._add_noise(answer)

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Release each record by itself, with fresh noise (``query=None`` only).

        Each record is protected by itself, so no one who collects records needs
        to be trusted. Each call spends its own privacy budget.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Private records.

        Returns
        -------
        released : ndarray of shape (n_rows, n_features)

        Warns
        -----
        PrivacyLeakWarning
            If these are the very data that the pairs were sampled from.
        """
        check_is_fitted(self, "certificate_")
        if not isinstance(self.query_, RecordQuery):
            raise IncompatibleError(
                f"The pairs were sampled for the query {self.query_}, and not for "
                "records by themselves: fit again."
            )
        X, _ = self._check_data(self.query_, X, None, reset=False)
        if self._is_own_reference(X):
            warn_private_reference()
        return self._add_noise(X)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Sample from data and release the same data; warns, as they are private.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Private records.

        y : ignored
            For the interface of scikit-learn.

        Returns
        -------
        released : ndarray of shape (n_rows, n_features)
        """
        self.fit(X)
        self._withhold_own_reference(X)
        return self.transform(X)

    def withhold_pairs(self) -> Self:
        """Drop the sampled pairs, and certify that the reference was private.

        Returns
        -------
        self : SensitivitySampler
        """
        self._check_pairs_kept()
        del self.differences_, self.sensitivities_
        self.reference_fingerprint_ = None
        self.certificate_ = dataclasses.replace(
            self.certificate_,
            reference="resamples of the private data themselves",
            reference_is_private=True,
            curve=(),
        )
        return self

    def _withhold_own_reference(self, X: Any) -> None:
        if self._is_own_reference(X):
            warn_private_reference()
            self.withhold_pairs()

    def _is_own_reference(self, X: Any) -> bool:
        known = self.reference_fingerprint_
        return known is not None and known == fingerprint(np.asarray(X, np.float64))

    def _add_noise(self, answers: NDArray[np.float64]) -> NDArray[np.float64]:
        if (self.noise_random_state is not None) != self.certificate_.seeded:
            raise IncompatibleError(
                f"noise_random_state={self.noise_random_state!r} was set after the "
                "certificate was made, which does not say so: fit or calibrate again."
            )
        warn_if_seeded(self.noise_random_state)
        return self.mechanism_.release(
            answers, noise_random_state=self.noise_random_state
        )

    def _check_parameters(self) -> tuple[Query, Calibration]:
        check_epsilon(self.epsilon)
        gamma = check_probability(self.gamma, "gamma")
        check_choice(self.randomness, "randomness", RANDOMNESS)
        check_choice(self.mechanism, "mechanism", MECHANISMS)
        check_choice(self.relation, "relation", RELATIONS)
        noise_source(self.noise_random_state)
        check_random_state(self.random_state, "random_state")
        check_n_jobs(self.n_jobs)
        check_verbose(self.verbose)
        n_pairs = check_at_least(self.n_pairs, "n_pairs", 1)
        rule = as_calibration(self.calibration, self.failure_prob)
        query = as_query(self.query)
        rule.order_index(n_pairs, gamma)
        if isinstance(query, RecordQuery):
            if self.relation != "replace-one":
                raise ValueError(
                    "relation must be 'replace-one' with query=None, as a record "
                    f"cannot be released that is not there; got {self.relation!r}."
                )
            if self.n_records not in (None, 1):
                raise ValueError(
                    "n_records must be None or 1 with query=None, got "
                    f"{self.n_records!r}."
                )
        return query, rule

    def _choose_n_records(self, query: Query, n_rows: int) -> int:
        least = 2 if self.relation == "add-remove" else 1
        if self.n_records is not None:
            return check_at_least(self.n_records, "n_records", least)
        if isinstance(query, RecordQuery):
            return 1
        if self.relation == "add-remove" and self.reference is not None:
            raise ValueError(
                "n_records must be given with relation='add-remove', got None: how "
                "many private records there are is private itself."
            )
        return check_at_least(n_rows, "the number of records", least)

    def _check_data(
        self, query: Query, X: Any, y: Any, *, reset: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        if not query.needs_y:
            return validate_data(self, X, dtype=np.float64, reset=reset), None
        if y is None:
            raise ValueError(f"y must be given, as the query {query} takes targets.")
        X, y = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, reset=reset
        )
        return X, np.asarray(y, dtype=np.float64)

    def _check_pairs_kept(self) -> None:
        check_is_fitted(self, "certificate_")
        if not hasattr(self, "sensitivities_"):
            raise IncompatibleError(
                "The sampled pairs are not kept, as they came from private data. "
                "Sample from a public reference instead."
            )

    def _certify(
        self, sensitivities: NDArray[np.float64], rule: Calibration, **sampled: Any
    ) -> None:
        """Set everything that follows from the sampled sensitivities."""
        mechanism, certificate = certify_sensitivities(
            sensitivities,
            rule,
            epsilon=float(self.epsilon),
            gamma=float(self.gamma),
            calibration=self.calibration,
            seeded=self.noise_random_state is not None,
            **sampled,
        )
        sensitivities.flags.writeable = False
        self.sensitivities_ = sensitivities
        self.mechanism_ = mechanism
        self.certificate_ = certificate
        self.n_records_ = certificate.n_records
        self.n_outputs_ = certificate.n_outputs
        self.sensitivity_ = certificate.sensitivity
        self.noise_scale_ = certificate.noise_scale
        self.noise_epsilon_ = certificate.noise_epsilon
        self.risk_ = certificate.risk
        if self.calibration == "bessel":
            warn_caller(HEURISTIC_CLAIM, HeuristicGuaranteeWarning)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags


def _has_transform(sampler: SensitivitySampler) -> bool:
    return sampler.query is None


# After scikit-learn's own wrapping for set_output, which would hide the condition.
for _name in ("transform", "fit_transform"):
    _method = available_if(_has_transform)(getattr(SensitivitySampler, _name))
    setattr(SensitivitySampler, _name, _method)
