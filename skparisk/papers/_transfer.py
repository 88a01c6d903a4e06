"""Proposition 8 of Rubinstein and Aldà: a risk over pairs of another population."""

from __future__ import annotations

import math

from skparisk.core.checks import check_at_least, check_number


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
