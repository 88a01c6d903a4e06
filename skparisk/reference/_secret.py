"""Records drawn in secret from the private ones: protects which of them are used."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from skparisk._checks import hide_counts, private_people
from skparisk._simulated import is_simulated
from skparisk.core.checks import PrivacyLeakWarning, check_probability, warn_caller
from skparisk.core.claim import Assumption, Leak
from skparisk.core.exact import ByteSource, noise_source
from skparisk.core.pairs import Withheld
from skparisk.core.release import hide_values
from skparisk.core.sealed import People, Records, of_people, on_rows, rows_of, take_rows
from skparisk.reference._base import Held, RecordSource
from skparisk.reference._records import as_records, n_rows
from skparisk.reference._sketch import RecordSketch
from skparisk.reference._table import LeaveOut, TableReference

# Tables that are known again; those that were drawn from longest ago are forgotten.
_MOST_KNOWN = 256

# Tables that members were drawn from and released, in this process, each with how many
# releases there are of which draw. Hashes of rows, in memory alone.
_known: dict[tuple[int, int], tuple[RecordSketch, Counter[object]]] = {}
_lock = threading.Lock()


# With it, one seed gives a draw and noise that have nothing to do with each other.
_DRAW = 0x5EC4E7


@dataclass(frozen=True, repr=False)
class SecretSample(Held):
    """Draw a secret part of the private records, and protect its membership.

    Of the N records of `fit`, n are drawn in secret, without replacement, in random
    order; the model is trained on these. Pairs of neighboring databases are drawn from
    all N in the same way, with one member swapped for a non-member. So nothing public
    is needed, and the risk is exact for any estimator. It is protected *which* of the N
    records are used; it is not protected that somebody is among the N.

    Give it to a sampler, ``SensitivitySampler(reference=SecretSample(0.5))``. Each
    `fit` of an estimator draws anew: fit once. For several releases about the same
    members give the result of `draw` in its place.

    Parameters
    ----------
    fraction : float, default=0.5
        Share of the records to use, in (0, 1): n is ``fraction * N``, rounded down,
        from 1 to N - 1. Public.

    Notes
    -----
    **Guarantee** (:ref:`thm-secret-sample`). Against someone who knows all N records,
    and all members but for one swap. The scale and the shape of the noise depend on all
    N records, not on the members. With `groups` a record is a person with all of their
    rows. The caller must ensure that each person is one record among the N, that
    `fraction` is public, and that no other sample of these records is drawn. A second
    draw in the same process is refused while a ledger is open, and else is a
    :class:`~skparisk.PrivacyLeakWarning` and on the certificate.

    Public records (`X_reference`) only give classes, and structure, such as categories,
    to :class:`~skparisk.PrivateEstimator`.

    Examples
    --------
    >>> from skparisk import PrivateRidge, SecretSample, SensitivitySampler
    >>> from skparisk.datasets import load_census
    >>> X, y = load_census(return_X_y=True)
    >>> members = SensitivitySampler(reference=SecretSample(0.5))
    >>> model = PrivateRidge(sensitivity=members).fit(X, y)
    >>> model.certificate_.protects_membership, model.risk_ <= 0.05
    (True, True)
    """

    fraction: float = 0.5

    def __post_init__(self) -> None:
        fraction = check_probability(self.fraction, "fraction")
        object.__setattr__(self, "fraction", fraction)

    def n_members(self, n_candidates: int) -> int:
        """Return the number of members among so many records.

        Parameters
        ----------
        n_candidates : int
            Number of records N.

        Returns
        -------
        n_members : int
            From 1 to N - 1.

        Raises
        ------
        ValueError
            If no record would be a member.
        """
        n_members = min(math.floor(self.fraction * n_candidates), n_candidates - 1)
        if n_members < 1:
            raise ValueError(
                f"fraction={self.fraction!r} of {n_candidates} records is none: a "
                "secret sample needs at least one member, and one record that is "
                "none. Use more records, or a larger fraction."
            )
        return n_members

    @hide_counts
    def draw(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        noise_random_state: Any = None,
    ) -> SecretDraw:
        """Draw the members once, for several releases.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Private records, as they will be given to `fit`.

        y : array-like of shape (n_rows,) or (n_rows, n_targets), default=None
            As many targets. Not kept: each `fit` may be given others.

        groups : array-like of shape (n_rows,), default=None
            Whose each row is, as it will be given to `fit`: people are then drawn, with
            all of their rows.

        noise_random_state : int, RandomState, Generator or None, default=None
            None: the members come from the operating system's cryptographic source.
            Anything else is for tests, and warns: the release is not private.

        Returns
        -------
        draw : SecretDraw
            The `reference` for a sampler. It knows the members, so it shows nothing and
            cannot be pickled. Fitted attributes never refer to it.

        Raises
        ------
        ValueError
            If there are no members, or `X` and `y` differ in length.

        Notes
        -----
        **Guarantee** (:ref:`thm-secret-sample`). Levels, deltas and risks of several
        releases about the same members add up, for queries fixed before the first of
        them.

        Examples
        --------
        >>> import numpy as np
        >>> from skparisk import SecretSample, SensitivitySampler
        >>> X = np.random.default_rng(0).exponential(size=(400, 1))
        >>> half = SecretSample(0.5).draw(X)
        >>> mean = SensitivitySampler(np.mean, reference=half).fit(X)
        >>> mean.release(X).shape, mean.n_records_
        ((1,), 200)
        """
        records = hide_values(as_records, X, "X")
        if y is not None and len(y) != n_rows(records):
            told = f", got {n_rows(records)} and {len(y)}" if groups is None else ""
            raise ValueError(f"X and y must have the same number of rows{told}.")
        people = private_people(groups, n_rows(records))
        drawn = _draw(self, of_people(records, people), noise_random_state)
        if noise_random_state is not None:
            warn_caller(
                f"noise_random_state={noise_random_state!r} makes the draw of the "
                "secret sample repeatable, so that it can be found out who is used: "
                "what is released is not private. Leave it None except in tests.",
                PrivacyLeakWarning,
            )
        return drawn

    def __repr__(self) -> str:
        return f"SecretSample({self.fraction!r})"


class SecretDraw(Held):
    """Who is used, of records that only those who give them know: in this process.

    Made by :meth:`SecretSample.draw`. It has the numbers of the members, and hashes of
    the records by which to know them again, but no record.
    """

    __slots__ = (
        "__weakref__",
        "_members",
        "_seeded",
        "_sizes",
        "_sketch",
        "n_candidates",
        "origin",
        "sample",
    )

    def __init__(
        self,
        sample: SecretSample,
        members: NDArray[np.intp],
        records: Records,
        *,
        seeded: bool,
    ) -> None:
        self.sample = sample
        self._members = members
        # Records, or people, that members were drawn from.
        self.n_candidates = n_rows(records)
        # How many rows each person has; None if a row is a record.
        self._sizes = _sizes_of(records)
        self._sketch = RecordSketch.of(records, keyed=True)
        self._seeded = seeded
        # What its pairs are known by: it holds nothing, and a copy is itself.
        self.origin = Held()

    @property
    def n_members(self) -> int:
        """Records, or people, that are used."""
        return len(self._members)

    @property
    def of_people(self) -> bool:
        """Whether a record is a person; how many rows they have is not shown."""
        return self._sizes is not None

    def check(self, X: Any) -> None:
        """Refuse other records than were drawn from, or in another order."""
        records = hide_values(on_rows, as_records, X)
        sketch, known = RecordSketch.of(records, keyed=True), self._sketch
        same = (sketch.n_rows, sketch.ordered) == (known.n_rows, known.ordered)
        if not (same and _sizes_of(records) == self._sizes):
            raise ValueError(
                "X must be the records that the secret sample was drawn from, in the "
                "same order, and groups must be the same; they are something else. "
                "Draw from these records, or leave out columns inside of a pipeline."
            )

    def take_members(
        self, X: Records, y: NDArray[Any] | None
    ) -> tuple[Records, NDArray[Any] | None]:
        """Return those that are used, in random order."""
        return take_rows(X, self._members), take_rows(y, self._members)

    def reference(self, X: Records, y: NDArray[Any] | None) -> TableReference:
        """Return what pairs are drawn from, for these records as a query has them."""
        return _Candidates(X, y, self)

    @contextmanager
    def releasing(self) -> Iterator[bool]:
        """Note a release, unless it fails; yield if there are some of other draws."""
        if is_simulated():
            yield False
            return
        sketch, origin = self._sketch, self.origin
        key = (sketch.n_rows, sketch.ordered)
        with _lock:
            others = any(
                known.overlaps(sketch)
                for known, of in _known.values()
                if {*of} - {origin}
            )
            _known.setdefault(key, (sketch, Counter()))[1][origin] += 1
            while len(_known) > _MOST_KNOWN:
                del _known[next(iter(_known))]
        try:
            yield others
        except BaseException:
            with _lock:
                if key in _known:
                    releases = _known[key][1]
                    releases[origin] -= 1
                    _known[key] = (sketch, +releases)
                    if not +releases:
                        del _known[key]
            raise

    @property
    def withheld(self) -> Withheld:
        """What a certificate says."""
        unit = "people" if self.of_people else "records"
        return Withheld(
            f"drawn in secret from {self.n_candidates} {unit} handed over",
            n_candidates=self.n_candidates,
            leaks=frozenset({Leak.SEEDED_DRAW} if self._seeded else ()),
            origin=self.origin,
        )

    def __copy__(self) -> Self:
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "The draw of a SecretSample cannot be pickled, because it knows who is "
            "used. Before a fitted model is saved, take it out of the parameters: "
            f"model.set_params(sensitivity__reference={self.sample!r}). In workers, "
            "use joblib's threading backend."
        )

    def __repr__(self) -> str:
        return "SecretDraw()"


def _sizes_of(records: Records) -> tuple[int, ...] | None:
    """Return how many rows each person has, or None if a row is a record."""
    return tuple(records.sizes.tolist()) if isinstance(records, People) else None


class _Candidates(TableReference):
    """All records that members were drawn from: subsets of them, and swaps."""

    def __init__(self, X: Records, y: NDArray[Any] | None, draw: SecretDraw) -> None:
        people = X.numbers if isinstance(X, People) else None
        super().__init__(rows_of(X), rows_of(y), groups=people)
        self._people = frozenset()  # these numbers are nobody's ids
        self._n_members = draw.n_members
        self._withheld = draw.withheld

    @property
    def description(self) -> str:
        return self._withheld.reference

    @property
    def for_new_people(self) -> None:
        return None

    def n_independent(self, n_own: int) -> None:
        """Return None: given all that they are drawn from, pairs are independent."""

    @property
    def withheld(self) -> Withheld:
        return self._withheld

    @property
    def fixed_n_records(self) -> int:
        return self._n_members

    def bind(
        self, n_pairs: int, *, n_shared: int, n_own: int, seed: np.random.SeedSequence
    ) -> RecordSource:
        if n_own == 1:
            raise ValueError(
                "relation must be 'replace-one' with a SecretSample, got 'add-remove': "
                "the number of members is fixed, so that one joins only where another "
                "leaves."
            )
        too_many = n_shared + n_own > self.n_records  # to look at alone, not for pairs
        return LeaveOut(self.pool, n_shared, n_own, replacement=too_many)

    def shortcomings(self, **about: Any) -> dict[Assumption, str]:
        """Return nothing: the records are the population."""
        return {}


def as_draw(
    reference: SecretSample | SecretDraw, records: Records, noise_random_state: Any
) -> SecretDraw:
    """Return the draw of a sample, made now with the seed of the noise, or a draw."""
    if isinstance(reference, SecretSample):
        return _draw(reference, records, noise_random_state)
    reference.check(records)
    return reference


def _draw(
    sample: SecretSample, records: Records, noise_random_state: Any
) -> SecretDraw:
    """Draw the members of a sample, from the secret source unless there is a seed."""
    n_candidates = n_rows(records)
    n_members = sample.n_members(n_candidates)
    state = noise_random_state
    source = noise_source(state)
    if isinstance(state, Integral):
        source = np.random.default_rng([_DRAW, int(state)]).bytes
    members = draw_ordered(n_candidates, n_members, source)
    return SecretDraw(sample, members, records, seeded=state is not None)


def draw_ordered(n_rows: int, length: int, source: ByteSource) -> NDArray[np.intp]:
    """Return different rows in random order, all such lists equally likely.

    The order of random keys, which are drawn again if two are the same: given that
    they differ, all orders are equally likely.
    """
    while True:
        keys = np.frombuffer(source(8 * n_rows), dtype=np.uint64)
        if len(np.unique(keys)) == n_rows:
            return np.argsort(keys)[:length]
