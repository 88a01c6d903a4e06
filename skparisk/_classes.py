"""The classes of a private classifier, which are public, and labels as numbers."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from skparisk._checks import warn_private_classes
from skparisk._private import PrivateMixin
from skparisk._training_data import SensitivitySource, reference_of
from skparisk.core.claim import Leak
from skparisk.core.release import silenced
from skparisk.core.sealed import PublicForm, key_of
from skparisk.reference import Domain, Reference
from skparisk.reference._base import is_reference
from skparisk.sensitivity import SensitivitySampler

_NO_CLASS = (
    "{} has labels that are not among the classes {}. Declare all classes with "
    "classes=..., because a reference may lack some."
)


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
        known = public_labels(reference, y_reference)
        found = cls._find(declared, known, source, y)
        domain = getattr(reference_of(source, reference), "domain", None)
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
            if known is not None:
                return cls.of(known, "the reference")
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
        codes = codes[getattr(reference, "_order", slice(None))]
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

        Each is read by itself, in the type of the classes. Where the reference says
        what these may be, what is none of them is taken for one: an error would tell
        that there is such a label.
        """
        exact = {label: place for place, label in enumerate(self.labels.tolist())}
        alike = {key_of(label): place for label, place in exact.items()}

        def place_of(label: Any) -> int | None:
            with suppress(Exception):  # of an odd label, of which no error tells
                if label in exact:
                    return exact[label]
                return alike.get(key_of(label), self.unknown)
            return self.unknown

        given = column_or_1d(labels, warn=True).tolist()
        places = [place for place in map(place_of, given) if place is not None]
        if len(places) < len(given):
            raise ValueError(
                f"{_NO_CLASS.format('y', self.labels.tolist())} Records without a "
                "label must be left out, or be given a label of their own."
            )
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
            raise ValueError(_NO_CLASS.format(name, self.labels.tolist()))
        return np.asarray(self.numbers)[index]


def tell_classes(model: PrivateMixin, classes: PublicClasses) -> None:
    """Warn, and certify, that classes are known from private labels, if they are."""
    if not classes.private:
        return
    claim = model.certificate_
    if not (claim.void or claim.leaks):  # else no guarantee, or a warning already
        warn_private_classes()
    model._add_to_claim(leaks=[Leak.PRIVATE_CLASSES], note="classes")


def public_labels(reference: Reference | None, y_reference: Any) -> Any:
    """Return the labels of the reference, as `fit` was given them or of its own."""
    if reference is None or y_reference is not None:
        return y_reference
    return _in_type(reference.targets, reference.form)


def _as_labels(labels: Any, name: str) -> NDArray[Any]:
    values = column_or_1d(labels, warn=True)
    with silenced():
        # That there are many classes for so few records would tell about them.
        try:
            check_classification_targets(values)
            mixed = False
        except TypeError:
            mixed = True
    if mixed:  # here, where an error about values is not the context
        raise ValueError(
            f"{name} must hold labels of one kind, texts or numbers, and none that is "
            "missing: leave such records out, or give them a label of their own."
        )
    return np.asarray(values)


def _known_labels(sampler: SensitivitySampler) -> NDArray[Any] | None:
    """Return labels that a sampler knows, of its query or its reference."""
    if hasattr(sampler, "certificate_"):
        names = ("labels", "classes")
        found = (getattr(sampler.query_, name, None) for name in names)
        known = next((labels for labels in found if labels is not None), None)
        return None if known is None else _in_type(known, sampler.pairs_.form)
    reference = sampler.reference
    if not is_reference(reference) or reference.targets is None:
        return None
    return _in_type(reference.targets, reference.form)


def _in_type(labels: Any, form: PublicForm | None) -> NDArray[Any]:
    """Return labels in the type that public ones have, where that changes nothing."""
    known = np.asarray(labels)
    if form is None or form.targets is None or known.dtype.kind not in "biuf":
        return known
    cast = known.astype(form.targets.dtype)
    return cast if (cast == known).all() else known
