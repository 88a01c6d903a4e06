"""What is agreed on before anything is drawn: how many pairs, and what for."""

import numpy as np
import pytest

from skparisk import PrivateRidge
from skparisk.core import calibrate
from skparisk.core.calibrate import Exchangeable, Target
from skparisk.core.laws import Laplace
from skparisk.core.noise import NoiseShape
from skparisk.core.pairs import SampledPairs
from skparisk.exceptions import CalibrationError
from skparisk.sensitivity._noise_shape import fit_noise_shape
from skparisk.sensitivity._terms import (
    _cheapest,
    _for_shape,
    _with_shape,
    agree,
    settle,
)

BOTH = {"target": Target(1.0, 0.001, randomness="both"), "law": "gaussian"}


def terms_of(n_pairs, gamma=0.05, **how):
    usual = {"law": "laplace", "shape": "isotropic", "rule": "exchangeable"}
    target = how.pop("target", Target(1.0, gamma))
    return agree(n_pairs, target, **{**usual, **how})


def test_terms_are_those_of_the_target():
    terms = terms_of(100)
    assert (terms.n_databases, terms.n_shape, terms.risk) == (100, 0, 0.05)
    assert not terms.averages
    terms = terms_of(4000, **BOTH)
    assert (terms.averages, terms.risk) == (True, 0.001)
    with pytest.raises(ValueError, match="must be 'exchangeable' with an adv"):
        terms_of(4000, **BOTH, rule="pac")
    both = BOTH | {"law": "laplace"}
    assert not terms_of(4000, **both).averages
    assert not terms_of(4000, **both, rule="pac").averages


def test_a_risk_over_noise_that_is_known_needs_one_pair_more():
    """Each pair has some risk: 1 / (m + 1) itself cannot be reached."""
    with pytest.raises(CalibrationError, match=r"no risk of 0\.001 or below"):
        terms_of(999, **BOTH)
    assert terms_of(1000, **BOTH).n_databases == 1000
    assert terms_of("auto", **BOTH).n_databases == 5 * 1000
    assert terms_of("auto", 0.001).n_databases == 5 * 999


def test_few_databases_are_enough_with_several_neighbors():
    terms = terms_of("auto", n_neighbors=3)
    assert (terms.n_databases, terms.n_pairs) == (200, 600)
    assert terms_of("auto").n_databases == 1000
    assert terms_of("auto", shape="diagonal").n_databases == 1000
    assert terms_of("auto", shape="diagonal", n_neighbors=3).n_databases == 250


def test_a_shape_takes_one_database_at_least_and_leaves_some():
    for n_neighbors, least, gamma in [(1, 4, 0.4), (2, 4, 0.6), (3, 6, 0.6)]:
        how = {"shape": "diagonal", "n_neighbors": n_neighbors}
        terms = terms_of(least, gamma, **how)
        assert terms.n_shape >= 1
        assert terms.n_calibrating >= 1
        for few in (least - 1, least - n_neighbors):
            with pytest.raises(ValueError, match=rf"^n_pairs must .*\b{least}\b"):
                terms_of(few, gamma, **how)
        assert terms_of(2 * n_neighbors, 0.6, n_neighbors=n_neighbors).n_shape == 0


