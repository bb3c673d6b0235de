"""What is wrong with a thing that is to be used as it stands, and what its owner can do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shortcoming:
    """A thing by its id, what it lacks or has too much of, and the way out."""

    thing: str
    lack: str
    way_out: str

    def __str__(self) -> str:
        return f"{self.thing} {self.lack}; {self.way_out}"
