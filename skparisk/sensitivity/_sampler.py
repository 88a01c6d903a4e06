"""The estimator that samples pairs, calibrates noise and releases answers.

More than a third of it is the docstring that says what its parameters are.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skparisk._callers import refuse_reference_in_other_units
from skparisk._checks import check_n_jobs, check_seed, check_verbose
from skparisk._fitted import whole_fit
from skparisk._progress import Watched
from skparisk._simulated import is_simulated
from skparisk._words import BETTER, DOUBTS
from skparisk.core import calibrate as core
from skparisk.core.calibrate import Rule, Target, Terms
from skparisk.core.checks import (
    CalibrationError,
    check_at_least,
    check_choice,
    check_relation,
    warn_caller,
)
from skparisk.core.claim import Assumption, Certificate, Doubt, Population
from skparisk.core.exact import noise_source
from skparisk.core.laws import Law, as_law, is_ours
from skparisk.core.noise import NoiseShape
from skparisk.core.pairs import SampledPairs, Withheld, norms_of_pairs
from skparisk.core.release import as_seeded, hide_values
from skparisk.core.sealed import PublicForm, is_frame
from skparisk.exceptions import ReferenceWarning
from skparisk.queries import Query, RecordQuery
from skparisk.queries._given import own_query
from skparisk.reference import Reference, SecretSample, TableReference, as_reference
from skparisk.reference._records import Schema, as_records, n_rows
from skparisk.reference._secret import SecretDraw
from skparisk.sensitivity._claim import ClaimOfPairs
from skparisk.sensitivity._drawing import (
    Draw,
    Known,
    Seeds,
    describe_pairs,
    means_for_new_people,
    shortcomings_of,
    unseen_tail,
)
from skparisk.sensitivity._release import ReleaseMixin
from skparisk.sensitivity._terms import agree, as_rule, find_noise

# Risks at which it is looked for clusters.
_RISKS = (0.05, 0.1, 0.2)
# There is one if twice as many pairs as the risk are above so much of the quantile; or
# if that of a risk so much smaller is so much larger.
_BELOW, _SMALLER, _JUMP = 0.93, 0.6, 2.0
# Smaller risks that are tried, one after the other.
_STEP, _LEAST = 0.05, 0.2
# Of another cluster, so far above, halves have as many pairs on average as the table.
_MOST = 1.5


@dataclass(frozen=True, eq=False)
class HalvesMargin:
    """What halves of a table say that noise is to be multiplied by."""

    halves: tuple[SampledPairs, ...]

    def __call__(
        self,
        distances: NDArray[np.float64],
        shape: NoiseShape,
        law: Law,
        index: int,
        gamma: float,
    ) -> float:
        """Return the factor, at least 1, for the distance with this number."""
        halves = [norms_of_pairs(half, shape, law) for half in self.halves]
        return margin_of(distances, halves, index, gamma)


def has_clusters(distances: NDArray[np.float64]) -> bool:
    """Tell if an order statistic of distances may lie in a cluster, or below one."""
    ordered = np.sort(distances)
    for risk in _RISKS:
        quantile = _quantile(ordered, risk)
        many = np.mean(ordered > _BELOW * quantile) > 2 * risk
        jump = _quantile(ordered, _SMALLER * risk) > _JUMP * quantile
        if quantile > 0 and (many or jump):
            return True
    return False


def margin_of(
    distances: NDArray[np.float64],
    halves: Sequence[NDArray[np.float64]],
    index: int,
    gamma: float,
) -> float:
    """Return by what to multiply noise for the distance with this number, >= 1.

    For the quantile of the largest risk at which, on average over halves of the table,
    no more than a share `gamma` of its pairs are beyond theirs. These are compared as
    if their median were its own: few rows, which repeat, are farther apart.
    """
    ordered = np.sort(distances)
    base = ordered[index - 1]
    asked = 1 - index / (len(ordered) + 1)
    halves = [*map(np.sort, halves)]
    found = base
    for share in np.arange(1.0, _LEAST, -_STEP):
        at = _quantile(ordered, share * asked)
        beyond_gap = at > _MOST * base
        found = float(ordered[ordered <= _MOST * base][-1]) if beyond_gap else at
        found = max(base, found)
        if beyond_gap:
            break
        theirs = np.array([_quantile(half, share * asked) for half in halves])
        usual = np.median(theirs)
        if 0 < usual < math.inf:
            theirs *= found / usual
        beyond = 1 - np.searchsorted(ordered, theirs, side="right") / len(ordered)
        if beyond.mean() <= gamma:
            break
    return float(found / base)


def _quantile(ordered: NDArray[np.float64], risk: float) -> float:
    """Return the order statistic that a fresh one exceeds with a risk, or the last."""
    n = len(ordered)
    index = math.ceil((n + 1) * (1 - risk) * (1 - 2.0**-40))
    return float(ordered[min(max(index, 1), n) - 1])


_RANDOMNESS = ("implicit", "both")

# How many pairs, and which, would tell about the records.
_PRIVATE_FAILURE = (
    "Pairs sampled from the private data themselves cannot be calibrated to. The "
    "reason is not shown because it may reveal something about them; give a public "
    "reference."
)


_MORE_EXCEED = (
    "More pairs of real people may exceed the level than the risk says: use more "
    "public records, or a larger gamma."
)


def _check_residuals(query: Query, reference: Reference) -> None:
    """Refuse residuals of rows that were fitted, and fits to residuals of others."""
    table = isinstance(reference, TableReference) and reference.is_cross_fitted
    if table and not query.is_correction:
        raise ValueError(
            "reference has the targets of a correction to a public fit, whose "
            f"residuals are under fits to its other rows, and {query} is none: give "
            "the table itself."
        )
    if query.is_correction and not table:
        raise ValueError(
            f"query={query} is calibrated to residuals under fits to other rows, which "
            "the reference does not have: fit a private model with "
            "combine='reference' and the public table."
        )


def claim_at_most(
    sampler: SensitivitySampler, epsilon: float, gamma: float
) -> Certificate:
    """Return what a release will claim at most, by the parameters alone."""
    rule = as_rule(sampler.calibration, sampler.failure_prob)
    asked = copy.copy(sampler).set_params(epsilon=epsilon, gamma=gamma)
    return core.claim_at_most(
        asked._target(), as_law(sampler.law), rule, relation=sampler.relation
    )


class SensitivitySampler(ReleaseMixin, BaseEstimator):
    """Sample the sensitivity of a query, and calibrate noise to it.

    Pairs of neighboring databases are drawn from a public reference, the query
    is answered on both, and the noise is calibrated to a high quantile of how far
    the answers are apart. What results is (epsilon, gamma)-random differential
    privacy: outside a risk gamma, the privacy loss is at most epsilon.

    Parameters
    ----------
    query : callable, Query or None, default=None
        ``f(X)`` or ``f(X, y)`` of records as they are given, so that a data frame stays
        one; returns a number or a vector; see
        :class:`~skparisk.queries.FunctionQuery`. None: each record by itself (the
        local model), see `transform`. `fit` copies it, as what is changed in it later,
        such as a list in a partial, was not sampled; what a function reads of globals,
        of a closure or of its defaults cannot be copied, and must stay as it is.

    epsilon : float, default=1.0
        Privacy level, in (0, inf]. Unitless. Infinite: no noise.

    gamma : float, default=0.05
        Risk, in (0, 1): probability that the privacy loss exceeds `epsilon`. Noise from
        a table of N rows is calibrated to a little less, ``gamma - (1 - gamma) / M``
        with ``M = N // 2``: its pairs tell no more of new people than M independent
        ones (:ref:`thm-leave-out`).

    advantage : float, default=None
        Instead of `epsilon`: the most that an attacker may gain on average over pairs,
        in (0, 1), who knows all but which of two databases it was (the total variation
        of the two releases). With an advantage of 0.1 guesses are right at most 55
        times in 100 on average, and post-processing does not change that. `epsilon` and
        `randomness` are then not used, `gamma` is the share of pairs that
        ``certificate_.advantage.quantile`` leaves out, `delta` must be 0 and
        `calibration` "exchangeable".

    delta : float, default=0.0
        Additive relaxation of differential privacy, in [0, 1). With "implicit", above
        0 for Gaussian noise. Not used with "both".

    randomness : {"implicit", "both"}, default="implicit"
        What the risk is taken over.

        * "implicit": the pair of databases. Outside the risk, the level holds for all
          that may be released.
        * "both": the pair and the noise together (Dandekar, Definition 5). Weaker,
          with far less noise where the query has many outputs.

        For a known sensitivity, and a risk over the noise alone, see
        :class:`~skparisk.KnownSensitivity`.

    law : str or Law, default="laplace"
        "laplace" or "gaussian", for the law of the noise: the distance of answers is
        their l1 norm for Laplace noise, their l2 norm for Gaussian noise. The scale for
        a `delta` is the least there is (Balle and Wang 2018).
        "exponential": `query` returns the scores of candidates, the distance is the
        largest difference of a score, and `release` chooses a candidate. A law of one's
        own is a :class:`~skparisk.core.Law`.

    noise_shape : {"auto", "isotropic", "diagonal", "whitened"} or NoiseShape, \
