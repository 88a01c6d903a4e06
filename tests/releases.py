"""Certificates of known laws, and composition rules by name, for tests."""

from functools import partial

from skparisk.core.claim import DominatingLoss, as_certificates, mint
from skparisk.core.compose import Totals, compose_basic, compose_exact, compose_parallel
from skparisk.core.laws import Gaussian

DELTA = 1e-5


def laplace(shift, excess=0.0, **changes):
    """Return a release with Laplace noise that is private for every pair."""
    loss = DominatingLoss("laplace", shift, excess)
    return mint(**({"epsilon": shift + excess, "loss": loss} | changes))


def gaussian(shift, delta=1e-6, **changes):
    """Return a release with Gaussian noise that is private for every pair."""
    loss = DominatingLoss("gaussian", shift)
    epsilon = Gaussian().level(delta or 1e-6, shift)
    values = {"epsilon": epsilon, "delta": delta, "loss": loss}
    return mint(**(values | changes))


def compose_filter(releases, *, delta, slack=None):
    """Return what a ledger counts of releases whose levels are chosen on the way."""
    spare = delta / 2 if slack is None else slack
    return Totals.of(as_certificates(releases)).filter(delta, spare)


RULES = {
    "basic": compose_basic,
    "owner": partial(compose_parallel, partition="owner"),
    "position": partial(compose_parallel, partition="position"),
    "value": partial(compose_parallel, partition="value"),
    "filter": partial(compose_filter, delta=DELTA),
    "exact": partial(compose_exact, delta=DELTA),
    "exact, no delta": partial(compose_exact, delta=0),
}
