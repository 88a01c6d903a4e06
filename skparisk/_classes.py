"""The classes of a private classifier, which are public, and labels as numbers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from skparisk._private import PrivateMixin, SensitivitySource
from skparisk._silence import silenced
from skparisk.certificate._claim import PRIVATE_CLASSES
from skparisk.exceptions import warn_private_classes
from skparisk.reference import TableReference
from skparisk.sensitivity import SensitivitySampler

__all__ = ["PublicClasses", "public_labels", "tell_classes"]


@dataclass(frozen=True, eq=False)
class PublicClasses:
    """Sorted labels, and the numbers that stand for them in queries.

    Numeric labels stand for themselves, so that a reference of them needs no
    translation; others are numbered 0, 1, .... They are `private` if they are known
    from private labels only.
    """

    labels: NDArray[Any]
    numbers: tuple[float, ...]
    private: bool = False
    declared: bool = False

    @classmethod
    def of(cls, labels: Any, name: str) -> Self:
        """Return the classes that there are among labels."""
        known = np.unique(_as_labels(labels, name))
        if len(known) < 2:
            raise ValueError(
                f"{name} must have at least 2 classes, and the number of classes has "
                "to be greater than one; got 1 class."
            )
        numbers = np.arange(len(known), dtype=np.float64)
        if known.dtype.kind in "biuf":
            themselves = known.astype(np.float64)
            if len(np.unique(themselves)) == len(known):
                numbers = themselves
        return cls(known, tuple(numbers.tolist()))

    @classmethod
    def find(
        cls, declared: Any, y_reference: Any, source: SensitivitySource, y: Any
    ) -> Self:
        """Return the classes: declared, or of the reference, or else of the data."""
        if declared is not None:
            return dataclasses.replace(cls.of(declared, "classes"), declared=True)
        if y_reference is not None:
            return cls.of(y_reference, "y_reference")
        if isinstance(source, SensitivitySampler):
            known = _known_labels(source)
            if known is not None and known.dtype.kind not in "biuf":
                return cls.of(known, "the query")
            if known is not None and np.asarray(y).dtype.kind in "biuf":
                return cls.of(_like(known, y), "the reference")
            if known is not None:
                raise ValueError(
                    "classes must be given because the labels are not numbers and the "
                    f"SensitivitySampler knows only numbers, {np.unique(known)}; got "
                    "None."
                )
        return dataclasses.replace(cls.of(y, "y"), private=True)

    def of_reference(self, is_private: bool) -> Self:
        """Return the classes as those of a reference, which may be private."""
        return dataclasses.replace(
            self, private=self.private or (is_private and not self.declared)
        )

    def encode_reference(self, source: SensitivitySource) -> None:
        """Give a sampler that is not fitted numbers for the labels of its table."""
        if not isinstance(source, SensitivitySampler) or hasattr(source, "query_"):
            return
        table = source.reference
        given = table.pool.y if isinstance(table, TableReference) else None
        if given is not None and given.dtype == object:
            codes = self.encode(given, "y of the reference")
            source.set_params(reference=table.with_targets(codes))

    def encode(self, labels: Any, name: str) -> NDArray[np.float64]:
        """Return the numbers that stand for labels; they are not told in an error."""
        given = _as_labels(labels, name)
        try:
            index = np.searchsorted(self.labels, given).clip(max=len(self.labels) - 1)
            known = bool(np.all(self.labels[index] == given))
        except TypeError:  # text among numbers, or the other way around
            known = False
        if not known:
            raise ValueError(
                f"{name} has labels that are not among the classes "
                f"{self.labels.tolist()}. Declare all classes with classes=..., "
                "because a reference may lack some."
            )
        return np.asarray(self.numbers)[index]


def tell_classes(model: PrivateMixin, classes: PublicClasses) -> None:
    """Warn, and certify, that classes are known from private labels, if they are."""
    if not classes.private:
        return
    if model.certificate_.private:  # else there is no guarantee, or a warning already
        warn_private_classes()
    model._add_to_claim(leaks=(PRIVATE_CLASSES,), note="classes")


def public_labels(table: TableReference | None, y_reference: Any, y: Any) -> Any:
    """Return the labels of the reference, as `fit` was given them or in the table."""
    if table is None or y_reference is not None:
        return y_reference
    known = np.asarray(table.pool.y)
    plain = {known.dtype.kind, np.asarray(y).dtype.kind} <= {*"biuf"}
    return _like(known, y) if plain else known


def _as_labels(labels: Any, name: str) -> NDArray[Any]:
    values = column_or_1d(labels, warn=True)
    with silenced():
        # That there are many classes for so few records would tell about them.
        check_classification_targets(values)
    return np.asarray(values)


def _known_labels(sampler: SensitivitySampler) -> NDArray[Any] | None:
    """Return labels that a sampler knows, of its query or its reference."""
    known = None
    if hasattr(sampler, "certificate_"):
        names = ("labels", "classes")
        found = (getattr(sampler.query_, name, None) for name in names)
        known = next((labels for labels in found if labels is not None), None)
    elif isinstance(sampler.reference, TableReference):
        known = sampler.reference.pool.y
    return None if known is None else np.asarray(known)


def _like(numbers: NDArray[Any], y: Any) -> NDArray[Any]:
    """Return numbers in the type that the labels have, where that changes nothing."""
    cast = numbers.astype(np.asarray(y).dtype)
    return cast if (cast == numbers).all() else numbers
