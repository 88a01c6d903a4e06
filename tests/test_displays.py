"""The pictures show what is certified and what was sampled, and nothing better."""

import math
import pickle
import sys

import certificates
import matplotlib.pyplot as plt
import numpy as np
import pytest
from certificate_cases import known
from costs import POINTS, STAFF, THEOREM_4, refuses
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

from skparisk.core.claim import Leak
from skparisk.core.pairs import Withheld
from skparisk.cost import CompensationModel
from skparisk.displays import CostDisplay, RiskCurveDisplay, SensitivityDisplay
from skparisk.exceptions import IncompatibleError, PrivacyLeakWarning
from skparisk.linear_model import PrivateRidge
from skparisk.sensitivity import KnownSensitivity, SensitivitySampler

RNG = np.random.default_rng(0)
X, Y = RNG.exponential(size=(40, 3)), RNG.normal(size=40)
PUBLIC = {"X_reference": X[20:], "y_reference": Y[20:]}
TIED = [3.0, 0.0, 2.0, 2.0, 5.0, 0.0, 2.0, 40.0]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def sampler():
    return SensitivitySampler(np.mean, n_pairs=200, random_state=0).fit(X[:, :1])


@pytest.fixture(scope="module")
def ridge():
    pairs = SensitivitySampler(n_pairs=100, random_state=0)
    return PrivateRidge(sensitivity=pairs).fit(X[:20], Y[:20], **PUBLIC)


@pytest.fixture(scope="module")
def known_ridge():
    bounds = {"x_norm": 3.0, "y_bounds": (-1, 1)}
    model = PrivateRidge(sensitivity="bound", **bounds)
    return model.fit(X, Y)


def certificate(**changes):
    """Return a certificate with a curve, with changes."""
    curve = ((0.01, 0.9), (0.8, 0.2), (1.5, 0.01))
    return certificates.certificate(
        **({"risk": 0.0496, "order_index": 1428, "curve": curve} | changes)
    )


def curve(*points):
    """Return the picture of a certificate with these levels and risks, and no others.

    The last ones are those of the release.
    """
    *others, (epsilon, risk) = points
    levels = {"epsilon": epsilon, "risk": risk, "curve": others or None}
    return RiskCurveDisplay(known(**levels))


def sensitivities(values, name="it"):
    """Return the picture of sampled sensitivities."""
    about = {"sensitivity": 2.0, "gamma": 0.05, "estimator_name": name}
    return SensitivityDisplay(np.array(values), **about)


CERTIFICATES = {
    "sorted": certificate(),
    "shuffled, tied and rising": certificate(
        curve=((1.5, 0.02), (0.8, 0.2), (0.1, 0.3), (0.8, 0.25), (0.5, 0.6))
    ),
    "with its own level, better": certificate(curve=((1.0, 0.03), (0.5, 0.3))),
    "from level 0 on": certificate(curve=((0.0, 0.7), (0.0, 0.8), (0.5, 0.3))),
    "with an infinite level": certificate(curve=((0.5, 0.3), (math.inf, 0.01))),
    "empty": certificate(curve=None),
    "without noise": certificate(epsilon=math.inf, noise_scale=0.0, curve=None),
    "without risk": known(risk=0.0496, curve=((0.5, 0.7), (2.0, 0.0))),
}


def height(line, x):
    """Return how high a step function is drawn."""
    assert line.get_drawstyle() == "steps-post"
    xs, ys = map(np.asarray, line.get_data())
    assert (np.diff(xs) >= 0).all()
    assert xs[0] <= x <= xs[-1]
    return ys[np.searchsorted(xs, x, side="right") - 1]


def legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def lines(ax):
    return [
        [np.asarray(part).tolist() for part in line.get_data()] for line in ax.lines
    ]


def assert_drawn_as_certified(display, certified):
    """At the levels, next to them, between them, and on a grid."""
    xs = np.asarray(display.line_.get_xdata())
    positive = xs[xs > 0]
    levels = [
        *positive,
        *np.nextafter(positive, 0),
        *(positive[1:] + positive[:-1]) / 2,
        *np.geomspace(1e-6 * positive[0], positive[-1], 300),
    ]
    for level in levels:
        assert height(display.line_, level) == certified.risk_at(level)
    assert certified.risk_at(1e6) == pytest.approx(display.line_.get_ydata()[-1])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CERTIFICATES)
def test_risk_is_drawn_as_certified(name):
    certified = CERTIFICATES[name]
    display = RiskCurveDisplay(certified).plot()
    if name != "with an infinite level":
        assert_drawn_as_certified(display, certified)
    for level in np.geomspace(1e-3, 1.8, 300):
        if level <= display.line_.get_xdata()[-1]:
            assert height(display.line_, level) == certified.risk_at(level)
    display.figure_.canvas.draw()


@pytest.mark.parametrize("risk", [0.0, 0.0491, 0.04911, 0.05, 1 / 3, 0.99999])
def test_risk_is_never_written_smaller(risk):
    display = curve((1 / 3, risk))
    label = display.plot().marker_.get_label()
    assert label.startswith("release: ε = 0.334, risk ")
    assert risk <= float(label.split()[-1]) <= risk + 0.001


