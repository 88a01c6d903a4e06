"""The law that the privacy loss of a release stays below."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

from skparisk.core.exceptions import IncompatibleError
from skparisk.core.laws import Gaussian, Laplace, Law, as_law
from skparisk.core.rounding import GRID_SHARE, check_range

_COMPOSED: dict[str, Law] = {"laplace": Laplace(), "gaussian": Gaussian()}


@dataclass(frozen=True)
class DominatingLoss:
    """A known law that the privacy loss of a release stays below.

    Parameters
    ----------
    law : {"laplace", "gaussian"} or Law
        The loss of one output with noise of that law. Another name is kept as it is,
        such as that of a law of one's own in a document: see `known_law`.

    shift : float
        Distance of the two answers over the noise scale, in [0, inf), in the norm of
        the law: l1 for Laplace noise, l2 for Gaussian noise.

    excess : float, default=0.0
        The most by which the loss may exceed a variable of that law, >= 0, such as
        for noise on a grid.

    Examples
    --------
    >>> from skparisk.certificate import DominatingLoss
    >>> DominatingLoss("gaussian", shift=0.5)
    DominatingLoss(law=Gaussian(calibration='analytic'), shift=0.5, excess=0.0)
    """

    law: Any
    shift: float
    excess: float = 0.0

    def __post_init__(self) -> None:
        law = self.law
        if is_name(law):
            law = _COMPOSED.get(str(law), str(law))
        if not (is_name(law) or (isinstance(law, Law) and law.composes(1))):
            raise ValueError(
                f"law must be one of {list(_COMPOSED)}, or a law that says how it "
                f"composes, got {law!r}."
            )
        # None may go by the name of another, in a document least of all.
        law = as_law(law) if isinstance(law, Law) else law
        object.__setattr__(self, "law", law)
        for name in ("shift", "excess"):
            value = check_range(getattr(self, name), name)
            if math.isinf(value):
                raise ValueError(f"{name} must be a finite number, got {value!r}.")
            object.__setattr__(self, name, value)

    @classmethod
    def on_grid(cls, law: Any, shift: float, epsilon: float) -> Self:
        """Return the loss of noise on a fine grid, which was calibrated to a level.

        The grid costs a share 2**-20 of the shift, and of the level.
        """
        more = 2 * GRID_SHARE
        return cls(law, shift=shift * (1 + more), excess=epsilon * more)

    @property
    def law_name(self) -> str:
        """Name of the law."""
        return str(getattr(self.law, "name", self.law))

    @property
    def known_law(self) -> Law:
        """The law itself; an IncompatibleError if a name is all that is left of it."""
        if isinstance(self.law, Law):
            return self.law
        raise IncompatibleError(
            f"the law of the loss is named {self.law!r}, which is not one of "
            "skparisk's, and composition needs its class: give it to "
            "Certificate.from_dict(document, laws=[...]), or replace the loss by None."
        )

    @property
    def largest(self) -> float:
        """Largest loss that there is; infinite for Gaussian noise, or if not known."""
        if not isinstance(self.law, Law):
            return math.inf
        return self.law.largest_loss(self.shift) + self.excess


def is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)
