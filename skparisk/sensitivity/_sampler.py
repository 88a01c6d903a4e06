"""The estimator that samples pairs, calibrates noise and releases answers.

More than a third of it is the docstring that says what its parameters are.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skparisk._callers import refuse_reference_in_other_units
from skparisk._checks import (
    check_n_jobs,
    check_seed,
    check_verbose,
    hide_counts,
    private_people,
    warn_private_reference,
    warn_redrawn,
)
from skparisk._fitted import whole_fit
from skparisk._private_data import validate_private, validate_private_records
from skparisk._simulated import is_simulated
from skparisk._words import BETTER, DOUBTS
from skparisk.core import calibrate as core
from skparisk.core.calibrate import Rule, Target, Terms, as_curve
from skparisk.core.checks import (
    CalibrationError,
    IncompatibleError,
    check_at_least,
    check_choice,
    check_relation,
    warn_caller,
)
from skparisk.core.claim import (
    Assumption,
    Certificate,
    Doubt,
    Evidence,
    Leak,
    Population,
    over_private_records,
)
from skparisk.core.exact import noise_source
from skparisk.core.laws import Law, as_law, is_ours
from skparisk.core.noise import NoiseShape
from skparisk.core.pairs import SampledPairs, Withheld, norms_of_pairs
from skparisk.core.release import (
    Plan,
    as_seeded,
    check_unit,
    forgetting,
    hide_values,
    release,
)
from skparisk.core.sealed import (
    People,
    PublicForm,
    Records,
    is_frame,
    of_people,
    rows_of,
    seal,
)
from skparisk.exceptions import ReferenceWarning
from skparisk.ledger import OPEN
from skparisk.ledger._open import refuse_without_level
from skparisk.mechanisms import Exponential
from skparisk.queries import Query, RecordQuery
from skparisk.queries._given import own_query
from skparisk.reference import Reference, SecretSample, TableReference, as_reference
from skparisk.reference._learned import refuse_learned_from
from skparisk.reference._parted import read_like
from skparisk.reference._records import Schema, as_records, as_targets, n_rows
from skparisk.reference._secret import SecretDraw
from skparisk.reference._sketch import RecordSketch
from skparisk.reference._table import shares_people
from skparisk.sensitivity._drawing import (
    Draw,
    Known,
    Seeds,
    means_for_new_people,
    unseen_tail,
)
from skparisk.sensitivity._terms import agree, as_rule, find_noise

_Found = TypeVar("_Found")

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


class ClaimOfPairs:
    """A certificate and the pairs that it rests on.

    If the pairs are withheld, as they came from private data, so is what the
    certificate has of them besides the noise.
    """

    def __init__(self, certificate: Certificate, pairs: SampledPairs) -> None:
        self.pairs = pairs
        self._certificate = certificate
        if pairs.learning is not None:
            self._bare = certificate
            self._certificate = pairs.learning.cover(certificate)
        self._said: Withheld | None = None

    @property
    def certificate(self) -> Certificate:
        """The whole claim."""
        withheld, claim = self.pairs.withheld, self._certificate
        if withheld is not None and withheld is not self._said:
            curve = None
            if claim.randomness == "both":  # what is claimed, and no more
                curve = as_curve(claim.epsilon, claim.risk)
            self._certificate = over_private_records(
                claim,
                reference=withheld.reference,
                n_candidates=withheld.n_candidates,
                leaks=withheld.leaks,
                curve=curve,
            )
            self._said = withheld
        return self._certificate

    @property
    def charge(self) -> Certificate:
        """What a release adds to a ledger: learning the reference is paid for."""
        return self.certificate if self.pairs.learning is None else self._bare

    def stating(self, certificate: Certificate) -> Self:
        """Return it with another certificate of the same release."""
        other = copy.copy(self)
        other._certificate = certificate
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {
            "pairs": self.pairs,
            "_certificate": self.certificate,
            "_bare": self.charge,
            "_said": self._said,
        }


class PairsNotKeptError(IncompatibleError, AttributeError):
    """There are no pairs to look at, so that attributes of pairs are missing."""


# What a model assumes of the steps before it, whatever the noise.
_OF_STEPS = {
    Assumption.FROZEN_PARTS,
    Assumption.PUBLIC_STEPS,
    Assumption.SUPERVISED_STEPS,
}


def _shown(path: str) -> Any:
    """Return a property that shows a field of the certificate."""
    read = attrgetter(path)  # by itself nothing that documentation can describe
    return property(lambda sampler: read(sampler), doc=f"``{path.lstrip('_')}``.")


def check_given(query: Query, y: Any) -> Any:
    """Return the targets, which the query takes."""
    if y is None:
        raise ValueError(f"y must be given because the query {query} takes targets.")
    return y


def _hiding(
    private: bool,
    gamma: float,
    error: type[Exception],
    action: Callable[..., _Found],
    /,
    *data: Any,
    **how: Any,
) -> _Found:
    """Return what an action returns; of private records without the reason it fails.

    Nor the frames of those who know answers about them, if it is interrupted.
    """
    try:
        return (forgetting(action) if private else action)(*data, **how)
    except error:
        if not private:
            raise
    # Here, where the reason is not the context of the error.
    raise CalibrationError(_PRIVATE_FAILURE, gamma, 1.0)


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
    rule = as_rule(sampler.calibration)
    asked = copy.copy(sampler).set_params(epsilon=epsilon, gamma=gamma)
    return core.claim_at_most(
        asked._target(), as_law(sampler.law), rule, relation=sampler.relation
    )


class SensitivitySampler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Sample the sensitivity of a query, and calibrate noise to it.

    Draw pairs of neighboring databases from a public reference, answer the query on
    both, and calibrate the noise to a high quantile of the distances of answers. The
    result is (epsilon, gamma)-random differential privacy: outside a risk gamma, the
    privacy loss is at most epsilon.

    Parameters
    ----------
    query : callable, Query or None, default=None
        ``f(X)`` or ``f(X, y)`` of records in their own form: a data frame stays one.
        Returns a number or a vector; see :class:`~skparisk.queries.FunctionQuery`.
        None: each record by itself (the local model), see `transform`. `fit` copies it,
        because later changes to it, such as to a list in a partial, were not sampled.
        Globals, closures and defaults of a function cannot be copied, and must stay as
        they are.

    epsilon : float, default=1.0
        Privacy level, in (0, inf]. Unitless. Infinite: no noise.

    gamma : float, default=0.05
        Risk, in (0, 1): probability that the privacy loss exceeds `epsilon`. Noise from
        a table of N rows is calibrated to a little less, ``gamma - (1 - gamma) / M``
        with ``M = N // 2``: its pairs say no more about new people than M independent
        ones (:ref:`thm-leave-out`).

    advantage : float, default=None
        Instead of `epsilon`: largest average gain over pairs, in (0, 1), of an attacker
        who knows all but which of two databases was used (the total variation of the
        two releases). With an advantage of 0.1 guesses are right at most 55 times in
        100 on average, and post-processing does not change that. `epsilon` and
        `randomness` are then not used, `gamma` is the share of pairs that
        ``certificate_.advantage.quantile`` leaves out, `delta` must be 0 and
        `calibration` "exchangeable".

    delta : float, default=0.0
        Additive relaxation of differential privacy, in [0, 1). With "implicit", above
        0 for Gaussian noise. Not used with "both".

    randomness : {"implicit", "both"}, default="implicit"
        Source of the risk.

        * "implicit": the pair of databases. Outside the risk, the level holds for every
          release.
        * "both": the pair and the noise together (Dandekar, Definition 5). Weaker, with
          far less noise for many outputs.

        For a known sensitivity, and a risk over the noise alone, see
        :class:`~skparisk.KnownSensitivity`.

    law : str or Law, default="laplace"
        "laplace" or "gaussian", for the law of the noise: the distance of answers is
        their l1 norm for Laplace noise, their l2 norm for Gaussian noise. The scale for
        a `delta` is the least there is (Balle and Wang 2018). "exponential": `query`
        returns the scores of candidates, the distance is the largest difference of a
        score, and `release` chooses a candidate. Your own law is a
        :class:`~skparisk.core.Law`.

    noise_shape : {"auto", "isotropic", "diagonal", "whitened"} or NoiseShape, \
default="auto"
        Noise in each direction of the answer: equal for all outputs; proportional to
        the moves of each output; or shaped like their covariance ("diagonal" with more
        outputs than pairs to learn from). If the query knows the use of its outputs,
        the last shape makes predictions suffer least. The last two take half of the
        pairs, at most 2048, to learn it. "auto" is "whitened" or "diagonal", whichever
        gains more on these pairs. It is "isotropic" for one output, a choice, no noise,
        and if `gamma` leaves fewer than 16 pairs. The certificate names the shape. A
        given shape must not depend on the private data.

    calibration : {"exchangeable", "pac", "dkw"} or Rule, default="exchangeable"
        Order statistic of the sampled pairs: see :class:`~skparisk.core.Exchangeable`,
        :class:`~skparisk.core.PAC` and :class:`~skparisk.core.DKW`. "pac" is
        ``PAC(failure_prob=0.05)``.

    reference : Reference or callable, default=None
        Source of the sampled databases: :class:`~skparisk.TableReference`,
        :class:`~skparisk.SchemaReference`, or ``(n_records, rng) -> X or (X, y)``. Must
        be public, declared or simulated. None: the data given to `fit`. Without public
        records: a :class:`~skparisk.SecretSample`, or its draw, which protects the
        membership of private records.

    n_records : int, default=None
        Records of a database, >= 1. None: as many as `fit` is given; 1 if `query`
        is None.

    relation : {"replace-one", "add-remove"}, default="replace-one"
        Neighbors differ in one record, or one has one record less. With
        "add-remove", `n_records` is the size of the larger database: it and one
        record less are answered, and any other size is refused, so that the size is
        public but for that one record.

    n_pairs : int or "auto", default="auto"
        Number of sampled pairs. More pairs mean a risk closer to `gamma`, so less
        noise; see :func:`~skparisk.core.required_pairs` for the least. "auto": 1000 at
        the usual targets; else five times the fewest that `calibration` needs, plus the
        pairs for the shape.

    neighbors_per_database : int, default=1
        Pairs that have their first database in common, >= 1: each sampled database is
        compared with as many neighbors, which differ from it in another record. Saves
        most of the time where it is answered slowly, and its neighbors fast, as by
        linear models, or references draw slowly. The risk counts databases, ``n_pairs /
        neighbors_per_database`` of them, and few databases cost noise
        (:ref:`thm-groups`). Only for "exchangeable"; 1 for sums over records. With more
        than one, ``n_pairs="auto"`` draws 250 databases at the usual targets.

    n_jobs : int, default=None
        Workers of joblib. The result does not depend on it.

    random_state : int, RandomState, Generator or None, default=None
        Seeds the public sampling of pairs, never the noise.

    noise_random_state : int, RandomState, Generator or None, default=None
        None: the noise comes from the operating system's cryptographic source.
        Anything else is for tests, and warns: the release is then not private.

    verbose : int or None, default=0
        Above 0: pairs done, how many a second and the time left, by a bar where tqdm
        is installed, else by lines on the standard error stream.

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
        Certificate and pairs, either both private or both public.

    pairs_ : SampledPairs
        Sampled pairs, one object for all samplers calibrated from them. All of them
        lose the pairs if the reference turns out to be private.

    query_ : Query
        The sampled query.

    n_pairs_ : int
        Number of sampled pairs.

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
        self.reference = reference
        self.n_records = n_records
        self.relation = relation
        self.n_pairs = n_pairs
        self.neighbors_per_database = neighbors_per_database
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.noise_random_state = noise_random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Sample pairs from the reference and calibrate the noise.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The public reference, unless `reference` is given. Then it only defines the
            columns and, if `n_records` is None, the number of records. For the draw of
            a secret sample: all private records behind it.

        y : array-like of shape (n_rows,) or (n_rows, n_targets), default=None
            Targets, if `query` takes them.

        groups : array-like of shape (n_rows,), default=None
            Whose each row is, if people have several: databases then differ in one
            person with all of their rows.

        Raises
        ------
        ValueError
            If a parameter is out of range, a number is not finite (queries of any table
            may take NaN), or targets are missing. If the query cannot be copied, does
            not return a fixed number of numbers, or answers differently when asked
            twice.

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
        return self._fit(X, y, groups=groups, private=False)

    @whole_fit
    def _fit(self, X: Any, y: Any, *, groups: Any = None, private: bool) -> Self:
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
        X, y = self._of_people(query, groups, X, y)
        several = getattr(self.reference, "of_people", False)
        if self.reference is not None and several != isinstance(X, People):
            raise ValueError(
                "groups must be given if the reference is a TableReference, or the "
                "draw of a SecretSample, that has some, and only then; got "
                f"{'none' if several else 'some'}."
            )
        return self._sample(terms, query, X, y, private=private, form=form)

    def _fit_checked(
        self, X: Any, y: Any, *, private: bool, known: Known | None = None
    ) -> Self:
        """Fit for an estimator that has checked all; `known` saves a sketch."""
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
        """Sample pairs, and calibrate; `form` is that of `X` as a reference."""
        if self.reference is None:
            people = X.numbers if isinstance(X, People) else None
            table = TableReference(rows_of(X), rows_of(y), groups=people)
            reference: Reference = table._in_form(form)
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
        hiding = partial(_hiding, private, terms.target.gamma)
        # That none is answered would tell as well.
        pairs = hiding(
            CalibrationError,
            draw.pairs,
            schema,
            private=private,
            n_jobs=self.n_jobs,
            verbose=check_verbose(self.verbose),
        )
        shortcomings = draw.shortcomings(pairs.n_outputs)
        if not private:
            pairs.margin = draw.margin(pairs, terms, schema, self.n_jobs)
            pairs.assumptions = frozenset(shortcomings)
        if not is_ours(query) and type(query).on_pool is not Query.on_pool:
            pairs.assumptions |= {Assumption.GIVEN_QUERY}
        # So would an error of a shape, whose message is about outputs.
        hiding(
            ValueError,
            self._calibrate,
            query,
            pairs,
            terms,
            n_records=n_records,
            relation=self.relation,
            reference=reference.description,
            private=private,
        )
        self.query_, self._config = query, get_config()
        if withheld is not None:
            pairs.withhold(withheld)
            return self
        told = " ".join(filter(None, shortcomings.values()))
        smooth = isinstance(reference, TableReference) and query.is_smooth
        if told and not (smooth and not terms.law.chooses):
            warn_caller(f"{told} {_MORE_EXCEED}", ReferenceWarning)
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

        What concerns the guarantee and the noise is taken as it is set now: `delta`,
        `randomness`, `law`, `noise_shape`, `calibration` and `noise_random_state`. The
        pairs stay as sampled in `fit`.

        Parameters
        ----------
        epsilon, gamma, advantage : float, default=None
            As the parameters of the class. None: as they are set now. A given `epsilon`
            replaces an advantage.

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
            If the reference is a table that cannot carry the requested risk.
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
        # The pairs are of the same steps.
        steps = self.certificate_.assumptions & _OF_STEPS
        certificate = other.certificate_.weaken(assumptions=steps)
        other.claim_ = other.claim_.stating(certificate)
        return other

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
        found = find_noise(pairs, terms, query)
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

    @property
    def certificate_(self) -> Certificate:
        """The whole claim, weakened if the pairs turned out to be private."""
        return self.claim_.certificate

    @property
    def pairs_(self) -> SampledPairs:
        """Sampled pairs, shared by all samplers calibrated from them."""
        return self.claim_.pairs

    @property
    def _evidence(self) -> Evidence:
        return self.certificate_.require_evidence()

    @property
    def n_pairs_(self) -> int:
        """Number of sampled pairs."""
        return (self._evidence.n_pairs or 0) + (self._evidence.n_shape_pairs or 0)

    n_records_ = _shown("_evidence.n_records")
    n_outputs_ = _shown("_evidence.n_outputs")
    sensitivity_ = _shown("_evidence.sensitivity")
    noise_scale_ = _shown("_evidence.noise_scale")
    noise_epsilon_ = _shown("certificate_.noise_epsilon")
    risk_ = _shown("certificate_.risk")

    @property
    def differences_(self) -> NDArray[np.float64]:
        """Answer on the first database minus answer on the second, for each pair."""
        return self._kept_pairs().differences

    @property
    def sensitivities_(self) -> NDArray[np.float64]:
        """Norms of the calibrating pairs, in the coordinates of the noise."""
        pairs = self._kept_pairs()
        pairs = pairs.take(slice(self._evidence.n_shape_pairs or 0, None))
        shape = getattr(self.mechanism_, "shape", NoiseShape())
        law = getattr(self.mechanism_, "law", Exponential())
        return norms_of_pairs(pairs, shape, law)

    def _of_people(self, query: Query, groups: Any, *parts: Any) -> tuple[Any, ...]:
        """Return records and targets person by person, if they are of people."""
        if groups is not None and isinstance(query, RecordQuery):
            raise ValueError(
                "groups must be None with query=None, which releases rows one by one."
            )
        if query.sample_weights is not None:
            raise IncompatibleError(
                f"{query} is of records with weights, which a SensitivitySampler does "
                "not take: give it to the estimator, in a FrozenEstimator, and that "
                "sample_weight."
            )
        people = private_people(groups, n_rows(parts[0]))
        return tuple(of_people(part, people) for part in parts)

    @hide_counts
    def release(self, X: Any, y: Any = None, *, groups: Any = None) -> Any:
        """Answer the query on private data, with fresh noise.

        Each call spends its own privacy budget.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Private records, as many as were sampled (with "add-remove", or one less). A
            table of any kind for a query that takes one; columns of a data frame are
            given to it in the types of the public ones. With the draw of a
            :class:`~skparisk.SecretSample` as `reference`: all records behind it,
            though the query is answered about the members.

        y : array-like of shape (n_records,) or (n_records, n_targets), default=None
            Their targets.

        groups : array-like of shape (n_rows,), default=None
            Whose each row is, if the reference is of people with several.

        Returns
        -------
        released : ndarray of shape (n_outputs,) or int
            For "exponential" the index of the chosen candidate.

        Raises
        ------
        ValueError
            If the data or the answer are not finite numbers, targets are missing, or
            the data are records that the reference was learned from.

        IncompatibleError
            If the data have another number of records or targets than the sampled
            databases, labels for numbers, or another number of outputs. If the noise
            was seeded after `fit`, or steps of a Pipeline before it learn from the
            data.

        BudgetExceededError
            If a ledger is open and refuses.

        Warns
        -----
        PrivacyLeakWarning
            If the data have records in common with the reference that the pairs were
            sampled from: the certificate then says so, and the pairs are dropped, also
            from samplers that share them. If another secret sample of the same records
            was released before.
        """
        check_is_fitted(self, "mechanism_")
        check_unit(self.certificate_, groups is not None)
        X, y = self._check_data(self.query_, X, y, reset=False)
        self._recognize(X, y, groups)
        draw = self.reference if isinstance(self.reference, SecretDraw) else None
        X, y = self._of_people(self.query_, groups, X, y)
        if draw is not None:
            draw.check(X)
        return self._answer(X, y, draw)

    def _answer(
        self, X: Records, y: NDArray[Any] | None, draw: SecretDraw | None
    ) -> Any:
        """Answer about private records, or about those of them that were drawn."""
        self._check_noise()
        withheld = self.pairs_.withheld
        known = None if withheld is None else withheld.origin
        if known is not (None if draw is None else draw.origin):
            raise IncompatibleError(
                "The pairs were not sampled for the reference that there is now: a "
                "release about a secret sample takes the draw that the sampler was "
                "fitted with, half = SecretSample(fraction).draw(X, y), as its "
                "reference; fit again."
            )
        if draw is None:
            return self._release(self.query_, X, y)
        with draw.releasing() as others:
            if others:
                refuse_without_level(
                    "Another secret sample of the same records",
                    remedy="Draw once, half = SecretSample(fraction).draw(X, y), and "
                    "give reference=half to all fits.",
                )
                warn_redrawn()
                self.pairs_.add_leak(Leak.REDRAWN)
            return self._release(self.query_, *draw.take_members(X, y))

    def _release(self, query: Query | None, X: Records, y: NDArray[Any] | None) -> Any:
        """Release the answer, or with None each record, as public ones were given."""
        private = seal(*self._in_domain(X, y), like=self._form)
        plan = Plan(
            query,
            lambda n_outputs: (self.mechanism_, self.certificate_),
            at_most=self.claim_.charge,
            charge=lambda certificate: self.claim_.charge,
            n_outputs=self.n_outputs_,
        )
        # What steps of a pipeline hand on depends on the configuration.
        known = get_config()
        config = {k: v for k, v in self._config.items() if k in known}
        with config_context(**config):
            released, _ = release(
                plan,
                private,
                OPEN,
                note=str(self.query_),
                noise_random_state=self.noise_random_state,
            )
        return released

    def _as_asked(
        self, X: Records, y: NDArray[Any] | None
    ) -> tuple[Records, NDArray[Any] | None]:
        """Return records as a query is given them: for audits, which add no noise."""
        X, y = self._in_domain(X, y)
        return X if self._form is None else self._form.read_features(X), y

    def _in_domain(
        self, X: Records, y: NDArray[Any] | None
    ) -> tuple[Records, NDArray[Any] | None]:
        """Return records in the domain of the reference, and not what was moved."""
        domain = self.pairs_.domain
        return (X, y) if domain is None else hide_values(domain.clip, X, y)

    @property
    def _form(self) -> PublicForm | None:
        """What records are read in, if the query takes any table."""
        return self.pairs_.form if self.query_.any_table else None

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
            As `release`.
        """
        check_is_fitted(self, "mechanism_")
        if not isinstance(self.query_, RecordQuery):
            raise IncompatibleError(
                f"The pairs were sampled for the query {self.query_}, not for records "
                "by themselves: fit again."
            )
        X, _ = self._check_data(self.query_, X, None, reset=False)
        self._recognize(X, None)
        self._check_noise()
        return np.asarray(self._release(None, X, None))

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Sample from the private data themselves and release them, with a warning.

        With a `reference` nothing is sampled from them.

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
        private = self.reference is None
        if private:
            warn_private_reference()
        return self._fit(X, None, private=private).transform(X)

    def _recognize(self, X: Records, y: Any, groups: Any = None) -> None:
        """Drop the pairs, with a warning, if private records are in their reference."""
        refuse_learned_from(self.pairs_.learning, X, y)
        if self.pairs_.withheld is None:
            refuse_reference_in_other_units()
        sketch = self.pairs_.sketch
        if sketch is None or is_simulated():
            return
        known = shares_people(self.reference, groups)
        if known or RecordSketch.of(X, y).overlaps(sketch):
            self.pairs_.withhold(Withheld())
            self.query_.forget_place()
            warn_private_reference()

    def _check_noise(self) -> None:
        """Refuse a release before there is an answer, if it does not fit a ledger."""
        if (self.noise_random_state is not None) != self.certificate_.seeded:
            raise IncompatibleError(
                f"noise_random_state={self.noise_random_state!r} was set after the "
                "certificate was made, so the certificate does not mention it: fit or "
                "calibrate again."
            )

    def _check_data(
        self, query: Query, X: Any, y: Any, *, reset: bool
    ) -> tuple[Records, NDArray[Any] | None]:
        """Return records as they are kept, and targets if the query takes any."""
        y = check_given(query, y) if query.needs_y else None
        if not reset and self.pairs_.form is not None:
            X, y = read_like(self.pairs_.form, X, y)
        if query.any_table:
            checked = validate_private_records(
                self, X, y, reset=reset, allow_nan=True, multi_output=True
            )
            X, y = (checked, None) if y is None else checked
            if not reset:
                assert self.pairs_.schema is not None
                self.pairs_.schema.check_same(Schema.of(X))
            return X, None if y is None else hide_values(as_targets, y)
        if y is None:
            return validate_private(self, X, dtype=np.float64, reset=reset), None
        X, y = validate_private(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, reset=reset
        )
        return X, hide_values(np.asarray, y, dtype=np.float64)

    def _kept_pairs(self) -> SampledPairs:
        """Return the sampled pairs; where there are none, say why."""
        check_is_fitted(self, "mechanism_")
        if self.pairs_.withheld:
            raise PairsNotKeptError(
                "There are no sampled pairs: they came from private data and were not "
                "kept. Sample from a public reference."
            )
        return self.pairs_

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
        """Return the checked request, with the neighbors of the pairs."""
        return agree(
            n_pairs,
            self._target(),
            law=self.law,
            shape=self.noise_shape,
            rule=self.calibration,
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
        return check_at_least(n_rows, "the number of records", least)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags


# After scikit-learn's own wrapping for set_output, which would hide the condition.
for _name in ("transform", "fit_transform"):
    _method = available_if(lambda sampler: sampler.query is None)(
        getattr(SensitivitySampler, _name)
    )
    setattr(SensitivitySampler, _name, _method)
