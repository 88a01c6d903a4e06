"""References that are learned from a part of the private records, with noise."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from skparisk.core.checks import check_probability, warn_if_seeded
from skparisk.core.claim import Assumption
from skparisk.core.exact import noise_source
from skparisk.core.release import as_seeded, hide_values, silenced
from skparisk.core.sealed import PublicForm, Records, copy_records
from skparisk.ledger import spend, suspend_open
from skparisk.reference._base import Held, RecordSource, Reference
from skparisk.reference._domain import Domain
from skparisk.reference._learned_records import Law, LearnedRecords, LearnedSplit
from skparisk.reference._learning import Learning
from skparisk.reference._records import (
    Schema,
    as_records,
    as_targets,
    columns_of,
    n_rows,
    take_rows,
)
from skparisk.reference._schema import SchemaReference
from skparisk.reference._secret import draw_ordered
from skparisk.reference._sketch import RecordSketch
from skparisk.reference._synthesis import (
    Axis,
    HistogramCopula,
    count_bins,
    learn_copula,
)

# With it, one seed gives a split and noise that have nothing to do with the release.
_LEARN = 0x1EA12

_FAILED = (
    "The synthesizer failed on the private records, or returned neither a callable "
    "(n_records, rng) -> X or (X, y) nor an object with such a method sample. The "
    "reason is not shown because it may reveal something about them; try it on records "
    "of the schema."
)

_Targets = NDArray[Any] | None

# Records that laws were learned from, for as long as these are known in this process.
_learned_from: WeakKeyDictionary[Learning, RecordSketch] = WeakKeyDictionary()


class LearnedReference(Held, Reference):
    """A reference that is learned from a part of the private records, with noise.

    For when there are no public records. Of the records that `fit` is given, a part is
    drawn at random and used for nothing but to learn a law of records, with
    differential privacy; the release is about the others, and pairs are drawn from the
    learned law. Give it to a sampler, ``SensitivitySampler(reference=learned)``, or to
    `fit` as `X_reference`: each fit then learns anew. For several releases from one
    learned law, see `learn`.

    Parameters
    ----------
    schema : SchemaReference
        What columns and targets may hold, which is public. Records are clipped to it.

    epsilon : float
        Privacy level of the learning, finite and above 0. The total is the larger of
        this and that of the release: the same level for both costs nothing.

    delta : float, default=0.0
        Delta of the learning, in [0, 1); 0 without a synthesizer of one's own.

    synthesizer : callable, default=None
        None: histograms of all columns and a Gaussian copula, by Laplace noise. Else
        ``synthesizer(X, y, schema, epsilon, delta)`` returns a callable
        ``(n_records, rng) -> X or (X, y)``, or an object with such a method `sample`,
        and is itself (epsilon, delta)-differentially private for records of which one
        is replaced; that is the caller's word, and on the certificate. What it returns
        must draw records that are independent and alike, as often as it is asked.

    fraction : float, default=0.2
        Share of the records that is learned from, in (0, 1), rounded down. Public.

    Raises
    ------
    ValueError
        If a parameter is out of range, or a column of the schema has neither a range
        nor categories and there is no synthesizer.

    Notes
    -----
    **Guarantee** (:ref:`thm-learned`). A record that is learned from has (epsilon,
    delta)-differential privacy, for all pairs. Another one has what the release
    guarantees, outside a risk over pairs *of the learned law*: nothing carries that to
    the population. In all the maximum of both. The caller must ensure that each person
    has one record, and that the number of records is public.

    The default synthesizer gives each column the same part of the noise, in bins whose
    number depends on the number of records, columns and `epsilon` only, and mixes its
    shares with equal ones, so that no bin is without records: tails are rather too
    heavy. Correlations have half of the level if noise leaves something of them, and
    else none of it.

    One's own synthesizer, here of private-PGM, for records that are whole numbers::

        def synthesizer(X, y, schema, epsilon, delta):
            data = mbi.Dataset(np.column_stack([X, y]), mbi_domain)
            model = mst(data, epsilon, delta)
            rows = model.synthetic_data(100_000).df.to_numpy()
            return lambda n, rng: split(rows[rng.integers(len(rows), size=n)])

    where ``split = lambda rows: (rows[:, :-1], rows[:, -1])``.

    Examples
    --------
    >>> from skparisk import LearnedReference, PrivateRidge, SchemaReference
    >>> from skparisk.datasets import load_census
    >>> X, y = load_census(return_X_y=True)
    >>> schema = SchemaReference([(25, 64), (9, 16)], target=(0.0, 5e3))
    >>> learned = LearnedReference(schema, epsilon=0.5)
    >>> model = PrivateRidge(epsilon=0.5).fit(X[:, :2], y, X_reference=learned)
    >>> model.certificate_.epsilon, model.certificate_.evidence.n_records
    (0.5, 23601)
    """

    def __init__(
        self,
        schema: SchemaReference,
        epsilon: float,
        delta: float = 0.0,
        synthesizer: Callable[..., Any] | None = None,
        fraction: float = 0.2,
    ) -> None:
        if type(schema) is not SchemaReference:
            raise ValueError(
                "schema must be a SchemaReference, which says what columns may hold; "
                f"got an object of type {type(schema).__name__}."
            )
        if synthesizer is not None and (
            isinstance(synthesizer, type) or not callable(synthesizer)
        ):
            raise ValueError(
                "synthesizer must be None or a callable (X, y, schema, epsilon, "
                f"delta), got {synthesizer!r}."
            )
        check_probability(fraction, "fraction")
        given = () if synthesizer is None else (Assumption.GIVEN_SYNTHESIZER,)
        self._learning = partial(Learning, epsilon, delta, rests_on=frozenset(given))
        self._learning(1)  # checked now
        if synthesizer is None and delta:
            raise ValueError(
                "delta must be 0 without a synthesizer, as Laplace noise needs none; "
                f"got {delta!r}."
            )
        domain = schema.domain
        if synthesizer is None and None in (*domain.columns, *domain.targets):
            raise ValueError(
                "Each column of the schema must have a range or categories, because "
                "histograms have bins: give a synthesizer for columns that a callable "
                "draws."
            )
        self._schema, self._synthesizer = schema, synthesizer
        self._fraction = float(fraction)

    @property
    def description(self) -> str:
        return "a law that is learned from a part of the private records"

    @property
    def schema(self) -> Schema:
        return self._schema.schema

    @property
    def form(self) -> PublicForm:
        return self._schema.form

    @property
    def domain(self) -> Domain:
        return self._schema.domain

    @property
    def targets(self) -> _Targets:
        return self._schema.targets

    def encoded(self, encode: Callable[[NDArray[Any]], NDArray[Any]]) -> Self:
        """Return the same with what `encode` makes of the targets."""
        other = copy.copy(self)
        other._schema = self._schema.encoded(encode)
        return other

    def bind(
        self, n_pairs: int, *, n_shared: int, n_own: int, seed: np.random.SeedSequence
    ) -> RecordSource:
        """Refuse: there are no records before it is learned."""
        raise ValueError(
            "A LearnedReference must be learned from private records before pairs are "
            "drawn: fit a private estimator with it, or take what "
            "LearnedReference(...).learn(X, y) returns."
        )

    def _learning_of(self, n_candidates: int) -> Learning:
        """Return what will be spent on how many of so many records."""
        n_records = math.floor(self._fraction * n_candidates)
        if not 0 < n_records < n_candidates:
            raise ValueError(
                f"fraction={self._fraction!r} of {n_candidates} records leaves "
                "none to learn from: use more records, or a larger fraction."
            )
        return self._learning(n_records)

    def learn(
        self, X: Any, y: Any = None, *, noise_random_state: Any = None
    ) -> LearnedSplit:
        """Learn from a part of the records, once, for several releases.

        Parameters
        ----------
        X : array-like of shape (n_candidates, n_features)
            Private records.

        y : array-like of shape (n_candidates,) or (n_candidates, n_targets), \
