"""Long lists, a page at a time; the token is the number of what was shown."""

from __future__ import annotations

from typing import TypeVar

from agentenv.rehearsal.cloud.responses import AwsError

T = TypeVar("T")


def page(
    items: list[T], limit: int | None, token: str | None, error_response: str = "InvalidParameterException"
) -> tuple[list[T], str | None]:
    """The part of a list that a call asked for, and the token for the next; None at the end."""
    try:
        start = int(token) if token else 0
    except ValueError:
        raise AwsError(error_response, "The next token is not one that this list gave out.", 400) from None
    end = start + (limit or 100)
    return items[start:end], str(end) if end < len(items) else None
