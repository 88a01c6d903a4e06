"""Records that are made by a function, such as those of a generative model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skparisk.core.release import unseen
from skparisk.core.sealed import PublicForm, Records, is_frame
from skparisk.reference._base import (
    DrawnRecords,
    RecordPool,
    RecordSource,
    Reference,
)
from skparisk.reference._records import as_records, as_targets, concatenate, n_rows
from skparisk.reference._sketch import RecordSketch

# Records that tell if a function draws them from a table. More would have rows of a
# small one twice, by which they are not known.
_N_LOOKED_AT = 32
# From a seed that nobody else has: a law makes the same records of the same seed.
_LOOKED_AT = 0x100CED


class CallableReference(Reference):
    """Records made by a function.

    Parameters
    ----------
    sample : callable
        ``sample(n_records, rng)`` returns ``X`` of shape (n_records,
        n_features), or a tuple ``(X, y)``: an array, a data frame, a sparse matrix
        or texts, and numbers or labels. `rng` is a `numpy.random.Generator`
        and the only source of randomness that it may use.

    description : str, default=None
        Text for the certificate. None: the name of the function.

    Notes
    -----
    A generative model must have been fitted to public records, or with a guarantee of
    its own. ``np.random.RandomState(rng.bit_generator)`` is the same generator for
    scikit-learn.

    Examples
    --------
    >>> from skparisk.reference import CallableReference
    >>> CallableReference(lambda n, rng: rng.exponential(size=(n, 1)), "Exp(1)")
    CallableReference('Exp(1)')
    """

    def __init__(
        self, sample: Callable[..., Any], description: str | None = None
    ) -> None:
        self.sample = sample
        name = getattr(sample, "__qualname__", type(sample).__qualname__)
        self._description = description or f"records made by the function {name}"

    @property
    def made_up(self) -> bool:
        # As by ``schema.sample``.
        sample = getattr(self.sample, "func", self.sample)
        owner = getattr(sample, "__self__", self)
        return owner is not self and getattr(owner, "made_up", False)

    @property
    def description(self) -> str:
        return self._description

    @cached_property
    def sketch(self) -> RecordSketch | None:
        """Hashes of a few drawn records, which may come from a table.

        None where it makes none of that number.
        """
        sketch = self._of_a_few(RecordSketch.of)
        return sketch and replace(sketch, whole=False)

    @cached_property
    def form(self) -> PublicForm | None:
        """Container and types of a few drawn records, for all; None if none."""
        return self._of_a_few(PublicForm.of)

    def _of_a_few(self, make: Callable[..., Any]) -> Any:
        source = _SampledSource(self.sample, 0, _N_LOOKED_AT)
        with unseen():
            pool = source.draw(0, 1, np.random.default_rng(_LOOKED_AT)).pool
            return make(pool.X, pool.y)
        return None

    def bind(
        self, n_pairs: int, *, n_shared: int, n_own: int, seed: np.random.SeedSequence
    ) -> RecordSource:
        """Return a source of pairs."""
        return _SampledSource(self.sample, n_shared, n_own, self.form)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.description!r})"


class _SampledSource:
    """Calls a function once for each database and strings the records together."""

    def __init__(
        self,
        sample: Callable[..., Any],
        n_shared: int,
        n_own: int,
        form: PublicForm | None = None,
    ) -> None:
        self._sample, self._form = sample, form
        self._n_shared, self._n_drawn = n_shared, n_shared + n_own

    def draw(self, start: int, size: int, rng: np.random.Generator) -> DrawnRecords:
        databases = [self._database(rng) for _ in range(size)]
        X = concatenate([X for X, _ in databases])
        X = as_records(X, "X of the reference")
        if self._form is not None:
            X = self._form.read_features(X)
        targets = [y for _, y in databases if y is not None]
        y = None
        if targets:
            y = as_targets(concatenate(targets), "y of the reference")
            if len(y) != n_rows(X):
                raise ValueError("The reference returned y for only some databases.")
        # A sample may be sorted (GaussianMixture: by component), and the last records
        # are those that differ: they have the law of the others in random order only.
        rows = rng.permuted(np.arange(n_rows(X)).reshape(size, self._n_drawn), axis=1)
        shared, own = rows[:, : self._n_shared], rows[:, self._n_shared :]
        return DrawnRecords(RecordPool(X, y), own, lambda: shared, rng)

    def _database(
        self, rng: np.random.Generator
    ) -> tuple[Records, NDArray[Any] | None]:
        drawn = self._sample(self._n_drawn, rng)
        X, y = drawn if isinstance(drawn, tuple) else (drawn, None)
        if not (is_frame(X) or sparse.issparse(X) or isinstance(X, np.ndarray)):
            X = as_records(X, "X of the reference")
        y = None if y is None else np.asarray(y)
        for name, array in (("X", X), ("y", y)):
            if array is not None and np.shape(array)[:1] != (self._n_drawn,):
                raise ValueError(
                    f"The reference was asked for {self._n_drawn} records and "
                    f"returned {name} of shape {np.shape(array)}."
                )
        return X, y
