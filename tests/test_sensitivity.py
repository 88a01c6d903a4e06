"""SensitivitySampler: sampling, calibration, release, and what it refuses."""

import copy
import json
import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from certificates import filed
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import exceeds
from rows import risk_for_rows
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skparisk import (
    CalibrationError,
    FiledCertificate,
    IncompatibleError,
    PrivacyLeakWarning,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk._words import PROVISOS
from skparisk.core import Assumption
from skparisk.core.calibrate import Exchangeable, Target
from skparisk.queries import MeanQuery, PairDifferences, RecordQuery, RidgeQuery
from skparisk.reference import CallableReference, SchemaReference, TableReference
from skparisk.sensitivity import calibrate

RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(300, 2))
PRIVATE = RNG.normal(size=(300, 2))
TARGETS = PUBLIC @ [1.0, -2.0] + RNG.normal(size=300)

FITTED = {"mechanism_", "claim_", "query_", "n_features_in_", "_config"}


@pytest.fixture(scope="module")
def mean_sampler():
    return SensitivitySampler(
        MeanQuery(), noise_shape="isotropic", n_pairs=400, random_state=0
    ).fit(PUBLIC)


INDEX = 400 - math.floor(401 * risk_for_rows(0.05, 300, 400) - 1)


def test_fitted_attributes_are_what_the_method_says(mean_sampler):
    """Delta is the K-th smallest l1 norm, and the scale is Delta / epsilon."""
    s = mean_sampler
    assert s.differences_.shape == (400, 2)
    sizes = np.abs(s.differences_).sum(axis=1) + s.pairs_.errors.sum()
    np.testing.assert_allclose(s.sensitivities_, sizes, rtol=1e-12)
    assert s.certificate_.evidence.order_index == INDEX == 384
    assert s.sensitivity_ == np.sort(s.sensitivities_)[INDEX - 1]
    assert s.risk_ == pytest.approx(1 - INDEX / 401)
    assert s.risk_ <= 0.05
    np.testing.assert_allclose(s.noise_scale_, s.sensitivity_ / 1.0, rtol=2e-6)
    assert s.noise_scale_ > s.sensitivity_
    assert s.noise_epsilon_ == s.sensitivity_ / s.noise_scale_
    assert set(vars(s)) == {*s.get_params(deep=False)} | FITTED


def test_certificate_states_how_it_came_about(mean_sampler):
    certificate = mean_sampler.certificate_
    assert certificate.private
    assert certificate.caveats == (PROVISOS[Assumption.REPEATED_ROWS],)
    evidence = certificate.evidence
    assert evidence.reference.startswith("resampled from a table of 300 rows")
    assert evidence.for_new_people.startswith("risk at most 0.0133 larger, b")
    assert (evidence.n_pairs, evidence.n_records, evidence.n_outputs) == (400, 300, 2)
    document = json.loads(json.dumps(certificate.to_dict()))
    assert FiledCertificate.from_dict(document) == filed(certificate)


def test_certificate_reads_the_whole_curve_at_the_released_noise(mean_sampler):
    """1 - #{i : G_i <= epsilon' / epsilon G_(K - 1)} / (m + 1), and the risk itself."""
    s = mean_sampler
    order = np.sort(s.sensitivities_)
    for level in (0.1, 0.4, 0.9, 1.0, 1.3, 1.7):
        within = np.count_nonzero(order * (1 + 3e-6) < level * order[INDEX - 2])
        if level >= 1.0:
            within = max(INDEX, within)
        assert s.certificate_.risk_at(level) == pytest.approx(1 - within / 401)
    assert s.certificate_.risk_at(1.0) == s.risk_
    step = order[INDEX - 1] / order[INDEX - 2]
    for gamma in (0.01, 0.05, 0.3):
        level = s.certificate_.epsilon_at(gamma)
        exact = order[Exchangeable().order_index(400, gamma) - 1] / s.noise_scale_
        assert exact * (1 - 2e-6) <= level <= exact * step * 1.00001
        assert s.certificate_.risk_at(level) <= gamma
    assert s.certificate_.epsilon_at(0.001) == np.inf


