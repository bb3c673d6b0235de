"""Paginate lists; the token is the number of items returned so far."""

from __future__ import annotations

from typing import TypeVar

from agentenv.rehearsal.cloud.responses import AwsError

T = TypeVar("T")


def page(
    items: list[T], limit: int | None, token: str | None, error_response: str = "InvalidParameterException"
) -> tuple[list[T], str | None]:
    """Return the requested part of a list, and the token of the next; None at the end."""
    try:
        start = int(token) if token else 0
    except ValueError:
        raise AwsError(error_response, "The next token is not one of this list.", 400) from None
    end = start + (limit or 100)
    return items[start:end], str(end) if end < len(items) else None
