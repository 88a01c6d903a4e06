"""Tables as files hold them: texts, in which nothing decides what a column is."""

from __future__ import annotations

import contextlib
import csv
import difflib
import io
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

MISSING = "missing"
# Between the names of a first line; whichever of them gives one that is asked for.
_SEPARATORS = (",", ";", "\t", "|")
# 1.234,5 in the languages that have a decimal comma.
_WITH_COMMA = re.compile(r"\s*[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?\s*")
# What people read as a number, and `to_numeric` does not.
_MARKED = re.compile(r"\s*[-+(]?\s*[€$£¥]?\s*\d[\d.,'’\s]*\s*[%€$£¥]?\s*\)?\s*")
# Words of a column that so few records have on average are no categories.
_FEWEST_RECORDS, _MANY_WORDS = 10, 20
_MOSTLY = 0.9
# Names of columns that say whose a row is.
_IDS = re.compile(
    r"(.*[\W_])?(id|uid|uuid|nr|number|person|patient|customer|client|user|subject|pupil)"
    r"|.*(nummer|kennung)"
    r"|.*[a-z]Id",
    re.ASCII,
)
# Of bytes that are no text.
_UNREAD = re.compile("\ufffd")
_OTHER_TEXT = "'{}' must be in UTF-8: spreadsheets save it as \"CSV UTF-8\"."
# A line that pandas would skip; only one that is empty in the file is no record.
_BLANK = re.compile(r"\n[^\S\n]+(?=\n|\Z)")
_WHOLE = re.compile(r"\s*\d+\s*")
# Numbers drawn from so few are all different with a probability exp(-10) at most.
_SO_OFTEN = 20
# Records that are read together: as many as do not matter beside all of them.
_TOGETHER = 2**14


@contextlib.contextmanager
def open_csv(path: Path, name: str) -> Iterator[tuple[TextIO, str]]:
    """Open a CSV, and find what separates its columns, by a name that it must have."""
    # Bytes that are no text would be told of by an error.
    with path.open(encoding="utf-8-sig", errors="replace", newline="\n") as lines:
        first = _plain(lines.readline())
        # How a file in UTF-16 begins: one byte too much would move all that follow.
        if first.startswith("\ufffd\ufffd"):
            raise ValueError(_OTHER_TEXT.format(path))
        separator = _separator_of(first, name)
        lines.seek(0)
        yield lines, separator


def _separator_of(line: str, name: str) -> str:
    """Return what is between the names of a first line."""
    csv.field_size_limit(2**31 - 1)  # no field is too long to be read
    for separator in _SEPARATORS:
        names = next(csv.reader([line], delimiter=separator), [])
        if name in [each.strip() for each in names]:
            return separator
    return max(_SEPARATORS, key=line.count)


def _plain(text: str) -> str:
    """Return text in which nothing but a line feed ends a line."""
    return text.replace("\r\n", "\n").replace("\r", " ")


class _Lines(io.TextIOBase):
    """The text of a file, of which no line goes on in the next one.

    A quote that is not closed would swallow the next people. Its line is read without
    quotes. One that is then blank is a record of nothing.
    """

    def __init__(self, file: TextIO, separator: str) -> None:
        self._file, self._nothing, s = file, separator, re.escape(separator)
        # Quotes are those at the beginning of a field.
        field = rf'(?:"(?:[^"]|"")*+"[^{s}]*+|(?!")[^{s}]*+)'
        self._closed = re.compile(f"{field}(?:{s}{field})*+")

    def read(self, size: int | None = -1, /) -> str:
        """Return about as much text as is asked for, in whole lines."""
        text = self._file.read(-1 if size is None else size) + self._file.readline()
        text = _plain(text)
        if '"' not in text and not _BLANK.search(f"\n{text}"):
            return text
        return "\n".join(map(self._close, text.split("\n")))

    def _close(self, line: str) -> str:
        closed = line if self._closed.fullmatch(line) else line.replace('"', "")
        return closed if closed.strip() or not line else self._nothing


