"""Parse and compare versions as the tools print them.

`v3.259.0`, `pulumi 3.260.0-alpha.1+abc`, `go1.27rc1`: the first version in the text counts, and a pre-release comes
before its release, as semver orders them.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

_VERSION = re.compile(
    r"(?<![\w.])(?:v|go)?(?P<major>\d+)\.(?P<minor>\d+)(?:\.(?P<patch>\d+))?"
    r"(?:-(?P<pre>[0-9A-Za-z.-]+)|(?P<go>(?:alpha|beta|rc)\d+))?(?:\+[0-9A-Za-z.-]+)?",
    re.ASCII,  # other scripts have digits too
)


@functools.total_ordering
@dataclass(frozen=True)
class Version:
    """A version that can be compared; `pre` is empty for a release."""

    major: int
    minor: int
    patch: int = 0
    pre: str = ""

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}" + (f"-{self.pre}" if self.pre else "")

    def __lt__(self, other: Version) -> bool:
        return self._order() < other._order()

    def _order(self) -> tuple[int, int, int, bool, tuple[tuple[int, int, str], ...]]:
        identifiers = tuple((0, int(part), part) if part.isdigit() else (1, 0, part) for part in self.pre.split("."))
        return self.major, self.minor, self.patch, not self.pre, identifiers


def parse(text: str) -> Version | None:
    """Return the first version in a tool's output, or None."""
    match = _VERSION.search(text)
    if match is None:
        return None
    return Version(
        int(match["major"]), int(match["minor"]), int(match["patch"] or 0), match["pre"] or match["go"] or ""
    )


def need(text: str) -> Version:
    """Parse a version constant of the project; ValueError if it is not one."""
    version = parse(text)
    if version is None:
        raise ValueError(f"'{text}' is not a version")
    return version