@pytest.mark.slow
@pytest.mark.parametrize("n_pairs", [9, 19, 99])
def test_risk_at_other_levels_holds_also_for_ties_and_gaps(n_pairs):
    """The noise is an order statistic of the counted pairs: the count must know it."""
    rng, gamma = np.random.default_rng(0), 0.3
    claimed, exceeded, naive, trials = 0.0, 0, 0.0, 4000
    for _ in range(trials):
        *sample, fresh = np.where(rng.random(n_pairs + 1) < 0.7, 1.0, 100.0)
        differences = np.array(sample)[:, None]
        _, certificate = calibrate(differences, Target(1.0, gamma), n_records=1)
        claimed += certificate.risk_at(10.0)
        noise_scale = certificate.evidence.noise_scale
        exceeded += fresh > 10.0 * noise_scale
        within = np.count_nonzero(np.array(sample) <= 10.0 * noise_scale)
        naive += 1 - within / (n_pairs + 1)
    assert not exceeds(exceeded, trials, min(1.0, claimed / trials))
    assert naive < claimed


def test_pac_certifies_one_level_only():
    sampler = SensitivitySampler(MeanQuery(), calibration="pac").fit(PUBLIC)
    assert sampler.certificate_.risk_at(2.0) == sampler.risk_
    assert sampler.certificate_.risk_at(0.99) == 1.0


def test_no_level_above_is_certified_where_the_next_sensitivity_is_zero():
    """One positive pair among many zeros: its own level is all there is."""
    few = CallableReference(lambda n, rng: rng.choice(PUBLIC[:5], n))

    def has_the_largest(X):
        return float(X.max() == PUBLIC[:5].max())

    sampler = SensitivitySampler(
        has_the_largest, reference=few, n_pairs=400, random_state=0, gamma=0.01
    ).fit(PUBLIC[:5])
    order = np.sort(sampler.sensitivities_)
    index = int(np.searchsorted(order, 0, side="right")) + 1
    other = sampler.calibrate(gamma=1 - (index - 0.5) / 401)
    assert other.certificate_.evidence.order_index == index
    assert other.certificate_.risk_at(1e9) == other.risk_


def test_sampled_pairs_cannot_be_changed(mean_sampler):
    with pytest.raises(ValueError, match="read-only"):
        mean_sampler.differences_[0] = 0.0
    mean_sampler.sensitivities_[:] = 0.0  # calculated each time
    assert mean_sampler.sensitivities_.min() > 0


def test_curve_of_many_pairs_is_thinned_on_the_safe_side():
    sampler = SensitivitySampler(
        MeanQuery(), noise_shape="isotropic", n_pairs=5000, random_state=0
    )
    sampler.fit(PUBLIC[:20])
    assert len(sampler.certificate_.evidence.curve) <= 2048
    losses = sampler.sensitivities_ / sampler.noise_scale_
    for level in np.quantile(losses, [0.1, 0.5, 0.9]) * 1.0001:
        exact = (5001 - np.count_nonzero(losses <= level)) / 5001
        assert exact <= sampler.certificate_.risk_at(level) <= exact + 3 / 5001


@settings(derandomize=True, max_examples=30, deadline=None)
@given(
    epsilon=st.floats(1e-3, 1e3),
    gamma=st.floats(0.01, 0.9),
    calibration=st.sampled_from(["exchangeable", "pac"]),
)
def test_achieved_risk_never_exceeds_the_target(
    mean_sampler, epsilon, gamma, calibration
):
    other = copy.copy(mean_sampler).set_params(calibration=calibration)
    other = other.calibrate(epsilon=epsilon, gamma=gamma)
    assert other.risk_ <= gamma
    assert other.certificate_.risk_at(epsilon) <= gamma
    assert other.certificate_.epsilon_at(gamma) <= epsilon


def test_calibrate_refuses_a_choice_by_scores_that_a_record_has_not():
    sampler = SensitivitySampler(n_pairs=50, random_state=0).fit(PUBLIC)
    sampler.set_params(law="exponential")
    with pytest.raises(ValueError, match=r"chooses by the scores .* query is None"):
        sampler.calibrate()


def test_calibrate_shares_pairs_and_leaves_the_original(mean_sampler):
    before = pickle.dumps(mean_sampler)
    other = mean_sampler.calibrate(epsilon=0.1, gamma=0.2)
    assert other.differences_ is mean_sampler.differences_
    assert (other.epsilon, other.gamma) == (0.1, 0.2)
    index = other.certificate_.evidence.order_index
    assert other.sensitivity_ == np.sort(mean_sampler.sensitivities_)[index - 1]
    assert (
        other.certificate_.evidence.reference
        == mean_sampler.certificate_.evidence.reference
    )
    assert pickle.dumps(mean_sampler) == before
    assert mean_sampler.calibrate().certificate_ == mean_sampler.certificate_


