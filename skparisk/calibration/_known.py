"""Noise for a sensitivity that is known: no pairs, and the risk is over the noise."""

from __future__ import annotations

import math

from skparisk.calibration._calibrate import dominating_loss
from skparisk.calibration._order import as_curve
from skparisk.calibration._target import Target
from skparisk.certificate import Certificate, Evidence
from skparisk.core.checks import check_at_least, check_positive, check_relation
from skparisk.core.laws import NORMS, Laplace, Law, as_law
from skparisk.mechanisms import AdditiveNoise, LaplaceMechanism
from skparisk.mechanisms._noise import ROUNDING_SLACK


def check_known(target: Target, law: Law) -> None:
    """Check that all of these go together, before anything is answered."""
    if target.randomness != "explicit":
        raise ValueError(
            "randomness must be 'explicit' for a known sensitivity, got "
            f"{target.randomness!r}."
        )
    target.check_law(law)


def calibrate_known(
    sensitivity: float,
    target: Target,
    *,
    law: str | Law = "laplace",
    n_outputs: int = 1,
    n_records: int = 1,
    relation: str = "replace-one",
) -> tuple[AdditiveNoise, Certificate]:
    """Return noise for a known sensitivity, and its certificate.

    Parameters
    ----------
    sensitivity : float
        Largest distance of the answers on neighboring databases, > 0, in the norm of
        the law.

    target : Target
        What is asked for, with randomness "explicit": a delta, or a risk over the
        noise, or with a gamma of 0 that every pair and output keeps the level.

    law : {"laplace", "gaussian", "gaussian-classical"} or Law, default="laplace"
        Law of the noise.

    n_outputs : int, default=1
        Outputs of the query, >= 1.

    n_records : int, default=1
        Records of a database, for the certificate.

    relation : {"replace-one", "add-remove"}, default="replace-one"
        How neighbors differ.

    Returns
    -------
    noise : AdditiveNoise
        To release an answer with.

    certificate : Certificate
        What that guarantees: a risk of 0 where every pair and output keeps the level.

    Raises
    ------
    ValueError
        If a parameter is out of range, or they do not go together.

    Notes
    -----
    **Guarantee** (:ref:`thm-explicit`). For every pair of neighbors, the privacy loss
    exceeds `epsilon` with probability at most the risk over the noise. With Laplace
    noise that is worth something for one output and a risk of 1/2 or more only.

    Examples
    --------
    >>> from skparisk.calibration import Target, calibrate_known
    >>> target = Target(0.5, gamma=0.0, delta=1e-6, randomness="explicit")
    >>> noise, certificate = calibrate_known(0.004, target, law="gaussian")
    >>> round(noise.noise_scale, 4), certificate.risk
    (0.0322, 0.0)
    """
    return find_known(
        sensitivity,
        target,
        law=law,
        n_outputs=n_outputs,
        n_records=n_records,
        relation=relation,
    )


def find_known(
    sensitivity: float,
    target: Target,
    *,
    law: str | Law,
    n_outputs: int,
    n_records: int,
    relation: str,
    proven: bool = False,
) -> tuple[AdditiveNoise, Certificate]:
    """Do what `calibrate_known` does; a sensitivity may also be proven."""
    sensitivity = check_positive(sensitivity, "sensitivity")
    k = check_at_least(n_outputs, "n_outputs", 1)
    law = as_law(law)
    check_known(target, law)
    epsilon, gamma, delta = target.epsilon, target.gamma, target.delta
    enlarged = sensitivity * (1 + float(ROUNDING_SLACK))
    risk, curve, loss = 0.0, None, None
    if math.isinf(epsilon):
        noise = AdditiveNoise(law, 0, 0, k)
    elif type(law) is Laplace and not (delta or gamma):
        # Its grid is paid for exactly, with less noise than a share of the level.
        mechanism = LaplaceMechanism(sensitivity, epsilon, k)
        noise, loss = mechanism.noise, mechanism.as_certificate().loss
    else:
        if gamma and not delta:
            (unit, steps), risk, curve = law.noise_at_risk(epsilon, gamma, k)
        else:
            unit, steps = law.unit_noise(epsilon, delta, k)
        scale = enlarged * unit
        noise = AdditiveNoise.at_least(law, scale, n_outputs=k, least_steps=steps)
    evidence = Evidence(
        gamma=0.0 if delta else gamma,
        sensitivity=sensitivity,
        noise_scale=noise.noise_scale,
        n_records=n_records,
        n_outputs=k,
        calibration="bound" if proven else "declared",
        law=law.name,
        norm=NORMS[law.norm],
        curve=None if curve is None else as_curve(*curve),
    )
    if loss is None:
        loss = dominating_loss(target, law, evidence)
    certificate = Certificate(
        epsilon,
        delta,
        risk,
        randomness="explicit",
        relation=check_relation(relation),
        loss=loss,
        evidence=evidence,
    )
    return noise, certificate
