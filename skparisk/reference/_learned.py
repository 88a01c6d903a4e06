"""References that are learned from a part of the private records, with noise."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from skparisk.core.checks import (
    check_positive,
    check_probability,
    warn_if_seeded,
)
from skparisk.core.claim import Assumption
from skparisk.core.exact import noise_source
from skparisk.core.release import as_seeded, hide_values
from skparisk.core.sealed import PublicForm, Records, take_rows
from skparisk.ledger import spend, suspend_open
from skparisk.reference._base import Held, RecordPool, RecordSource, Reference
from skparisk.reference._domain import Domain
from skparisk.reference._learning import Learning
from skparisk.reference._records import (
    Schema,
    as_records,
    as_targets,
    columns_of,
    concatenate,
    n_rows,
)
from skparisk.reference._schema import ROWS_OF_WHOLE, SchemaReference
from skparisk.reference._secret import draw_ordered
from skparisk.reference._sketch import RecordSketch
from skparisk.reference._synthesis import (
    Axis,
    HistogramCopula,
    count_bins,
    learn_copula,
    tells_something,
)

Law = Callable[[int, np.random.Generator], tuple[Records, Any]]
_Targets = NDArray[Any] | None


class LearnedRecords(SchemaReference):
    """Records of a law that was learned with differential privacy, so it is public.

    Made by :meth:`LearnedReference.learn`.
    """

    _law: Law
    _learning: Learning
    _n_others: int

    @classmethod
    def _of(
        cls, schema: SchemaReference, law: Law, learning: Learning, n_others: int
    ) -> Self:
        made = object.__new__(cls)
        vars(made).update(vars(schema))
        made._law, made._learning, made._n_others = law, learning, n_others
        return made

    @property
    def description(self) -> str:
        return (
            "drawn from a law that was learned by histograms and a copula, with noise, "
            f"from {self._learning.n_records} other records; private records are "
            "clipped to a declared schema"
        )

    @property
    def learning(self) -> Learning:
        return self._learning

    @property
    def made_up(self) -> bool:
        return False  # but learned from people

    @property
    def usual_n_records(self) -> int:
        return self._n_others

    @property
    def whole(self) -> RecordPool:
        """Records of the law, after some in which each declared category is."""
        rng = np.random.default_rng(0)
        (X, y), (more, targets) = self._listing(rng=rng), self._law(ROWS_OF_WHOLE, rng)
        if y is not None:
            y = np.concatenate([y, targets])
        return RecordPool(concatenate([X, more]), y)

    def _draw(
        self, n_records: int, rng: np.random.Generator, *, with_all: bool = False
    ) -> tuple[Records, Any]:
        if with_all:
            return super()._draw(n_records, rng, with_all=True)
        return self._law(n_records, rng)

    def encoded(self, encode: Callable[[NDArray[Any]], NDArray[Any]]) -> Self:
        """Return the same law with what `encode` makes of its targets."""
        other = super().encoded(encode)
        other._law = partial(_draw_encoded, self._law, encode)
        return other

    def bind(
        self, n_pairs: int, *, n_shared: int, n_own: int, seed: np.random.SeedSequence
    ) -> RecordSource:
        """Return a source of pairs, whose databases have as many records."""
        if n_own == 1:
            raise ValueError(
                "relation must be 'replace-one' with a LearnedReference, got "
                "'add-remove': the number of records is public where they are split."
            )
        return super().bind(n_pairs, n_shared=n_shared, n_own=n_own, seed=seed)

    def shortcomings(self, **about: Any) -> dict[Assumption, str]:
        """Return that the law is hardly more than noise, if it is."""
        learning = self._learning
        n_columns = len(self._specs) + len(self._targets)
        if tells_something(learning.n_records, learning.epsilon, n_columns):
            return {}
        said = (
            f"{learning.n_records} records and a level of {learning.epsilon:g} are too "
            f"few to learn {n_columns} columns from: the learned law is mostly noise, "
            "and nearly uniform in the declared ranges."
        )
        return {Assumption.NOISY_LAW: said}

    def __repr__(self) -> str:
        return f"LearnedRecords({self.description!r})"


@dataclass(frozen=True, eq=False, repr=False)
class LearnedSplit:
    """A learned reference, and which of the records were not learned from.

    Made by :meth:`LearnedReference.learn`. It has no record.

    Parameters
    ----------
    reference : LearnedRecords
        What pairs are drawn from: public, by post-processing.

    others : ndarray of shape (n_others,)
        Positions of the records that were not learned from, in random order: releases
        are about these.
    """

    reference: LearnedRecords
    others: NDArray[np.intp]


def _draw_encoded(
    law: Law,
    encode: Callable[[NDArray[Any]], NDArray[Any]],
    n_records: int,
    rng: np.random.Generator,
) -> tuple[Records, Any]:
    X, y = law(n_records, rng)
    return X, encode(y)


# With it, one seed gives a split and noise that have nothing to do with the release.
_LEARN = 0x1EA12

# Records that laws were learned from, for as long as these are known in this process.
_learned_from: WeakKeyDictionary[Learning, RecordSketch] = WeakKeyDictionary()


class LearnedReference(Held, Reference):
    """A reference that is learned from a part of the private records, with noise.

    For when there are no public records. `fit` learns a law of records from a random
    part of its records, with differential privacy. Pairs are drawn from that law, and
    the release is about the other records. Give it to a sampler,
    ``SensitivitySampler(reference=learned)``, or to `fit` as `X_reference`: each fit
    learns anew. For several releases from one learned law, see `learn`.

    Parameters
    ----------
    schema : SchemaReference
        What columns and targets may hold, which is public. Records are clipped to it.

    epsilon : float
        Privacy level of the learning, finite and above 0. The total is the larger of
        this and the level of the release.

    fraction : float, default=0.2
        Share of the records that is learned from, in (0, 1), rounded down. Public.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    **Guarantee** (:ref:`thm-learned`). A record that is learned from has
    epsilon-differential privacy, for all pairs. Another one has what the release
    guarantees, outside a risk over pairs *of the learned law*: nothing carries that to
    the population. In all the maximum of both. The caller must ensure that each person
    has one record, and that the number of records is public.

    The law has histograms of all columns and a Gaussian copula, by Laplace noise. The
    number of bins depends on the number of records and columns and on `epsilon` only.
    No bin is empty, so that tails are rather too heavy. Correlations take half of the
    level, or none if noise would hide them all.

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
        fraction: float = 0.2,
    ) -> None:
        if type(schema) is not SchemaReference:
            raise ValueError(
                "schema must be a SchemaReference, which says what columns may hold; "
                f"got an object of type {type(schema).__name__}."
            )
        self._fraction = check_probability(fraction, "fraction")
        self._epsilon = check_positive(epsilon, "epsilon of the LearnedReference")
        self._schema = schema

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
        return Learning(self._epsilon, n_records)

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
            If a ledger is open and refuses. It adds up the learning and each release,
            on the safe side of the larger one of the two sums.

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
        >>> mean.fit(X).release(X[split.others]).shape
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
        features, targets = schema.domain.clip(*own)
        columns = [*columns_of(features)]
        columns += [] if targets is None else columns_of(targets)
        n_bins = count_bins(learning.n_records, learning.epsilon, len(columns))
        specs = [*schema._specs, *schema._targets]
        domain = [*schema.domain.columns, *schema.domain.targets]
        axes = [
            Axis.of(column, spec.classes, n_bins)
            for column, spec in zip(domain, specs, strict=True)
        ]
        rng = np.random.default_rng(list(source(32)))
        with suspend_open():
            copula = learn_copula(
                axes, columns, learning.epsilon, rng=rng, noise_random_state=state
            )
        _learned_from[learning] = RecordSketch.of(*own, keyed=True)
        law = partial(_draw_learned, copula, schema)
        reference = LearnedRecords._of(schema, law, learning, len(others))
        return LearnedSplit(reference, others)

    def __repr__(self) -> str:
        return (
            f"LearnedReference({self._schema!r}, epsilon={self._epsilon!r}, "
            f"fraction={self._fraction!r})"
        )


def refuse_learned_from(learning: Learning | None, X: Records, y: _Targets) -> None:
    """Refuse records that a law was learned from, in a release about others."""
    known = None if learning is None else _learned_from.get(learning)
    if known is not None and RecordSketch.of(X, y, keyed=True).overlaps(known):
        raise ValueError(
            "The records must not be those that the LearnedReference was learned from: "
            "levels would add up, and pairs would depend on these records. Release "
            "about X[split.others]."
        )


def _draw_learned(
    copula: HistogramCopula,
    schema: SchemaReference,
    n_records: int,
    rng: np.random.Generator,
) -> tuple[Records, Any]:
    return schema._assemble(copula.sample(n_records, rng))
