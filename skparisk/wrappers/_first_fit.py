"""The first fit of a wrapped estimator: it tells what there is to release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from skparisk._classes import PublicClasses
from skparisk._silence import silenced
from skparisk.neighbors import Database
from skparisk.queries import Reader
from skparisk.queries._estimator import Numbers, takes_targets
from skparisk.queries._labels import label_codes
from skparisk.reference import Reference, TableReference

__all__ = ["FirstFit"]

# Of the largest number: more than what rounding in another order changes.
_SAME = 2.0**-20


@dataclass(frozen=True, eq=False)
class FirstFit:
    """An estimator that was fitted on records which are not the private ones."""

    # Its errors are shown, and its attributes have the shapes that are expected.
    fitted: Any
    # The public one that the records are from. None: they were made up, or resampled
    # from private data for want of a reference; only shapes may be taken from them.
    reference: Reference | None
    # Returns what another fit to the same records has learned.
    refit: Callable[[], Any]

    @property
    def is_public(self) -> bool:
        """Whether the numbers that were learned say something, and may be known."""
        return self.reference is not None

    @classmethod
    def on(
        cls,
        estimator: Any,
        database: Database,
        labels: PublicClasses | None,
        reference: Reference | None,
        *,
        private: bool = False,
    ) -> Self:
        """Fit on a sampled database; its labels are the numbers that stand for them.

        Of a private one nothing is shown where the fit fails.
        """
        X, y = database
        supervised = takes_targets(estimator)
        if supervised and y is None:
            raise ValueError(
                f"{type(estimator).__name__} takes targets, but the reference has none."
            )
        targets: Any = y
        if labels is not None:
            codes = label_codes(y, labels.numbers)
            missing = np.setdiff1d(np.arange(len(labels.numbers)), codes)
            if missing.size:
                which = "A class"
                if not private:
                    which = f"The class {labels.labels[missing[0]]}"
                raise ValueError(
                    f"{which} is missing from the first sampled database: {len(X)} "
                    "records (n_records) are too few for a class this rare in the "
                    "reference."
                )
            targets = labels.labels[codes]

        def fit() -> Any:
            with silenced():
                fresh, records = clone(estimator), X.copy()  # it may work in place
                return fresh.fit(records, targets) if supervised else fresh.fit(records)

        if not private:
            return cls(fit(), reference, fit)
        try:
            return cls(fit(), reference, fit)
        except Exception:
            pass  # said below, outside, so that the error does not come along
        raise ValueError(
            f"{type(estimator).__name__} cannot be fitted to a resample of the private "
            "data. The reason is not shown because it may reveal something about them; "
            "try the estimator on public or made-up data."
        )

    @classmethod
    def on_made_up(
        cls,
        estimator: Any,
        shape: tuple[int, ...],
        y: NDArray[np.float64] | None,
        labels: PublicClasses | None,
    ) -> Self:
        """Fit on random numbers that have the shapes of the data, and their classes."""
        rng = np.random.default_rng(0)
        X = rng.random(shape)
        targets = None if y is None else rng.random(y.shape)
        if labels is not None:
            n_rows = max(len(X), len(labels.numbers))
            X = rng.random((n_rows, shape[1]))
            targets = np.resize(labels.numbers, n_rows)
        return cls.on(estimator, (X, targets), labels, None)

    def as_anchor(self, numbers: Numbers) -> Numbers | None:
        """Return numbers to align others to; None where they may not be known."""
        if isinstance(self.reference, TableReference) and (
            self.reference.sampling == "disjoint"
        ):
            raise ValueError(
                "align must be None if the reference has sampling='disjoint', because "
                "the records that others are aligned to would be used twice."
            )
        return numbers if self.is_public else None

    def check_repeatable(self, reader: Reader) -> None:
        """Refuse a fit that is no function of the database, where that shows."""
        first, second = reader(self.fitted), reader(self.refit())
        for name, values in first.items():
            size = np.abs(values).max(initial=0.0)
            again = second[name]
            if values.shape != again.shape or not np.allclose(
                values, again, rtol=0.0, atol=_SAME * size, equal_nan=True
            ):
                raise ValueError(
                    f"Two fits of {type(self.fitted).__name__} to the same records "
                    f"differ in {name}: what is released must be a function of the "
                    "database. Set every random_state in it."
                )
