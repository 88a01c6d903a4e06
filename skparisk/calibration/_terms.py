"""What a target, a law, a shape and a rule agree on, before anything is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Integral
from typing import Any, NamedTuple, Self

from skparisk._validate import check_at_least, check_choice
from skparisk.calibration._order import check_risk_control
from skparisk.calibration._rules import Exchangeable, Rule, as_rule
from skparisk.calibration._target import Target
from skparisk.exceptions import CalibrationError
from skparisk.laws import Laplace, Law
from skparisk.laws._names import as_law
from skparisk.mechanisms import IsotropicShape, NoiseShape
from skparisk.mechanisms._shapes import as_shape

__all__ = ["MOST_SHAPE_PAIRS", "Terms", "agree"]

# More do not make the shape better.
MOST_SHAPE_PAIRS = 2048
# From fewer nothing is learned that is worth them.
_FEWEST_SHAPE_PAIRS = 16
# Pairs that calibrate, at the usual targets; and for any, in times the fewest.
_USUAL_PAIRS, _TIMES_FEWEST = 500, 5
# No rule is asked whether more would do.
_MOST_FEWEST = 2**22


class Terms(NamedTuple):
    """What is asked for, by which law, shape and rule, for so many pairs.

    With how many of these the shape is taken from; how many draws of the noise each of
    the others is tried with (None where the risk is not over noise, 0 where it is
    known); and which of their distances counts as the sensitivity.

    Until it is known how many outputs there are, with `settled`, "auto" takes the shape
    from none.
    """

    target: Target
    law: Law
    shape: str | NoiseShape
    rule: Rule
    n_pairs: int
    n_shape_pairs: int
    n_draws: int | None
    order_index: int

    @property
    def n_calibrating(self) -> int:
        """Pairs that calibrate."""
        return self.n_pairs - self.n_shape_pairs

    def settled(self, n_outputs: int) -> Self:
        """Return the terms for so many outputs, with pairs for "auto" to learn from."""
        if self.shape != "auto":
            return self
        if n_outputs > 1 and _may_learn(self.target, self.law, self.rule):
            for learned in self._learned():
                return learned
        return self._replace(shape="isotropic")

    def certified(self) -> float:
        """Return the largest risk that these certify, for any number of outputs."""
        shaped = self._learned() if self.shape == "auto" else ()
        return max(
            float(terms.rule.certify_risk(terms.n_calibrating, terms.order_index))
            for terms in (self, *shaped)
        )

    def _learned(self) -> Iterator[Self]:
        """Yield terms with pairs for a shape, as many as the target leaves, if any."""
        n_shape = min(self.n_pairs // 2, MOST_SHAPE_PAIRS)
        while n_shape >= _FEWEST_SHAPE_PAIRS:
            n_left = self.n_pairs - n_shape
            if _certifies(n_left, self.target, self.rule, self.n_draws):
                index = _order_index(n_left, self.target, self.rule, self.n_draws)
                yield self._replace(n_shape_pairs=n_shape, order_index=index)
                return
            n_shape //= 2


def agree(
    n_pairs: int | str, target: Target, *, law: Any, shape: Any, rule: Any, n_draws: Any
) -> Terms:
    """Check that all of these go together, before anything is drawn.

    With "auto" for `n_pairs`, as many as they need.
    """
    law, shape, rule = as_law(law), as_shape(shape), as_rule(rule)
    if target.randomness == "explicit":
        raise ValueError(
            "randomness must be 'implicit' or 'both' for sampled pairs, got "
            "'explicit': see calibrate_known."
        )
    target.check_law(law)
    draws = _count_draws(target, law, rule, n_draws)
    plain_shape = shape in ("auto", "isotropic") or type(shape) is IsotropicShape
    if law.chooses and not plain_shape:
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
    learned = isinstance(shape, str) and shape not in ("auto", "isotropic")
    learned &= not math.isinf(target.epsilon)
    if isinstance(n_pairs, str):
        check_choice(n_pairs, "n_pairs", ("auto",))
        n_calibrating = _enough_pairs(target, rule, draws)
        if learned or (shape == "auto" and _may_learn(target, law, rule)):
            n_pairs = n_calibrating + min(n_calibrating, MOST_SHAPE_PAIRS)
        else:
            n_pairs = max(n_calibrating, 2 * _USUAL_PAIRS)
    n_pairs = check_at_least(n_pairs, "n_pairs", 4 if learned else 1)
    n_shape = min(n_pairs // 2, MOST_SHAPE_PAIRS) if learned else 0
    n_left = n_pairs - n_shape
    try:
        index = _order_index(n_left, target, rule, draws)
    except CalibrationError as error:
        if not n_shape:
            raise
        fewest = _fewest_pairs(target, rule, draws)
        raise CalibrationError(
            f"{error} Of the n_pairs={n_pairs} pairs, noise_shape={shape!r} uses "
            f"{n_shape}: it needs n_pairs >= {fewest + min(fewest, MOST_SHAPE_PAIRS)}"
            " in all.",
            target=error.target,
            best=error.best,
        ) from error
    whole = isinstance(index, Integral)  # who wrote the rule is not known
    if not (whole and 1 <= index <= n_left):
        raise ValueError(
            f"calibration must choose one of {n_left} sampled pairs, and {rule.name!r} "
            f"chose number {index!r}."
        )
    return Terms(target, law, shape, rule, n_pairs, n_shape, draws, index)


def _may_learn(target: Target, law: Law, rule: Rule) -> bool:
    """Tell if there is noise that a shape could be learned for."""
    return not (law.chooses or rule.void_reasons or math.isinf(target.epsilon))


def _order_index(n_pairs: int, target: Target, rule: Rule, draws: int | None) -> int:
    """Return which distance counts, or raise CalibrationError for too few pairs."""
    if target.advantage is not None:
        check_risk_control(n_pairs, target.advantage, "advantage")
    elif draws == 0:
        check_risk_control(n_pairs, target.gamma)
    return rule.order_index(n_pairs, target.gamma)


def _certifies(n_pairs: int, target: Target, rule: Rule, draws: int | None) -> bool:
    """Tell if so many pairs are enough for the target."""
    try:
        _order_index(n_pairs, target, rule, draws)
    except CalibrationError:
        return False
    return True


def _enough_pairs(target: Target, rule: Rule, draws: int | None) -> int:
    """Return how many pairs calibrate without much more noise than is needed."""
    return max(_USUAL_PAIRS, _TIMES_FEWEST * _fewest_pairs(target, rule, draws))


def _fewest_pairs(target: Target, rule: Rule, draws: int | None) -> int:
    """Return the fewest pairs that are enough for the target."""
    low, high = 0, 1
    while not _certifies(high, target, rule, draws):
        low, high = high, 2 * high
        if high > _MOST_FEWEST:
            raise CalibrationError(
                f"n_pairs='auto' tried {low} pairs, and calibration={rule.name!r} "
                f"certifies no gamma={target.gamma!r} with these: choose a larger "
                "gamma, or give n_pairs.",
                target=target.gamma,
                best=1.0,
            )
    while high - low > 1:
        middle = (low + high) // 2
        if _certifies(middle, target, rule, draws):
            high = middle
        else:
            low = middle
    return high


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