def test_caveats_are_in_the_legend(sampler):
    cases = {
        "name": certificate(),
        "name (δ = 1e-06)": certificate(delta=1e-6),
        "name (not a guarantee)": certificate(leaks=[Leak.SEEDED_NOISE]),
        "name (δ = 0.1, not a guarantee)": certificate(
            leaks=[Leak.SEEDED_NOISE], delta=0.1
        ),
        "name (not counting what was released without noise)": certificate(
            leaks=[Leak.FITTED_PARTS]
        ),
        "name (over resamples of the private data)": certificate(
            leaks=[Leak.PRIVATE_REFERENCE], curve=None
        ),
    }
    for expected, certified in cases.items():
        assert not certified.caveats or not certified.private
        display = RiskCurveDisplay(certified, estimator_name="name").plot()
        assert legend(display)[0] == expected
    void = certificate(risk=1.0)
    for certified in (CERTIFICATES["without noise"], void):
        assert certified.guarantee.startswith("There is no guarantee")
        display = RiskCurveDisplay(certified).plot()
        assert legend(display)[0] == "not a guarantee"
    display = RiskCurveDisplay(void).plot(label="mine")
    assert legend(display)[0] == "mine (not a guarantee)"


@pytest.mark.parametrize("values", [TIED, [1.0], [2.0, 2.0], np.arange(7.0)])
def test_share_above_is_counted_by_hand(values):
    display = sensitivities(values).plot()
    for x in np.unique([*values, *np.nextafter(values, 0), 0.0, 0.5, 1.9, 2.1]):
        if 0 <= x <= max(values):
            share = sum(value > x for value in values) / len(values)
            assert height(display.line_, x) == share
    display.figure_.canvas.draw()


def test_sampled_sensitivities_are_those_of_the_estimator(sampler, ridge):
    for estimator, pairs in ((sampler, sampler), (ridge, ridge.sampler_)):
        display = SensitivityDisplay.from_estimator(estimator)
        assert np.array_equal(display.sensitivities, pairs.sensitivities_)
        for x in (0.0, *pairs.sensitivities_, pairs.sensitivity_ / 2):
            assert height(display.line_, x) == np.mean(pairs.sensitivities_ > x)
        assert display.gamma == 0.05
        assert height(display.line_, display.sensitivity) < display.gamma
        assert display.gamma_line_.get_ydata() == [0.05, 0.05]
        chosen = [estimator.sensitivity_] * 2
        assert display.sensitivity_line_.get_xdata() == chosen
        assert legend(display) == [
            type(estimator).__name__,
            "risk γ = 0.05",
            f"sensitivity Δ = {estimator.sensitivity_:.3g}",
        ]


def every_display(sampler):
    """Return displays of each kind, and what `plot` is asked for."""
    risk = RiskCurveDisplay(certificate(), estimator_name="it")
    budgets = CostDisplay.from_model(CompensationModel(5500.0), 0.5)
    return [
        (RiskCurveDisplay.from_estimator(sampler), {"label": "other"}),
        (SensitivityDisplay.from_estimator(sampler), {}),
        (RiskCurveDisplay(certificate(leaks=[Leak.SEEDED_NOISE])), {}),
        (sensitivities(TIED), {}),
        (pickle.loads(pickle.dumps(risk)), {"lw": 3}),
        (budgets, {"linewidth": 3}),
        (CostDisplay(budgets.curves, against="error", caveat="not so"), {}),
        (CostDisplay([]), {}),
    ]


def plain(value):
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def data(display):
    """Return everything that `__init__` sets, as plain numbers."""
    return {k: plain(v) for k, v in vars(display).items() if not k.endswith("_")}


def test_drawing_twice_draws_the_same_and_leaves_the_data(sampler):
    for display, words in every_display(sampler):
        before = data(display)
        first = lines(display.plot(**words).ax_)
        ax = display.ax_
        assert display.plot(color="red", **words) is display
        assert display.ax_ is not ax
        assert lines(display.ax_) == first
        assert all(line.get_color() == "red" for line in display.ax_.lines[:1])
        assert data(display) == before
        plt.close("all")


def test_draws_into_given_axes(sampler):
    for display, words in every_display(sampler):
        figure = Figure()
        ax = figure.subplots()
        numbers = plt.get_fignums()
        assert display.plot(ax, **words) is display
        assert (display.ax_, display.figure_) == (ax, figure)
        figure.canvas.draw()
    for draw, given in (
        (RiskCurveDisplay.from_estimator, sampler),
        (SensitivityDisplay.from_estimator, sampler),
        (CostDisplay.from_model, CompensationModel(1.0)),
    ):
        assert draw(given, ax=ax).ax_ is ax
    assert plt.get_fignums() == numbers