default=None
            Their targets, if the schema has some.

        noise_random_state : int, RandomState, Generator or None, default=None
            None: noise and split come from the operating system's cryptographic
            source. Anything else is for tests, and warns: nothing is then private.

        Returns
        -------
        split : LearnedSplit
            The learned reference, and which records were not learned from.

        Raises
        ------
        ValueError, IncompatibleError
            If the records do not have the columns of the schema, or are too few.

        BudgetExceededError
            If a ledger is open and refuses. It is charged for the learning here and for
            each release when there is one, and adds these up: that is safe, and more
            than the larger of the learning and all releases together, which holds.

        Notes
        -----
        **Guarantee** (:ref:`thm-learned`). Releases about the records that were not
        learned from compose as others do.

        Examples
        --------
        >>> import numpy as np
        >>> from skparisk import LearnedReference, SchemaReference, SensitivitySampler
        >>> X = np.random.default_rng(0).exponential(size=(400, 1)).clip(0, 5)
        >>> split = LearnedReference(SchemaReference([(0, 5)]), epsilon=1.0).learn(X)
        >>> mean = SensitivitySampler(np.mean, reference=split.reference)
        >>> mean.fit(X).release(split.remaining(X)).shape
        (1,)
        """
        X, y = self.form.read(X, y)
        records = hide_values(as_records, X, "X")
        targets = None if y is None else hide_values(as_targets, y)
        self._check_records(records, targets)
        learning = self._learning_of(n_rows(records))
        warn_if_seeded(noise_random_state)
        claim = as_seeded(learning.as_certificate(), noise_random_state)
        spend(claim, note=repr(self))
        return self._learn_paid(records, targets, noise_random_state)

    def _check_records(self, X: Records, y: _Targets, names: Any = None) -> None:
        """Refuse records that do not fit the schema, before anything is drawn."""
        self.check_schema(Schema.of(X, names))
        if y is None:
            return
        n_targets, declared = math.prod(y.shape[1:]), len(self._schema.domain.targets)
        if len(y) != n_rows(X):
            raise ValueError(
                f"X and y must have the same number of records, got {n_rows(X)} and "
                f"{len(y)}."
            )
        if n_targets != declared:
            raise ValueError(
                f"y has {n_targets} target{'s' * (n_targets > 1)}, but the schema of "
                f"the LearnedReference declares {declared}."
            )

    def _learn_paid(self, X: Records, y: _Targets, state: Any) -> LearnedSplit:
        """Split and learn, as the open ledgers have been charged for."""
        n_candidates = n_rows(X)
        learning = self._learning_of(n_candidates)
        if isinstance(state, int | np.integer):
            state = np.random.default_rng([_LEARN, int(state)])
        source = noise_source(state)
        order = draw_ordered(n_candidates, n_candidates, source)
        chosen, others = np.split(order, [learning.n_records])
        own = take_rows(X, chosen), take_rows(y, chosen)
        schema = self._schema if y is not None else self._schema._without_targets()
        with suspend_open():
            if self._synthesizer is None:
                rng = np.random.default_rng(list(source(32)))
                law: Law = _learn_default(schema, *own, learning, rng, state)
            else:
                law = self._learn_given(schema, *own, learning)
        _learned_from[learning] = RecordSketch.of(*own, keyed=True)
        reference = LearnedRecords._of(schema, law, learning, len(others))
        return LearnedSplit(reference, others, n_candidates)

    def _learn_given(
        self, schema: SchemaReference, X: Records, y: _Targets, learning: Learning
    ) -> Law:
        """Return what a synthesizer of the caller's makes of records."""
        X, y = schema.domain.clip(copy_records(X), y)
        assert self._synthesizer is not None
        made = None
        # That it failed is said below, outside, so that the error does not come along.
        with np.errstate(all="ignore"), silenced(), suppress(Exception):
            made = self._synthesizer(X, y, schema, learning.epsilon, learning.delta)
        law = getattr(made, "sample", made)
        if not callable(law):
            raise ValueError(_FAILED)
        return law

    def __repr__(self) -> str:
        learning = self._learning(1)
        delta = f", delta={learning.delta!r}" if learning.delta else ""
        return (
            f"LearnedReference({self._schema!r}, epsilon={learning.epsilon!r}{delta}, "
            f"fraction={self._fraction!r})"
        )


