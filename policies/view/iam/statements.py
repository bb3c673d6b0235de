"""Statements of IAM policies as rules see them: the statements of `agentenv.core.iam`, with their fields.

A document is JSON in a string, or a mapping of which parts may not be known yet.
"""

from __future__ import annotations

from agentenv.core.capabilities.unknown_values import UNKNOWN_STRING
from agentenv.core.iam import documents
from agentenv.core.iam.conditions import Condition
from agentenv.policies.view.fields import UNKNOWN, Field


class Statement(documents.Statement):
    """A statement with its field, to which findings refer."""

    def __init__(self, field: Field) -> None:
        super().__init__(None if field.missing else field.raw)
        self.field = field

    def values_of(self, condition: Condition) -> list[Field]:
        """Return the fields of a condition's values."""
        return one_or_more(self.field.at("Condition", condition.operator, condition.name))


def statements(document: Field) -> list[Statement]:
    """Return the statements of a document; one unknown statement if the document is unknown."""
    if isinstance(document.raw, str) and UNKNOWN_STRING in document.raw:
        return [Statement(Field(document.urn, document.path, UNKNOWN))]
    parsed = document.parsed()
    if parsed.unknown:
        return [Statement(parsed)]
    return [Statement(field) for field in one_or_more(parsed.at("Statement"))]


def unknown_in(document: Field) -> Field | None:
    """Return the document if it is not known; None if it is."""
    every = statements(document)
    is_unknown = len(every) == 1 and every[0].field.unknown and every[0].field.path == document.path
    return document if is_unknown else None


def one_or_more(field: Field) -> list[Field]:
    """Return the elements of a field that is a list or a single value."""
    if field.missing:
        return []
    return field.elements() if isinstance(field.raw, list) else [field]