default="auto"
        How much noise each direction of the answer gets: the same for all outputs; in
        proportion to how far each output moves; or as their covariance is (that is
        "diagonal" with more outputs than pairs to learn from), and where the query
        knows what outputs are for, so that predictions suffer least. The last two take
        half of the pairs to learn that (2048 at the most). "auto" is "whitened" or
        "diagonal", whichever brings more by the pairs that it is learned from, and
        "isotropic" for one output, a choice, no noise, and where `gamma` leaves fewer
        than 16 pairs. The certificate names the shape. One that is given must not
        depend on the private data.

    calibration : {"exchangeable", "pac", "dkw"} or Rule, default="exchangeable"
        Which order statistic of the sampled pairs is used: see
        :class:`~skparisk.core.Exchangeable`, :class:`~skparisk.core.PAC` and
        :class:`~skparisk.core.DKW`.

    failure_prob : float, default=0.05
        For "pac": probability, over the sampled pairs, that the risk is larger than
        claimed, in (0, 1).

    reference : Reference or callable, default=None
        Where the records of the sampled databases come from:
        :class:`~skparisk.TableReference`, `DensityReference`,
        :class:`~skparisk.SchemaReference`, or ``(n_records, rng) -> X or (X, y)``. Must
        be public, declared or simulated. None: the data given to `fit`.
        Without public records: a :class:`~skparisk.SecretSample`, or its draw, which
        protects who of the private records is used.

    n_records : int, default=None
        Records of a database, >= 1. None: as many as `fit` is given; 1 if `query`
        is None.

    relation : {"replace-one", "add-remove"}, default="replace-one"
        Neighbors differ in one record, or one has one record less. With
        "add-remove", `n_records` is the size of the larger database: it and one
        record less are answered, and any other size is refused, so that the size is
        public but for that one record.

    n_pairs : int or "auto", default="auto"
        Sampled pairs. More pairs mean a risk closer to `gamma`, so less noise;
        see :func:`~skparisk.core.required_pairs` for the least. "auto": 1000 at
        the usual targets; else five times the fewest that `calibration` needs, and
        those that the shape is learned from.

    neighbors_per_database : int, default=1
        Pairs that have their first database in common, >= 1: each sampled database is
        compared with as many neighbors, which differ from it in another record. Saves
        most of the time where it is answered slowly, and its neighbors fast, as by
        linear models, or references draw slowly. What the risk counts are databases:
        ``n_pairs / neighbors_per_database`` of them, so that few cost noise
        (:ref:`thm-groups`). Only for "exchangeable"; 1 for sums over records.
        With more than one, ``n_pairs="auto"`` draws 250 databases at the usual targets.

    n_jobs : int, default=None
        Workers of joblib. The result does not depend on it.

    random_state : int, RandomState, Generator or None, default=None
        Seeds the sampling of pairs, which is public; never the noise.

    noise_random_state : int, RandomState, Generator or None, default=None
        None: the noise comes from the operating system's cryptographic source.
        Anything else is for tests, and warns: the release is then not private.

    verbose : int or None, default=0
        Above 0: pairs done, how many a second, the time left, and of a public
        reference the quantile of the differences so far that is at risk `gamma`; by a
        bar where tqdm is installed, else by lines on the standard error stream.

    Attributes
    ----------
    differences_ : ndarray of shape (n_pairs, n_outputs)
        Answer on the first database minus answer on the second, for each pair; infinite
        where one of them had no answer. Missing, as `sensitivities_`, where the
        reference was private.

    sensitivities_ : ndarray of shape (n_calibrating,)
        Their l1, l2 or sup norms, in the coordinates of the shape of the noise,
        without the pairs that the shape is taken from.

    sensitivity_ : float
        Their order statistic.

    noise_scale_ : float
        Scale of the noise of each output, in the coordinates of its shape.

    noise_epsilon_ : float
        ``sensitivity_ / noise_scale_``.

    risk_ : float
        Achieved risk, at most `gamma`.

    certificate_ : Certificate
        The whole claim; prints as a paragraph.

    mechanism_ : AdditiveNoise or ExponentialChoice
        Adds the noise; ``mechanism_.covariance()`` is for standard errors.

    claim_ : ClaimOfPairs
        Certificate and pairs, which are private together or not at all.

    pairs_ : SampledPairs
        What was sampled, one object for all samplers that are calibrated from it, so
        that it is dropped from all of them if the reference turns out to be private.

    query_ : Query
        What was sampled.

    n_pairs_ : int
        Pairs that were sampled.

    n_records_, n_outputs_, n_features_in_ : int
        Records, released numbers and features of a database.

    feature_names_in_ : ndarray of str
        Where `X` had names.

    Notes
    -----
    **Guarantee**. Rubinstein and Aldà, ICML 2017, Definition 4 and Algorithms 1
    and 2, with the order statistic of `calibration`, for "implicit"; for "both" see
    :ref:`thm-critical-scale`, for an `advantage` :ref:`thm-advantage`, for Gaussian
    noise :ref:`thm-gaussian` and for its shape :ref:`thm-noise-shape`. The caller
    must ensure that the reference is public, that it describes the population, and that
    `query` is a function of the database alone.

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

    def __init__(
        self,
        query: Any = None,
        *,
        epsilon: float = 1.0,
        gamma: float = 0.05,
        advantage: float | None = None,
        delta: float = 0.0,
        randomness: str = "implicit",
        law: str | Law = "laplace",
        noise_shape: str | NoiseShape = "auto",
        calibration: str | Rule = "exchangeable",
        failure_prob: float = 0.05,
        reference: Any = None,
        n_records: int | None = None,
        relation: str = "replace-one",
        n_pairs: int | str = "auto",
        neighbors_per_database: int = 1,
        n_jobs: int | None = None,
        random_state: Any = None,
        noise_random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.query = query
        self.epsilon = epsilon
        self.gamma = gamma
        self.advantage = advantage
        self.delta = delta
        self.randomness = randomness
        self.law = law
        self.noise_shape = noise_shape
        self.calibration = calibration
        self.failure_prob = failure_prob
        self.reference = reference
        self.n_records = n_records
        self.relation = relation
        self.n_pairs = n_pairs
        self.neighbors_per_database = neighbors_per_database
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
            the columns and, if `n_records` is None, the number of records. For the draw
            of a secret sample: the private records that were drawn from.

        y : array-like of shape (n_rows,) or (n_rows, n_targets), default=None
            Targets, if `query` takes them.

        Raises
        ------
        ValueError
            If a parameter is out of range, a number is not finite (NaN is left to a
            query of any table), targets are missing, or the query cannot be copied,
            does not return numbers, always as many, or answers differently when it is
            asked twice.

        CalibrationError
            If `n_pairs` cannot certify `gamma`, the sensitivity at `gamma` is 0, or
            too many sampled databases have no answer.

        IncompatibleError
            If the reference has other columns than `X`, or of other kinds.

        Warns
        -----
        ReferenceWarning
            If the reference is a table that cannot carry that risk: it has too few
            rows for it, for the outputs, or for the records of a database.
        """
        return self._fit(X, y, private=False)

    @whole_fit
    def _fit(self, X: Any, y: Any, *, private: bool) -> Self:
        """Fit to a reference that may be private: nothing of it is then shown."""
        if self.reference is not None:
            refuse_reference_in_other_units()
        query = own_query(self.query)
        terms = self._check_parameters()
        if isinstance(query, RecordQuery):
            self._check_records_alone(terms.law)
        form: PublicForm | None = getattr(self.reference, "form", None)
        if form is not None:
            X = form.read_features(X)
        given, targets = X, y
        if isinstance(self.reference, SecretSample | SecretDraw):
            X, y = hide_values(self._check_data, query, X, y, reset=True)
        else:
            X, y = self._check_data(query, X, y, reset=True)
        if self.reference is None:
            kept = as_records(given) if is_frame(given) else X
            form = PublicForm.of(kept, None if y is None else targets)
        return self._sample(terms, query, X, y, private=private, form=form)

    def _fit_checked(
        self, X: Any, y: Any, *, private: bool, known: Known | None = None
    ) -> Self:
        """Fit for an estimator that has checked parameters, data and columns.

        And has sketched the reference, which takes long, if that is `known`.
        """
        terms, query = self.__dict__.pop("_terms"), own_query(self.query)
        return self._sample(terms, query, X, y, private=private, known=known)

    def _sample(
        self,
        terms: Terms,
        query: Query,
        X: Any,
        y: Any,
        *,
        private: bool,
        known: Known | None = None,
        form: PublicForm | None = None,
    ) -> Self:
        """Sample pairs from the reference, and calibrate to them.

        `form` is that of `X` before it was checked, if that is the reference.
        """
        if self.reference is None:
            reference: Reference = TableReference(X, y)._in_form(form)
        else:
            reference = as_reference(self.reference, X, y)
        _check_residuals(query, reference)
        withheld = Withheld() if private else reference.withheld
        private = withheld is not None
        n_records = self._choose_n_records(query, reference, n_rows(X))
        schema = Schema.of(X, getattr(self, "feature_names_in_", None))
        if not query.any_table:  # an array by now, whatever both were given in
            schema = replace(schema, container=None)
        reference.check_schema(schema)
        draw = Draw(
            query,
            reference,
            n_pairs=terms.n_pairs,
            n_neighbors=terms.n_neighbors,
            n_records=n_records,
            relation=self.relation,
            seeds=Seeds.of(self.random_state),
            known=known,
        )
        if not private:
            draw = draw.placed()
            query = draw.query
        try:
            pairs = draw.pairs(
                schema,
                private=private,
                n_jobs=self.n_jobs,
                verbose=check_verbose(self.verbose),
                watched=Watched(1 - terms.target.gamma, terms.law.norm),
            )
        except CalibrationError:  # that none is answered would tell as well
            if not private:
                raise
            pairs = None
        if pairs is None:
            raise CalibrationError(_PRIVATE_FAILURE, terms.target.gamma, 1.0)
        describe_pairs(pairs, draw, schema)
        shortcomings = shortcomings_of(draw, pairs.n_outputs)
        if not private and self._is_clustered(query, pairs, terms):
            halves = draw.on_halves(pairs, schema, self.n_jobs)
            pairs.margin = HalvesMargin(halves) if halves else None
        if not private:
            pairs.assumptions = frozenset(shortcomings)
        if not is_ours(query) and query.says_differences:
            pairs.assumptions |= {Assumption.GIVEN_QUERY}
        failed = False
        try:
            self._calibrate(
                query,
                pairs,
                terms,
                n_records=n_records,
                relation=self.relation,
                reference=reference.description,
                private=private,
            )
        except ValueError:  # also of a shape, whose message is about outputs
            if not private:
                raise
            failed = True
        if failed:  # here, where the reason is not the context of the error
            raise CalibrationError(_PRIVATE_FAILURE, terms.target.gamma, 1.0)
        self.query_ = query
        if withheld is not None:
            pairs.withhold(withheld)
            return self
        table = isinstance(reference, TableReference)
        if shortcomings and not (table and query.is_smooth and not terms.law.chooses):
            warn_caller(
                f"{' '.join(shortcomings.values())} {_MORE_EXCEED}", ReferenceWarning
            )
        audited = getattr(reference, "_audited", False)
        declared = pairs.population == Population.DECLARED
        if declared and not audited and not is_simulated():
            warn_caller(f"{DOUBTS[Doubt.MADE_UP]} {BETTER}", ReferenceWarning)
        return self

    def calibrate(
        self,
        *,
        epsilon: float | None = None,
        gamma: float | None = None,
        advantage: float | None = None,
    ) -> Self:
        """Return a sampler for another target, from the same sampled pairs.

        What concerns the guarantee and the noise is taken as it is set now:
        `delta`, `randomness`, `law`, `noise_shape`, `calibration`,
        `failure_prob` and `noise_random_state`. What was sampled stays what it was at
        `fit`.

        Parameters
        ----------
        epsilon, gamma, advantage : float, default=None
            As the parameters of the class. None: as they are set now. An `epsilon` that
            is given takes the place of an advantage.

        Returns
        -------
        sampler : SensitivitySampler
            Fitted; shares the sampled pairs with this one, which stays as it is.

        Raises
        ------
        ValueError
            If both `epsilon` and `advantage` are given, or one is out of range.

        CalibrationError
            If the sampled pairs cannot certify `gamma`, or the sensitivity is 0.

        IncompatibleError
            If there are no pairs, or they came from private data.

        Warns
        -----
        ReferenceWarning
            If the reference is a table that cannot carry the risk that is asked for.
        """
        check_is_fitted(self, "mechanism_")
        if epsilon is not None and advantage is not None:
            raise ValueError(
                "epsilon and advantage must not both be given, as either is asked for; "
                f"got {epsilon!r} and {advantage!r}."
            )
        other: Self = copy.copy(self)
        targets = {"epsilon": epsilon, "gamma": gamma, "advantage": advantage}
        other.set_params(**{k: v for k, v in targets.items() if v is not None})
        if epsilon is not None:
            other.set_params(advantage=None)
        noise_source(other.noise_random_state)
        pairs = self._kept_pairs()
        terms = other._agree(len(pairs), pairs.n_neighbors)
        if terms.law.chooses and isinstance(self.query_, RecordQuery):
            self._check_records_alone(terms.law)
        evidence = self._evidence
        other._calibrate(
            self.query_,
            pairs,
            terms,
            n_records=evidence.n_records,
            relation=str(self.certificate_.relation),
            reference=evidence.reference,
            # Of the fit that they were sampled in, which may be in units of its data.
            leaks=self.certificate_.leaks,
        )
        return other

    @staticmethod
    def _is_clustered(query: Query, pairs: SampledPairs, terms: Terms) -> bool:
        """Tell if many pairs may be beyond the level at once, as those of a class."""
        if terms.target.randomness == "both":
            return False
        return has_clusters(find_noise(pairs, terms, query.output_name).distances)

    def _calibrate(
        self,
        query: Query,
        pairs: SampledPairs,
        terms: Terms,
        *,
        private: bool = False,
        **about: Any,
    ) -> None:
        """Set everything that follows from what was sampled."""
        if pairs.learning is not None:
            pairs.learning.check_target(terms.target)
        found = find_noise(pairs, terms, query.output_name)
        self.mechanism_: Any = found.noise
        unseen = None if private else unseen_tail(pairs, terms.target.gamma)
        certificate = as_seeded(
            found.certify(
                for_new_people=means_for_new_people(pairs, found.terms), **about
            ),
            self.noise_random_state,
        )
        self.claim_ = ClaimOfPairs(certificate, pairs)
        if unseen is not None:
            warn_caller(f"{unseen} {_MORE_EXCEED}", ReferenceWarning)

    def sensitivity_at(self, gamma: float) -> float:
        """Return the sensitivity for another risk, from the same sampled pairs.

        Parameters
        ----------
        gamma : float
            Risk in (0, 1), fixed without a look at the sampled pairs.

        Raises
        ------
        CalibrationError
            If the sampled pairs cannot certify `gamma`.

        IncompatibleError
            If the pairs are not kept, as they came from private data.
        """
        sensitivities = self.sensitivities_
        terms = agree(
            len(sensitivities),
            Target(1.0, gamma),
            law="laplace",
            shape="isotropic",
            rule=self.calibration,
            failure_prob=self.failure_prob,
            n_neighbors=self.pairs_.n_neighbors,
        )
        index = terms.for_rows(self.pairs_.n_independent).order_index
        return float(np.partition(sensitivities, index - 1)[index - 1])

    def _target(self) -> Target:
        """Return what is asked for, checked."""
        check_choice(self.randomness, "randomness", _RANDOMNESS)
        target = Target(self.epsilon, self.gamma, self.delta, self.randomness)
        if self.advantage is None:
            return target
        if self.delta or math.isinf(target.epsilon):
            raise ValueError(
                "delta must be 0 and epsilon finite with an advantage, which stands "
                f"for them; got {self.delta!r} and {self.epsilon!r}."
            )
        return Target.of_advantage(self.advantage, self.gamma)

    def _agree(self, n_pairs: int | str, n_neighbors: int | None = None) -> Terms:
        """Return what is asked for and how, checked.

        For pairs that are there already, with as many neighbors as they have.
        """
        return agree(
            n_pairs,
            self._target(),
            law=self.law,
            shape=self.noise_shape,
            rule=self.calibration,
            failure_prob=self.failure_prob,
            n_neighbors=n_neighbors or self.neighbors_per_database,
        )

    def _check_parameters(self) -> Terms:
        check_relation(self.relation)
        noise_source(self.noise_random_state)
        check_seed(self.random_state, "random_state")
        check_n_jobs(self.n_jobs)
        check_verbose(self.verbose)
        return self._agree(self.n_pairs)

    def _check_records_alone(self, law: Law) -> None:
        """Refuse what makes no sense for records by themselves."""
        if law.chooses:
            raise ValueError(
                "law='exponential' chooses by the scores that a query returns, but "
                "query is None."
            )
        if self.relation != "replace-one":
            raise ValueError(
                "relation must be 'replace-one' with query=None, because a record that "
                f"is not there cannot be released; got {self.relation!r}."
            )
        if self.n_records not in (None, 1):
            raise ValueError(
                f"n_records must be None or 1 with query=None, got {self.n_records!r}."
            )

    def _choose_n_records(self, query: Query, reference: Reference, n_rows: int) -> int:
        fixed = reference.fixed_n_records
        if fixed is not None and isinstance(query, RecordQuery):
            raise ValueError(
                "query must not be None with a SecretSample, which protects who is in "
                "a database, and not single records; got None."
            )
        if fixed is not None:
            if self.n_records not in (None, fixed):
                raise ValueError(
                    f"n_records must be None or {fixed}, as many as a SecretSample has "
                    f"members, got {self.n_records!r}."
                )
            return fixed
        least = 2 if self.relation == "add-remove" else 1
        if self.n_records is not None:
            return check_at_least(self.n_records, "n_records", least)
        if isinstance(query, RecordQuery):
            return 1
        if self.relation == "add-remove" and self.reference is not None:
            raise ValueError(
                "n_records must be given with relation='add-remove', got None: the "
                "number of private records is itself private."
            )
        n_rows = reference.usual_n_records or n_rows
        return check_at_least(n_rows, "the number of records", least)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags
