"""Sampled pairs as files, and back: arrays of NumPy and a text of JSON in one archive.

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

from skparisk.calibration import SampledPairs
from skparisk.calibration._pairs import Drawing
from skparisk.reference import Categories, Domain, Interval, Schema
from skparisk.reference._columns import Column
from skparisk.reference._sketch import RecordSketch
from skparisk.reference._targets import TargetForm
from skparisk.sensitivity._digest import digest

Arrays = dict[str, NDArray[Any]]

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


# What an older version cannot read, or would read as something else, raises it.
FORMAT_VERSION = 2

_ARRAYS = ("differences", "errors", "rounding", "answer", "weights")
_PLAIN = ("failure", "n_independent", "n_neighbors")


def as_written(pairs: SampledPairs) -> tuple[dict[str, Any], Arrays]:
    """Return all that pairs are, but for what follows from query and reference."""
    drawing, sketch, domain = pairs.drawing, pairs.sketch, pairs.domain
    assert drawing is not None
    assert pairs.schema is not None
    document: dict[str, Any] = {name: getattr(pairs, name) for name in _PLAIN}
    document |= {
        "draw_seed": str(pairs.draw_seed),
        "provisos": [*pairs.provisos],
        "schema": vars(pairs.schema),
        "types": pairs.types,
        "targets": None if pairs.targets is None else vars(pairs.targets),
        "drawing": {
            "entropy": drawing.entropy.hex(),
            "n_whole": drawing.n_whole,
            "failure": drawing.failure,
            "reference": drawing.reference,
        },
        "sketch": None,
        "domain": None,
    }
    arrays = {name: getattr(pairs, name) for name in _ARRAYS}
    arrays["whole_rounding"] = drawing.rounding
    if sketch is not None:
        plain = ("n_rows", "ordered", "whole")
        document["sketch"] = {name: getattr(sketch, name) for name in plain}
        arrays |= {"features": sketch.features, "records": sketch.records}
    if domain is not None:
        document["domain"] = {
            "columns": [*map(_write_column, domain.columns)],
            "targets": [*map(_write_column, domain.targets)],
        }
    return document, {name: a for name, a in arrays.items() if a is not None}


def from_written(document: Mapping[str, Any], arrays: Arrays) -> SampledPairs:
    """Return the pairs that were written, or raise DamagedFileError."""
    try:
        return _read(document, arrays)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise DamagedFileError(f"does not describe sampled pairs: {error}") from error


def _read(document: Mapping[str, Any], arrays: Arrays) -> SampledPairs:
    drawing, sketch, domain = (document[n] for n in ("drawing", "sketch", "domain"))
    schema, types, targets = (document[n] for n in ("schema", "types", "targets"))
    names = schema["names"]
    return SampledPairs(
        **{name: arrays.get(name) for name in _ARRAYS},  # type: ignore[arg-type]
        **{name: document[name] for name in _PLAIN},
        draw_seed=int(document["draw_seed"]),
        provisos=tuple(document["provisos"]),
        schema=Schema(
            schema["container"],
            None if names is None else tuple(names),
            tuple(schema["kinds"]),
        ),
        types=None
        if types is None
        else tuple(tuple(each) if isinstance(each, list) else each for each in types),
        targets=None
        if targets is None
        else TargetForm(tuple(targets["shape"]), targets["labels"]),
        drawing=Drawing(
            bytes.fromhex(drawing["entropy"]),
            drawing["n_whole"],
            arrays["whole_rounding"],
            drawing["failure"],
            drawing["reference"],
        ),
        sketch=None
        if sketch is None
        else RecordSketch(
            **sketch, features=arrays["features"], records=arrays.get("records")
        ),
        domain=None
        if domain is None
        else Domain(
            [*map(_read_column, domain["columns"])],
            [*map(_read_column, domain["targets"])],
        ),
    )


def as_plain(value: Any, what: str) -> Any:
    """Return a text, a number, a truth value or None, or refuse to write it."""
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is None or type(plain) in (bool, int, float, str):
        return plain
    raise ValueError(
        f"{what} must be a text, a number or None to be saved, got an object of type "
        f"{type(value).__name__}: reading it would run what a file says."
    )


def _write_column(column: Column) -> dict[str, Any] | None:
    if column is None:
        return None
    if isinstance(column, Categories):
        values = [as_plain(value, "a category") for value in column.values]
        default = column.values.index(column.default)
        return {"values": values, "default": default}
    ends = [column.low, column.high]
    if isinstance(column.low, float):
        return {"ends": ends, "dtype": None, "missing": column.missing}
    numbers = [int(end.astype(np.int64)) for end in ends]
    return {"ends": numbers, "dtype": column.low.dtype.str, "missing": column.missing}


def _read_column(written: dict[str, Any] | None) -> Column:
    if written is None:
        return None
    if "values" in written:
        values = tuple(written["values"])
        return Categories(values, values[written["default"]])
    ends = written["ends"]
    if written["dtype"] is not None:
        ends = np.array(ends, dtype=np.int64).view(written["dtype"])
    return Interval(ends[0], ends[1], written["missing"])
