"""What the rows keep: plain records on shelves, one shelf for each account, region and kind of thing.

Everything that a row makes lies on a shelf, so the census needs no list of its own of what rows can make. A kind whose
name begins with `_` holds no things but what is said about them (settings, updates, tags), and does not count.
"""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]


class Store:
    """All records, by kind (`eks.addons`), account and region."""

    def __init__(self) -> None:
        self._shelves: dict[tuple[str, str, str], dict[str, Record]] = {}

    def records(self, kind: str, account: str, region: str) -> dict[str, Record]:
        """One shelf, by identifier; made when it is first asked for."""
        return self._shelves.setdefault((kind, account, region), {})

    def identifiers(self) -> dict[str, list[str]]:
        """The identifiers of all records, by kind."""
        identifiers: dict[str, list[str]] = {}
        for (kind, _, _), records in self._shelves.items():
            if not kind.startswith("_"):
                identifiers.setdefault(kind, []).extend(records)
        return identifiers