@pytest.mark.parametrize("calibration", ["exchangeable", "pac", "dkw"])
def test_each_calibration_takes_its_own_order_statistic(calibration):
    expected = {"exchangeable": 1426, "pac": 1440, "dkw": 1496}[calibration]
    sampler = SensitivitySampler(
        MeanQuery(),
        calibration=calibration,
        reference=CallableReference(_normal_records),
        noise_shape="isotropic",
        n_pairs=1500,
        random_state=0,
    ).fit(PUBLIC)
    assert sampler.certificate_.evidence.order_index == expected
    assert sampler.sensitivity_ == np.sort(sampler.sensitivities_)[expected - 1]
    assert sampler.risk_ <= 0.05


class Lax(Exchangeable):
    def choose(self, n_pairs, gamma):
        return 1


def never(X):
    raise AssertionError("a database was sampled")


def test_rules_that_are_none_are_refused_before_anything_is_sampled():
    for rule, message in [
        *(
            (rule, "calibration must be one of 'exchangeable', 'pac', 'dkw'; got")
            for rule in (Exchangeable, Lax(), object())
        ),
        (Exchangeable(10), "neighbors_per_database must be 10 with calibration=Exch"),
    ]:
        sampler = SensitivitySampler(never, calibration=rule, n_pairs=400)
        with pytest.raises(ValueError, match=message):
            sampler.fit(PUBLIC)


@pytest.mark.parametrize("reference", ["split", "callable"])
@pytest.mark.usefixtures("at_once")
def test_every_reference_is_the_same_for_any_number_of_workers(reference):
    sources = {
        "split": TableReference(RNG.normal(size=(2000, 2)), sampling="split"),
        "callable": CallableReference(_normal_records),
    }
    sampler = SensitivitySampler(
        MeanQuery(), reference=sources[reference], n_pairs=150, random_state=0
    ).set_params(n_records=9)
    one = sampler.fit(PRIVATE).differences_
    two = clone(sampler).set_params(n_jobs=2).fit(PRIVATE).differences_
    np.testing.assert_array_equal(one, two)


def _normal_records(n_records, rng):
    return rng.normal(size=(n_records, 2))


def test_first_pairs_do_not_depend_on_how_many_are_drawn():
    few, many = (
        SensitivitySampler(MeanQuery(), n_pairs=m, random_state=0).fit(PUBLIC)
        for m in (100, 500)
    )
    found, expected = few.differences_[:64], many.differences_[:64]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


def test_private_data_tell_only_their_shape_where_a_reference_is_given():
    reference = TableReference(PUBLIC)
    sampler = SensitivitySampler(MeanQuery(), reference=reference, random_state=0)
    one = sampler.fit(PRIVATE)
    state = pickle.dumps(one)
    two = clone(sampler).fit(PRIVATE * 1e6)
    assert pickle.dumps(two) == state
    assert one.n_records_ == len(PRIVATE)


def test_release_differs_each_time_also_with_random_state(mean_sampler):
    first, second = (mean_sampler.release(PRIVATE) for _ in range(2))
    assert (first != second).all()
    assert np.abs(first - PRIVATE.mean(axis=0)).max() < 60 * mean_sampler.noise_scale_


def test_release_repeats_only_with_noise_random_state_which_warns():
    sampler = SensitivitySampler(MeanQuery(), random_state=0, noise_random_state=1).fit(
        PUBLIC
    )
    with pytest.warns(PrivacyLeakWarning, match="noise_random_state=1 makes the noise"):
        first = sampler.release(PRIVATE)
    with pytest.warns(PrivacyLeakWarning, match="noise_random_state"):
        np.testing.assert_array_equal(first, sampler.release(PRIVATE))
    assert not sampler.certificate_.private
    assert "NOT private" in str(sampler.certificate_)


def test_infinite_epsilon_is_the_query_itself():
    sampler = SensitivitySampler(MeanQuery(), epsilon=np.inf).fit(PUBLIC)
    np.testing.assert_array_equal(sampler.release(PRIVATE), PRIVATE.mean(axis=0))
    assert sampler.noise_scale_ == 0
    assert not sampler.certificate_.private


