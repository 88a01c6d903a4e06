"""Formulas of Rubinstein and Aldà: operating points, an SVM, another population."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import lambertw

from skparisk.core.calibrate import DKW, best_rho
from skparisk.core.checks import check_at_least, check_number, check_probability
from skparisk.svm import check_box


@dataclass(frozen=True)
class DKWOperatingPoint:
    """A choice of parameters that satisfies Theorem 15 of Rubinstein.

    Parameters
    ----------
    n_pairs : int
        Sampled pairs, m.

    order_index : int
        The noise is calibrated to the K-th smallest sampled sensitivity.

    gamma : float
        Risk, in (0, 1).

    rho : float
        Approximation confidence, in (0, min(gamma, 1/2)).
    """

    n_pairs: int
    order_index: int
    gamma: float
    rho: float


def dkw_fewest_pairs(gamma: float) -> DKWOperatingPoint:
    r"""Return the operating point with the fewest pairs for a risk.

    Parameters
    ----------
    gamma : float
        Risk, in (0, 1).

    Returns
    -------
    point : DKWOperatingPoint
        Its `n_pairs` is rounded up.

    Raises
    ------
    ValueError
        If `gamma` is outside (0, 1).

    Notes
    -----
    **Guarantee**: Rubinstein and Aldà, ICML 2017, Theorem 15 and Table 1, row 1:
    :math:`\rho = \exp(W_{-1}(-\gamma / (2 \sqrt e)) + 1/2)` minimizes
    :math:`m = \ln(1/\rho) / (2 (\gamma - \rho)^2)`. On average over the sampled
    pairs, as `"exchangeable"`, which needs far fewer pairs.

    Examples
    --------
    >>> from skparisk.papers import dkw_fewest_pairs
    >>> dkw_fewest_pairs(0.2)
    DKWOperatingPoint(n_pairs=61, order_index=61, gamma=0.2, rho=0.0235330...)
    """
    gamma = check_probability(gamma, "gamma")
    rho = math.exp(float(lambertw(-gamma / (2 * math.sqrt(math.e)), k=-1).real) + 0.5)
    n_pairs = DKW().fewest_pairs(gamma)
    return DKWOperatingPoint(n_pairs, n_pairs, gamma, rho)


def dkw_least_noise(n_pairs: int, gamma: float) -> DKWOperatingPoint:
    r"""Return the operating point with the least K for a number of pairs and a risk.

    Parameters
    ----------
    n_pairs : int
        Sampled pairs, >= 1.

    gamma : float
        Risk, in (0, 1).

    Returns
    -------
    point : DKWOperatingPoint
        Its `order_index` is rounded up.

    Raises
    ------
    CalibrationError
        If `gamma` is below the least risk of `n_pairs` pairs.

    Notes
    -----
    **Guarantee**: Rubinstein and Aldà, ICML 2017, Theorem 15 and Table 1, row 2:
    :math:`\rho = \exp(W_{-1}(-1/(4m)) / 2)` minimizes
    :math:`K = \lceil m (1 - \gamma + \rho + \sqrt{\ln(1/\rho) / (2m)}) \rceil`.

    Examples
    --------
    >>> from skparisk.papers import dkw_least_noise
    >>> dkw_least_noise(1500, 0.05).order_index
    1496
    """
    index = DKW().order_index(n_pairs, gamma)
    return DKWOperatingPoint(n_pairs, index, gamma, best_rho(n_pairs))


def dkw_least_risk(n_pairs: int) -> DKWOperatingPoint:
    r"""Return the operating point with the least risk for a number of pairs.

    Parameters
    ----------
    n_pairs : int
        Sampled pairs, >= 1. One pair certifies no risk below 1.

    Returns
    -------
    point : DKWOperatingPoint
        With ``order_index = n_pairs``: the largest sampled sensitivity.

    Notes
    -----
    **Guarantee**: Rubinstein and Aldà, ICML 2017, Theorem 15 and Table 1, row 3:
    :math:`\gamma = \rho + \sqrt{\ln(1/\rho) / (2m)}` at the `rho` of row 2.

    Examples
    --------
    >>> from skparisk.papers import dkw_least_risk
    >>> point = dkw_least_risk(1000)
    >>> round(point.gamma, 6), round(point.rho, 6)
    (0.056468, 0.004843)
    """
    risk = DKW().certify_risk(n_pairs, n_pairs)
    return DKWOperatingPoint(n_pairs, n_pairs, risk, best_rho(n_pairs))


def rubinstein_svm_sensitivity_bound(
    n_records: int, C: float, *, n_features: int
) -> float:
    r"""Return Rubinstein and Aldà's bound of the l1 sensitivity of an SVM.

    Parameters
    ----------
    n_records, C, n_features
        As in :func:`~skparisk.svm.svm_sensitivity_bound`, n, C and d.

    Returns
    -------
    bound : float
        Of :math:`\|(w, b) - (w', b')\|_1`.

    Notes
    -----
    Rubinstein and Aldà, ICML 2017, Proposition 19, as far as it can be recovered from
    print: :math:`2 + 2 C_R \sqrt d + 4 C_R d / n` with :math:`C_R = n C`, for hinge
    loss, replace-one, records in [0, 1]^d and an intercept without penalty.
    :func:`~skparisk.svm.svm_sensitivity_bound` is less where n C is at least 1/4;
    below that the formula is not proven.

    Examples
    --------
    >>> from skparisk.papers import rubinstein_svm_sensitivity_bound
    >>> rubinstein_svm_sensitivity_bound(1000, 0.003, n_features=16)
    26.192
    """
    n, weight, d = check_box(n_records, C, n_features)
    return 2 + 2 * weight * math.sqrt(d) + 4 * weight * d / n


def rubinstein_transferred_risk(
    risk: float, kl_divergence: float, n_records: int
) -> float:
    r"""Return a bound of the risk over pairs of another population.

    Parameters
    ----------
    risk : float
        Risk over pairs of a population P, in [0, 1].

    kl_divergence : float
        A bound :math:`\tau` of the Kullback-Leibler divergence of one record of P from
        one of the other population, in nats, in [0, inf].

    n_records : int
        Records n of a database, >= 1.

    Returns
    -------
    risk : float
        :math:`\gamma + \sqrt{(n + 1) \tau / 2}`, at most 1.

    Notes
    -----
    Rubinstein and Aldà, ICML 2017, Proposition 8, with Pinsker's inequality
    (:ref:`thm-conversions`). The divergence has to be known, and tiny: 0.05 more at
    1000 records takes 5e-6 nats. So it carries no certificate to other people.

    Examples
    --------
    >>> from skparisk.papers import rubinstein_transferred_risk
    >>> round(rubinstein_transferred_risk(0.05, 5e-6, n_records=999), 6)
    0.1
    """
    gamma = check_number(risk, "risk", "[0, 1]")
    divergence = check_number(kl_divergence, "kl_divergence", "[0, inf]")
    n = check_at_least(n_records, "n_records", 1)
    return min(1.0, gamma + math.sqrt((n + 1) * divergence / 2))
