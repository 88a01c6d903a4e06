"""What an attacker gains by seeing a release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from skparisk.core.checks import check_floats
from skparisk.core.rounding import ROUNDING, check_range


class Success(NamedTuple):
    """How often an attacker guesses right, at most: two probabilities, or arrays.

    Parameters
    ----------
    mean : float or ndarray
        On average over people: over a fresh pair and the sampled pairs.

    quantile : float or ndarray
        For all but a share `risk` of them.
    """

    mean: Any
    quantile: Any


@dataclass(frozen=True)
class Advantage:
    """What an attacker gains who knows all but which of two databases it was.

    The advantage is the total variation of the two releases: the most by which any
    event is likelier for one of them. Nothing that is computed from a release has more.

    Parameters
    ----------
    mean : float
        Upper bound of the advantage in [0, 1], on average over a fresh pair and the
        sampled pairs.

    quantile : float
        Upper bound for all but a share `risk` of the pairs. The mean says nothing of
        single people: there it may be many times as large.

    risk : float
        That share in [0, 1], over a fresh pair and the sampled pairs; 0 for a bound
        that holds for every pair.

    mean_detected, quantile_detected : float
        The same of the true-positive rate: the probability that a test knows the
        person's database, which takes another one for it with probability
        `false_positive_rate`, 0.01.

    Raises
    ------
    ValueError
        If a number is out of range, by methods as well, or a true-positive rate is
        beyond what the advantage allows.

    Notes
    -----
    **Guarantee** (:ref:`thm-advantage`). What the certificate that it is of rests on.

    Examples
    --------
    >>> from skparisk import Certificate
    >>> advantage = Certificate(0.5).advantage
    >>> round(advantage.mean, 4), round(advantage.success().mean, 4)
    (0.2449, 0.6225)
    """

    mean: float
    quantile: float
    risk: float
    mean_detected: float
    quantile_detected: float
    false_positive_rate: ClassVar[float] = 0.01

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            vars(self)[name] = check_range(getattr(self, name), name, 1.0)
        for name in ("mean", "quantile"):
            most = getattr(self, name) + self.false_positive_rate + ROUNDING
            detected = getattr(self, f"{name}_detected")
            if not self.false_positive_rate <= detected <= most:
                raise ValueError(
                    f"{name}_detected must be in [{self.false_positive_rate:g}, "
                    f"{most:.6g}], at most {name} above the false positives, got "
                    f"{detected!r}."
                )

    def success(self, prior: ArrayLike = 0.5) -> Success:
        r"""Return how often an attacker guesses right, at most.

        Parameters
        ----------
        prior : float or array-like, default=0.5
            Probability of the likelier database (or of the other one), before the
            release is seen, in [0, 1]. Unitless.

        Returns
        -------
        success : Success
            With the fields `mean` and `quantile`: floats, or arrays like `prior`.

        Notes
        -----
        **Guarantee** (:ref:`thm-advantage`).
        :math:`\max(\pi, 1 - \pi) + \min(\pi, 1 - \pi) A`.

        Examples
        --------
        >>> from skparisk import Certificate
        >>> round(Certificate(0.5).advantage.success(prior=0.9).mean, 4)
        0.9245
        """
        known = check_floats(prior, "prior", "[0, 1]")
        likelier = np.maximum(known, 1 - known)
        found = [
            np.minimum((likelier + (1 - likelier) * gain) * (1 + ROUNDING), 1.0)
            for gain in (self.mean, self.quantile)
        ]
        return Success(*(float(x) if x.ndim == 0 else x for x in found))

    def true_positive_rate(self, false_positive_rate: ArrayLike) -> Success:
        """Return how often a test knows the person's database, at most.

        Parameters
        ----------
        false_positive_rate : array-like
            Probability that it takes another database for it, in [0, 1].

        Returns
        -------
        true_positive_rate : Success
            With the fields `mean` and `quantile`, arrays like what is given: what the
            advantage allows, and the rate at 0.01, as the best tests have a concave
            curve.
        """
        alpha = check_floats(false_positive_rate, "false_positive_rate", "[0, 1]")
        at = self.false_positive_rate
        curves = []
        for gain, detected in (
            (self.mean, self.mean_detected),
            (self.quantile, self.quantile_detected),
        ):
            # A concave curve through `detected` or below: it rises no faster beyond.
            beyond = detected * np.maximum(alpha, at) / at
            curves.append(np.minimum(np.minimum(alpha + gain, beyond), 1.0))
        return Success(*curves)