def test_a_shape_leaves_as_many_databases_as_are_asked_for():
    for n_neighbors in [2, 3, 7, 3000]:
        for n in [*range(1, 40), 3000, 10**5]:
            wanted = _with_shape(n, n_neighbors)
            assert isinstance(wanted, int)
            assert wanted - _for_shape(wanted, n_neighbors) >= n
            less = wanted - 2
            assert less - _for_shape(less, n_neighbors) < n
            assert isinstance(_for_shape(n, n_neighbors), int)
        assert _for_shape(4, n_neighbors) == 1
        assert _for_shape(10**5, n_neighbors) == max(1, 2048 // n_neighbors)
        assert _with_shape(10**5, n_neighbors) == 10**5 + max(1, 2048 // n_neighbors)


@pytest.mark.parametrize("n_neighbors", [2, 3])
def test_too_few_databases_are_told_what_they_are_counted_as(n_neighbors):
    message = (
        rf"^n_pairs=10 pairs certify no risk below .*; it needs n_pairs >= 19\. Pairs "
        rf"of one database, {n_neighbors} here, count as one: it needs n_pairs >= "
        rf"{19 * n_neighbors} in all\.$"
    )
    with pytest.raises(CalibrationError, match=message):
        terms_of(10 * n_neighbors, n_neighbors=n_neighbors)
    assert terms_of(19 * n_neighbors, n_neighbors=n_neighbors).n_databases == 19


def test_fewest_pairs_for_a_known_risk_over_the_noise_are_one_more():
    """4 pairs of 1/5 are above nothing: each has some risk."""
    both = Target(1.0, 0.2, randomness="both")
    how = {"target": both, "law": "gaussian", "n_neighbors": 2}
    with pytest.raises(CalibrationError, match=r"it needs n_pairs >= 10 in all\.$"):
        terms_of(8, **how)
    assert terms_of(10, **how).n_databases == 5


def test_a_risk_that_takes_too_many_pairs_is_told():
    for rule in ["exchangeable", "pac", "dkw"]:
        with pytest.raises(
            CalibrationError, match=rf"^n_pairs='auto' takes .*'{rule}' needs"
        ) as e:
            terms_of("auto", 1e-9, rule=rule)
        assert (e.value.target, e.value.best) == (1e-9, 1.0)


def test_what_does_not_go_together():
    with pytest.raises(ValueError, match="see calibrate_known"):
        terms_of(100, target=Target(1.0, 0.05, randomness="explicit"))
    chooses = {"law": "exponential"}
    for shape in ("auto", "isotropic", NoiseShape()):
        assert terms_of(100, shape=shape, **chooses).n_shape == 0
    for shape in ("diagonal", NoiseShape(np.ones(2))):
        with pytest.raises(ValueError, match="noise_shape must be 'isotropic'"):
            terms_of(100, shape=shape, **chooses)


# The shape that costs least


def errors_of(name, differences, law, gamma, weights, n_independent):
    """Return what noise of a shape adds to the errors that outputs are for."""
    half = len(differences) // 2
    shape = fit_noise_shape(
        name, differences[:half], weights=weights, n_independent=n_independent
    )
    coordinates = shape.whiten(differences[half:])
    order = {"laplace": 1, "gaussian": 2}[law]
    lengths = np.linalg.norm(coordinates, ord=order, axis=1)
    size = np.quantile(lengths, 1 - gamma)
    factor = size * shape.color(np.eye(differences.shape[1]))
    covariance = factor.T @ factor
    if weights is not None:
        return np.trace(covariance @ weights)
    scales = fit_noise_shape("diagonal", differences).color(np.eye(len(covariance)))
    return np.sum(np.diag(covariance) / np.diag(scales) ** 2)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("weighed", [False, True])
def test_auto_takes_the_shape_that_adds_least_to_the_errors(law, weighed):
    rng = np.random.default_rng(0)
    taken = set()
    for gamma in (0.05, 0.3):
        target = Target(1.0, gamma, randomness="both")
        terms = terms_of(1000, target=target, law=law, shape="auto")
        for n_rows in [9, 41] * 40:
            mixed = np.eye(3) + rng.uniform(0, 0.6) * rng.normal(size=(3, 3))
            differences = rng.standard_t(4, size=(n_rows, 3)) @ mixed
            differences *= 10.0 ** rng.integers(-2, 3, size=3)
            weights = None
            if weighed:
                root = rng.normal(size=(3, 3)) / differences.std(axis=0)[:, None]
                weights = root @ root.T
            known = {"weights": weights, "n_independent": int(rng.integers(8, 60))}
            pairs = SampledPairs(differences, None, np.zeros(3), **known)
            costs = {
                name: errors_of(name, differences, law, gamma, **known)
                for name in ("whitened", "diagonal")
            }
            best = min(costs, key=costs.get)
            assert _cheapest(terms, differences, pairs) == best
            taken.add(best)
    assert len(taken) == 2


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_auto_chooses_in_any_units(size):
    rng = np.random.default_rng(0)
    differences = rng.normal(size=(40, 1)) + 0.05 * rng.normal(size=(40, 3))
    pairs = SampledPairs(size * differences, None, np.zeros(3))
    terms = terms_of(1000, shape="auto")
    assert _cheapest(terms, pairs.differences, pairs) in ("whitened", "diagonal")


def test_a_fit_checks_its_target_once_and_asks_the_rule_a_few_times(monkeypatch):
    levels, asked = [], []

    def note(calls, module, name):
        checked = getattr(module, name)

        def noted(*arguments):
            calls.append(arguments)
            return checked(*arguments)

        monkeypatch.setattr(module, name, noted)

    note(levels, calibrate, "check_epsilon")
    note(asked, Exchangeable, "order_index")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 3)), rng.normal(size=80)
    model = PrivateRidge(alpha=1.0, epsilon=2.0, gamma=0.2, random_state=0)
    model.fit(X[40:], y[40:], X_reference=X[:40], y_reference=y[:40])
    assert levels == [(2.0,)]
    # As many pairs as are usual, and what rows leave of those beside the shape.
    assert {call[1:] for call in asked[:2]} == {(1000, 0.2), (500, 0.16)}
    assert len(asked) <= 4
    with pytest.raises(ValueError, match=r"^gamma must be a number in \(0, 1\), got 2"):
        Exchangeable().order_index(100, 2)


def test_candidates_for_a_penalty_settle_their_terms_once():
    terms = terms_of(1000, shape="auto")
    settled = settle(terms, 3)
    assert settled.n_shape == 500
    assert settle(settled, 3) is settled
    assert settle(terms, 1).shape == "isotropic"


def test_a_law_in_another_norm_is_refused():
    class Cubic(Laplace):
        name = "cubic"
        norm = 3.0

    with pytest.raises(ValueError, match=r"^law must have the norm 1, 2 or inf"):
        terms_of(100, law=Cubic())
