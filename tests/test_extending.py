"""Laws, references and queries of one's own, without a change here.

Each class is on the page "Extending" of the documentation.
"""

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
from laws import FALSE_ALARM, assert_binomial_at_most, exceeds
from query_pairs import InBlocks
from scipy import stats

from skparisk import (
    FiledCertificate,
    KnownSensitivity,
    PrivacyLedger,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.core.calibrate import Target, find_known
from skparisk.core.claim import Assumption, DominatingLoss, mint
from skparisk.core.compose import compose_basic, compose_exact
from skparisk.core.exact import (
    noise_source,
    sample_bernoulli_decay,
    sample_discrete_laplace,
    sample_uniform_integers,
)
from skparisk.core.laws import Gaussian, Laplace, Law
from skparisk.core.noise import AdditiveNoise, NoiseShape, to_dyadic
from skparisk.core.release import draw
from skparisk.ledger import OPEN
from skparisk.queries import PairDifferences, Query
from skparisk.reference import DrawnRecords, RecordPool, Reference
from skparisk.sensitivity import calibrate


class Bare(Law):
    """Laplace noise of which no more is said than that its loss is bounded."""

    name = "bare"
    deviation = math.sqrt(2.0)

    def sample(self, scale, size, source):
        return sample_discrete_laplace(scale, size, source)


@dataclass(frozen=True)
class Logistic(Law):
    """Logistic noise, of density 1 / (4 b cosh(z / (2 b))**2)."""

    name = "logistic"
    deviation = math.pi / math.sqrt(3)

    def sample(self, scale, size, source):
        # Laplace noise z, kept with probability 1 / (1 + exp(-|z| / scale))**2.
        kept = np.empty(0, dtype=np.int64)
        while len(kept) < size:
            z = sample_discrete_laplace(scale, 2 * size, source)
            for _ in range(2):
                z = z[self._accept(np.abs(z).astype(np.uint64), scale, source)]
            kept = np.append(kept, z)
        return kept[:size]

    def _accept(self, z, scale, source):
        # Bernoulli(1 / (1 + exp(-x))): 1 at heads, 0 if then exp(-x) hits, or again.
        accepted, running = np.zeros(z.size, dtype=bool), np.arange(z.size)
        while running.size:
            heads = sample_uniform_integers(2, running.size, source) == 0
            accepted[running[heads]] = True
            running = running[~heads]
            running = running[~sample_bernoulli_decay(z[running], scale, source)]
        return accepted

    def profile(self, epsilon, shift):
        # The event is z <= end: there one answer is likelier by exp(epsilon).
        epsilon = np.asarray(epsilon, dtype=float)
        t = (np.cosh(shift / 2) - np.exp(epsilon / 2)) / np.sinh(shift / 2)
        with np.errstate(divide="ignore"):
            end = 2 * np.arctanh(np.clip(t, -1, 1))
        inside = 1 / (1 + np.exp(-end)) - np.exp(epsilon) / (1 + np.exp(shift - end))
        return np.maximum(inside, 0.0) + 1e-15


class Incomes(Reference):
    """Log-normal incomes, which no table is needed for."""

    description = "log-normal incomes of the statistical office"

    def __init__(self, spread):
        self.spread = spread

    def bind(self, n_pairs, *, n_shared, n_own, seed):
        return IncomeSource(self.spread, n_shared, n_own)


@dataclass
class IncomeSource:
    """Draws all records of some pairs at once."""

    spread: float
    n_shared: int
    n_own: int

    def draw(self, start, size, rng):
        n_records = self.n_shared + self.n_own
        X = rng.lognormal(sigma=self.spread, size=(size * n_records, 1))
        rows = np.arange(size * n_records).reshape(size, n_records)
        shared, own = rows[:, self.n_own :], rows[:, : self.n_own]
        return DrawnRecords(RecordPool(X), own, lambda: shared, rng)


@dataclass(frozen=True)
class Histogram(Query):
    """Shares of the records between edges; pairs differ in two of them alone."""

    edges: tuple[float, ...]

    def __call__(self, X, y=None):
        return self._bins(X[:, 0]).mean(axis=0)

    def on_pool(self, pool, n_records):
        bins = self._bins(pool.X[:, 0])

        def differences(pairs):
            moved = bins[pairs.removed] - bins[pairs.replacement]
            values = moved / n_records
            errors = np.full(values.shape[1], 2.0**-50)
            return PairDifferences(values, errors)

        return differences

    def _bins(self, values):
        return np.eye(len(self.edges) + 1)[np.searchsorted(self.edges, values)]


GIVEN_NOISE = Assumption.GIVEN_NOISE


def own_sampler(query=np.mean, **parameters):
    defaults = {"epsilon": 1.0, "gamma": 0.1, "n_pairs": 500, "n_records": 100}
    defaults["random_state"] = 0
    return SensitivitySampler(query, **defaults | parameters)


def public(n_outputs=1, n_rows=600):
    return np.random.default_rng(0).normal(size=(n_rows, n_outputs))


def test_law_is_drawn_exactly():
    noise = AdditiveNoise(Logistic(), steps=3, exponent=0)
    drawn = noise.prepare(np.zeros((50_000, 1)))(noise_source(0))
    z = np.arange(-40, 41)
    weights = 1 / np.cosh(z / 6) ** 2
    observed = np.array([(drawn == value).sum() for value in z])
    assert observed.sum() == len(drawn)
    expected = weights / weights.sum() * observed.sum()
    common = expected > 5
    observed, expected = (
        np.append(x[common], x[~common].sum()) for x in (observed, expected)
    )
    assert stats.chisquare(observed, expected).pvalue > FALSE_ALARM
    laplace = np.exp(-np.abs(z) / 3)
    wrong = np.append(laplace[common], laplace[~common].sum())
    assert stats.chisquare(observed, wrong / wrong.sum() * len(drawn)).pvalue < 1e-9


def test_law_is_calibrated_and_released_and_said():
    sampler = own_sampler(law=Logistic()).fit(public())
    laplace = own_sampler().fit(public())
    assert sampler.noise_scale_ == laplace.noise_scale_  # the same bound of the loss
    assert sampler.release(public(n_rows=100) + 1).shape == (1,)
    certificate = sampler.certificate_
    assert GIVEN_NOISE in certificate.assumptions
    assert "logistic, scale" in str(certificate)
    assert sampler.mechanism_.covariance()[0, 0] == pytest.approx(
        sampler.noise_scale_**2 * math.pi**2 / 3
    )
    with pytest.raises(ValueError, match="'both'"):
        own_sampler(law=Logistic(), randomness="both").fit(public())
    relaxed = own_sampler(law=Logistic(), delta=0.01).fit(public())
    ratio = sampler.noise_scale_ / relaxed.noise_scale_
    assert ratio > 1.01  # its profile at that distance is delta
    assert Logistic().profile(1.0, ratio) == pytest.approx(0.01, rel=1e-4)


def test_law_keeps_the_level_on_fresh_pairs():
    """The exact loss of what is released, for pairs that no sampler has seen."""
    broken, held, n = 0, 0, 4000
    for seed in range(n // 400):
        sampler = own_sampler(law=Logistic(), n_records=50, random_state=seed)
        sampler.set_params(reference=Incomes(1.0)).fit(np.ones((50, 1)))
        pairs = own_sampler(n_records=50, n_pairs=400, random_state=1000 + seed)
        fresh = pairs.set_params(reference=Incomes(1.0)).fit(np.ones((50, 1)))
        loss = np.abs(fresh.differences_[:, 0]) / sampler.noise_scale_
        held += int((loss > 1.0).sum())
        broken += int((loss > 0.7).sum())  # as if less noise were enough
    assert_binomial_at_most(held, n, 0.12)
    assert exceeds(broken, n, 0.12)


def test_law_composes_exactly_and_by_its_class_alone():
    certificate = own_sampler(law=Logistic()).fit(public()).certificate_
    releases = [certificate] * 30
    exact = compose_exact(releases, delta=1e-6)
    # At one shift logistic noise is larger than Laplace noise, and loses less.
    laplace = own_sampler().fit(public()).certificate_
    assert exact.epsilon < compose_exact([laplace] * 30, delta=1e-6).epsilon
    assert exact.epsilon < compose_basic(releases).epsilon == pytest.approx(30)
    document = json.loads(json.dumps(certificate.to_dict()))
    read = FiledCertificate.from_dict(document)
    assert str(read) == str(certificate)
    assert read.to_dict() == document
    assert document["loss"] is None  # which nobody who reads it could check
    assert GIVEN_NOISE in read.assumptions


@pytest.mark.slow
def test_profile_of_the_law_is_that_of_its_density():
    z = np.linspace(-60, 60, 2_000_001)
    for shift in (0.3, 1.0, 4.0):
        for epsilon in (0.0, 0.25, 0.9, 3.9, 5.0):
            gain = stats.logistic.pdf(z) - math.exp(epsilon) * stats.logistic.pdf(
                z, shift
            )
            known = np.maximum(gain, 0).sum() * (z[1] - z[0])
            assert Logistic().profile(epsilon, shift) == pytest.approx(known, abs=1e-7)


def test_law_of_the_loss_from_a_profile_is_that_of_dp_accounting():
    for shift in [0.01, 0.1, 1.0, 3.0]:
        for law in [Laplace(), Gaussian()]:
            accounting = pytest.importorskip(
                "dp_accounting.pld.privacy_loss_distribution"
            )
            make = getattr(accounting, f"from_{law.name}_mechanism")
            step = 1e-3 * shift
            known = make(1 / shift, value_discretization_interval=step).self_compose(10)
            found = law.loss_distribution(shift, step).self_compose(10)
            for delta in (1e-9, 1e-6, 1e-3):
                level = known.get_epsilon_for_delta(delta)
                assert found.get_epsilon_for_delta(delta) == pytest.approx(
                    level, rel=1e-6
                )


def test_law_of_the_loss_is_not_below_the_true_delta():
    for law in [Laplace(), Gaussian(), Logistic()]:
        for shift in [0.1, 1.0, 3.0]:
            one = law.loss_distribution(shift, 1e-3)
            for epsilon in (0.0, 0.333 * shift, 0.905 * shift):
                true = law.profile(epsilon, shift)
                rounding = 1e-12  # of sums, which composition pays for
                assert (
                    true - rounding <= one.get_delta_for_epsilon(epsilon) <= true + 1e-5
                )


def test_law_with_a_known_sensitivity_and_in_an_estimator():
    X = public(3)
    y = X.sum(axis=1)
    for at_risk in (False, True):  # the bound of its loss holds for all noise
        known = KnownSensitivity(0.1, law=Logistic(), at_risk=at_risk)
        ridge = PrivateRidge(epsilon=0.5, sensitivity=known).fit(X, y)
        assert ridge.risk_ == 0
        assert GIVEN_NOISE in ridge.certificate_.assumptions
        assert ridge.noise_scale_ == pytest.approx(0.2, rel=1e-5)


class Unequal(str):
    """Written as another text, and equal to none."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        return False


def test_law_cannot_go_by_the_name_of_another():
    """Not ours because it says so either, nor in the place of ours elsewhere."""
    ours = {"__module__": "skparisk.core.laws", "name": "laplace"}
    for said, message in [
        *(({"name": name}, "must") for name in ("gaussian", "", 3)),
        ({"name": Unequal("laplace")}, "must have a name"),
        ({"name": "laplace"}, "must not be one of your own"),
        (ours, "must not be one of your own"),
    ]:
        law = type("Laplace", (Logistic,), said)()
        with pytest.raises(ValueError, match=f"law {message}"):
            own_sampler(law=law).fit(public())
    with pytest.raises(ValueError, match="law must not be one of your own"):
        DominatingLoss(law, 0.5)


def test_risks_that_are_no_numbers_are_refused():
    def profile(self, epsilon, shift):
        known = Laplace().profile(epsilon, shift)
        return np.full(np.shape(shift), np.nan) if np.ndim(shift) else known

    law = law_like(Bare, profile=profile)
    with pytest.raises(ValueError, match="law must say the risk"):
        own_sampler(law=law, advantage=0.1).fit(public())


def law_like(base, **said):
    """Return a law of a user's that says something else than another one."""
    return type("Own", (base,), {"name": "own", **said})()


def test_law_whose_loss_is_not_bounded_by_the_distance_is_refused():
    """Such as that of staircase noise, which is at most the distance rounded up."""

    def stairs(self, epsilon, shift):
        return np.where(epsilon < np.ceil(shift), 1, 0)

    for said in (
        {"norm": 2},
        {"norm": np.inf},
        {"norm": 3.0},
        {"bounded": False},
        {"chooses": print},
        {"exceedance": stairs},
    ):
        for base in (Bare, Laplace, Gaussian):
            with pytest.raises(ValueError, match="law must be a Law with the norm 1"):
                own_sampler(law=law_like(base, **said)).fit(public())
    normal = law_like(Bare, profile=lambda self, *at: Gaussian().profile(*at))
    with pytest.raises(ValueError, match="law must have a loss of at most the dist"):
        own_sampler(law=normal).fit(public())


def test_law_that_draws_no_whole_numbers_is_refused():
    law = law_like(Bare, sample=lambda self, scale, size, source: np.full(size, 0.5))
    noise, _ = find_known(1.0, Target(1.0, 0.0, randomness="explicit"), law=law)
    with pytest.raises(TypeError, match="law must draw whole numbers"):
        noise.prepare([0.0])(noise_source(0))


def test_target_of_another_class_is_refused():
    """Which could tell the noise and the claim different levels."""

    class Own(Target):
        pass

    with pytest.raises(TypeError, match="target must be a Target itself"):
        calibrate(np.ones((99, 1)), Own(1.0, 0.1), n_records=10)
    with pytest.raises(TypeError, match="target must be a Target itself"):
        find_known(1.0, Own(1.0, 0.0, randomness="explicit"))


def test_law_that_may_change_is_refused():
    @dataclass
    class Changing(Law):
        name = "changing"
        slope: float = 1.0

        def sample(self, scale, size, source):
            return sample_discrete_laplace(scale, size, source)

    with pytest.raises(ValueError, match="law must be a value"):
        own_sampler(law=Changing()).fit(public())


def test_law_of_a_document_is_said_and_is_no_other():
    release = mint(epsilon=0.5, loss=DominatingLoss(Logistic(), 0.5))
    assert release.assumptions == {GIVEN_NOISE}
    assert GIVEN_NOISE in compose_exact([release] * 2, delta=1e-6).assumptions
    document = release.to_dict()
    assert FiledCertificate.from_dict(document).assumptions == {GIVEN_NOISE}
    named = {"law": "logistic", "shift": 0.1, "excess": 0.0}
    with pytest.raises(ValueError, match="law must be one of"):
        FiledCertificate.from_dict(document | {"loss": named})


def test_ledger_file_counts_a_law_that_it_only_names_by_its_numbers(tmp_path):
    noise, certificate = calibrate(
        np.random.default_rng(0).laplace(size=(999, 1)),
        Target(0.1, 0.1),
        law=Logistic(),
        n_records=10,
    )
    path = tmp_path / "ledger.db"
    with PrivacyLedger(1.0, gamma=0.9, path=path) as ledger:
        for _ in range(3):
            draw(noise, [0.0], [certificate], OPEN)
    spent = PrivacyLedger.open(path).spent
    assert spent == ledger.spent
    known = compose_exact([certificate] * 3, delta=1e-5).epsilon
    assert known <= spent.epsilon <= 0.3
    assert GIVEN_NOISE in spent.assumptions


@pytest.mark.parametrize("randomness", ["implicit", "both"])
def test_shape_is_used_and_said(randomness):
    X = public(2) * [1.0, 4.0]
    shape = NoiseShape(np.array([1.0, 4.0]))
    means = {"query": lambda X: X.mean(axis=0), "randomness": randomness}
    sampler = own_sampler(noise_shape=shape, **means).fit(X)
    assert Assumption.GIVEN_SHAPE in sampler.certificate_.assumptions
    assert "diagonal" in str(sampler.certificate_)
    assert sampler.certificate_.evidence.n_shape_pairs is None
    first, second = np.sqrt(np.diag(sampler.mechanism_.covariance()))
    assert second == 4 * first
    whitened = sampler.differences_ / [1.0, 4.0]
    assert sampler.sensitivities_ == pytest.approx(np.abs(whitened).sum(axis=1))
    assert sampler.release(X[:100] + 1).shape == (2,)


def test_shape_of_ones_own_is_refused():
    class Smaller(NoiseShape):
        def whiten(self, values):
            return values / 2**20

    class Other:
        name = "other"
        whiten = whiten_errors = color = staticmethod(np.asarray)
        whiten_exactly = staticmethod(to_dyadic)

    message = "noise_shape must be "
    for shape in (Smaller(), Other()):
        with pytest.raises(ValueError, match=message):
            own_sampler(noise_shape=shape).fit(public())
        with pytest.raises(ValueError, match=message):
            calibrate(np.ones((99, 1)), Target(1.0, 0.1), shape=shape, n_records=1)
        with pytest.raises(ValueError, match=message):
            AdditiveNoise("laplace", 1, 0, shape=shape)


def test_what_is_said_of_a_calibration_is_of_that_one():
    sampler = own_sampler(law=Logistic()).fit(public())
    again = sampler.calibrate(gamma=0.2).certificate_
    assert GIVEN_NOISE in again.assumptions
    sampler.set_params(law="laplace")
    assert GIVEN_NOISE not in sampler.calibrate().certificate_.assumptions


def test_reference_is_sampled_from_and_said():
    sampler = own_sampler(reference=Incomes(0.5), n_records=40).fit(np.ones((1, 1)))
    assert "log-normal incomes" in sampler.certificate_.guarantee
    assert sampler.release(np.full((40, 1), 1.5)).shape == (1,)
    # The mean of 40 moves by the difference of two incomes over 40.
    known = np.random.default_rng(1).lognormal(sigma=0.5, size=(2, 20_000))
    moves = np.abs(known[0] - known[1]) / 40
    assert stats.ks_2samp(sampler.sensitivities_, moves).pvalue > FALSE_ALARM


def test_query_answers_pairs_together_as_it_would_one_by_one():
    query = Histogram((-1.0, 0.0, 1.0))
    alike = {"noise_shape": "isotropic"}
    plain = own_sampler(InBlocks(lambda X: query(X)), **alike).fit(public())
    fast = own_sampler(query, **alike).fit(public())
    assert fast.differences_ == pytest.approx(plain.differences_, abs=1e-14)
    assert fast.sensitivity_ == pytest.approx(2 / 100)
    # What it says of pairs is on its own word.
    assert Assumption.GIVEN_QUERY in fast.certificate_.assumptions
    assert Assumption.GIVEN_QUERY not in plain.certificate_.assumptions
    assert fast.release(public(n_rows=100) + 1).shape == (4,)


def test_differences_of_ones_own_are_on_the_callers_word():
    differences = np.random.default_rng(0).laplace(size=(999, 2))
    noise, certificate = calibrate(
        differences, Target(1.0, 0.1), law=Logistic(), n_records=10
    )
    assert GIVEN_NOISE in certificate.assumptions
    assert Assumption.GIVEN_PAIRS in certificate.assumptions
    in_order = np.sort(np.abs(differences).sum(axis=1))
    assert certificate.evidence.sensitivity == in_order[899]
    assert noise.noise_scale == certificate.evidence.noise_scale