def refuse_learned_from(learning: Learning | None, X: Records, y: _Targets) -> None:
    """Refuse records that a law was learned from, in a release about others."""
    known = None if learning is None else _learned_from.get(learning)
    if known is not None and RecordSketch.of(X, y, keyed=True).overlaps(known):
        raise ValueError(
            "The records must not be those that the LearnedReference was learned from: "
            "levels would add up, and pairs would depend on these records. Release "
            "about split.remaining(X, y)."
        )


def _learn_default(
    schema: SchemaReference,
    X: Records,
    y: _Targets,
    learning: Learning,
    rng: np.random.Generator,
    state: Any,
) -> Law:
    """Return the law of histograms and a copula."""
    X, y = schema.domain.clip(X, y)
    columns = [*columns_of(X), *(() if y is None else columns_of(y))]
    declared = [*schema.domain.columns, *schema.domain.targets]
    n_bins = count_bins(learning.n_records, learning.epsilon, len(columns))
    specs = [*schema._specs, *schema._targets]
    axes = [
        Axis.of(column, spec.classes, n_bins)
        for column, spec in zip(declared, specs, strict=True)
    ]
    copula = learn_copula(
        axes, columns, learning.epsilon, rng=rng, noise_random_state=state
    )
    return partial(_draw_learned, copula, schema)


def _draw_learned(
    copula: HistogramCopula,
    schema: SchemaReference,
    n_records: int,
    rng: np.random.Generator,
) -> Any:
    return schema._assemble(copula.sample(n_records, rng))
