"""Which tables secret samples were drawn from, and released, in this process."""

from __future__ import annotations

import threading
from collections import Counter

from skparisk.reference._sketch import RecordSketch

# Tables that are known again; those that were drawn from longest ago are forgotten.
_MOST_KNOWN = 256

# Tables that members were drawn from and released, in this process, each with how many
# releases there are of which draw. Hashes of rows, in memory alone.
_known: dict[tuple[int, int], tuple[RecordSketch, Counter[object]]] = {}
_lock = threading.Lock()


def enter(sketch: RecordSketch, origin: object) -> bool:
    """Note a release, and tell if there are some of other draws of these records."""
    key = (sketch.n_rows, sketch.ordered)
    with _lock:
        others = any(
            known.overlaps(sketch) for known, of in _known.values() if {*of} - {origin}
        )
        _known.setdefault(key, (sketch, Counter()))[1][origin] += 1
        while len(_known) > _MOST_KNOWN:
            del _known[next(iter(_known))]
    return others


def leave(sketch: RecordSketch, origin: object) -> None:
    """Forget a release that failed."""
    key = (sketch.n_rows, sketch.ordered)
    with _lock:
        if key in _known:
            _, releases = _known[key]
            releases[origin] -= 1
            _known[key] = (sketch, +releases)
            if not _known[key][1]:
                del _known[key]