def test_words_reach_the_line_and_the_legend(sampler):
    words = {"color": "red", "linewidth": 3.0}
    for display in (
        RiskCurveDisplay.from_estimator(sampler, name="own", **words),
        SensitivityDisplay.from_estimator(sampler, name="own", **words),
        sensitivities(TIED, "own").plot(**words),
        sensitivities(TIED, "a").plot(label="own", **words),
    ):
        assert display.line_.get_color() == "red"
        assert display.line_.get_linewidth() == 3
        assert legend(display)[0] == "own"
        with pytest.raises(TypeError, match="drawstyle"):
            display.plot(drawstyle="default")


def test_without_matplotlib_says_what_to_install(sampler, monkeypatch):
    displays = every_display(sampler)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    expected = r'needs matplotlib: python -m pip install "skparisk\[plot\]"'
    for display, words in displays:
        with pytest.raises(ImportError, match=expected):
            display.plot(**words)


@pytest.mark.parametrize("display", [RiskCurveDisplay, SensitivityDisplay])
@pytest.mark.parametrize(
    "estimator", [SensitivitySampler(), PrivateRidge(), Ridge().fit(X, Y)]
)
def test_estimator_without_certificate_is_refused(display, estimator):
    expected = f"This {type(estimator).__name__} has no certificate_: fit it first"
    with pytest.raises(NotFittedError, match=expected):
        display.from_estimator(estimator)


def test_pairs_that_are_not_kept_are_not_drawn(sampler):
    with pytest.warns(PrivacyLeakWarning):
        ridge = PrivateRidge(random_state=0).fit(X, Y)
    dropped = pickle.loads(pickle.dumps(sampler))
    dropped.pairs_.withhold(Withheld())
    for estimator in (ridge, dropped):
        expected = (
            f"The sampled pairs of this {type(estimator).__name__} were not kept "
            "because they came from private data. Sample from a public reference "
            "instead."
        )
        with pytest.raises(IncompatibleError, match=expected):
            SensitivityDisplay.from_estimator(estimator)
        (first, _) = legend(RiskCurveDisplay.from_estimator(estimator))
        assert "(over resamples of the private data)" in first
    assert plt.get_fignums() == [1, 2]


def test_known_sensitivity_has_no_pairs_to_draw(known_ridge):
    expected = r"The sensitivity of this \w+ is known, so no pairs were sampled"
    declared = PrivateRidge(sensitivity=1.0).fit(X, Y)
    known = PrivateRidge(sensitivity=KnownSensitivity(1.0, delta=0.1)).fit(X, Y)
    for model in (known_ridge, declared, known):
        with pytest.raises(IncompatibleError, match=expected):
            SensitivityDisplay.from_estimator(model)


def test_what_is_no_certificate_is_refused():
    with pytest.raises(ValueError, match="certificate must be a Certificate"):
        RiskCurveDisplay(0.1)


# Budgets and frontiers


def texts(display):
    return [text.get_text() for text in display.ax_.texts]


def test_budgets_are_drawn_as_they_are():
    display = CostDisplay.from_model(STAFF)
    for noise, line, marks in zip(
        (0.7, 0.6, 0.5), display.lines_, display.marks_, strict=True
    ):
        x, y = line.get_data()
        assert x[-1] == noise
        assert y.tolist() == STAFF.budget_at_risk(x, noise).tolist()
        best = STAFF.optimal_epsilon(noise)
        assert marks.get_xdata().tolist() == [best]
        assert marks.get_ydata().tolist() == [STAFF.budget_at_risk(best, noise)]
        assert marks.get_color() == line.get_color()
    assert legend(display) == ["noise ε₀ = 0.7", "noise ε₀ = 0.6", "noise ε₀ = 0.5"]
    assert texts(display)[2] == "43,479 at ε = 0.156"
    assert display.ax_.yaxis.get_major_formatter()(120000) == "120,000"
    assert display.ax_.get_xscale() == "linear"
    display.figure_.canvas.draw()


def test_figure_4_of_the_paper_says_that_it_is_no_guarantee():
    display = CostDisplay.from_model(STAFF, 0.5, law=THEOREM_4)
    assert legend(display) == ["noise ε₀ = 0.5 (not a guarantee)"]
    assert texts(display) == ["37,806 at ε = 0.274"]
    several = CostDisplay.from_model(STAFF, [0.5], n_outputs=3, law=THEOREM_4)
    assert lines(several.ax_) != lines(display.ax_)


def test_frontier_is_drawn_risk_by_risk():
    display = CostDisplay.from_frontier(POINTS)
    assert legend(display) == ["risk γ = 0.1", "risk γ = 0.2"]
    first, second = display.lines_
    assert np.transpose(first.get_data()).tolist() == [[5, 10], [3, 20]]
    assert np.transpose(second.get_data()).tolist() == [[4, 10], [3, 30], [2, 40]]
    assert first.get_marker() == "."
    marked = [np.transpose(m.get_data()).tolist() for m in display.marks_]
    assert marked == [[[3, 20]], [[4, 10], [2, 40]]]
    assert texts(display) == ["ε = 2", "ε = 1", "ε = inf"]
    assert display.ax_.get_xlabel() == "error on public records"
    display.figure_.canvas.draw()


def test_an_axis_that_is_none_is_refused():
    refuses(
        lambda: CostDisplay([], against="x"),
        "against must be one of 'epsilon', 'error'; got 'x'.",
    )
