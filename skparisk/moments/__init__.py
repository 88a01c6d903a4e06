"""Sums of records and of their products: released once, for every model they serve."""

from skparisk.moments._models import MomentsOLS, MomentsPCA, MomentsRidge
from skparisk.moments._private import PrivateMoments

__all__ = ["MomentsOLS", "MomentsPCA", "MomentsRidge", "PrivateMoments"]