class Reading:
    """How tables are read: the target, columns that are left out, decimal commas.

    All that decides anything is said by the options or by a public first line, and
    each line is a record by itself: one that is malformed is not told, as that would
    be about a person. What it has too much is cut off, and what it lacks is missing.
    """

    def __init__(
        self,
        target: str,
        drop: list[str],
        decimal_comma: bool,
        person: str | None,
        weight: str | None,
    ) -> None:
        self.target, self.drop, self._comma = target, drop, decimal_comma
        # Columns that are no features, by the option that names them.
        self._beside = {"person": person, "weight": weight}
        self._beside = {option: name for option, name in self._beside.items() if name}
        for option, name in self._beside.items():
            if name in (target, *drop):
                raise ValueError(
                    f"--{option} must be neither the target nor dropped, got {name!r}."
                )
        if len({*self._beside.values()}) < len(self._beside):
            raise ValueError(f"--weight must be another column than --person: {name!r}")
        if not target.strip():
            raise ValueError("--target must be a name.")
        if target in drop:
            raise ValueError(f"--drop must not be the target, {target!r}.")

    def texts(self, path: Path) -> Any:
        """Return a public CSV as texts, with nothing where there is none."""
        import pandas

        return pandas.concat(self.blocks(path), ignore_index=True)

    def blocks(self, path: Path, kinds: dict[str, bool] | None = None) -> Iterator[Any]:
        """Yield some records of a CSV after others: no file is held whole.

        Columns are texts, with None where there is nothing. Of a private file only the
        public `kinds`, ids and weights are read, and numbers as numbers.
        """
        import pandas

        with open_csv(path, self.target) as (lines, separator):
            first = _plain(lines.readline())
            head = next(csv.reader([first], delimiter=separator), [])
            written = {name.strip(): name for name in head}
            shown = [*written] if kinds is None else None
            if self.target not in written or len(head) < 2:
                raise ValueError(self._no_table(path, shown))
            if len(written) < len(head):
                raise ValueError(f"'{path}' must have another name for each column.")
            names = self._names(path, [*written], kinds)
            kinds = {} if kinds is None or self._comma else kinds
            numbers = [written[name] for name in names if kinds.get(name)]
            texts = [name for name in names if not kinds.get(name)]
            lines.seek(0)
            for block in pandas.read_csv(
                _Lines(lines, separator),
                sep=separator,
                usecols=[[*written].index(name) for name in names],
                index_col=False,  # although lines may be longer than the first one
                dtype={written[name]: object for name in texts},
                na_values={name: [*_NOTHING] for name in numbers},
                keep_default_na=False,
                chunksize=_TOGETHER,
                low_memory=False,  # each column of a block is of one kind
            ):
                if block.empty:
                    raise ValueError(self._no_table(path, shown))
                block = block.rename(columns=str.strip).reindex(columns=names)
                cells = chain(head, *block.to_numpy()) if shown else chain()
                if any(map(_UNREAD.search, cells)):
                    raise ValueError(_OTHER_TEXT.format(path))
                for name in texts:
                    found = self._cells(block[name])
                    block[name] = pandas.Series(found, block.index, dtype=object)
                yield block

    def _names(
        self, path: Path, head: list[str], kinds: dict[str, bool] | None
    ) -> list[str]:
        """Return the names of columns that are used, or say which are missing."""
        absent = [name for name in self.drop if kinds is None and name not in head]
        if absent:
            raise ValueError(f"'{path}' has no column {absent[0]!r} to --drop.")
        for option, name in self._beside.items():
            if name not in head:
                raise ValueError(f"'{path}' has no column {name!r} for --{option}.")
        if kinds is None:  # a column without a name has the numbers of rows
            return [name for name in head if name not in ("", *self.drop)]
        missing = [name for name in kinds if name not in head]
        if missing:
            raise ValueError(
                f"'{path}' lacks the columns {missing} of the reference or schema: "
                "give them the same names, or leave them out with --drop."
            )
        return [*kinds, *map(str, self._beside.values())]

    def split_off(
        self, texts: Any, *, public: bool = False
    ) -> tuple[Any, dict[str, Any]]:
        """Return a table without ids and weights, and these as `fit` has them.

        A row without an id is a person of its own, and a private one without a weight
        has 0.
        """
        found: dict[str, Any] = {}
        if (person := self._beside.get("person")) is not None:
            one_each = texts[person].map(lambda one: one.strip() if one else object())
            found["groups"] = one_each
        if (weight := self._beside.get("weight")) is not None:
            weights = as_numbers(texts[weight])
            if not public:
                weights = weights.fillna(0.0).clip(0.0, 1e300)
            found["sample_weight"] = weights.to_numpy()
        return texts.drop(columns=[*self._beside.values()]), found

    def _cells(self, texts: Sequence[str]) -> list[str | None]:
        read = {text: self._cell(text) for text in {*texts}}
        return [read[text] for text in texts]

    def _cell(self, text: str) -> str | None:
        if text.strip() in _NOTHING:
            return None
        if self._comma and _WITH_COMMA.fullmatch(text):
            return text.replace(".", "").replace(",", ".")
        return text

    def _no_table(self, path: Path, head: list[str] | None) -> str:
        """Say what is wrong with a file; with its names only where they are public."""
        words = (
            f"'{path}' must be a CSV that begins with a line of the names of its "
            f"columns, the target {self.target!r} and others, and has records. "
        )
        if head is None:
            return f"{words}What it begins with is not shown, as it may be a record."
        near = difflib.get_close_matches(
            self.target.lower(), [name.lower() for name in head], n=1
        )
        like = [name for name in head if name.lower() in near]
        asked = f" Is it --target {like[0]!r}?" if like else ""
        return f"{words}It begins with another line.{asked}"


