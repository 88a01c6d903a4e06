"""Audits of claims: their limits, what they look at, what they say and refuse."""

import itertools
import math
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import pytest
from pair_attacks import attack_pair
from scipy import sparse, stats
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import Ridge
from unnoised import places_of_numbers

from skparisk import (
    IncompatibleError,
    PrivacyLedger,
    PrivateLogisticRegression,
    PrivateRidge,
    SchemaReference,
    SecretSample,
    SensitivitySampler,
    audit_claim,
)
from skparisk.core.claim import mint

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 2))
Y = X @ [1.0, 2.0] + RNG.normal(size=80)
X_PUBLIC = RNG.normal(size=(200, 2))
Y_PUBLIC = X_PUBLIC @ [1.0, 2.0] + RNG.normal(size=200)
PUBLIC = {"X_reference": X_PUBLIC, "y_reference": Y_PUBLIC}
FEW = {"n_releases": 40, "n_attacked": 1, "random_state": 0}
# Where nothing is wrong, nothing is found by chance.
SURE = FEW | {"confidence": 1 - 1e-4}
CHEAP = SensitivitySampler(n_pairs=40, noise_shape="isotropic")
RIDGE = PrivateRidge(1.0, gamma=0.2, sensitivity=CHEAP, combine=None)
EVIDENCE, NOTHING = "evidence against", "no evidence found"
FITS = itertools.count()


