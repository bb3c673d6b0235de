"""Read fields of Kubernetes objects without failing on unexpected content.

A field that is missing or has another type reads as empty. Only fields that identify an object are required: without
them `UnreadableError` is raised.
"""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any, TypeGuard, cast

Document = dict[str, Any]

# A count or a size has no more digits than this in any field: 2**63 has nineteen.
_DIGITS = 18
# An amount that is longer, or further from 1 than this power of ten, was not meant as one.
_LONGEST_AMOUNT, _LARGEST_POWER = 40, 12


class UnreadableError(ValueError):
    """An object lacks a field that it cannot be read without; the message names the field, never its content."""


def section(document: object, key: str) -> Document:
    """Return an object within a document; an empty one where it is missing or something else."""
    value: object = cast("Document", document).get(key) if isinstance(document, dict) else None
    return cast("Document", value) if isinstance(value, dict) else {}


def rows(document: object, key: str) -> list[Document]:
    """Return the objects of a list within a document; what else the list holds is left out."""
    value: object = cast("Document", document).get(key) if isinstance(document, dict) else None
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Document", row) for row in items if isinstance(row, dict)]


def text(document: object, key: str) -> str:
    """Return a string within a document; an empty one where it is missing or something else."""
    value: object = cast("Document", document).get(key) if isinstance(document, dict) else None
    return value if is_text(value) else ""


def number(document: object, key: str) -> int:
    """Return an integer within a document; 0 where it is missing or something else."""
    value: object = cast("Document", document).get(key) if isinstance(document, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def strings(document: object, key: str) -> dict[str, str]:
    """Return labels or annotations: the entries that are strings."""
    return {name: value for name, value in section(document, key).items() if is_text(name) and is_text(value)}


def owner_uids(document: object) -> list[str]:
    """Return the uids of an object's owners."""
    return [uid for row in rows(section(document, "metadata"), "ownerReferences") if (uid := text(row, "uid"))]


def required(document: object, *path: str) -> str:
    """Return a string that an object cannot be read without; raise `UnreadableError` where it is missing."""
    within: object = document
    for key in path[:-1]:
        within = section(within, key)
    value = text(within, path[-1])
    if not value:
        raise UnreadableError(f"{'.'.join(path)} is missing or no text")
    return value


def is_text(value: object) -> TypeGuard[str]:
    """Return whether a value is a string that can be written as UTF-8; half of a surrogate pair cannot."""
    if not isinstance(value, str):
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def parsed(text_: object) -> object:
    """Return the JSON that a string holds; None where it holds none, or is nested too deeply to be read."""
    if not isinstance(text_, str | bytes) or not text_:
        return None
    try:
        return cast("object", json.loads(text_))
    except (ValueError, RecursionError):
        return None


def parsed_object(text_: object) -> Document | None:
    """Return the JSON object that a string holds; None where it holds none."""
    value = parsed(text_)
    return cast("Document", value) if isinstance(value, dict) else None


def counted(text_: object) -> int | None:
    """Return the count or size that a string of digits says; None where it says none."""
    digits = isinstance(text_, str) and text_.isascii() and text_.isdigit() and len(text_) <= _DIGITS
    return int(cast("str", text_)) if digits else None


def read_amount(text_: object) -> Decimal | None:
    """Return the amount that a string says, of money or of cores; None where it says none that can be reckoned with."""
    try:
        amount = Decimal(text_) if is_text(text_) and len(text_) <= _LONGEST_AMOUNT else None
    except InvalidOperation:
        return None
    if amount is None or not amount.is_finite() or amount < 0 or abs(amount.adjusted()) > _LARGEST_POWER:
        return None
    return amount
