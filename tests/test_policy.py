"""Policies: what each rule refuses."""

import dataclasses
import math

import pytest
from certificate_cases import AUDIT, CASES, known
from certificates import certificate, filed, minted

from skparisk.core.claim import Leak, as_certificate
from skparisk.report import Policy

AUDITED = certificate(audit=AUDIT)


def failed(policy, claim):
    return [check.rule for check in policy.check(claim) if not check.passed]


def test_a_rule_refuses_what_breaks_it():
    for policy, kept, broken in [
        ({"epsilon": 1.0}, certificate(), certificate(epsilon=1.01, curve=None)),
        ({"delta": 1e-6}, certificate(delta=1e-6), certificate(delta=1.1e-6)),
        ({"gamma": 0.05}, certificate(), certificate(risk=0.051)),
        ({"gamma": 0.09}, certificate(), CASES["pac"]),
        ({"relation": "replace-one"}, certificate(), certificate(relation=None)),
        ({"reference_audited": True}, AUDITED, certificate()),
        ({"reference_audited": True}, known(), CASES["several"]),
        (
            {"reference_audited": True},
            minted(0.5, 1e-5, method="basic", n_releases=2),
            certificate(audit=dataclasses.replace(AUDIT, seeded=True)),
        ),
        (
            {"reference_audited": True},
            AUDITED,
            certificate(audit=dataclasses.replace(AUDIT, upper=0.2)),
        ),
        (
            {"public_reference": True},
            certificate(),
            certificate(leaks=[Leak.PRIVATE_REFERENCE], curve=None),
        ),
        ({"public_reference": True}, known(), CASES["secret"]),
    ]:
        (rule,) = policy
        policy = Policy(**policy)
        assert failed(policy, kept) == []
        assert rule in failed(policy, broken)


def test_limits_are_for_all_that_is_released_together():
    policy = Policy(epsilon=1.0, delta=1e-6, gamma=0.05)
    claim, score = known(epsilon=0.5, noise_scale=0.5), minted(0.5, delta=1e-6)
    assert all(check.passed for check in policy.check(claim, score))
    found = policy.check(claim, score, minted(1e-9, 1e-9, risk=0.06))
    assert [check.rule for check in found if not check.passed] == [
        "epsilon",
        "delta",
        "gamma",
    ]
    found = policy.check(claim, CASES["seeded"])
    assert not any(check.passed for check in found)


@pytest.mark.parametrize(
    ("name", "values"),
    [("relation", ["add-remove", "replace-one"]), ("unit", ["person", "record"])],
)
@pytest.mark.parametrize("kept", [as_certificate, filed])
def test_limits_are_for_one_relation_and_one_unit(name, values, kept):
    """Levels of adding a record, or of a row, do not bound what others cost."""
    policy = Policy(epsilon=1.0, delta=0.1)
    one, other, any_ = (kept(minted(0.25, **{name: x})) for x in (*values, None))
    assert all(check.passed for check in policy.check(one, one, any_))
    checks = policy.check(one, any_, other)
    assert [check.passed for check in checks] == [True, False, False]
    assert checks[1].found.startswith("none is guaranteed: releases must all ")
    assert f"got {values}" in checks[1].found


def test_limits_are_for_risks_below_1_together():
    """Two releases may fail for half of all pairs each: together, for all of them."""
    checks = Policy(epsilon=1.0).check(*[minted(0.25, risk=0.5)] * 2)
    assert [check.passed for check in checks] == [True, False]
    assert checks[1].found == "none is guaranteed"


def test_a_leak_is_refused_without_any_other_rule():
    (check,) = Policy().check(CASES["private classes"])
    assert not check.passed
    assert check.found.startswith("The classes were not declared")
    assert str(check).startswith("FAIL  guarantee: The classes")


def test_a_level_that_promises_nothing_is_refused_without_any_other_rule():
    assert failed(Policy(), minted(23.0)) == []
    assert failed(Policy(), minted(23.1)) == ["guarantee"]


@pytest.mark.parametrize("text", ["", "epsilom = 1.0", "[limits]\nepsilon = 1.0"])
def test_a_policy_without_rules_is_refused(text, tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match="must have one of the keys"):
        Policy.from_toml(path)


def test_bad_limits_are_refused():
    for name, value in [
        ("epsilon", 0),
        ("epsilon", math.inf),
        ("epsilon", "1"),
        ("delta", 1.5),
        ("gamma", -0.1),
        ("gamma", math.nan),
        ("gamma", True),
        ("relation", "swap"),
        ("public_reference", "yes"),
    ]:
        with pytest.raises(ValueError, match=f"{name} must be"):
            Policy(**{name: value})