class NoisyMean(BaseEstimator):
    """Not of this package: means with noise, and a number that may be missing."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def fit(self, X, y=None):
        noise = np.random.default_rng().laplace(scale=self.scale, size=X.shape[1])
        self.mean_ = np.round((np.mean(X, axis=0) + noise) * 2**20) / 2**20
        self.big_ = np.zeros(2000)
        if next(FITS) % 2:  # of the first four fits two have it, and of releases half
            self.sometimes_ = self.mean_[0]
        self.nested_ = {"names": ["a"]}
        return self


# The bound


def exact_limits(hits, others, n, alpha):
    """Return a lower and an upper limit of two shares, by SciPy."""
    known = {"confidence_level": 1 - alpha, "method": "exact"}
    low = stats.binomtest(hits, n).proportion_ci(**known).low
    return low, stats.binomtest(others, n).proportion_ci(**known).high


@pytest.mark.parametrize("n_releases", [40, 101, 1000])
@pytest.mark.parametrize("shares", [(0.9, 0.2), (1.0, 0.5), (0.6, 0.0), (1.0, 0.0)])
def test_the_limits_are_those_of_scipy(shares, n_releases):
    def release(share, size):
        return np.random.default_rng(0).random(size) < share

    bound = attack_pair(
        release, *shares, n_releases=n_releases, confidence=0.9, random_state=0
    )
    assert bound.n_tested == n_releases // 2
    low, high = exact_limits(bound.n_hits, bound.n_hits_neighbor, bound.n_tested, 0.1)
    assert bound.lower_bound == pytest.approx(max(math.log(low / high), 0.0), rel=1e-6)
    assert bound.lower_bound <= max(math.log(low / high), 0.0)


def test_a_release_without_noise_is_as_far_apart_as_counts_can_tell():
    for n in (100, 1000):
        bound = attack_pair(float, 1.0, 2.0, n_releases=n)
        low, high = exact_limits(n // 2, 0, n // 2, 0.05)
        assert bound.lower_bound == pytest.approx(math.log(low / high))
    assert bound.n_hits == bound.n_tested == 500
    assert bound.n_hits_neighbor == 0


def test_equal_releases_are_not_told_apart():
    """Also where they are constant, or no numbers."""
    for value in (0.0, np.nan, np.inf):
        bound = attack_pair(
            lambda _, size, value=value: np.full((size, 2), value), 0, 1, n_releases=40
        )
        assert bound.lower_bound == 0


def test_repeats_and_low_bits_give_noise_away():
    def repeated(center, size):
        return center + np.random.default_rng().choice([0.0, 0.3, 7.0], size=(size, 3))

    bound = attack_pair(repeated, 0.0, 0.1, n_releases=400)
    assert bound.lower_bound > 3

    def doubles(center, size):
        return center + np.random.default_rng().laplace(size=size)

    bound = attack_pair(doubles, 0, 1, n_releases=4000, random_state=0)
    assert "low bits" in bound.distinguisher


def test_either_database_may_have_the_likelier_event():
    def alternating(database, size):
        return database * (np.arange(size) % 2)

    bounds = [
        attack_pair(alternating, *pair, n_releases=200, random_state=0)
        for pair in ((0, 1), (1, 0))
    ]
    assert all(bound.lower_bound > 1 for bound in bounds)
    assert all(bound.n_hits_neighbor == 0 for bound in bounds)


def test_delta_is_left_out_of_the_level():
    known = {"n_releases": 1000, "random_state": 0}
    without = attack_pair(float, 0.0, 1.0, **known)
    half = attack_pair(float, 0.0, 1.0, delta=0.5, **known)
    assert without.lower_bound - 0.8 < half.lower_bound < without.lower_bound - 0.6


@pytest.mark.parametrize(
    ("release", "message"),
    [
        (lambda d: "no", "release must return numbers"),
        (lambda d, size: np.zeros(3), "must return 40 releases along the first axis"),
        (lambda d, size: 0.0, r"got shape \(\)"),
        (lambda d: np.zeros(RNG.integers(1, 9)), "as many numbers in each call"),
        (lambda d: np.zeros(d + 1), "as many numbers for the neighbor"),
    ],
)
def test_releases_that_are_no_numbers_are_refused(release, message):
    with pytest.raises(ValueError, match=message):
        attack_pair(release, 0, 1, n_releases=40)


# Shares of pairs


SHARES = {
    "order statistic": ({"n_pairs": 40}, None),
    "and 40 for the shape": ({"n_pairs": 80, "noise_shape": "diagonal"}, None),
    "given": ({}, (1.0, 0.0, 0.2)),
    "given, few": ({}, (1.0, 0.0, 0.01)),
    "failure": ({"calibration": "pac"}, None),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARES)
def test_shares_have_exact_p_values(name):
    """Those of a fixed risk, and of one that is an order statistic: a beta variable."""
    sampling, claim = SHARES[name]
    model = PrivateRidge(
        alpha=1.0, gamma=0.2, sensitivity=clone(CHEAP).set_params(**sampling)
    )
    found = audit_claim(model, X, Y, fit_params=PUBLIC, claim=claim, **FEW)
    share = found.share
    count, n, risk = share.n_beyond, share.n_pairs, share.risk
    assert (found.claim.failure_prob > 0) == (name == "failure")
    if "n_pairs" in sampling:
        a = risk * 41
        risks = np.random.default_rng(0).beta(a, 41 - a, size=200_000)
        expected = np.mean(np.random.default_rng(1).binomial(n, risks) >= count)
        assert share.p_value == pytest.approx(expected, abs=0.004)
    else:
        tail = stats.binomtest(count, n, risk, alternative="greater").pvalue
        expected = min(1.0, tail + found.claim.failure_prob)
        assert share.p_value == pytest.approx(expected)


def test_pairs_that_share_databases_have_safe_p_values():
    """They are not independent: whatever the law of the risk, its mean is enough."""
    sampler = clone(CHEAP).set_params(n_pairs=80, neighbors_per_database=4)
    model = PrivateRidge(alpha=1.0, gamma=0.2, sensitivity=sampler)
    share = audit_claim(model, X, Y, fit_params=PUBLIC, **FEW).share
    n_pairs, count = share.n_pairs, share.n_beyond
    for a in (0.2, 2.0, 20.0):
        law = stats.betabinom(n_pairs, a, a * (1 / share.risk - 1))
        assert share.p_value >= law.sf(count - 1)


@pytest.mark.slow
def test_a_claim_about_every_pair_is_broken_by_one():
    for claim, p_value in ((0.1, 0.0), ((0.1, 0.0, 1.0), 1.0)):
        share = audit_claim(RIDGE, X, Y, fit_params=PUBLIC, claim=claim, **FEW).share
        assert share.n_beyond > 0
        assert share.p_value == p_value


# Audits


@pytest.fixture(scope="module")
def found():
    return audit_claim(RIDGE, X, Y, fit_params=PUBLIC, **SURE)


def test_an_audit_says_what_it_found_and_never_private(found):
    assert found.verdict == NOTHING
    assert found.share.n_pairs == 40
    text, page = str(found), found._repr_html_()
    assert "does not show that it is right" in text
    assert "<strong>No evidence" in page
    assert "is private" not in text
    assert hash(found.attacks) is not None


def test_a_void_claim_is_said_to_be_void():
    found = audit_claim(
        PrivateRidge(1.0, epsilon=math.inf, sensitivity=CHEAP, combine=None),
        X,
        Y,
        fit_params=PUBLIC,
        **FEW,
    )
    assert "The claim is void" in str(found)
    assert found.share is None
    assert math.isinf(found.worst.allowed)
    assert "leaves a single pair any level" in str(found)


def test_a_model_without_noise_breaks_any_claim():
    model = clone(RIDGE).set_params(epsilon=math.inf)
    found = audit_claim(model, X, Y, fit_params=PUBLIC, claim=1.0, **FEW)
    assert found.verdict == EVIDENCE


@pytest.mark.slow
@pytest.mark.parametrize("randomness", ["both", "implicit"])
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_the_noise_that_is_stated_is_what_a_pair_is_judged_by(law, randomness):
    delta = 1e-6 if (law, randomness) == ("gaussian", "implicit") else 0.0
    options = {"law": law, "randomness": randomness, "delta": delta}
    model = clone(RIDGE).set_params(sensitivity=clone(CHEAP).set_params(**options))
    found = audit_claim(model, X, Y, fit_params=PUBLIC, **SURE)
    (attack,) = found.attacks
    assert math.isfinite(attack.allowed)
    assert (attack.delta > 0) == (law == "gaussian")
    assert found.verdict == NOTHING


def test_pairs_of_a_box_count_as_they_are():
    schema = SchemaReference([(-3.0, 3.0), (-3.0, 3.0)], target=(-9.0, 9.0))
    found = audit_claim(RIDGE, X, Y, fit_params={"X_reference": schema}, **FEW)
    assert found.share.n_pairs == 40


def test_estimators_of_others_are_audited_with_a_claim():
    found = audit_claim(NoisyMean(1e-3), X, claim=1.0, **FEW | {"n_releases": 100})
    assert found.verdict == EVIDENCE
    assert found.worst.contradicts
    assert "There is evidence" in str(found)
    over_noise = mint(epsilon=1.0, risk=0.2, randomness="explicit")
    few = FEW | {"n_releases": 200}
    found = audit_claim(NoisyMean(1e-3), X, claim=over_noise, **few)
    assert found.verdict == EVIDENCE
    assert found.worst.delta == 0.2
    assert "at delta = 0.2" in str(found)
    found = audit_claim(NoisyMean(), X, claim=9.0, **SURE)
    assert found.verdict == NOTHING
    with pytest.raises(ValueError, match="claim must be given for a NoisyMean"):
        audit_claim(NoisyMean(), X, **FEW)


def test_a_model_that_learns_nothing_is_refused():
    class Nothing(BaseEstimator):
        def fit(self, X, y=None):
            return self

    with pytest.raises(ValueError, match="must learn numbers, but Nothing has none"):
        audit_claim(Nothing(), X, claim=1.0, **FEW)


def test_given_pairs_are_attacked():
    pair = ((X[:40], Y[:40]), (np.vstack([[[9.0, 9.0]], X[1:40]]), Y[:40]))
    found = audit_claim(RIDGE, X, Y, pairs=[pair], fit_params=PUBLIC, **FEW)
    assert found.share is None
    assert found.worst.allowed > 1  # more than the claim: outside of its risk


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"pairs": "all"}, "pairs must be 'sampled' or a list"),
        ({"pairs": [(X, X)]}, "pairs must be"),
        ({"pairs": []}, "pairs must be"),
        ({"n_records": 80}, "X must have more than n_records=80 rows"),
        ({"n_pairs": 41}, r"n_pairs must be in \[1, 40\]"),
        ({"n_attacked": 0}, "n_attacked"),
        ({"n_releases": 39}, "n_releases must be a whole number >= 40"),
        ({"confidence": 0.2}, "confidence"),
        ({"random_state": "x"}, "random_state"),
    ],
)
def test_parameters_of_an_audit_are_checked(parameters, message):
    with pytest.raises(ValueError, match=message):
        audit_claim(NoisyMean(), X, claim=1.0, **FEW | parameters)


def test_what_cannot_be_audited_is_refused():
    with pytest.raises(ValueError, match="or be a callable that maps a database"):
        audit_claim(3, X, claim=1.0, **FEW)
    with pytest.raises(ValueError, match="with a claim such as"):
        audit_claim(lambda database: 1.0, X, **FEW)
    risky = mint(epsilon=1.0, risk=0.2, randomness="implicit")
    with pytest.raises(IncompatibleError, match="NoisyMean does not state its noise"):
        audit_claim(NoisyMean(), X, claim=risky, **FEW)
    secret = SensitivitySampler(reference=SecretSample(0.5))
    with pytest.raises(IncompatibleError, match="which records of one database"):
        audit_claim(PrivateRidge(sensitivity=secret), X, Y, **FEW)


class Fails(BaseEstimator):
    """It adds noise enough, and fails where a first number is large."""

    def __init__(self, limit=3.0, share=1.0, error=ValueError):
        self.limit = limit
        self.share = share
        self.error = error

    def fit(self, X, y=None):
        rng = np.random.default_rng()
        if X[0, 0] > self.limit and rng.random() < self.share:
            raise self.error(f"secret {X[0, 0]}")
        self.mean_ = np.round(rng.laplace(scale=100, size=2) * 2**20) / 2**20
        return self


FAR = (X[:40],), (np.vstack([[[9.0, 9.0]], X[1:40]]),)


@pytest.mark.slow
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_a_fit_that_fails_is_an_answer(share):
    """It tells the database, and ends no audit."""
    near = FAR[0], (X[1:41],)
    known = SURE | {"claim": 1.0, "n_releases": 1000}
    found = audit_claim(Fails(share=share), X, pairs=[near, FAR], **known)
    assert found.verdict == EVIDENCE
    assert [one.contradicts for one in found.attacks] == [False, True]
    assert found.n_failed == pytest.approx(1000 * share, abs=100)
    assert found.failure == "ValueError: secret 9.0"
    assert f"{found.n_failed} of the 4000 fits failed (the first with V" in str(found)
    assert "secret" not in str(found)
    found = audit_claim(Fails(limit=10.0), X, pairs=[near, FAR], **known)
    assert found.verdict == NOTHING
    assert found.n_failed == 0


def test_numbers_that_are_missing_now_and_then_tell():
    def release(often, size):
        rng = np.random.default_rng()
        return np.where(rng.random(size) < often, np.nan, rng.normal(size=size))

    known = {"n_releases": 4000, "random_state": 0}
    bound = attack_pair(release, 0.05, 0.0, **known)
    assert bound.distinguisher == "numbers that are missing"
    assert bound.lower_bound > 2


def test_a_first_fit_that_fails_says_where():
    with pytest.raises(ValueError, match="secret") as error:
        audit_claim(Fails(limit=-9.0), X, claim=1.0, **FEW)
    (note,) = error.value.__notes__
    assert "by the fit of a Fails to a database of 40 records of the first pair" in note


def test_what_a_release_raises_says_of_which_pair():
    for failing, audited in (
        (OSError, Fails(error=OSError)),
        (KeyError, lambda database: {}[database[0][0, 0]]),
    ):
        with pytest.raises(failing) as error:
            audit_claim(audited, X, pairs=[(FAR[0], FAR[0]), FAR], claim=1.0, **FEW)
        assert "by a release of pair" in error.value.__notes__[0]


@pytest.mark.slow
def test_a_database_without_an_answer_is_infinitely_far():
    """Any level is allowed to a pair that the model cannot hide."""
    near, bad = ((X, Y), (X[::-1].copy(), Y)), ((X, Y), (X[:, :1], Y))
    found = audit_claim(RIDGE, X, Y, pairs=[near, bad], fit_params=PUBLIC, **FEW)
    assert found.n_failed == 40
    assert found.attacks[1].allowed == math.inf


def test_a_ledger_is_not_charged():
    refused = pytest.raises(IncompatibleError, match="outside of the ledger")
    with PrivacyLedger(epsilon=1.0) as ledger, refused:
        audit_claim(NoisyMean(), X, claim=1.0, **FEW)
    assert not ledger.releases


# Numbers without noise


class Slots:
    __slots__ = ("__private", "value")

    def __init__(self, value):
        self.value = value
        self.__private = value / 3


def holding(number, default=0.0, *, named=0.0):
    """Return a function that knows a number, in its closure and its defaults."""

    def inner(x, default=default, *, named=named):
        return x + number

    return inner


class Keeps(Ridge):
    """It keeps what it should not, in a place that is a parameter."""

    def __init__(self, keep=None):
        super().__init__()
        self.keep = keep

    def fit(self, X, y):
        super().fit(X, y)
        self.kept_ = self.keep(X[0, 0]) if callable(self.keep) else None
        self.me_ = self
        return self


def as_frame(number):
    return pd.DataFrame({"a": [number], "b": ["text"]}, index=[7])


KEPT = {
    "attribute": (float, "kept_"),
    "dictionary": (lambda x: {"first": (x,)}, "kept_.first.0"),
    "private slot": (lambda x: Slots(x * 3), "kept_.__private"),
    "text": (lambda x: f"mean = {x!r}", "kept_"),
    "bytes": (lambda x: np.float64(x).tobytes(), "kept_"),
    "frame": (as_frame, "kept_.a.0"),
    "columns": (lambda x: pd.DataFrame({x: [1]}), "kept_.columns.0"),
    "frame attributes": (lambda x: with_attributes(x), "kept_._attrs.mean"),
    "closure": (holding, "kept_.__closure__.0.contents"),
    "partial": (lambda x: partial(max, x), "kept_.args.0"),
    "decimal": (lambda x: Decimal(repr(float(x))), "kept_"),
    "sparse": (lambda x: sparse.csr_matrix([[x]]), "kept_.data.0"),
}


def with_attributes(number):
    frame = pd.DataFrame({"a": [1]})
    frame.attrs["mean"] = number
    return frame


@pytest.mark.parametrize("place", KEPT)
def test_numbers_are_found_wherever_they_are(place):
    keep, where = KEPT[place]
    found = places_of_numbers(Keeps(keep).fit(X, Y))
    assert found[X[0, 0]] == where
    assert X[0, 0] not in places_of_numbers(Keeps().fit(X, Y))


def test_a_function_and_a_classifier_are_audited():
    found = audit_claim(lambda database: np.sum(database[0] > 9), X, claim=1.0, **SURE)
    assert found.verdict == NOTHING
    labels = {"y_reference": (Y_PUBLIC > 0).astype(int)}
    model = PrivateLogisticRegression(C=1.0, gamma=0.2, sensitivity=CHEAP, combine=None)
    found = audit_claim(model, X, (Y > 0) * 1, fit_params=PUBLIC | labels, **SURE)
    assert found.verdict == NOTHING


@pytest.mark.parametrize("name", ["groups", "sample_weight"])
def test_parameters_of_single_rows_are_refused(name):
    given = {"X_reference": X, "y_reference": Y, name: np.ones(len(X))}
    with pytest.raises(ValueError, match=rf"got {name}: these are of the rows"):
        audit_claim(PrivateRidge(), X, Y, fit_params=given)
