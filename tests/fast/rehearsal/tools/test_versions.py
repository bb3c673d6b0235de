"""Versions as tools print them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenv.rehearsal.tools.versions import Version, need, parse

NUMBERS = st.integers(min_value=0, max_value=10**6)
VERSIONS = st.builds(
    Version, NUMBERS, NUMBERS, NUMBERS, st.from_regex(r"\A(|[a-z]{1,5}|rc\.[0-9]{1,3}|[0-9]{1,3}\.x)\Z")
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v3.259.0\n", Version(3, 259, 0)),
        ("pulumi 3.260.0-alpha.1+abc", Version(3, 260, 0, "alpha.1")),
        ("go version go1.26.8 linux/amd64", Version(1, 26, 8)),
        ("go1.27rc1", Version(1, 27, 0, "rc1")),
        ("go 1.26", Version(1, 26, 0)),
        ("Warning: something\nv4.0.1", Version(4, 0, 1)),
        ("no version here", None),
        ("", None),
    ],
)
def test_reads_what_tools_print(text: str, expected: Version | None) -> None:
    assert parse(text) == expected


@given(VERSIONS)
def test_what_is_written_is_read_back(version: Version) -> None:
    assert parse(f"tool v{version} (built today)") == version


@given(VERSIONS, VERSIONS)
def test_versions_are_totally_ordered(first: Version, second: Version) -> None:
    assert (first < second) + (second < first) + (first == second) == 1


@given(NUMBERS, NUMBERS, NUMBERS)
def test_release_is_newer_than_its_prereleases(major: int, minor: int, patch: int) -> None:
    assert Version(major, minor, patch, "rc.1") < Version(major, minor, patch) < Version(major, minor, patch + 1, "a")


def test_parts_of_a_prerelease_are_compared_as_numbers() -> None:
    assert need("1.0.0-alpha.9") < need("1.0.0-alpha.10") < need("1.0.0-beta.1")


def test_invalid_version_is_an_error() -> None:
    with pytest.raises(ValueError, match="latest"):
        need("latest")
