"""Sampled pairs as files: arrays of NumPy and a text of JSON in one archive.

A plain ``.npz``, whose member "document" is the text; nothing in it is a pickle, and
nothing that it says is run. Its digest tells damage, and not who wrote it.
"""

from __future__ import annotations

import io
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk.sensitivity._digest import digest

Arrays = Mapping[str, NDArray[Any]]

_TEXT, _DIGEST = "document", "digest"
_ZIP = b"PK\x03\x04"


class DamagedFileError(ValueError):
    """A file does not hold what was written to it, or something else."""


def pack(kind: str, version: int, document: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Return the bytes of a file that `unpack` reads."""
    said = {"format": kind, "format_version": version, **document}
    text = json.dumps(said, sort_keys=True, allow_nan=False).encode()
    members: dict[str, NDArray[Any]] = {
        name: np.ascontiguousarray(array) for name, array in arrays.items()
    }
    members[_TEXT] = np.frombuffer(text, dtype=np.uint8)
    members[_DIGEST] = np.array(_digest_of(members))
    buffer = io.BytesIO()
    np.savez(buffer, **members)  # type: ignore[arg-type]
    return buffer.getvalue()


def unpack(
    data: bytes, kind: str, version: int
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return what was packed, or raise DamagedFileError with the reason."""
    if not data.startswith(_ZIP):
        raise DamagedFileError(f"is no file of {kind}")
    try:
        members = _read_members(data)
        document = json.loads(members[_TEXT].tobytes())
        found = document["format"], document["format_version"]
    except Exception as error:  # an archive may be damaged in any way
        whole = b"PK\x05\x06" in data[-_TAIL:]
        raise DamagedFileError(
            "has been altered: its archive cannot be read"
            if whole
            else "is truncated: the end of its archive is missing"
        ) from error
    if found[0] != kind:
        raise DamagedFileError(f"is a file of {found[0]}, and not of {kind}")
    if found[1] != version:
        raise DamagedFileError(
            f"has version {found[1]} of the format of {kind}; this version of skparisk "
            f"reads version {version}"
        )
    told = members.pop(_DIGEST, np.array(""))
    if str(told) != _digest_of(members):
        raise DamagedFileError("has been altered: its digest is of other contents")
    del members[_TEXT]
    return document, members


# Where an archive has its end, which a comment may follow.
_TAIL = 2**16


def _read_members(data: bytes) -> dict[str, NDArray[Any]]:
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _digest_of(members: Arrays) -> str:
    named = sorted(members.items())
    return digest([(name, np.ascontiguousarray(array)) for name, array in named])


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is there whole or not at all, whoever else writes it."""
    own = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        own.write_bytes(data)
        os.replace(own, path)
    finally:
        own.unlink(missing_ok=True)
