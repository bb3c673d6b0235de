"""Types of settings: durations, quantities, address ranges, ARNs, images, URLs and amounts of money.

Each type has a pattern for editors and a message. Its `title` is its name in messages and in the reference.
"""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from agentenv.core.values.names import KINDS
from agentenv.core.values.quantities import Quantity


def wrong(allowed: str, hint: str = "") -> PydanticCustomError:
    """Return the error of an invalid value, which `read` reports as a mistake."""
    return PydanticCustomError("mistake", "{allowed}; {hint}", {"allowed": allowed, "hint": hint})


def text(pattern: str, title: str, *examples: str) -> dict[str, Any]:
    """Return the JSON Schema of a text with a pattern."""
    schema: dict[str, Any] = {"type": "string", "pattern": pattern, "title": title}
    return {**schema, "examples": list(examples)} if examples else schema


DURATION = r"^([0-9]{1,5}w)?([0-9]{1,5}d)?([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,8}s)?$"
_DURATION_WORDS = "a duration such as 20m, 12h or 30d"
_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}


def _duration(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        raise wrong(_DURATION_WORDS, "add the unit: s, m, h, d or w")
    if not isinstance(value, str) or not value.isascii() or not re.fullmatch(DURATION[1:-1], value) or not value:
        raise wrong(_DURATION_WORDS)
    seconds = sum(int(amount) * _SECONDS[unit] for amount, unit in re.findall(r"([0-9]+)([wdhms])", value))
    if not 0 < seconds <= 10 * 366 * 86_400:
        raise wrong("a duration of more than 0 and at most ten years")
    return timedelta(seconds=seconds)


def duration_text(duration: timedelta) -> str:
    """Return a duration as text, in the largest unit without a remainder."""
    seconds = int(duration.total_seconds())
    unit = next(unit for unit in "dhms" if seconds % _SECONDS[unit] == 0)
    return f"{seconds // _SECONDS[unit]}{unit}"


Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    PlainSerializer(duration_text, return_type=str),
    WithJsonSchema({**text(DURATION, _DURATION_WORDS, "20m", "30d"), "minLength": 2}),
]


def _cpu(value: object) -> Quantity:
    allowed = "cores such as 2 or 500m"
    if isinstance(value, Quantity):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        # Kubernetes accepts numbers, too; one that is too long for the pattern is rejected.
        value = str(value) if -1 < value < 1_000_000 else ""
    if not isinstance(value, str) or not re.fullmatch(CPU[1:-1], value):
        raise wrong(allowed)
    quantity = Quantity.parse(value)
    if not Decimal("0.001") <= quantity.value <= 100_000:
        raise wrong(f"{allowed}, from 1m to 100000")
    return quantity


def _memory(value: object) -> Quantity:
    allowed = "bytes with a unit such as 512Mi or 5Gi"
    if isinstance(value, Quantity):
        return value
    if not isinstance(value, str) or not re.fullmatch(MEMORY[1:-1], value):
        raise wrong(allowed, "add the unit" if isinstance(value, int) and not isinstance(value, bool) else "")
    quantity = Quantity.parse(value)
    if not 2**20 <= quantity.value <= 2**60:
        raise wrong(f"{allowed}, from 1Mi to 1024Pi")
    return quantity


CPU = r"^([0-9]{1,6}m|[0-9]{1,6}(\.[0-9]{1,3})?)$"
MEMORY = r"^[0-9]{1,9}(\.[0-9]{1,3})?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)$"

Cpu = Annotated[
    Quantity,
    PlainValidator(_cpu),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {
            "title": "cores such as 2 or 500m",
            "anyOf": [{"type": "string", "pattern": CPU}, {"type": "number", "minimum": 0.001, "maximum": 100_000}],
            "examples": ["500m", 2],
        }
    ),
]
Memory = Annotated[
    Quantity,
    PlainValidator(_memory),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(text(MEMORY, "bytes with a unit such as 512Mi or 5Gi", "512Mi", "5Gi")),
]


_V4 = r"^[0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2}$"


def _cidr(value: object, allowed: str, *, six: bool) -> IPv4Network | IPv6Network:
    if isinstance(value, IPv4Network | IPv6Network):
        return value
    if not isinstance(value, str) or "/" not in value:
        raise wrong(allowed, "write the first address, a slash, the length")
    try:
        network = ip_network(value, strict=False)
    except ValueError:
        raise wrong(allowed, "write the first address, a slash, the length") from None
    if isinstance(network, IPv6Network) and not six:
        raise wrong(allowed, "IPv6 ranges are not supported here")
    if str(network) != value.lower():
        raise wrong(allowed, f"write {network}")
    return network


_CIDR_WORDS = "an IPv4 range such as 10.40.0.0/16"
_ANY_CIDR_WORDS = "an IP range such as 203.0.113.0/24"

Cidr = Annotated[
    IPv4Network,
    BeforeValidator(lambda value: _cidr(value, _CIDR_WORDS, six=False)),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(text(_V4, _CIDR_WORDS, "10.40.0.0/16")),
]
AnyCidr = Annotated[
    IPv4Network | IPv6Network,
    BeforeValidator(lambda value: _cidr(value, _ANY_CIDR_WORDS, six=True)),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(text(r"^[0-9a-fA-F.:]{2,45}/[0-9]{1,3}$", _ANY_CIDR_WORDS, "203.0.113.0/24")),
]


def _matching(pattern: str, allowed: str, hint: str = "") -> AfterValidator:
    compiled = re.compile(pattern.removeprefix("^").removesuffix("$"))

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise wrong(allowed, hint)
        return value

    return AfterValidator(check)