def test_add_remove_answers_both_sizes_of_a_pair_and_no_other():
    sampler = SensitivitySampler(
        np.median, relation="add-remove", n_records=50, n_pairs=200, gamma=0.2
    ).fit(PUBLIC)
    for n_records in (49, 50):
        assert sampler.release(PRIVATE[:n_records]).shape == (1,)
    for n_records in (48, 51):
        with pytest.raises(IncompatibleError, match="databases of 49 or 50 records"):
            sampler.release(PRIVATE[:n_records])


def test_local_model_releases_each_record_by_itself():
    sampler = SensitivitySampler(epsilon=2.0, random_state=0).fit(PUBLIC)
    assert isinstance(sampler.query_, RecordQuery)
    assert (sampler.n_records_, sampler.n_outputs_) == (1, 2)
    released = sampler.transform(PRIVATE)
    assert released.shape == PRIVATE.shape
    noise = released - PRIVATE
    assert len(np.unique(noise)) == noise.size
    assert sampler.release(PRIVATE[:1]).shape == (2,)


def test_transform_exists_for_single_records_only(mean_sampler):
    assert not hasattr(mean_sampler, "transform")
    assert not hasattr(mean_sampler, "fit_transform")
    assert hasattr(SensitivitySampler(), "transform")


def test_fit_transform_of_the_same_data_warns_and_keeps_no_pair():
    sampler = SensitivitySampler()
    with pytest.warns(PrivacyLeakWarning, match="private data themselves"):
        assert sampler.fit_transform(PRIVATE).shape == PRIVATE.shape
    assert sampler.certificate_.reference_is_private
    assert not sampler.certificate_.private
    assert not hasattr(sampler, "differences_")
    assert not hasattr(sampler, "sensitivities_")
    assert sampler.certificate_.evidence.curve is None
    assert sampler.certificate_.risk_at(1.0) == sampler.risk_
    assert sampler.certificate_.risk_at(0.99) == 1.0
    with pytest.raises(IncompatibleError, match="came from private data"):
        sampler.calibrate()


def test_warnings_point_at_the_line_of_the_caller():
    seeded = SensitivitySampler(MeanQuery(), noise_random_state=0).fit(PUBLIC)
    for call in (
        lambda: SensitivitySampler().fit_transform(PRIVATE),
        lambda: seeded.release(PRIVATE),
        lambda: PrivateRidge().fit(PRIVATE, TARGETS),
    ):
        with pytest.warns(UserWarning, match="private") as caught:
            call()
        assert {warning.filename for warning in caught} == {__file__}


def test_query_with_targets_needs_a_reference_that_has_them():
    sampler = SensitivitySampler(
        lambda X, y: y.mean(), reference=SchemaReference([(0, 1), (0, 1)])
    )
    with pytest.raises(ValueError, match="takes targets, but the reference has none"):
        sampler.fit(PRIVATE, TARGETS)


def test_fit_transform_with_a_reference_does_not_warn():
    sampler = SensitivitySampler(reference=TableReference(PUBLIC))
    assert sampler.fit_transform(PRIVATE).shape == PRIVATE.shape
    assert sampler.certificate_.private


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_keep_their_names(library):
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library]
    X = frame({"a": PUBLIC[:, 0], "b": PUBLIC[:, 1]})
    sampler = SensitivitySampler().set_output(transform=library).fit(X)
    released = sampler.transform(2 * X)
    assert isinstance(released, frame)
    assert list(released.columns) == ["a", "b"]
    assert list(sampler.get_feature_names_out()) == ["a", "b"]
    swapped = frame({"b": PUBLIC[:, 1], "a": PUBLIC[:, 0]})
    with pytest.raises(IncompatibleError, match="same columns in another order"):
        sampler.transform(swapped)


