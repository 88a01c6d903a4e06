"""References that are learned from a part of the private records, with noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from skparisk._simulated import in_own_context
from skparisk.core.checks import (
    check_probability,
    warn_if_seeded,
)
from skparisk.core.claim import Assumption
from skparisk.core.exact import noise_source
from skparisk.core.release import as_seeded, hide_values
from skparisk.core.sealed import Records, take_rows
from skparisk.ledger import spend, suspend_open
from skparisk.reference._base import RecordPool, RecordSource
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

_Targets = NDArray[Any] | None


class LearnedReference(SchemaReference):
    """Records of a distribution learned with differential privacy, hence public.

    Made by :func:`learn_reference`.
    """

    def __init__(
        self, schema: SchemaReference, copula: HistogramCopula, learning: Learning
    ) -> None:
        vars(self).update(vars(schema))
        self._copula, self._learning = copula, learning

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
    def whole(self) -> RecordPool:
        """Records of the learned law, after some with each declared category."""
        rng = np.random.default_rng(0)
        (X, y), (more, targets) = self._listing(rng=rng), self._draw(ROWS_OF_WHOLE, rng)
        if y is not None:
            y = np.concatenate([y, targets])
        return RecordPool(concatenate([X, more]), y)

    def _draw(
        self, n_records: int, rng: np.random.Generator, *, with_all: bool = False
    ) -> tuple[Records, Any]:
        if with_all:
            return super()._draw(n_records, rng, with_all=True)
        columns = self._copula.sample(n_records, rng)
        specs = (*self._specs, *self._targets)
        return self._assemble(
            [spec.encode(values) for spec, values in zip(specs, columns, strict=True)]
        )

    def bind(
        self, n_pairs: int, *, n_shared: int, n_own: int, seed: np.random.SeedSequence
    ) -> RecordSource:
        """Return a source of pairs of databases with as many records."""
        if n_own == 1:
            raise ValueError(
                "relation must be 'replace-one' with a LearnedReference, got "
                "'add-remove': the number of records is public where they are split."
            )
        return super().bind(n_pairs, n_shared=n_shared, n_own=n_own, seed=seed)

    def shortcomings(self, **about: Any) -> dict[Assumption, str]:
        """Return a shortcoming if the learned law is hardly more than noise."""
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
        return f"LearnedReference({self.description!r})"


@dataclass(frozen=True, eq=False, repr=False)
class LearnedSplit:
    """A learned reference, and the records left for the release.

    Made by :func:`learn_reference`. It has no record.

    Parameters
    ----------
    reference : LearnedReference
        What pairs are drawn from: public, by post-processing.

    others : ndarray of shape (n_others,)
        Positions of the records left for releases, in random order.
    """

    reference: LearnedReference
    others: NDArray[np.intp]


# Records that laws were learned from, for as long as these are known in this process.
_learned_from: WeakKeyDictionary[Learning, RecordSketch] = WeakKeyDictionary()


def learn_reference(
    schema: SchemaReference,
    X: Any,
    y: Any = None,
    *,
    epsilon: float,
    fraction: float = 0.2,
    noise_random_state: Any = None,
) -> LearnedSplit:
    """Learn a reference from a part of the private records, with noise.

    For when there are no public records. A law of records is learned from a random part
    of them, with differential privacy; pairs are drawn from that law, and releases are
    about the other records.

    Parameters
    ----------
    schema : SchemaReference
        Public values of columns and targets. Records are clipped to it.

    X : array-like of shape (n_candidates, n_features)
        Private records.

    y : array-like of shape (n_candidates,) or (n_candidates, n_targets), default=None
        Their targets, if the schema has some and the release takes them.

    epsilon : float
        Privacy level of the learning, finite and above 0.

    fraction : float, default=0.2
        Share of the records to learn from, in (0, 1), rounded down. Public.

    noise_random_state : int, RandomState, Generator or None, default=None
        None: noise and split come from the operating system's cryptographic source.
        Anything else is for tests, and warns: nothing is then private.

    Returns
    -------
    split : LearnedSplit
        The learned reference, and which records were not learned from.

    Raises
    ------
    ValueError, IncompatibleError
        If a parameter is out of range, or the records do not have the columns of the
        schema, or are too few.

    BudgetExceededError
        If a ledger is open and refuses. It adds up the learning and each release, on
        the safe side of the larger one of the two sums.

    Notes
    -----
    **Guarantee** (:ref:`thm-learned`). A record in the learning part has
    epsilon-differential privacy, for all pairs. Another record has the guarantee of the
    releases, outside a risk over pairs *of the learned law*; nothing extends it to the
    population. In all the maximum of both. The caller must ensure that each person has
    one record, that the number of records is public, and that releases are about
    ``X[split.others]``.

    The law has histograms of all columns and a Gaussian copula, by Laplace noise. The
    number of bins depends on the number of records and columns and on `epsilon` only.
    No bin is empty, so that tails are rather too heavy. Correlations take half of the
    level, or none if noise would hide them all.

    Examples
    --------
    >>> from skparisk import PrivateRidge, SchemaReference, learn_reference
    >>> from skparisk.datasets import load_census
    >>> X, y = load_census(return_X_y=True)
    >>> schema = SchemaReference([(25, 64), (9, 16)], target=(0.0, 5e3))
    >>> split = learn_reference(schema, X[:, :2], y, epsilon=0.5)
    >>> own = X[split.others, :2], y[split.others]
    >>> model = PrivateRidge(epsilon=0.5).fit(*own, X_reference=split.reference)
    >>> model.certificate_.epsilon, model.certificate_.evidence.n_records
    (0.5, 23601)
    """
    if type(schema) is not SchemaReference:
        raise ValueError(
            "schema must be a SchemaReference, which says what columns may hold; "
            f"got an object of type {type(schema).__name__}."
        )
    check_probability(fraction, "fraction")
    X, y = schema.form.read(X, y)
    X = hide_values(as_records, X, "X")
    y = None if y is None else hide_values(as_targets, y)
    _check_records(schema, X, y)
    n_candidates = n_rows(X)
    n_learned = math.floor(fraction * n_candidates)
    if not n_learned:
        raise ValueError(
            f"fraction={fraction!r} of {n_candidates} records leaves none to learn "
            "from: use more records, or a larger fraction."
        )
    learning = Learning(epsilon, n_learned)
    warn_if_seeded(noise_random_state)
    spend(
        as_seeded(learning.as_certificate(), noise_random_state),
        note=f"learn_reference from {learning.n_records} of {n_candidates} records",
    )
    source = noise_source(noise_random_state)
    order = draw_ordered(n_candidates, n_candidates, source)
    chosen, others = np.split(order, [learning.n_records])
    own = take_rows(X, chosen), take_rows(y, chosen)
    schema = schema if y is not None else schema._with([])
    features, targets = schema.domain.clip(*own)
    columns = [*columns_of(features)]
    columns += [] if targets is None else columns_of(targets)
    n_bins = count_bins(learning.n_records, epsilon, len(columns))
    specs = [*schema._specs, *schema._targets]
    domain = [*schema.domain.columns, *schema.domain.targets]
    axes = [
        Axis.of(column, spec.classes, n_bins)
        for column, spec in zip(domain, specs, strict=True)
    ]
    rng = np.random.default_rng(list(source(32)))
    copula = _learn_charged(
        axes, columns, epsilon, rng=rng, noise_random_state=noise_random_state
    )
    _learned_from[learning] = RecordSketch.of(*own, keyed=True)
    return LearnedSplit(LearnedReference(schema, copula, learning), others)


@in_own_context
def _learn_charged(*data: Any, **parameters: Any) -> HistogramCopula:
    """Return a law with noise that is charged already."""
    with suspend_open():
        return learn_copula(*data, **parameters)


def _check_records(schema: SchemaReference, X: Records, y: _Targets) -> None:
    """Refuse records that do not fit the schema, before anything is drawn."""
    schema.check_schema(Schema.of(X))
    if y is not None and not schema.domain.targets:
        raise ValueError(
            "y must be None with a schema that declares no target: declare what it "
            "may hold."
        )
    if y is not None and len(y) != n_rows(X):
        raise ValueError(
            f"X and y must have the same number of records, got {n_rows(X)} and "
            f"{len(y)}."
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