PRINCIPAL = r"^arn:aws[a-z-]*:iam::[0-9]{12}:(role|user)/[A-Za-z0-9+=,.@_/-]{1,512}$"
_PRINCIPAL_WORDS = "the ARN of an IAM role or user such as arn:aws:iam::111122223333:role/platform"
PrincipalArn = Annotated[
    str,
    _matching(PRINCIPAL, _PRINCIPAL_WORDS, "root, groups and assumed-role sessions cannot have access entries"),
    WithJsonSchema(text(PRINCIPAL, _PRINCIPAL_WORDS, "arn:aws:iam::111122223333:role/platform")),
]

POLICY = r"^arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/[A-Za-z0-9+=,.@_/-]{1,512}$"
_POLICY_WORDS = "the ARN of an IAM policy such as arn:aws:iam::111122223333:policy/boundary"
PolicyArn = Annotated[
    str,
    _matching(POLICY, _POLICY_WORDS),
    WithJsonSchema(text(POLICY, _POLICY_WORDS, "arn:aws:iam::111122223333:policy/boundary")),
]

KEY = r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]{1,64}$"
_KEY_WORDS = "the ARN of a KMS key"
KeyArn = Annotated[str, _matching(KEY, _KEY_WORDS), WithJsonSchema(text(KEY, _KEY_WORDS))]

IMAGE = (
    r"^[a-z0-9]+([._-]+[a-z0-9]+)*(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
    r"@sha256:[0-9a-f]{64}$"
)
_IMAGE_WORDS = "an image by its digest, registry/name@sha256: and 64 hexadecimal digits"
Image = Annotated[
    str,
    # The pattern has nested repetitions, so the length is checked first.
    Field(max_length=512),
    _matching(IMAGE, _IMAGE_WORDS, "a tag can move to another image under a running pool; pin the digest"),
    WithJsonSchema({**text(IMAGE, _IMAGE_WORDS), "maxLength": 512}),
]

EMAIL = r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9-]*[A-Za-z0-9])+$"
_EMAIL_WORDS = "an e-mail address such as platform@example.com"
Email = Annotated[
    str,
    Field(max_length=254),
    _matching(EMAIL, _EMAIL_WORDS),
    WithJsonSchema({**text(EMAIL, _EMAIL_WORDS, "platform@example.com"), "maxLength": 254}),
]

URL = r"^https://[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]{0,512})?$"
_URL_WORDS = "an https address without query such as https://login.example.com"
Url = Annotated[str, _matching(URL, _URL_WORDS), WithJsonSchema(text(URL, _URL_WORDS, "https://login.example.com"))]

LABEL = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
_LABEL_WORDS = f"a name of at most 63 of {KINDS['kubernetes-label'].allowed}"
Label = Annotated[str, _matching(LABEL, _LABEL_WORDS), WithJsonSchema(text(LABEL, _LABEL_WORDS, "standard"))]

OWNER_ID = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
_OWNER_WORDS = "an opaque id of at most 63 letters, digits, '.', '-' and '_'"
OwnerId = Annotated[
    str,
    _matching(OWNER_ID, _OWNER_WORDS, "it becomes a label on pods: no e-mail address, no name of a person"),
    WithJsonSchema(text(OWNER_ID, _OWNER_WORDS, "u-4711")),
]

TAG = r"^[A-Za-z0-9 _.:/=+@-]{1,128}$"
_TAG_WORDS = "1 to 128 letters, digits, spaces and _ . : / = + - @"
TagText = Annotated[str, _matching(TAG, _TAG_WORDS), WithJsonSchema(text(TAG, _TAG_WORDS, "platform"))]

MOUNT = r"^(/[A-Za-z0-9][A-Za-z0-9._-]{0,62}){1,6}$"
_MOUNT_WORDS = "an absolute path such as /home/agent"
MountPath = Annotated[str, _matching(MOUNT, _MOUNT_WORDS), WithJsonSchema(text(MOUNT, _MOUNT_WORDS, "/home/agent"))]


def _decimal(value: object, allowed: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise wrong(allowed)
    if isinstance(value, int) and value.bit_length() > 64:
        raise wrong(allowed)
    if isinstance(value, str) and not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", value):
        raise wrong(allowed)
    try:
        # The YAML reader returns floats, whose shortest form is the text of the file.
        number = Decimal(str(value))
    except InvalidOperation:
        raise wrong(allowed) from None
    if not number.is_finite():
        raise wrong(allowed)
    return number


def _money(value: object) -> Decimal:
    allowed = "dollars with at most two decimals such as 3.00"
    amount = _decimal(value, allowed)
    if not 0 < amount <= 1_000_000_000 or amount != amount.quantize(Decimal("0.01")):
        raise wrong(f"{allowed}, more than 0 and at most a billion")
    return amount


def _share(value: object) -> Decimal:
    allowed = "a share between 0 and 1 such as 0.01"
    share = _decimal(value, allowed)
    if not 0 < share < 1:
        raise wrong(allowed, f"{share} percent is {share / 100}" if 1 <= share < 100 else "")
    return share


Money = Annotated[
    Decimal,
    BeforeValidator(_money),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": 1_000_000_000},
                {"type": "string", "pattern": r"^[0-9]{1,9}(\.[0-9]{1,2})?$"},
            ],
            "title": "dollars with at most two decimals such as 3.00",
            "examples": [500, "3.00"],
        }
    ),
]
Share = Annotated[
    Decimal,
    BeforeValidator(_share),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                {"type": "string", "pattern": r"^0\.[0-9]{0,5}[1-9]$"},
            ],
            "title": "a share between 0 and 1 such as 0.01",
        }
    ),
]