@pytest.mark.filterwarnings("ignore::skparisk.exceptions.PrivacyLeakWarning")
def test_works_inside_pipelines_and_searches():
    y = TARGETS
    few = SensitivitySampler(n_pairs=99)
    pipeline = make_pipeline(
        StandardScaler(),
        SensitivitySampler(epsilon=5.0, n_pairs=99),
        PrivateRidge(sensitivity=few),
    )
    assert set(cross_validate(pipeline, PUBLIC, y, cv=2)) >= {"test_score"}
    grid = {"sensitivitysampler__gamma": [0.05, 0.2]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(PUBLIC, y)
    assert search.best_estimator_["sensitivitysampler"].risk_ <= 0.2


def fitted(**parameters):
    return SensitivitySampler(**parameters).fit(PUBLIC)


def test_bad_configurations_are_refused():
    for parameters, message in [
        ({"epsilon": 0}, r"epsilon must be a number in \(0, inf\], got 0\."),
        ({"epsilon": "1"}, r"epsilon must be a number in \(0, inf\], got '1'"),
        ({"gamma": 0.0}, r"gamma must be a number in \(0, 1\), got 0\.0"),
        ({"gamma": 1}, r"gamma must be a number in \(0, 1\), got 1\."),
        ({"calibration": "best"}, "calibration must be one of 'exchangeable', 'pac'"),
        ({"relation": "swap"}, "relation must be one of 'replace-one', 'add-remove'"),
        ({"n_pairs": 0}, "n_pairs must be a whole number >= 1, got 0"),
        ({"n_pairs": 99.5}, r"n_pairs must be a whole number >= 1, got 99\.5"),
        ({"query": 3}, "query must be None, a callable"),
        ({"noise_random_state": "x"}, "noise_random_state must be None, a whole"),
        ({"random_state": "x"}, "random_state must be None, a whole number in"),
        ({"n_jobs": "a"}, "n_jobs must be None or a whole number other than 0"),
        ({"verbose": 0.5}, r"verbose must be a whole number >= 0, got 0\.5"),
        ({"query": lambda X: {"a": 1}}, "at least one number, got dict"),
        ({"reference": [[1.0], [2.0]]}, "got an object of type list"),
        ({"reference": 3}, "reference must be a TableReference"),
        ({"n_records": 2}, "n_records must be None or 1 with query=None, got 2"),
        ({"relation": "add-remove"}, "relation must be 'replace-one' with query=None"),
        ({"query": np.mean, "n_records": 0}, "n_records must be a whole number >= 1"),
        (
            {"query": np.mean, "n_records": 1, "relation": "add-remove"},
            "n_records must be a whole number >= 2, got 1",
        ),
        (
            {"query": np.mean, "relation": "add-remove"}
            | {"reference": TableReference(PUBLIC)},
            "n_records must be given with relation='add-remove', got None",
        ),
        ({"query": lambda X, y: y.mean()}, "y must be given because the query"),
        ({"query": RidgeQuery()}, "y must be given because the query"),
        (
            {"query": np.mean, "reference": TableReference(PUBLIC, sampling="split")},
            r"at least 4000 rows for n_pairs=1000 pairs .* 301 records each, got 300",
        ),
        ({"query": lambda X: np.nan}, "None of the sampled .* returned NaN"),
        (
            {"query": lambda X: np.zeros(1 + (X[0, 0] > 0))},
            r"same number of outputs for every database, got \[1, 2\]",
        ),
        ({"query": lambda X: 1.0}, r"sampled sensitivity at gamma=0\.05 is 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            fitted(**parameters)


def test_too_few_pairs_are_refused_before_sampling():
    for parameters, message, best in [
        (
            {"gamma": 1e-4, "n_pairs": 1000},
            "n_pairs=1000 pairs certify no risk below",
            1 / 1001,
        ),
        ({"n_pairs": 1000, "calibration": "dkw"}, "n_pairs >= 1305", 0.0564677078),
        ({"n_pairs": 10, "calibration": "pac"}, "n_pairs >= 59", 1 - 0.05**0.1),
    ]:

        def never(X):
            raise AssertionError("sampled")

        with pytest.raises(CalibrationError, match=message) as caught:
            fitted(query=never, **parameters)
        assert caught.value.best == pytest.approx(best)
        assert caught.value.target == parameters.get("gamma", 0.05)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("query", "relation", "known"),
    [
        (np.sum, "replace-one", 180_000),
        (np.sum, "add-remove", 200_000),
        (np.mean, "replace-one", 180_000 / 30),
        (len, "add-remove", 1),
        (lambda X: np.histogram(X, [0, 1e5, 2e5])[0], "replace-one", 2),
        (lambda X: np.histogram(X, [0, 1e5, 2e5])[0], "add-remove", 1),
    ],
)
def test_sampled_sensitivity_comes_up_to_the_known_one(query, relation, known):
    """Salaries from 20k to 200k, 30 people: the lecture's examples."""
    sampler = SensitivitySampler(
        query,
        gamma=0.01,
        noise_shape="isotropic",
        relation=relation,
        reference=SchemaReference([(20_000, 200_000)]),
        n_records=30,
        n_pairs=2000,
        random_state=0,
    ).fit(np.zeros((1, 1)))
    assert 0.85 * known < sampler.sensitivity_ <= known * (1 + 1e-12)


def test_error_of_a_query_that_hardly_moves_says_at_which_risk_it_does():
    """The largest value of 300 changes in one of 300 pairs or so."""
    sampler = SensitivitySampler(np.max, gamma=0.2, random_state=0)
    with pytest.raises(CalibrationError, match=r"at gamma=0\.2 is 0") as caught:
        sampler.fit(PUBLIC)
    assert 0 < caught.value.best < 0.2
    sampler.set_params(gamma=caught.value.best).fit(PUBLIC)
    assert sampler.sensitivity_ > 0
    with pytest.raises(CalibrationError, match="is 0") as caught:
        sampler.set_params(query=lambda X: 1.0).fit(PUBLIC)
    assert caught.value.best == 0.0


def test_length_that_changes_between_blocks_is_refused():
    class Wandering(MeanQuery):
        """One more output from the second block of pairs on."""

        def on_pool(self, pool, n_records):
            plain, calls = super().on_pool(pool, n_records), []

            def differences(pairs):
                calls.append(1)
                return PairDifferences(np.tile(plain(pairs).values, len(calls)))

            return differences

    with pytest.raises(ValueError, match=r"same number of outputs .* got \[2, 4"):
        fitted(query=Wandering(), n_pairs=1000)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_private_data_with_missing_numbers_are_refused(mean_sampler, bad):
    X = PRIVATE.copy()
    X[3, 1] = bad
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        mean_sampler.release(X)


def test_answers_that_do_not_fit_what_was_sampled_are_refused(mean_sampler):
    with pytest.raises(IncompatibleError, match=r"databases of 300 records, got 299"):
        mean_sampler.release(PRIVATE[:299])
    with pytest.raises(ValueError, match="X has 1 features"):
        mean_sampler.release(PRIVATE[:, :1])
    sampler = SensitivitySampler(
        lambda X: np.full(1 + (X == 99).any(), X.mean()), n_pairs=50
    ).fit(PUBLIC)
    X = PRIVATE.copy()
    X[0, 0] = 99
    with pytest.raises(ValueError, match="or another number of outputs") as told:
        sampler.release(X)
    assert "2" not in str(told.value)  # how many there are on the private data


# What is set after fit must not make the certificate say something false


def test_noise_seeded_after_fit_is_refused_until_the_certificate_says_so():
    sampler = SensitivitySampler(MeanQuery()).fit(PUBLIC)
    sampler.set_params(noise_random_state=0)
    with pytest.raises(IncompatibleError, match="set after the certificate was made"):
        sampler.release(PRIVATE)
    again = sampler.calibrate()
    assert not again.certificate_.private
    with pytest.warns(PrivacyLeakWarning):
        again.release(PRIVATE)


def test_query_set_after_fit_is_not_the_one_that_is_released():
    sampler = SensitivitySampler(MeanQuery()).fit(PUBLIC).set_params(query=None)
    with pytest.raises(IncompatibleError, match=r"query MeanQuery\(\), not for rec"):
        sampler.transform(PRIVATE)
    sampler = SensitivitySampler(MeanQuery(), epsilon=np.inf).fit(PUBLIC)
    released = sampler.set_params(query=np.sum).release(PRIVATE)
    np.testing.assert_array_equal(released, PRIVATE.mean(axis=0))


def test_relation_set_after_fit_changes_nothing():
    sampler = SensitivitySampler(np.mean).fit(PUBLIC)
    sampler.set_params(relation="add-remove", n_records=5)
    with pytest.raises(IncompatibleError, match="databases of 300 records, got 299"):
        sampler.release(PRIVATE[:-1])
    assert sampler.calibrate(gamma=0.1).certificate_.relation == "replace-one"
    assert sampler.calibrate(gamma=0.1).certificate_.evidence.n_records == 300


def test_fit_that_fails_leaves_nothing_to_release():
    for parameters in [
        {"epsilon": -1},
        {"query": lambda X: np.nan},
        {"query": lambda X: 1.0},
    ]:
        sampler = SensitivitySampler(MeanQuery()).fit(PUBLIC)
        with pytest.raises(ValueError, match=r"epsilon|NaN|is 0"):
            sampler.set_params(**parameters).fit(PUBLIC)
        with pytest.raises(NotFittedError):
            sampler.release(PRIVATE)
