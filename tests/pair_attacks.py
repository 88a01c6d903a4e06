"""Attacks on one pair of databases, which may be any two objects."""

import inspect

import numpy as np

from skparisk import audit_claim


def attack_pair(release, first, second, *, delta=0.0, confidence=0.95, **known):
    """Return what an audit finds of one pair."""

    def one(database):
        return release(database[0])

    def many(database, size):
        return release(database[0], size)

    found = audit_claim(
        many if "size" in inspect.signature(release).parameters else one,
        np.zeros((4, 1)),
        pairs=[((first,), (second,))],
        claim=(1.0, delta),
        confidence=confidence,
        **known,
    )
    return found.worst
