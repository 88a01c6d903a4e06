"""Certificates for tests, which estimators would make."""

import dataclasses

from skparisk import FiledCertificate
from skparisk.core.claim import Claim, Evidence, mint
from skparisk.core.laws import LAWS, NORMS

CURVE = ((0.5, 0.4), (0.8, 0.2), (1.0, 0.05), (1.5, 0.01))
OF_THE_EVIDENCE = {field.name for field in dataclasses.fields(Evidence)}


def certificate(**changes):
    """Return a certificate of a sampled sensitivity, with changes."""
    values = {
        "epsilon": 1.0,
        "risk": 0.049967,
        "randomness": "implicit",
        "relation": "replace-one",
        "gamma": 0.05,
        "sensitivity": 0.25,
        "noise_scale": 0.25,
        "n_records": 900,
        "n_outputs": 6,
        "calibration": "exchangeable",
        "n_pairs": 1500,
        "order_index": 1426,
        "n_unanswered": 0,
        "reference": "the public table",
        "curve": CURVE,
    } | changes
    if values.get("law") in LAWS:
        values.setdefault("norm", NORMS[LAWS[values["law"]]().norm])
    evidence = {name: values.pop(name) for name in OF_THE_EVIDENCE & set(values)}
    return mint(**values, evidence=Evidence(**evidence))


def filed(claim):
    """Return a claim as a filed one."""
    fields = dataclasses.fields(Claim)
    return FiledCertificate(**{f.name: getattr(claim, f.name) for f in fields})


def minted(epsilon, delta=0.0, risk=0.0, failure_prob=0.0, **others):
    """Return a certificate of these numbers, and nothing that they came from."""
    return mint(
        epsilon=epsilon, delta=delta, risk=risk, failure_prob=failure_prob, **others
    )
