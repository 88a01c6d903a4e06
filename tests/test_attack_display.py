"""The picture of what attackers gain shows what is certified, and nothing better."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from certificates import certificate, minted
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

from skparisk import AttackDisplay, SensitivitySampler
from skparisk.core.claim import Advantage, Leak

GAIN = Advantage(0.1, 0.35, 0.05, 0.02, 0.06)
RELEASE = certificate(advantage=GAIN, noise_scale=1.0, randomness="both")
X = np.random.default_rng(0).normal(size=(60, 1))
KINDS = ("success", "trade-off")
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def labels(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_guesses_are_drawn_as_certified():
    display = AttackDisplay.from_certificate(RELEASE)
    for line, name in (
        (display.mean_line_, "mean"),
        (display.quantile_line_, "quantile"),
    ):
        priors, heights = line.get_data()
        assert (priors[0], priors[-1]) == (0, 1)
        np.testing.assert_array_equal(heights, getattr(GAIN.success(priors), name))
        assert np.interp(0.5, priors, heights) == pytest.approx(
            (1 + getattr(GAIN, name)) / 2
        )
    priors, blind = display.chance_line_.get_data()
    np.testing.assert_array_equal(blind, np.maximum(priors, 1 - priors))
    assert display.ax_.get_ylabel() == "probability of a right guess, at most"


def test_tests_are_drawn_as_certified():
    display = AttackDisplay.from_certificate(RELEASE, kind="trade-off")
    for line, most in ((display.mean_line_, 0.02), (display.quantile_line_, 0.06)):
        rates, heights = line.get_data()
        assert heights[rates == 0.01] == pytest.approx(most)
        assert (heights >= rates).all()
    rates, chance = display.chance_line_.get_data()
    np.testing.assert_array_equal(rates, chance)
    assert display.ax_.get_xlabel() == "false-positive rate of a test"


@every_kind
def test_one_curve_where_the_bound_is_for_everyone(kind):
    display = AttackDisplay.from_certificate(minted(0.5), kind=kind)
    assert display.quantile_line_ is None
    assert labels(display) == ["for everyone", "without the release"]


def test_estimators_are_drawn_by_name():
    sampler = SensitivitySampler(np.mean, advantage=0.1, random_state=0).fit(X)
    display = AttackDisplay.from_estimator(sampler)
    assert labels(display) == [
        "SensitivitySampler, on average over people",
        "SensitivitySampler, for 95 of 100 people",
        "without the release",
    ]
    named = AttackDisplay.from_estimator(sampler, name="mine", kind="trade-off")
    assert labels(named)[0] == "mine, on average over people"
    assert display.certificate == sampler.certificate_
    with pytest.raises(NotFittedError, match="Ridge has no certificate_"):
        AttackDisplay.from_estimator(Ridge())


@pytest.mark.parametrize(
    ("changes", "caveat"),
    [
        ({"leaks": [Leak.SEEDED_NOISE]}, "not a guarantee"),
        (
            {"leaks": [Leak.PRIVATE_CLASSES]},
            "not counting what was released without noise",
        ),
    ],
)
def test_caveats_are_in_the_legend(changes, caveat):
    display = AttackDisplay.from_certificate(certificate(**changes))
    assert caveat in labels(display)[0]


@every_kind
def test_both_curves_have_the_style(kind):
    display = AttackDisplay(RELEASE).plot(kind=kind, name="other", color="red", lw=3)
    assert display.mean_line_.get_color() == display.quantile_line_.get_color() == "red"
    assert display.quantile_line_.get_linestyle() == "--"
    assert labels(display)[0] == "other, on average over people"


def test_what_is_no_certificate_or_kind_is_refused():
    with pytest.raises(ValueError, match=r"certificate must be a Certificate, got 0.1"):
        AttackDisplay(0.1)
    with pytest.raises(ValueError, match="kind must be"):
        AttackDisplay(RELEASE).plot(kind="both")
