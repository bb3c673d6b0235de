"""Values that go over the wire: what an id, a name, a label, a moment and an amount of money may look like."""

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
from agentenv.core.workspaces.workspace import Access

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
Shared = Annotated[dict[Owner, Access], Field(max_length=64, json_schema_extra=_NO_OTHERS)]
Line = Annotated[str, StringConstraints(pattern=_LINE)]
Seconds = Annotated[int, Field(ge=60, le=MONTH)]


def _in_utc(when: datetime) -> datetime:
    """The moment in UTC; the last and the first one where it would be in no year."""
    try:
        return when.astimezone(UTC)
    except OverflowError:
        return EARLIEST if when.year == 1 else LATEST


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]


def _dollars(found: object) -> object:
    """Whole dollars as a number, cents as a text: a fraction in binary is no amount of money."""
    if isinstance(found, Decimal):
        return found
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= MOST_DOLLARS:
        return Decimal(found)
    if isinstance(found, str) and re.fullmatch(AMOUNT, found):
        return Decimal(found)
    raise ValueError("whole dollars are a number, others a text such as 2.50")


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
