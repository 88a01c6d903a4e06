"""Changes to a ledger's file by anyone else are noticed."""

import json
import os
import re
import shutil

import pytest
from ledgers import database, interrupt, levels, reopened

from skparisk.core.claim import mint
from skparisk.ledger import LedgerError, PrivacyLedger, _book


def held(path):
    """Return all that a ledger holds."""
    ledger = PrivacyLedger.open(path)
    return ledger.limit, ledger.releases, ledger.head


@pytest.mark.slow
def test_no_byte_changes_what_it_holds(filed):
    """Some bytes are not used, or say how large the file was at some time."""
    before, content = held(filed), filed.read_bytes()
    noticed = 0
    for position in range(0, len(content), 1 if len(content) < 2000 else 13):
        changed = bytearray(content)
        changed[position] ^= 1 + position % 127
        filed.write_bytes(changed)
        try:
            assert held(filed) == before
        except LedgerError as error:
            assert str(filed) in str(error)  # noqa: PT017
            noticed += 1
    assert noticed > 100
    assert len(list(filed.parent.iterdir())) == 1


@pytest.mark.slow
def test_no_byte_of_a_line_goes_unnoticed(filed):
    content = filed.read_bytes()
    with database(filed) as connection:
        lines = connection.execute("SELECT document || sha256 FROM lines").fetchall()
    for (line,) in lines:
        start = content.index(line.encode())
        for position in range(start, start + len(line), 3):
            changed = bytearray(content)
            changed[position] ^= 1 + position % 127
            filed.write_bytes(changed)
            with pytest.raises(LedgerError, match=re.escape(str(filed))):
                PrivacyLedger.open(filed)


def test_a_file_that_is_cut_off_is_noticed(filed):
    content = filed.read_bytes()
    for length in [*range(0, len(content), 97), len(content) - 1]:
        filed.write_bytes(content[:length])
        with pytest.raises(LedgerError, match=re.escape(str(filed))):
            PrivacyLedger.open(filed)
        assert filed.read_bytes() == content[:length]


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM lines WHERE number = 2", "2 lines, which are not those that"),
        ("DELETE FROM lines", "0 lines, which are not those that"),
        ("DELETE FROM lines WHERE number = 1", "lines were removed"),
        ("UPDATE lines SET document = 5 WHERE number = 1", "line 2 of .* not an obj"),
        ("UPDATE lines SET document = x'00' WHERE number = 1", "line 2 of .* not JSON"),
        ("DELETE FROM lines WHERE number = 0", "lines were removed"),
        ("INSERT INTO lines SELECT 3, document, sha256 FROM lines LIMIT 1", "4 lines"),
        ("INSERT INTO lines SELECT -1, document, sha256 FROM lines LIMIT 1", "removed"),
        ("UPDATE lines SET number = 7 WHERE number = 2", "lines were removed"),
        ("UPDATE lines SET document = replace(document, '0.1', '0.0')", "was changed"),
        ("UPDATE lines SET document = document || ' ' WHERE number", "line 2 of"),
        ("UPDATE lines SET document = CAST(document AS BLOB)", "line 1 of"),
        ("UPDATE lines SET document = '[]'", "line 1 of .* is not an object"),
        ("UPDATE lines SET document = '{'", "line 1 of .* is not JSON"),
        ("UPDATE lines SET document = '1e999'", "line 1 of .* is not JSON"),
        (f"UPDATE lines SET document = '{'[' * 10**5}'", "line 1 of .* is not JSON"),
        ("UPDATE lines SET document = CAST(x'ff' AS TEXT)", "damaged"),
        ("UPDATE lines SET sha256 = 'x' WHERE number = 1", "line 2 of .* was changed"),
        ("DELETE FROM checkpoint", "lines were removed or added"),
        ("INSERT INTO checkpoint SELECT * FROM checkpoint", "removed or added"),
        ("UPDATE checkpoint SET lines = 2", "lines were removed or added"),
        ("UPDATE checkpoint SET lines = 3.5", "lines were removed or added"),
        ("UPDATE checkpoint SET sha256 = CAST(sha256 AS BLOB)", "removed or added"),
        ("ALTER TABLE lines ADD COLUMN more", "and nothing else"),
        ("DROP TABLE checkpoint", "and nothing else"),
        ("CREATE TABLE other (x)", "and nothing else"),
        ("CREATE VIEW other AS SELECT 1", "and nothing else"),
        ("CREATE INDEX other ON lines (sha256)", "and nothing else"),
        ("ANALYZE", "and nothing else"),
        (
            "CREATE TRIGGER forget AFTER INSERT ON lines BEGIN "
            "DELETE FROM lines WHERE number > 0; END",
            "and nothing else",
        ),
        ("PRAGMA journal_mode = WAL", "another journal mode"),
    ],
)
def test_changes_by_another_program_are_noticed(filed, statement, message):
    with database(filed) as connection:
        connection.execute(statement)
    with pytest.raises(LedgerError, match=message) as info:
        PrivacyLedger.open(filed)
    assert str(filed) in str(info.value)


