"""What a target, a law, a shape and a rule agree on, before anything is drawn."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

from skparisk._validate import check_at_least
from skparisk.calibration._order import check_risk_control
from skparisk.calibration._rules import Exchangeable, Rule, as_rule
from skparisk.calibration._target import Target
from skparisk.exceptions import CalibrationError
from skparisk.laws import Laplace, Law
from skparisk.laws._names import as_law
from skparisk.mechanisms import IsotropicShape, NoiseShape
from skparisk.mechanisms._shapes import as_shape

__all__ = ["Terms", "agree"]

# More do not make the shape better, and take memory.
_MOST_SHAPE_PAIRS = 2**16


class Terms(NamedTuple):
    """What is asked for, by which law, shape and rule, for so many pairs.

    With how many pairs the shape is taken from; how many draws of the noise each of the
    others is tried with (None where the risk is not over noise, 0 where it is known);
    and which of their distances counts as the sensitivity.
    """

    target: Target
    law: Law
    shape: str | NoiseShape
    rule: Rule
    n_shape_pairs: int
    n_draws: int | None
    order_index: int


def agree(
    n_pairs: int, target: Target, *, law: Any, shape: Any, rule: Any, n_draws: Any
) -> Terms:
    """Check that all of these go together, before anything is drawn."""
    law, shape, rule = as_law(law), as_shape(shape), as_rule(rule)
    if target.randomness == "explicit":
        raise ValueError(
            "randomness must be 'implicit' or 'both' for sampled pairs, got "
            "'explicit': see calibrate_known."
        )
    target.check_law(law)
    draws = _count_draws(target, law, rule, n_draws)
    if law.chooses and shape != "isotropic" and type(shape) is not IsotropicShape:
        raise ValueError(
            f"noise_shape must be 'isotropic' with law={law.name!r}, got {shape!r}."
        )
    plain = type(law) is Laplace and target.randomness != "both" and not target.delta
    if rule.void_reasons and not plain:
        raise ValueError(
            f"calibration={rule!r} reproduces a theorem on Laplace noise, delta=0 and "
            f"randomness 'implicit'; got law={law.name!r}, delta={target.delta!r} and "
            f"{target.randomness!r}."
        )
    learned = isinstance(shape, str) and shape != "isotropic"
    check_at_least(n_pairs, "n_pairs", 4 if learned else 1)
    n_shape = min(n_pairs // 2, _MOST_SHAPE_PAIRS) if learned else 0
    n_left = n_pairs - n_shape
    try:
        if target.advantage is not None:
            check_risk_control(n_left, target.advantage, "advantage")
        elif draws == 0:
            check_risk_control(n_left, target.gamma)
        index = rule.order_index(n_left, target.gamma)
    except CalibrationError as error:
        if not n_shape:
            raise
        raise CalibrationError(
            f"{error} Of the n_pairs={n_pairs} pairs, noise_shape={shape!r} uses "
            f"{n_shape}.",
            target=error.target,
            best=error.best,
        ) from error
    whole = isinstance(index, Integral)  # who wrote the rule is not known
    if not (whole and 1 <= index <= n_left):
        raise ValueError(
            f"calibration must choose one of {n_left} sampled pairs, and {rule.name!r} "
            f"chose number {index!r}."
        )
    return Terms(target, law, shape, rule, n_shape, draws, index)


def _count_draws(
    target: Target, law: Law, rule: Rule, n_draws: int | None
) -> int | None:
    if n_draws is not None:
        check_at_least(n_draws, "n_draws", 0)
    if target.randomness != "both":
        return None
    plain = type(rule) is Exchangeable
    if target.advantage is not None:
        if not plain:
            raise ValueError(
                "calibration must be 'exchangeable' with an advantage, which is a mean "
                f"over pairs and no order statistic; got {rule.name!r}."
            )
        if n_draws:
            raise ValueError(
                "n_draws must be None or 0 with an advantage, which is known for each "
                f"pair, so that no noise is drawn; got {n_draws!r}."
            )
        return 0
    known = law.knows_risk and plain
    draws = (0 if known else 1) if n_draws is None else int(n_draws)
    if draws and not law.draws:
        raise ValueError(
            f"n_draws must be 0 with law={law.name!r}, which no losses of drawn noise "
            f"are known of; got {draws}."
        )
    if draws == 0 and not known:
        raise ValueError(
            "n_draws must be at least 1 unless law='gaussian' and "
            "calibration='exchangeable', where the risk of a pair is known; got 0."
        )
    if draws > 1 and not plain:
        raise ValueError(
            "n_draws must be None or 1 unless calibration='exchangeable', got "
            f"{draws!r} with {rule.name!r}."
        )
    return draws
