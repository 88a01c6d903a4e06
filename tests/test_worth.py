"""What private people would add, simulated on public records alone."""

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

from skparisk import (
    PrivacyLedger,
    PrivateLogisticRegression,
    PrivateRidge,
    SensitivitySampler,
    WorthDisplay,
)

mpl.use("Agg")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)) * [1.0, 1.0, 10.0, 0.1]
Y = X @ [1.0, -1.0, 0.05, 0.0] + RNG.normal(size=300)
RIDGE = PrivateRidge(epsilon=1.0)
QUICK = {"n_private": [100, 1000], "n_public": [30], "n_repeats": 2, "random_state": 2}


@pytest.fixture(scope="module")
def display():
    return WorthDisplay.from_estimator(RIDGE, X, Y, **QUICK)


def test_scores_are_those_of_people_who_are_like_these(display):
    """Without privacy as of fresh people of the same population, which is known."""
    fresh = np.random.default_rng(1).normal(size=(5000, 4)) * [1.0, 1.0, 10.0, 0.1]
    targets = fresh @ [1.0, -1.0, 0.05, 0.0]
    targets += np.random.default_rng(2).normal(size=5000)
    known = Ridge().fit(X, Y).score(fresh, targets)
    assert display.without_privacy[-1] == pytest.approx(known, abs=0.05)
    assert display.without_privacy[0] < display.without_privacy[-1]


def test_many_private_people_are_worth_it_and_noise_takes_from_it(display):
    assert display.scores.shape == (1, 2)
    assert display.public_only[0] < display.scores[0, 1]
    assert display.scores[0, 1] > display.without_privacy[1] - 0.02
    noisier = WorthDisplay.from_estimator(
        clone(RIDGE).set_params(epsilon=0.01), X, Y, **QUICK
    )
    assert noisier.scores[0, 0] < display.without_privacy[0] - 0.02


@pytest.mark.slow
def test_the_seed_decides_and_workers_do_not(display):
    again = WorthDisplay.from_estimator(RIDGE, X, Y, **QUICK, n_jobs=2)
    np.testing.assert_array_equal(again.scores, display.scores)
    other = WorthDisplay.from_estimator(RIDGE, X, Y, **QUICK | {"random_state": 1})
    assert (other.scores != display.scores).all()


def test_lines_are_drawn(display):
    bare, private, alone = display.lines_
    np.testing.assert_array_equal(private.get_ydata(), display.scores[0])
    np.testing.assert_array_equal(alone.get_ydata(), [display.public_only[0]] * 2)
    np.testing.assert_array_equal(bare.get_ydata(), display.without_privacy)
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend == ["without privacy", "private, 30 public", "30 public alone"]
    assert display.ax_.get_ylabel() == "r2, on simulated people"
    display.plot(ax=display.ax_, marker="s")
    assert display.lines_[1].get_marker() == "s"


@pytest.mark.slow
def test_classes_and_as_many_public_people_as_there_are_by_default():
    labels = np.where(Y > 1, "yes", "no")
    model = PrivateLogisticRegression(sensitivity=SensitivitySampler(n_pairs=60))
    given = {"n_private": [100, 500], "n_repeats": 1, "random_state": 0}
    with PrivacyLedger(1.0) as ledger:  # which nothing is charged to
        found = WorthDisplay.from_estimator(model, X[:80], labels[:80], **given)
    assert ledger.releases == ()
    assert [*found.n_public] == [40, 80]
    assert (found.scores > 0.6).all()
    assert found.scoring == "roc_auc_ovr"
    loss = {"scoring": "neg_log_loss", "n_public": [80]}
    found = WorthDisplay.from_estimator(model, X[:80], labels[:80], **given | loss)
    assert (found.scores < 0).all()


def test_numbers_out_of_range_are_refused():
    for given, message in [
        ({"n_repeats": 0}, "n_repeats must be a whole number >= 1"),
        ({"n_private": [5]}, "n_private must be a whole number >= 10"),
        ({"n_public": [50, 2]}, "n_public must be a whole number >= 10"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            WorthDisplay.from_estimator(RIDGE, X, Y, **given)


def test_too_few_people_are_refused():
    with pytest.raises(ValueError, match="minimum of 20 is required"):
        WorthDisplay.from_estimator(RIDGE, X[:19], Y[:19])
