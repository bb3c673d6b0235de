"""The YAML of a stack file: the engine's values, the line of each, and mistakes instead of tracebacks."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agentenv.cli.stack_yaml import MAX_DEPTH, parse, read_document, resolve


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("No", "No"),
        ("on", "on"),
        ("12:30", "12:30"),
        ("010", 8),
        ("0o10", 8),
        ("0x1F", 31),
        ("0b11", 3),
        ("1_000", 1000),
        ("08", 8),
        ("1e3", 1000),
        ("1.", 1),
        (".5", 0.5),
        ("1.10", 1.1),
        ("+7", 7),
        ("-0", 0),
        ("0x", "0x"),
        ("TRUE", True),
        ("~", None),
        ("", None),
        ("Null", None),
        ("none", "none"),
        ("2026-01-01", datetime.date(2026, 1, 1)),
        ("2026-13-45", "2026-13-45"),
        ("1.2.3", "1.2.3"),
    ],
)
def test_an_unquoted_scalar_has_the_engines_value(text: str, value: object) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)


def test_special_numbers_are_resolved() -> None:
    assert resolve(".inf") == math.inf
    assert resolve("-.Inf") == -math.inf
    assert math.isnan(resolve(".nan"))
    assert resolve("1e400") == math.inf
    assert resolve("9" * 5000) == "9" * 5000


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=15,
)


class Quoting(yaml.SafeDumper):
    """Quotes every string: PyYAML leaves some plain (0E0) that are strings in YAML 1.1 and numbers in 1.2."""


Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


@given(PLAIN.filter(lambda value: value is not None), st.booleans())
def test_a_written_document_is_read_back(value: Any, flow: bool) -> None:
    document = parse(yaml.dump(value, Dumper=Quoting, default_flow_style=flow))
    assert document.mistakes == []
    assert document.value == value


@given(st.text(max_size=60) | st.text("&*a:-[]{}<> \n'\"!|#%", max_size=40))
def test_any_text_is_a_value_or_a_mistake(text: str) -> None:
    document = parse(text)
    assert document.mistakes or document.value is not None
    assert all(mistake.line >= 1 and mistake.found and mistake.allowed for mistake in document.mistakes)


def test_every_value_has_its_line() -> None:
    document = parse("a:\n  b: 1\n  c:\n    - x\n    - {d: 2,\n       e: 3}\n")
    assert document.lines == {
        (): 1,
        ("a",): 1,
        ("a", "b"): 2,
        ("a", "c"): 3,
        ("a", "c", 0): 4,
        ("a", "c", 1): 5,
        ("a", "c", 1, "d"): 5,
        ("a", "c", 1, "e"): 6,
    }
    assert document.line(("a", "c", 1, "missing")) == 5


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("", 1, "an empty file"),
        ("# only a comment\n", 1, "an empty file"),
        ("a: 1\nb: [1\n", 3, ""),
        ("a: 1\n\tb: 2\n", 2, ""),
        ("a: 1\nb: 2\na: 3\n", 3, "the key 'a' twice"),
        ("a: {b: 1, b: 2}\n", 1, "the key 'b' twice"),
        ("a: 1\n---\nb: 2\n", 2, "a second document"),
        ("a: &x [*x]\n", 1, "*x from within itself"),
        ("a: *y\n", 1, "*y before it exists"),
        ("a: !!binary aGk=\n", 1, "the tag !!binary"),
        ("a: !secret x\n", 1, "the tag !secret"),
        ("a: 1\n? [b]\n: 2\n", 2, "a mapping or list as a key"),
        ("a: 1\nb: \x07\n", 2, "the character U+0007"),
        ("a: 1\n<<: 5\n", 2, "<< with something else"),
        ("[" * (MAX_DEPTH + 5), 1, "more nesting"),
        ("[" * 200_000, 1, "more nesting"),
    ],
)
def test_a_text_that_the_engine_rejects_is_a_mistake(text: str, line: int, found: str) -> None:
    first = parse(text).mistakes[0]
    assert first.line == line
    assert found in first.found
    assert first.allowed


def test_anchors_and_merges_are_followed() -> None:
    document = parse("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\ne: {<<: [*x, {f: 4}]}\ng: *x\n")
    assert document.value["d"] == {"b": 1, "c": 3}
    assert document.value["e"] == {"b": 1, "c": 2, "f": 4}
    assert document.value["g"] == {"b": 1, "c": 2}


def test_quoted_and_tagged_scalars_are_strings() -> None:
    assert parse("a: '1.35'\nb: !!str 1.35\nc: |\n  1\n").value == {"a": "1.35", "b": "1.35", "c": "1\n"}


def test_an_unreadable_file_is_a_mistake(tmp_path: Path) -> None:
    assert read_document(tmp_path / "nothing").mistakes[0].found == "no such file"
    assert read_document(tmp_path).mistakes[0].allowed == "a file that can be read"
    bad = tmp_path / "latin"
    bad.write_bytes(b"a: 1\nb: \xe9\n")
    (mistake,) = read_document(bad).mistakes
    assert (mistake.line, mistake.found) == (2, "the byte 0xe9")
    marked = tmp_path / "marked"
    marked.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_document(marked).value == {"a": 1}
