"""What targets are, and that those of the private records are alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import NDArray

from skparisk.exceptions import IncompatibleError


@dataclass(frozen=True)
class TargetForm:
    """Shape of what each record has as its target, and whether targets are labels."""

    shape: tuple[int, ...]
    labels: bool

    @classmethod
    def of(cls, y: NDArray[Any] | None) -> Self | None:
        """Return the form of targets; None where there are none."""
        return None if y is None else cls(tuple(y.shape[1:]), y.dtype == object)

    def take(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return targets in this form, or refuse others than the query was asked about.

        What it does to more targets, or to numbers for labels, says no pair.
        """
        own = TargetForm.of(y)
        assert own is not None
        if own == self:
            return y
        if own._words() != self._words():
            raise IncompatibleError(
                f"The pairs were sampled with {self._words()} for each record, but y "
                f"has {own._words()}: give targets like those of the reference, or "
                "fit again."
            )
        return y.reshape(len(y), *self.shape)

    def _words(self) -> str:
        n_targets = self.shape[0] if self.shape else 1
        kind = "label" if self.labels else "number"
        return f"{n_targets} {kind}{'s' * (n_targets != 1)}"
