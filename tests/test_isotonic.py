"""Isotonic regression with a proven bound follows from noisy sums over bins."""

import math

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.isotonic import IsotonicRegression
from wrapped import private

from skparisk import IncompatibleError, SchemaReference
from skparisk.wrappers._isotonic import BinCells, merged_bins

RNG = np.random.default_rng(0)
N = 900
# In the middle of bins, of which 30 are seen at a level of 9.
X = (RNG.integers(30, size=N)[:, None] + 0.5) / 3
Y = np.sqrt(X[:, 0]) + 0.2 * RNG.normal(size=N)
SCHEMA = SchemaReference([(0.0, 10.0)], target=(-1.0, 5.0))


def fit(records=X, targets=Y, reference=SCHEMA, estimator=None, **parameters):
    estimator = IsotonicRegression() if estimator is None else estimator
    model = private(estimator, **({"sensitivity": "bound"} | parameters))
    return model.fit(records, targets, **({"X_reference": reference}))


@pytest.mark.parametrize("increasing", [True, False])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_with_hardly_any_noise_it_is_the_fit_of_scikit_learn(sign, increasing):
    """For features in the middle of bins, of which there are 900 at this level."""
    estimator = IsotonicRegression(increasing=increasing)
    ends = SchemaReference([(0.0, 10.0)], target=(-5.0, 5.0))
    model = fit(X, sign * Y, ends, estimator, epsilon=9.0 * 900)
    assert model.template_.cells.n_cells == 900
    plain = IsotonicRegression(increasing=increasing).fit(X, sign * Y)
    assert np.abs(model.predict(X) - plain.predict(X)).mean() < 0.05


def test_without_noise_means_of_bins_are_exact():
    middle = (RNG.integers(1024, size=N)[:, None] + 0.5) * 10 / 1024
    targets = np.sqrt(middle[:, 0]) + 0.2 * RNG.normal(size=N)
    model = fit(middle, targets, epsilon=math.inf)
    plain = IsotonicRegression().fit(middle, targets)
    assert model.template_.cells.n_cells == 1024
    assert_allclose(model.predict(middle), plain.predict(middle), atol=1e-12)
    assert_array_equal(model.estimator_.get_params(), plain.get_params())
    # Between its ends there is an answer, whatever the records were.
    everywhere = fit(epsilon=1.0).predict(np.linspace(0, 10, 50)[:, None])
    assert np.isfinite(everywhere).all()
    assert (np.diff(everywhere) >= 0).all()


def test_the_guarantee_is_pure():
    model = fit(epsilon=1.0)
    assert (model.certificate_.delta, model.risk_, model.sampler_) == (0.0, 0.0, None)
    assert model.certificate_.private
    # Two records in two bins, at the ends of targets: 1 and 1 each in units of 3.
    addend = model.template_.addend
    reach = np.abs((np.array([-1.0, 5.0]) - addend.center) / addend.unit).max()
    assert model.sensitivity_ == pytest.approx(2 + 2 * reach)
    assert model.template_.cells.n_cells == 10
    assert abs(model.score(X, Y) - IsotonicRegression().fit(X, Y).score(X, Y)) < 0.3
    assert model.template_.needs == {}
    assert model.template_.places == ("X_thresholds_", "y_thresholds_")
    for epsilon in (1e-9, 1e-3):
        assert np.isfinite(fit(epsilon=epsilon).predict(X)).all()


def test_the_bound_is_attained():
    query = fit(epsilon=1.0).template_
    cells, addend = query.cells, query.addend
    rows = np.array([[0.0], [10.0]])
    added = addend(np.array([-1.0, 5.0]))
    largest = 2 * np.abs(added).sum(axis=1).max()
    assert addend.largest("replace-one")[1] == pytest.approx(largest)
    assert_array_equal(cells.of(rows), [[0], [9]])


def test_any_number_has_a_bin():
    cells = BinCells(-1.0, 1.0, 4)
    numbers = np.array([-np.inf, -1.0, -0.5, 0.49, 1.0, 1e308, np.nan])
    assert_array_equal(cells.of(numbers)[:, 0], [0, 0, 1, 2, 3, 3, 0])
    assert_array_equal(cells.centers, [-0.75, -0.25, 0.25, 0.75])
    assert_array_equal(BinCells(2.0, 2.0, 3).of(numbers), np.zeros((7, 1)))
    texts = pd.DataFrame({"x": [0.49, "none", -1.0, 10**400]})
    assert_array_equal(cells.of(texts)[:, 0], [2, 0, 0, 0])
    wide = BinCells(-1e308, 1e308, 2)
    assert_array_equal(wide.of(np.array([-1e308, 0.0, 1e308]))[:, 0], [0, 1, 1])


def test_public_records_have_bounds_as_well():
    frame = pd.DataFrame({"x": X[:, 0]})
    model = private(IsotonicRegression(), sensitivity="bound", epsilon=100.0)
    model.fit(frame[300:], Y[300:], X_reference=frame[:300], y_reference=Y[:300])
    assert model.template_.cells.low == X[:300].min()
    assert model.score(frame, Y) > 0.8


def test_what_cannot_be_is_refused():
    with pytest.raises(IncompatibleError, match="feature of IsotonicRegression must"):
        private(IsotonicRegression(), sensitivity="bound").fit(X, Y)
    two = SchemaReference([(0.0, 10.0)] * 2, target=(-1.0, 5.0))
    with pytest.raises(ValueError, match=r"X must have one feature .* got 2"):
        fit(np.column_stack([X, X]), Y, two)


def test_bins_with_few_records_are_joined():
    counts, totals = np.array([1.0, -2.0, 6.0, 9.0, 1.0]), np.arange(5.0)
    centers = np.arange(5.0)
    merged = merged_bins(counts, totals, centers, 4.0)
    for found, expected in zip(
        merged, ([5.0, 9.0], [3.0, 3.0], [12 / 7, 3.0]), strict=True
    ):
        assert_allclose(found, expected)
    plain = merged_bins(np.array([2.0, 0.0, 1.0]), np.ones(3), centers[:3], 0.0)
    assert_allclose(plain, [[2.0, 1.0], [1.0, 2.0], [0.0, 2.0]])
    assert_allclose(merged_bins(counts, totals, centers, 99.0), [[15.0], [10.0], [2.0]])
