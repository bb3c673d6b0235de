"""A resolver's answers are those of DNS, also to what is no query."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenv.local.sandboxes.name_answers import answer

NAMES = {"git.example.com": ["140.82.112.3"], "two.example.com": ["1.1.1.1", "1.0.0.1"], "headless.svc": []}


def query(name: str, kind: int = 1, of_class: int = 1, questions: int = 1, flags: int = 0x0100) -> bytes:
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return struct.pack("!6H", 7, flags, questions, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", kind, of_class)


def read(message: bytes) -> tuple[int, int, list[str]]:
    """Return the code, the number of records and the addresses at the end of each."""
    number, flags, _, records, *_ = struct.unpack_from("!6H", message)
    assert number == 7
    assert flags & 0x8000
    tail = message[len(message) - 16 * records :]
    return flags & 0xF, records, [".".join(map(str, tail[16 * row + 12 : 16 * row + 16])) for row in range(records)]


@pytest.mark.parametrize(
    ("name", "kind", "result"),
    [
        ("git.example.com", 1, (0, 1, ["140.82.112.3"])),
        ("GIT.example.com", 1, (0, 1, ["140.82.112.3"])),
        ("two.example.com", 1, (0, 2, ["1.1.1.1", "1.0.0.1"])),
        ("git.example.com", 28, (0, 0, [])),  # no IPv6 address, and no error: callers ask for both
        ("headless.svc", 1, (0, 0, [])),
        ("no.example.com", 1, (3, 0, [])),
    ],
)
def test_names_have_their_addresses(name: str, kind: int, result: tuple[int, int, list[str]]) -> None:
    assert read(answer(query(name, kind), NAMES.get)) == result


def test_what_is_not_offered_is_an_error_by_its_number() -> None:
    assert read(answer(query("git.example.com", of_class=3), NAMES.get))[0] == 3
    assert read(answer(query("git.example.com", questions=2), NAMES.get))[0] == 1
    assert read(answer(query("git.example.com", flags=0x2000), NAMES.get))[0] == 4
    assert read(answer(query("git.example.com")[:-3], NAMES.get))[0] == 1


@given(st.binary(max_size=200))
def test_any_bytes_are_answered(data: bytes) -> None:
    message = answer(data, NAMES.get)
    assert len(message) >= 12 or (message == b"" and len(data) < 12)