# What stands for nothing in the tables of other programs, as pandas has it.
_NOTHING = frozenset(
    {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND"}
    | {"1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
)


def holds_numbers(texts: Any) -> bool:
    """Tell if all that is there are numbers."""
    there = texts.dropna()
    return len(there) > 0 and bool(as_numbers(there).notna().all())


def check_ids(columns: Any, path: Path) -> None:
    """Refuse numbers that are ids, by their name or since none of them comes twice.

    No model should use them.
    """
    for name in columns:
        there = columns[name].dropna()
        named = any(map(_IDS.fullmatch, (name.strip(), name.strip().lower())))
        if named and there.nunique() > _MANY_WORDS:
            option = "drop" if there.is_unique else "person"
            why = "" if there.is_unique else ", of people who have several"
            raise ValueError(
                f"the column {name!r} of '{path}' seems to say whose a row is{why}: "
                f"give --{option} {shlex.quote(name)}; if it is something else, give "
                "it another name."
            )
        if there.is_unique and there.map(_WHOLE.fullmatch).notna().all():
            numbers = as_numbers(there)
            if len(numbers) ** 2 > _SO_OFTEN * (numbers.max() - numbers.min() + 1):
                raise ValueError(
                    f"the column {name!r} of '{path}' holds another whole number in "
                    "each record, as numbers of customers do, and not by chance: give "
                    f"--drop {shlex.quote(name)}; if it is a quantity, write it with a "
                    "decimal point, as 12.0."
                )


def check_words(columns: Any, path: Path) -> None:
    """Refuse public columns of words that a model would learn nothing from.

    Numbers that are written as people read them, and words of which almost each record
    has its own, such as names, dates and numbers of customers.
    """
    many = {}
    for name in columns:
        there = columns[name].dropna()
        n_words, others = there.nunique(), there[as_numbers(there).isna()]
        marked = others[[_MARKED.fullmatch(text) is not None for text in others]]
        plain = 1 - (len(others) - len(marked)) / max(1, len(there))
        if n_words > _MANY_WORDS and plain > _MOSTLY:
            odd = int((marked if len(marked) else others).index[0]) + 1
            raise ValueError(
                f"the column {name!r} of '{path}' holds numbers, and another text in "
                f"record {odd}, by which all would be taken for words: write numbers "
                "as 1234.5, here and in the private table, or give --decimal-comma if "
                "all are written as 1.234,5; leave cells without a number empty, or "
                f"leave the column out with --drop {name!r}."
            )
        if n_words > max(_MANY_WORDS, len(there) / _FEWEST_RECORDS):
            many[name] = f"{name!r} holds {n_words} in {len(there)} records"
    if many:
        drop = " ".join(f"--drop {shlex.quote(name)}" for name in many)
        raise ValueError(
            f"columns of '{path}' hold too many different words, as names, dates or "
            f"numbers of customers do: {', '.join(many.values())}. Each word would be "
            "an output with noise, of use for almost nobody. Write them in fewer "
            f"words, or leave them out with {drop}"
        )


def as_numbers(texts: Any) -> Any:
    """Return numbers, missing where there is none."""
    import numpy as np
    import pandas

    if texts.dtype.kind not in "iuf":  # true and false are words
        texts = pandas.to_numeric(texts.astype(str), errors="coerce")
    numbers = texts.astype(np.float64)
    return numbers.where(np.isfinite(numbers))


def as_table(texts: Any, kinds: dict[str, bool], gap: str | None) -> Any:
    """Return columns of the kinds that are public, in that order."""
    import pandas

    # Texts in which nothing is missing are read as they are, and not one by one.
    words = object if gap is None else pandas.StringDtype("python")
    made = {
        name: as_numbers(texts[name])
        if kinds[name]
        else texts[name].where(texts[name].notna(), gap).astype(words)
        for name in kinds
    }
    return pandas.DataFrame(made)


def as_target(texts: Any, classes: bool) -> Any:
    """Return labels, or numbers."""
    if classes:
        return texts.astype(object).where(texts.notna(), MISSING).to_numpy()
    return as_numbers(texts).to_numpy()
