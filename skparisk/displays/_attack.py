"""What an attacker gains by seeing a release, as a picture."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from skparisk._text import people_text
from skparisk.core.checks import check_choice, check_floats
from skparisk.core.claim import Advantage, Success
from skparisk.displays._steps import CertificateDisplay

_KINDS = ("success", "trade-off")
_POINTS = 257


def true_positive_rates(gain: Advantage, false_positive_rates: Any) -> Success:
    """Return how often tests know the person's database, at most.

    What the advantage allows, and the rate that is known at 0.01, as the best tests
    have a concave curve.
    """
    alpha = check_floats(false_positive_rates, "false_positive_rate", "[0, 1]")
    at, curves = gain.false_positive_rate, []
    for gained, detected in (
        (gain.mean, gain.mean_detected),
        (gain.quantile, gain.quantile_detected),
    ):
        # A concave curve through `detected` or below: it rises no faster beyond.
        beyond = detected * np.maximum(alpha, at) / at
        curves.append(np.minimum(np.minimum(alpha + gained, beyond), 1.0))
    return Success(*curves)


class AttackDisplay(CertificateDisplay):
    """How often an attacker guesses right, or tests find a person, at most.

    Make it with `from_estimator` or `from_certificate`. The attacker knows all but
    which of two databases it was. One curve is on average over people, the other one
    for all but a share of them; who sees no release is on the dotted line.

    Parameters
    ----------
    certificate : Certificate
        Whose `advantage` is drawn.

    estimator_name : str, default=None
        Name in the legend.

    Attributes
    ----------
    mean_line_, quantile_line_ : matplotlib Line2D
        The curves; the second is None where the bound is one for every pair.

    chance_line_ : matplotlib Line2D
        Without the release.

    ax_, figure_ : matplotlib Axes, Figure
        Where they are.

    See Also
    --------
    Certificate.advantage : The numbers.

    Examples
    --------
    >>> from skparisk import AttackDisplay
    >>> from skparisk.mechanisms import LaplaceMechanism
    >>> release = LaplaceMechanism(sensitivity=1.0, epsilon=0.5).as_certificate()
    >>> display = AttackDisplay.from_certificate(release)
    >>> display.ax_.get_xlabel()
    'probability of the database before the release'
    """

    def plot(
        self,
        ax: Any = None,
        *,
        kind: str = "success",
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax, name
            As in :meth:`RiskCurveDisplay.plot`.

        kind : {"success", "trade-off"}, default="success"
            How often guesses are right, by how likely the database was before; or the
            true-positive rate of tests, by their false-positive rate.

        **kwargs : dict
            For matplotlib's `plot`, which draws both curves; not `label` or
            `linestyle`.

        Returns
        -------
        display : AttackDisplay
            This one.

        Raises
        ------
        ValueError
            If `kind` is neither.
        """
        check_choice(kind, "kind", _KINDS)
        name = self.estimator_name if name is None else name
        return super().plot(ax, kind=kind, name=name, **kwargs)

    def _draw(self, **style: Any) -> None:
        kind, name = style.pop("kind"), style.pop("name")
        gain, x = self.certificate.advantage, np.linspace(0, 1, _POINTS)
        if kind == "success":
            self.ax_.set_xlabel("probability of the database before the release")
            self.ax_.set_ylabel("probability of a right guess, at most")
            curves, chance = gain.success(x), np.maximum(x, 1 - x)
        else:
            x = np.sort(np.append(x, gain.false_positive_rate))
            self.ax_.set_xlabel("false-positive rate of a test")
            self.ax_.set_ylabel("true-positive rate, at most")
            curves, chance = true_positive_rates(gain, x), x
        about = [text for text in (name, self.caveat) if text is not None]
        what = "on average over people" if gain.risk else "for everyone"
        (self.mean_line_,) = self.ax_.plot(
            x, curves.mean, label=", ".join([*about, what]), **style
        )
        self.quantile_line_ = None
        if gain.risk:
            most = f"for {people_text(gain.risk)} of 100 people"
            (self.quantile_line_,) = self.ax_.plot(
                x,
                curves.quantile,
                **({"color": self.mean_line_.get_color()} | style),
                linestyle="--",
                label=", ".join([*about, most]),
            )
        (self.chance_line_,) = self.ax_.plot(
            x, chance, color="gray", linestyle=":", label="without the release"
        )