def test_two_lines_that_change_places_are_noticed(filed):
    with database(filed) as connection:
        for change in (
            "9 WHERE number = 1",
            "1 WHERE number = 2",
            "2 WHERE number = 9",
        ):
            connection.execute(f"UPDATE lines SET number = {change}")
    with pytest.raises(LedgerError, match="not those that its checkpoint"):
        PrivacyLedger.open(filed)


def test_a_damaged_page_is_noticed_whatever_it_holds(filed):
    with database(filed) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET rootpage = 2 WHERE rootpage = 3")
    with pytest.raises(LedgerError, match="damaged"):
        PrivacyLedger.open(filed)


def forge(path, change):
    """Change a ledger as someone does who knows how the hashes are made."""
    with database(path) as connection:
        rows = connection.execute("SELECT document FROM lines ORDER BY number")
        documents = [json.loads(text) for (text,) in rows]
        change(documents)
        sealed = [("", "")]
        for document in documents:
            sealed.append(_book._seal(document, sealed[-1][1]))
        connection.execute("DELETE FROM lines")
        connection.executemany(
            "INSERT INTO lines VALUES (?, ?, ?)",
            [(number, *line) for number, line in enumerate(sealed[1:])],
        )
        connection.execute(
            "UPDATE checkpoint SET lines = ?, sha256 = ?",
            (len(documents), sealed[-1][1]),
        )


def forget_a_charge(documents):
    del documents[2]


def raise_the_budget(documents):
    documents[0]["epsilon"] = 10.0


@pytest.mark.parametrize("change", [forget_a_charge, raise_the_budget])
def test_who_rewrites_the_file_is_found_out_by_a_head_that_was_filed(filed, change):
    with database(filed) as connection:
        rows = connection.execute("SELECT sha256 FROM lines ORDER BY number")
        _, earlier, digest = (row[0] for row in rows)
    assert PrivacyLedger.open(filed, head=digest).head == digest
    assert PrivacyLedger.open(filed, head=earlier).head == digest
    forge(filed, change)
    PrivacyLedger.open(filed)  # a lie that nothing in the file shows
    with pytest.raises(LedgerError, match="rewritten since"):
        PrivacyLedger.open(filed, head=digest)


