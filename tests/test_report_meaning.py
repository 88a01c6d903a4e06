"""Reports: the size of the noise, declared costs, and what attacks found."""

import dataclasses
import math

import numpy as np
import pytest
from certificates import certificate, minted
from costs import CustomCost

from skparisk import ClaimAudit, SensitivitySampler
from skparisk.audit import PairAttack
from skparisk.core.claim import Leak
from skparisk.cost import CompensationModel
from skparisk.mechanisms import ExponentialMechanism, GaussianMechanism
from skparisk.report import Report

INSIDE = "inside the environment only: it was computed from private data without noise"
COST = CompensationModel(5500.0, n_people=100)
AUDIT = ClaimAudit(
    "PrivateRidge",
    certificate(n_records=450),
    0.95,
    1000,
    (PairAttack(0.3, 1.0, 0.0, 0.55, 0.75, "a <line>"),),
)


def about(report, section, name):
    """Return what one row of a section says, None if there is no such row."""
    (found,) = (each for each in report._sections if each.title == section)
    return dict(found.rows).get(name)


def error_of(report):
    return about(report, "What it means", "expected error by the noise")


def cost_of(report):
    return about(report, "What it means", "cost for all people together")


@pytest.fixture(scope="module", params=["isotropic", "diagonal", "whitened"])
def sampler(request):
    scales = np.array([1.0, 30.0, 900.0])
    public = np.random.default_rng(0).exponential(size=(300, 3)) * scales
    sampler = SensitivitySampler(
        lambda X: X.mean(axis=0),
        epsilon=1.0,
        gamma=0.2,
        noise_shape=request.param,
        n_records=50,
        n_pairs=60,
        random_state=0,
    )
    return sampler.fit(public)


def test_the_error_is_a_number_for_noise_of_every_shape(sampler):
    """Of a sampler and of what has one; the certificate alone does not know it."""
    deviations = np.sqrt(np.diag(sampler.mechanism_.covariance()))

    class Fitted:
        sampler_, certificate_ = sampler, sampler.certificate_

    for source in (sampler, Fitted()):
        report = Report(source)
        noise = report.document["noise"]
        assert noise["typical"] == pytest.approx(np.sqrt(np.mean(deviations**2)))
        assert noise["least"] == pytest.approx(deviations.min())
        assert noise["most"] == pytest.approx(deviations.max())
        same = sampler.certificate_.evidence.noise_shape == "isotropic"
        assert ("the root mean square" in error_of(report)) is not same
        assert f"{noise['typical']:.3g}" in error_of(report)
        assert INSIDE not in error_of(report)
    alone = error_of(Report(sampler.certificate_))
    assert ("of another size for each output" in alone) is not same


@pytest.mark.parametrize(
    ("source", "typical"),
    [
        (certificate(), 0.25 * math.sqrt(2)),
        (GaussianMechanism(1.0, 0.5, 1e-6), None),
        (certificate(epsilon=math.inf, noise_scale=0.0, curve=None), 0.0),
        (certificate(sensitivity=1e308, noise_scale=1.5e308), None),
        (ExponentialMechanism(1.0, 0.5), None),
        (minted(0.5), None),
    ],
)
def test_the_error_is_told_where_it_is_known(source, typical):
    report = Report(source)
    noise = report.document["noise"]
    if isinstance(source, GaussianMechanism):
        typical = source.noise_scale
    if typical is None:
        assert noise is None
        assert error_of(report) is None
    else:
        assert noise == pytest.approx(dict.fromkeys(noise, typical))
        assert f"{typical:.3g} for each output" in error_of(report)


def test_an_error_that_private_data_set_stays_inside():
    report = Report(certificate(leaks=[Leak.PRIVATE_REFERENCE], curve=None))
    assert INSIDE in error_of(report)


def test_declared_costs_are_told():
    claim = certificate()
    report = Report(claim, cost=COST)
    assert report.document["cost"] == {
        "model": "CompensationModel",
        "declared": {
            "compensation": 5500.0,
            "n_people": 100.0,
            "minimum": 0.0,
            "rate": 1.0,
        },
        "total": COST.budget_of(claim),
    }
    assert "compensation 5500, n_people 100, minimum 0, rate 1" in cost_of(report)
    assert cost_of(Report(claim)) is None
    free = CustomCost(lambda epsilon: epsilon, n_people=3)
    assert "inf in units of money, by a CustomCost with n_people 3" in cost_of(
        Report(claim, cost=free)
    )


@pytest.mark.parametrize("changes", [{"leaks": [Leak.SEEDED_NOISE]}, {"risk": 1.0}])
def test_without_a_guarantee_it_costs_all(changes):
    report = Report(certificate(**changes), cost=COST)
    assert report.document["cost"]["total"] == 550_000.0
    assert "550,000.00 in units" in cost_of(report)
    assert "the guarantee does not stand" in cost_of(report)
    again = Report.from_dict(report.document)
    assert cost_of(again) == cost_of(report)


@pytest.mark.parametrize("public", [False, True])
def test_what_attacks_found_is_evidence(public):
    """And stays inside, unless the records were public."""
    report = Report(certificate(), attack_audit=AUDIT, audit_is_public=public)
    verdict = about(report, "Evidence", "attack audit")
    assert verdict.startswith("no evidence found")
    assert (INSIDE in verdict) is not public
    (shown,) = (each for each in report._sections if each.title == "Evidence")
    assert list(shown.items) == AUDIT.to_dict()["meaning"]
    assert (INSIDE in shown.texts[0]) is not public
    assert "<line>" not in report.to_html()
    again = Report.from_dict(report.document)
    assert again.to_markdown() == report.to_markdown()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cost": 3}, "cost must be None or a CostModel, got 3"),
        ({"attack_audit": "none"}, "attack_audit must be None or a ClaimAudit"),
        ({"audit_is_public": "no"}, "audit_is_public must be True or False"),
        (
            {"attack_audit": dataclasses.replace(AUDIT, claim=minted(2.0))},
            r"of the claim of source, with epsilon, delta, relation = \[1\.0, 0\.0, "
            r"'replace-one'\], got one of \[2\.0, 0\.0, None\]",
        ),
    ],
)
def test_what_is_no_evidence_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Report(certificate(), **options)
