"""The claim: what a release, or several together, guarantee, in numbers and words.

A :class:`Certificate` is made by every release of the library; composition maps
certificates to a certificate, and a ledger is charged with that same object.
"""

from skparisk.certificate._advantage import Advantage, Success
from skparisk.certificate._audit import MeasuredRisk
from skparisk.certificate._certificate import (
    Certificate,
    as_certificate,
)
from skparisk.certificate._claim import Evidence
from skparisk.certificate._loss import DominatingLoss
from skparisk.certificate._words import METHODS

__all__ = [
    "METHODS",
    "Advantage",
    "Certificate",
    "DominatingLoss",
    "Evidence",
    "MeasuredRisk",
    "Success",
    "as_certificate",
]
