"""How large the noise of a release is, and what would help; from public things alone.

All of it follows from sampled pairs of a public reference, the noise, parameters and
what was released.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from sklearn.base import is_regressor
from sklearn.utils.validation import check_is_fitted

from skparisk._words import BETTER
from skparisk.core.checks import CalibrationError, is_number
from skparisk.core.claim import Doubt, Unit
from skparisk.core.noise import AdditiveNoise
from skparisk.queries import LeafQuery
from skparisk.sensitivity import SensitivitySampler
from skparisk.sensitivity._noise_shape import sampling_spread

# Times the spread. Below, noise costs so little of a score that advice brings nothing
# that can be measured.
_SMALL = 1.5
# Where only what was released is known: of noise alone, the median is about 2.
_LARGE = 0.5
# How often chance would be taken for a far reference, over all outputs together: a
# search makes hundreds of fits, and one false alarm among them would be one too many.
_FALSE_ALARM = 1e-4
# Fewer do not tell how far answers spread.
_LEAST_PAIRS = 50
# How much further than what pairs say is rare: none of them may have changed one of the
# few people who move a coordinate most.
_SLACK = 2.0
_FEW_OUTPUTS = 20
# Other noise has to be at most so much of it, and so much for a weaker promise: a fit
# chooses its penalty for the noise, so with a quarter less of it the score rises about
# as often as it falls.
_WORTH, _WORTH_WEAKER = 0.9, 0.5
# Private share of the served model below which a hint names it.
_LITTLE = 0.1
# Times the spread: through more noise than that, hardly anything private is served.
_MOST_LEFT = 3.0
# More records than so many times as many are out of reach.
_MOST_TIMES = 100


def noise_of(sampler: SensitivitySampler) -> AdditiveNoise:
    """Return the noise that a sampler adds."""
    assert isinstance(sampler.mechanism_, AdditiveNoise)  # as estimators demand
    return sampler.mechanism_


def noise_draws(sampler: SensitivitySampler, n_draws: int) -> NDArray[np.float64]:
    """Return draws of about such noise, always the same, which nobody is given."""
    noise, rng = noise_of(sampler), np.random.default_rng(0)
    standard = rng.standard_normal((n_draws, sampler.n_outputs_))
    drawn = noise.shape.color(standard * noise.noise_scale * noise.law.deviation)
    return np.where(noise.deviations() > 0, drawn, 0.0)


def noise_to_spread(sampler: SensitivitySampler | None) -> float:
    """Return how large the noise is against the spread of answers between samples.

    Root mean square over the outputs that differ at all; NaN where no pairs are known.
    """
    if sampler is None or sampler.pairs_.withheld is not None:
        return math.nan
    relation = str(sampler.certificate_.relation)
    spread = sampling_spread(sampler.pairs_, sampler.n_records_, relation)
    moves = spread > 0
    if not moves.any():
        return math.nan
    ratios = noise_of(sampler).deviations()[moves] / spread[moves]
    return float(np.sqrt(np.mean(ratios**2)))


def distance(sampler: SensitivitySampler, released: NDArray[np.float64]) -> float:
    """Return how far a release is from a table's answer: above 1 is too far for chance.

    The largest coordinate of the noise's shape decides, against what is rare: of the
    noise; of two samples of people, the private one and the one that was drawn; and of
    the table itself. 0 where there is no table to compare with.
    """
    pairs, noise = sampler.pairs_, noise_of(sampler)
    if pairs.answer is None or pairs.sketch is None or not pairs.sketch.whole:
        return 0.0
    if not noise.steps or len(pairs) < _LEAST_PAIRS:
        return 0.0
    answered = pairs.differences[pairs.answered]
    changed = 2 if str(sampler.certificate_.relation) == "replace-one" else 1
    n_records = sampler.n_records_
    n_public = pairs.sketch.n_rows
    if pairs.unit == Unit.PERSON:
        n_public = changed * int(pairs.n_independent or 1)
    samples = 2 + n_records / n_public
    squares = noise.shape.whiten(answered) ** 2
    usual = np.mean(squares, axis=0)
    spread = np.sqrt(usual * n_records / changed * samples)
    with np.errstate(all="ignore"):  # numbers near the largest ones
        # Few pairs may be all that moves a coordinate (Satterthwaite's degrees).
        known = 2 * len(squares) * usual**2 / np.var(squares, axis=0)
        known = np.clip(np.nan_to_num(known, nan=1.0), 1.0, 1e6)
        off, answer = noise.shape.whiten(
            np.stack([released - pairs.answer, pairs.answer])
        )
    share = _FALSE_ALARM / len(off)
    # Laplace noise, whose tails are the heavier; answers are about normal.
    rare_noise = noise.noise_scale * noise.law.deviation * -math.log(share) / 2**0.5
    rare_spread = spread * -stdtrit(known, share / 2)
    if sampler.query_.is_correction:  # of residuals, which are of somewhat worse fits
        rare_spread = np.hypot(rare_spread, answer)
    away = np.abs(off / np.hypot(rare_noise, rare_spread)).max() / _SLACK
    return math.inf if np.isnan(away) else float(away)


def _drowns(model: Any) -> bool:
    """Tell if the noise is large against most of the released numbers."""
    released = getattr(model, "released_", getattr(model, "sums_", math.inf))
    return bool(np.mean(np.abs(released) * _LARGE < model._noise_deviations()) > 0.5)


def advise(model: Any, *, command_line: bool = False) -> str:
    """Return advice, in terms of Python or of the command line; "" if there is none."""
    ratio = model.noise_to_spread_
    said = []
    if Doubt.MADE_UP in model.certificate_.doubts:
        said.append(BETTER)
    compared = getattr(model, "reference_comparison_", None)
    weighed = getattr(model, "combine_", None) is not None
    beside = ""
    if compared and compared.public_is_better:
        said.append(compared.advice)
    elif compared:
        if is_regressor(model) and compared.private <= 0:
            said.append(
                "On the public records, the model predicts no better than a constant "
                f"(R2 {compared.private:.2g})."
            )
        beside = (
            f"; on the public records, the model scores {compared.private:.3g} and a "
            f"fit to them alone {compared.public_only:.3g}"
        )
    said += _say_what_is_private(model, compared)
    choice = getattr(model, "penalty_choice_", None)
    if choice is not None and not weighed:
        name, strongest = ("C", 0) if hasattr(model, "C") else ("alpha", -1)
        if choice.scores[strongest] == choice.scores.max():
            said.append(
                f"The chosen {name} makes the model nearly constant: with this much "
                "noise, no weaker penalty scores better on the public records."
            )
    # Of what is pooled with public records, the share that is private tells more.
    pooled = getattr(model, "private_weight_", 1.0) < 1.0
    if np.isnan(ratio) and not pooled and _drowns(model):
        said.append(
            "The noise is more than half as large as most of the released numbers, so "
            "they say little."
        )
        more = _remedies(model, ratio, command_line)
        said.append(f"What helps: {'; '.join([*more, 'more records'])}.")
    if ratio > _SMALL:
        n_records = model.certificate_.require_evidence().n_records
        said.append(
            f"The noise is {ratio:.2g} times the spread of the released numbers "
            f"between samples of {n_records} people{beside}."
        )
        more = _remedies(model, ratio, command_line)
        if ratio**2 <= _MOST_TIMES:
            wanted = float(f"{n_records * ratio**2:.1g}")
            more.append(
                f"more records (with about {wanted:,.0f}, the noise is as large as the "
                "spread)"
            )
        more = more or [f"a larger {'--' * command_line}epsilon"]
        said.append(f"What helps: {'; '.join(more)}.")
    return " ".join(said)


class HintMixin:
    """The hint of a private estimator that is fitted."""

    noise_to_spread_: float

    @property
    def hint_(self) -> str:
        """Size of the noise, and advice to reduce it; "" if it is small."""
        check_is_fitted(self, "certificate_")
        return advise(self)


def _say_what_is_private(model: Any, compared: Any) -> list[str]:
    """Say if little of the served model is private, and at which epsilon half is."""
    weight = getattr(model, "private_weight_", 1.0)
    if weight >= _LITTLE or (compared and compared.public_is_better):
        return []
    said = (
        f"Of what is served, {weight:.1%} is of private records, and the rest of "
        "public ones"
    )
    find = getattr(getattr(model, "template_", None), "private_weight", None)
    if find is not None:  # leaf values of trees
        noise = model._noise_deviations()
        factors = [2.0**power for power in range(1, 12)]
        enough = [factor for factor in factors if find(noise / factor) >= 0.5]
        if enough:
            said += f"; half of it would be at epsilon={model.epsilon * enough[0]:.2g}"
    return [f"{said}."]


def _remedies(model: Any, ratio: float, command_line: bool) -> list[str]:
    """Return settings for less noise, best first, against its `ratio` if known."""
    sampler = model.sampler_
    n_outputs = model._noise_deviations().size
    fewer = [f"fewer than {n_outputs} released numbers"] * (n_outputs > _FEW_OUTPUTS)
    if command_line:
        return ["fewer columns (--drop)"] * len(fewer)
    if sampler is None:
        return ["pairs sampled from public records"]
    found = []
    compared = model.reference_comparison_
    if compared and getattr(model, "combine", "auto") is None:
        found.append('combine="reference"')
    penalty = "alpha" if hasattr(model, "alpha") else "C"
    if is_number(getattr(model, penalty, None)) and not math.isnan(ratio):
        found.append(f'{penalty}="auto"')
    tried = []
    weighed = getattr(model, "combine_", None) is not None
    # As many private records as public ones add little, even without noise.
    in_vain = weighed and compared and compared.n_reference >= compared.n_records
    for changed, so in () if in_vain else _other_noise(sampler):
        other = math.nan if math.isnan(ratio) else _ratio_with(sampler, changed)
        most = _WORTH_WEAKER if so else _WORTH
        if not other > min(most * ratio, _MOST_LEFT):
            shown = ", ".join(f'{name}="{value}"' for name, value in changed.items())
            size = [f"then {other:.2g} times the spread"] * (not math.isnan(other))
            notes = ", ".join([*size, *so])
            tried.append((other, f"SensitivitySampler({shown}) ({notes})"))
    return [*found, *(text.removesuffix(" ()") for _, text in sorted(tried)), *fewer]


def _other_noise(
    sampler: SensitivitySampler,
) -> Iterator[tuple[dict[str, str], list[str]]]:
    """Yield parameters of noise that may be less, with a note if it promises less."""
    laplace = noise_of(sampler).law.name == "laplace"
    several = sampler.n_outputs_ > 1
    gaussian = {"law": "gaussian"} if laplace and several else {}
    if sampler.randomness == "implicit":
        weaker = "gamma covers pairs and noise together"
        yield {"randomness": "both"} | gaussian, [weaker]
    elif gaussian:
        yield gaussian, []
    leaves = isinstance(sampler.query_, LeafQuery)  # alike, so no shape helps
    if sampler.noise_shape == "isotropic" and several and not leaves:
        yield {"noise_shape": "auto"}, []


def _ratio_with(sampler: SensitivitySampler, changed: dict[str, str]) -> float:
    """Return the ratio of other noise for the same pairs; infinite if there is none."""
    other = copy.copy(sampler).set_params(**changed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # which are about the claim that there is
        try:
            return noise_to_spread(other.calibrate())
        except CalibrationError:
            return math.inf