def set_in(number, **entries):
    """Return a change of a line."""
    return lambda documents: documents[number].update(entries)


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_in(0, other=1), "line 1 of .* must be"),
        (lambda documents: documents[0].pop("id"), "line 1 of .* must be"),
        (set_in(0, id=5), "line 1 of .* must be"),
        (set_in(0, epsilon=1), "line 1 of .* must be"),
        (set_in(0, schema_version=2), "must have the schema"),
        (set_in(0, schema="other"), "must have the schema"),
        (lambda documents: documents.pop(0), "line 1 of .* must have the schema"),
        (set_in(0, epsilon=-1.0), "no valid budget: epsilon"),
        (set_in(0, epsilon=None), "no valid budget: epsilon"),
        (set_in(0, composition="other"), "no valid budget: composition"),
        (set_in(0, composition=[]), "no valid budget"),
        (set_in(1, other=1), "line 2 of .* must have the entries"),
        (lambda documents: documents[1].pop("note"), "line 2 of .* must have"),
        (set_in(2, index=1), "line 3 of .* must have the index 2"),
        (set_in(2, index=2.0), "line 3 of .* must have the index 2"),
        (set_in(1, note=5), "line 2 of .* must have a note"),
        (set_in(1, time=5), "line 2 of .* must have a note"),
        (set_in(1, releases=[]), "line 2 of .* must have a note"),
        (set_in(1, releases=5), "line 2 of .* holds no releases"),
        (set_in(1, releases="x"), "line 2 of .* holds no releases"),
        (set_in(1, releases=[{"risk": 0.1}]), "line 2 of .* holds no releases"),
        (lambda d: d[1]["releases"][0].update(new=1), r"unknown: \['new'\]"),
        (lambda d: d[1]["releases"][0].update(epsilon=-1), "holds no releases"),
        (lambda d: d[1]["releases"][0].update(loss=3), "holds no releases"),
        (lambda d: d[1]["releases"][0].update(guarantee="x"), "do not follow"),
    ],
)
def test_forged_lines_are_refused(filed, change, message):
    forge(filed, change)
    with pytest.raises(LedgerError, match=message):
        PrivacyLedger.open(filed)


def test_releases_that_do_not_go_together_are_refused(filed):
    units = [mint(epsilon=0.1, unit=unit).to_dict() for unit in ("record", "person")]
    forge(filed, set_in(2, releases=units))
    with pytest.raises(LedgerError, match="protect the same unit"):
        PrivacyLedger.open(filed)


def test_words_of_another_version_do_not_make_a_file_unreadable(filed):
    def reword(documents):
        documents[1]["releases"][0].update(version="0.0.1", guarantee="In other words.")

    forge(filed, reword)
    ledger = PrivacyLedger.open(filed)
    ledger.spend(0.1)
    assert levels(ledger) == levels(reopened(ledger)) == [0.1, 0.2, 0.3, 0.1]


def cut_off(path):
    with database(path) as connection:
        connection.execute("DELETE FROM lines WHERE number = 2")
        connection.execute(
            "UPDATE checkpoint SET lines = 2, "
            "sha256 = (SELECT sha256 FROM lines WHERE number = 1)"
        )


def put_back_by_copy(path):
    shutil.copy(path, f"{path}.copy")
    os.replace(f"{path}.copy", path)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (cut_off, LedgerError, "was cut off or rewritten while it was in use"),
        (lambda path: forge(path, raise_the_budget), LedgerError, "or rewritten while"),
        (put_back_by_copy, LedgerError, "was replaced while it was in use"),
        (lambda path: path.unlink(), FileNotFoundError, "No such file"),
        (lambda path: path.write_bytes(b""), LedgerError, "must have the tables"),
        (lambda path: path.write_bytes(b"text"), LedgerError, "is not a ledger"),
    ],
)
def test_a_file_that_changes_while_it_is_in_use_is_noticed(
    filed, change, error, message
):
    ledger = PrivacyLedger.open(filed)
    change(filed)
    with pytest.raises(error, match=message):
        ledger.spend(0.1)
    assert not any("-journal" in path.name for path in filed.parent.iterdir())


def test_a_file_that_is_replaced_while_its_lock_is_waited_for_is_noticed(
    filed, monkeypatch
):
    ledger = PrivacyLedger.open(filed)
    interrupt(monkeypatch, _book, "_begin", lambda: put_back_by_copy(filed))
    with pytest.raises(LedgerError, match="was replaced"):
        ledger.spend(0.1)
