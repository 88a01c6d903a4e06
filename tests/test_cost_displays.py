"""Pictures of budgets and frontiers."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from costs import POINTS, STAFF, THEOREM_4, refuses

from skparisk.displays import CostDisplay


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def texts(display):
    return [text.get_text() for text in display.ax_.texts]


def drawn(display):
    return [np.asarray(line.get_data()).tolist() for line in display.ax_.lines]


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
    assert drawn(several) != drawn(display)


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
