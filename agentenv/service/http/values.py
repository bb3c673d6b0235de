"""Types of values in requests: ids, names, labels, timestamps and amounts of money."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
    JsonValue,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
)

from agentenv.config.values import OWNER_ID
from agentenv.core.workspaces.workspace import TEAM, Access

ID = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
_LABEL = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
_LABEL_VALUE = r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$"
_LINE = r"^[\x21-\x7e]([\x20-\x7e]{0,198}[\x21-\x7e])?$"
MONTH = 31 * 24 * 3600
EARLIEST, LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

Id = Annotated[str, StringConstraints(pattern=ID)]
Name = Annotated[str, StringConstraints(pattern=ID)]
Owner = Annotated[str, StringConstraints(pattern=OWNER_ID)]
LabelKey = Annotated[str, StringConstraints(pattern=_LABEL)]
LabelValue = Annotated[str, StringConstraints(pattern=_LABEL_VALUE)]
_NO_OTHERS: dict[str, JsonValue] = {"additionalProperties": False}
Labels = Annotated[dict[LabelKey, LabelValue], Field(max_length=32, json_schema_extra=_NO_OTHERS)]
# An owner, or a team: a group of the issuer's tokens.
Sharer = Annotated[str, StringConstraints(pattern=rf"{OWNER_ID}|^{TEAM}[\x21-\x7e]{{1,128}}$")]
Shared = Annotated[dict[Sharer, Access], Field(max_length=64, json_schema_extra=_NO_OTHERS)]
Line = Annotated[str, StringConstraints(pattern=_LINE)]
Seconds = Annotated[int, Field(ge=60, le=MONTH)]


def _in_utc(timestamp: datetime) -> datetime:
    """Return the timestamp in UTC; the first or last one where it is out of range."""
    try:
        return timestamp.astimezone(UTC)
    except OverflowError:
        return EARLIEST if timestamp.year == 1 else LATEST


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]


def _dollars(value: object) -> object:
    """Parse dollars: whole amounts as a number, cents as a text; a binary fraction is no amount of money."""
    if isinstance(value, Decimal):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_DOLLARS:
        return Decimal(value)
    if isinstance(value, str) and re.fullmatch(AMOUNT, value):
        return Decimal(value)
    raise ValueError("dollars are a number from 0, with cents as a text such as 2.50")


MOST_DOLLARS = 9_999_999_999
AMOUNT = r"^(0|[1-9][0-9]{0,9})(\.[0-9]{1,2})?$"
Dollars = Annotated[
    Decimal,
    BeforeValidator(_dollars),
    PlainSerializer(lambda value: f"{value:f}", return_type=str),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0, "maximum": MOST_DOLLARS}, {"type": "string", "pattern": AMOUNT}]}
    ),
]
