"""What a target, a law, a shape and a rule agree on, before anything is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

from skparisk.calibration._order import check_risk_control
from skparisk.calibration._rules import Exchangeable, Rule, as_rule
from skparisk.calibration._target import Target
from skparisk.core.checks import check_at_least, check_choice
from skparisk.core.exceptions import CalibrationError
from skparisk.core.laws import Law, as_law
from skparisk.mechanisms import IsotropicShape, NoiseShape
from skparisk.mechanisms._shapes import as_shape

# More do not make the shape better.
MOST_SHAPE_PAIRS = 2048
# From fewer nothing is learned that is worth them.
_FEWEST_SHAPE_PAIRS = 16
# Pairs that calibrate, at the usual targets; and for any, in times the fewest.
_USUAL_PAIRS, _TIMES_FEWEST = 500, 5
# Databases with several neighbors each.
_USUAL_DATABASES = 200


class Terms(NamedTuple):
    """What is asked for, by which law, shape and rule, for so many databases.

    So many databases have as many neighbors each. With how many of these the shape is
    taken from; whether the average of their risks is kept, which is then known for each
    pair, and no order statistic; the risk that they are calibrated to, which is that of
    the target or less; and which of their distances counts as the sensitivity.

    Until it is known how many outputs there are, with `settled`, "auto" takes the shape
    from none.
    """

    target: Target
    law: Law
    shape: str | NoiseShape
    rule: Rule
    n_databases: int
    n_shape: int
    averages: bool
    risk: float
    order_index: int
    n_neighbors: int = 1

    @property
    def n_pairs(self) -> int:
        """All pairs."""
        return self.n_databases * self.n_neighbors

    @property
    def n_shape_pairs(self) -> int:
        """Pairs that the shape is taken from: other databases than those calibrate."""
        return self.n_shape * self.n_neighbors

    @property
    def n_calibrating(self) -> int:
        """Databases that calibrate."""
        return self.n_databases - self.n_shape

    def settled(self, n_outputs: int) -> Self:
        """Return the terms for so many outputs, with pairs for "auto" to learn from."""
        if self.shape != "auto" or self.n_shape:
            return self
        if n_outputs > 1 and _may_learn(self.target, self.law):
            for learned in self._learned():
                return learned
        return self._replace(shape="isotropic")

    def for_rows(self, n_independent: int | None) -> Self:
        """Return the terms for pairs of a table with so many disjoint pairs of rows.

        They tell no more of new people than so many independent pairs: the fresh one
        counts as one more of these, and not of all that were drawn. Where that leaves
        nothing, or less than the pairs certify, it is the least that they do.
        """
        asked, m = self.target.gamma, self.n_calibrating
        largest = m * self.n_neighbors
        if self.target.advantage is not None:
            return self
        if n_independent is None or n_independent >= largest:
            return self
        wanted = asked - (1 - asked) / max(1, n_independent)
        for known in (wanted, 1 / m, None):
            risk = self.rule.certify_risk(m, largest) if known is None else known
            if 0 < risk < asked:
                index = _index_if_any(m, self.target, self.rule, self.averages, risk)
                if index is not None:
                    return self._replace(risk=float(risk), order_index=index)
        return self

    def _learned(self) -> Iterator[Self]:
        """Yield terms with pairs for a shape, as many as the target leaves, if any."""
        n_shape = _for_shape(self.n_databases, self.n_neighbors)
        while n_shape * self.n_neighbors >= _FEWEST_SHAPE_PAIRS and n_shape:
            n_left = self.n_databases - n_shape
            index = _index_if_any(n_left, self.target, self.rule, self.averages)
            if index is not None:
                yield self._replace(n_shape=n_shape, order_index=index)
                return
            n_shape //= 2


def agree(
    n_pairs: int | str,
    target: Target,
    *,
    law: Any,
    shape: Any,
    rule: Any,
    n_neighbors: Any = 1,
) -> Terms:
    """Check that all of these go together, before anything is drawn.

    With "auto" for `n_pairs`, as many as they need. Of databases with several neighbors
    each, what is exchangeable is a database with all of them.
    """
    law, shape, rule = as_law(law), as_shape(shape), as_rule(rule)
    rule = rule_of_groups(
        rule, check_at_least(n_neighbors, "neighbors_per_database", 1)
    )
    if target.randomness == "explicit":
        raise ValueError(
            "randomness must be 'implicit' or 'both' for sampled pairs, got "
            "'explicit': see calibrate_known."
        )
    target.check_law(law)
    averages = _averages(target, law, rule)
    plain_shape = shape in ("auto", "isotropic") or type(shape) is IsotropicShape
    if law.chooses and not plain_shape:
        raise ValueError(
            f"noise_shape must be 'isotropic' with law={law.name!r}, got {shape!r}."
        )
    learned = isinstance(shape, str) and shape not in ("auto", "isotropic")
    learned &= not math.isinf(target.epsilon)
    learns = learned or (shape == "auto" and _may_learn(target, law))
    if isinstance(n_pairs, str):
        check_choice(n_pairs, "n_pairs", ("auto",))
        n = _enough_databases(target, rule, averages, n_neighbors, learns)
    else:
        least = (4 if n_neighbors == 1 else 2 * n_neighbors) if learned else n_neighbors
        n = check_at_least(n_pairs, "n_pairs", least) // n_neighbors
        if n * n_neighbors != n_pairs:
            raise ValueError(
                f"n_pairs must be a multiple of neighbors_per_database={n_neighbors}, "
                f"got {n_pairs!r}."
            )
    n_shape = _for_shape(n, n_neighbors) if learned else 0
    n_left = n - n_shape
    try:
        index = _order_index(n_left, target, rule, averages)
    except CalibrationError as error:
        if not n_shape and n_neighbors == 1:
            raise
        fewest = _fewest_pairs(target, rule, averages)
        words, needed = f"{error}", fewest
        if n_neighbors > 1:
            words += f" Pairs of one database, {n_neighbors} here, count as one"
        if n_shape:
            needed = _with_shape(fewest, n_neighbors)
            words += (
                f" Of the n_pairs={n_pairs} pairs, noise_shape={shape!r} uses "
                f"{n_shape * n_neighbors}"
            )
        raise CalibrationError(
            f"{words}: it needs n_pairs >= {needed * n_neighbors} in all.",
            target=error.target,
            best=error.best,
        ) from error
    risk = target.gamma
    return Terms(
        target, law, shape, rule, n, n_shape, averages, risk, index, n_neighbors
    )


def rule_of_groups(rule: Rule, n_neighbors: int) -> Rule:
    """Return the rule for pairs of which so many have a database in common."""
    if n_neighbors == 1:
        return rule
    if rule != Exchangeable():
        raise ValueError(
            "neighbors_per_database must be 1 unless calibration='exchangeable', "
            "because pairs of one database are not independent; got "
            f"{n_neighbors} with {rule.name!r}."
        )
    # What is exchangeable is a database, with a critical scale for each neighbor.
    return Exchangeable(n_neighbors)


def _for_shape(n_databases: int, n_neighbors: int) -> int:
    """Return how many databases the shape is learned from."""
    if n_neighbors == 1:
        return min(n_databases // 2, MOST_SHAPE_PAIRS)
    # Neighbors tell of it as well, and few databases are few to calibrate with.
    most = max(1, MOST_SHAPE_PAIRS // n_neighbors)
    return min(max(n_databases // 5, 1), most)


def _with_shape(n_calibrating: int, n_neighbors: int) -> int:
    """Return how many databases leave so many to calibrate with."""
    if n_neighbors == 1:
        return n_calibrating + min(n_calibrating, MOST_SHAPE_PAIRS)
    n = n_calibrating + -(-n_calibrating // 4)
    return min(n, n_calibrating + max(1, MOST_SHAPE_PAIRS // n_neighbors))


def _may_learn(target: Target, law: Law) -> bool:
    """Tell if there is noise that a shape could be learned for."""
    return not (law.chooses or math.isinf(target.epsilon))


def _order_index(
    n_pairs: int,
    target: Target,
    rule: Rule,
    averages: bool,
    risk: float | None = None,
) -> int:
    """Return which distance counts, or raise CalibrationError for too few pairs.

    For a smaller `risk` than that of the target, where it is given.
    """
    gamma = target.gamma if risk is None else risk
    if target.advantage is not None:
        check_risk_control(n_pairs, target.advantage, "advantage")
    elif averages:
        check_risk_control(n_pairs, gamma)
    return rule.choose(n_pairs, gamma)


def _index_if_any(n_pairs: int, *asked: Any) -> int | None:
    """Return which distance counts, or None if so many pairs are not enough."""
    try:
        return _order_index(n_pairs, *asked)
    except CalibrationError:
        return None


def _enough_databases(
    target: Target, rule: Rule, averages: bool, n_neighbors: int, learns: bool
) -> int:
    """Return how many databases calibrate without much more noise than is needed.

    And those that a shape is learned from.
    """
    usual = _USUAL_PAIRS if n_neighbors == 1 else _USUAL_DATABASES
    n = usual
    if _index_if_any(usual // _TIMES_FEWEST, target, rule, averages) is None:
        n = max(usual, _TIMES_FEWEST * _fewest_pairs(target, rule, averages))
    if learns:
        return _with_shape(n, n_neighbors)
    return max(n, 2 * _USUAL_PAIRS) if n_neighbors == 1 else n


def _fewest_pairs(target: Target, rule: Rule, averages: bool) -> int:
    """Return the fewest pairs that are enough for the target."""
    low, high = 0, 1
    while _index_if_any(high, target, rule, averages) is None:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _index_if_any(middle, target, rule, averages) is None:
            low = middle
        else:
            high = middle
    return high


def _averages(target: Target, law: Law, rule: Rule) -> bool:
    """Tell if what is kept is the average of risks that are known for each pair.

    Over both sources of randomness, where it is no order statistic of losses of drawn
    noise.
    """
    if target.randomness != "both":
        return False
    plain = type(rule) is Exchangeable
    if target.advantage is not None:
        if not plain:
            raise ValueError(
                "calibration must be 'exchangeable' with an advantage, which is a mean "
                f"over pairs and no order statistic; got {rule.name!r}."
            )
        return True
    if law.knows_risk and plain:
        return True
    if not law.draws:
        raise ValueError(
            f"calibration must be 'exchangeable' with law={law.name!r}, which no "
            f"losses of drawn noise are known of; got {rule.name!r}."
        )
    return False
