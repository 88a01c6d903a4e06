"""What several releases guarantee together.

Each release is a :class:`~skparisk.Certificate`, a mechanism, or plain numbers
(epsilon, delta, risk); each rule returns a certificate, which may be composed again.
"""

from skparisk.composition._advanced import compose_advanced, compose_laplace
from skparisk.composition._conversions import (
    group_privacy,
    post_process,
    transfer,
)
from skparisk.composition._exact import compose_exact
from skparisk.composition._totals import compose_basic, compose_parallel

__all__ = [
    "compose_advanced",
    "compose_basic",
    "compose_exact",
    "compose_laplace",
    "compose_parallel",
    "group_privacy",
    "post_process",
    "transfer",
]
