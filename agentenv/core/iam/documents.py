"""Read policy documents."""

from __future__ import annotations

import json
from typing import Any


class _DuplicateKey(ValueError):
    """An object has a key twice."""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise _DuplicateKey(f"The element {name} appears twice.")
    return dict(pairs)


def as_list(value: Any) -> list[Any]:
    """Return a value or list as a list."""
    return value if isinstance(value, list) else [value]


def read(text: str) -> tuple[dict[str, Any], list[str]]:
    """Return the document, and the errors that keep it from being one."""
    try:
        document = json.loads(text, object_pairs_hook=_unique_keys)
    except _DuplicateKey as error:
        return {}, [str(error)]
    except ValueError as error:
        return {}, [f"This policy contains invalid Json: {error}"]
    return (document, []) if isinstance(document, dict) else ({}, ["The policy is not an object."])


def statements(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the statements of a valid document."""
    return [row for row in as_list(document.get("Statement", [])) if isinstance(row, dict)]
