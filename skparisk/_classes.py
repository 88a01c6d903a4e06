"""The classes of a private classifier, which are public, and labels as numbers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from skparisk._private import PrivateMixin
from skparisk._silence import silenced
from skparisk._training_data import SensitivitySource
from skparisk.certificate._claim import PRIVATE_CLASSES
from skparisk.exceptions import warn_private_classes
from skparisk.reference import Domain, Reference
from skparisk.reference._base import is_reference
from skparisk.sensitivity import SensitivitySampler


@dataclass(frozen=True, eq=False)
class PublicClasses:
    """Sorted labels, and the numbers that stand for them in queries.

    Numeric labels stand for themselves, so that a reference of them needs no
    translation; others are numbered 0, 1, .... They are `private` if they are known
    from private labels only. Where the reference says what labels may be, `unknown` is
    the index of the class that any other private label is taken for.
    """

    labels: NDArray[Any]
    numbers: tuple[float, ...]
    private: bool = False
    declared: bool = False
    unknown: int | None = None

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
        cls,
        declared: Any,
        reference: Reference | None,
        y_reference: Any,
        source: SensitivitySource,
        y: Any,
    ) -> Self:
        """Return the classes: declared, or of the reference, or else of the data."""
        known = public_labels(reference, y_reference, y)
        found = cls._find(declared, known, source, y)
        domain = None if reference is None else reference.domain
        if reference is None and isinstance(source, SensitivitySampler):
            domain = _known_domain(source)
        return dataclasses.replace(found, unknown=found._index_of_unknown(domain))

    @classmethod
    def _find(
        cls, declared: Any, known: Any, source: SensitivitySource, y: Any
    ) -> Self:
        if declared is not None:
            return dataclasses.replace(cls.of(declared, "classes"), declared=True)
        if known is not None:
            return cls.of(known, "y_reference")
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

    def _index_of_unknown(self, domain: Domain | None) -> int | None:
        """Return the class that is the default of a domain, or else the first one."""
        if domain is None or len(domain.targets) != 1 or domain.targets[0] is None:
            return None
        default = getattr(domain.targets[0], "default", None)
        known: Any
        for known in (self.labels.tolist(), self.numbers):
            if default in known:
                return int(known.index(default))
        return 0

    def of_reference(self, is_private: bool) -> Self:
        """Return the classes as those of a reference, which may be private."""
        return dataclasses.replace(
            self, private=self.private or (is_private and not self.declared)
        )

    def encode_reference(self, reference: Reference, y_reference: Any) -> Reference:
        """Return a reference with numbers for its labels, as `fit` was given them."""
        if y_reference is None:
            return reference.encoded(partial(self.encode, name="y_reference"))
        # Floats, as a table has them, may be one number for several labels.
        codes = self.encode(y_reference, "y_reference")
        return reference.encoded(lambda _: codes)

    def encode_sampler(self, source: SensitivitySource) -> None:
        """Give a sampler that is not fitted numbers for the labels of its reference."""
        if not isinstance(source, SensitivitySampler) or hasattr(source, "query_"):
            return
        reference = source.reference
        known = reference.targets if is_reference(reference) else None
        if known is not None and known.dtype == object:
            encode = partial(self.encode, name="y of the reference")
            source.set_params(reference=reference.encoded(encode))

    def encode_private(self, labels: Any) -> NDArray[np.float64]:
        """Return the numbers that stand for private labels.

        Where the reference says what these may be, what is none of them is taken for
        one: an error would tell that there is such a label.
        """
        if self.unknown is None:
            return self.encode(labels, "y")
        given = column_or_1d(labels, warn=True)
        if given.dtype.kind in "biuf" and self.labels.dtype.kind not in "biuf":
            raise ValueError(
                "y must hold texts, because the classes that the reference declares "
                f"are {self.labels.tolist()}; got numbers."
            )
        index = {label: place for place, label in enumerate(self.labels.tolist())}
        places = [index.get(label, self.unknown) for label in given.tolist()]
        return np.asarray(self.numbers)[places]

    def decode(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return the labels that numbers of the reference stand for."""
        return self.labels[np.searchsorted(self.numbers, numbers)]

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


def public_labels(reference: Reference | None, y_reference: Any, y: Any) -> Any:
    """Return the labels of the reference, as `fit` was given them or of its own."""
    if reference is None or y_reference is not None:
        return y_reference
    known = np.asarray(reference.targets)
    plain = {known.dtype.kind, np.asarray(y).dtype.kind} <= {*"biuf"}
    return _like(known, y) if plain else known


def _as_labels(labels: Any, name: str) -> NDArray[Any]:
    values = column_or_1d(labels, warn=True)
    with silenced():
        # That there are many classes for so few records would tell about them.
        try:
            check_classification_targets(values)
        except TypeError:
            raise ValueError(
                f"{name} must hold labels of one kind, texts or numbers, and none that "
                "is missing: leave such records out, or give them a label of their own."
            ) from None
    return np.asarray(values)


def _known_labels(sampler: SensitivitySampler) -> NDArray[Any] | None:
    """Return labels that a sampler knows, of its query or its reference."""
    known = None
    if hasattr(sampler, "certificate_"):
        names = ("labels", "classes")
        found = (getattr(sampler.query_, name, None) for name in names)
        known = next((labels for labels in found if labels is not None), None)
    elif is_reference(sampler.reference):
        known = sampler.reference.targets
    return None if known is None else np.asarray(known)


def _known_domain(sampler: SensitivitySampler) -> Domain | None:
    """Return what the reference of a sampler says that records may be."""
    if hasattr(sampler, "certificate_"):
        return sampler.pairs_.domain
    domain: Domain | None = getattr(sampler.reference, "domain", None)
    return domain


def _like(numbers: NDArray[Any], y: Any) -> NDArray[Any]:
    """Return numbers in the type that the labels have, where that changes nothing."""
    cast = numbers.astype(np.asarray(y).dtype)
    return cast if (cast == numbers).all() else numbers
