"""Conditions of policy statements: whether a request meets one, and whom or what it excludes.

A value may be `UNKNOWN`, as at a preview; an answer that depends on it is None.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, cast

from agentenv.core.capabilities.sets.address_ranges import is_open_range, parse_network
from agentenv.core.capabilities.unknown_values import UNKNOWN, Unknown
from agentenv.core.iam.arn_patterns import ROLES
from agentenv.core.iam.patterns import matches

RequestKeys = Mapping[str, Sequence[str]]  # the values of each condition key; keys are in lower case

# Keys about the caller: a condition on one of them excludes most callers.
CALLER_KEYS: Final = frozenset(
    {
        "aws:principalaccount",
        "aws:principalarn",
        "aws:principalorgid",
        "aws:principalorgpaths",
        "aws:principalisawsservice",
        "aws:sourceaccount",
        "aws:sourcearn",
        "aws:sourceorgid",
        "aws:sourceorgpaths",
        "aws:sourcevpc",
        "aws:sourcevpce",
        "aws:sourceowner",
        "aws:userid",
        "kms:calleraccount",
        "s3:dataaccesspointaccount",
        "sts:externalid",
    }
)
# Keys whose values are the same in all requests of a caller, or that a caller can choose.
INEFFECTIVE_KEYS: Final = frozenset(
    {
        "aws:currenttime",
        "aws:epochtime",
        "aws:principalaccount",
        "aws:principalisawsservice",
        "aws:principalorgid",
        "aws:principalorgpaths",
        "aws:principaltype",
        "aws:referer",
        "aws:requestedregion",
        # The owner of the resource: nearly all are in the own account, as with the account in an ARN
        "aws:resourceaccount",
        "aws:resourceorgid",
        "aws:resourceorgpaths",
        "aws:securetransport",
        "aws:tokenissuetime",
        "aws:useragent",
        "elasticfilesystem:accessedviamounttarget",
        "kms:calleraccount",
        "s3:resourceaccount",
    }
)
SOURCE_IP: Final = "aws:sourceip"
_ARN_KEYS: Final = frozenset({"aws:principalarn", "aws:sourcearn"})
# The separator behind the part of a value that names the owner
_OWNER_SEPARATORS: Final = {"aws:principalorgpaths": "/", "aws:sourceorgpaths": "/", "aws:userid": ":"}
_VARIABLE = re.compile(r"\$\{([^}]+)\}")
_CHARACTERS = ("*", "?", "$")  # `${*}` in a policy means the character itself


@dataclass(frozen=True)
class Condition:
    """One condition key of a statement, with its operator and the values to compare with.

    If the condition itself is not known, its key is `*`.
    """

    operator: str
    name: str
    values: tuple[str | Unknown, ...]

    @property
    def key(self) -> str:
        """Return the name in lower case, because keys ignore case."""
        return self.name.lower()

    def is_met(self, request: RequestKeys) -> bool:
        """Return whether a request meets the condition, as IAM does.

        A missing key fails every operator but the negated ones, those with `IfExists`, `Null` and `ForAllValues`.
        """
        quantifier, _, name = self.operator.rpartition(":")
        expected, actual = [str(value) for value in self.values], request.get(self.key)
        if name == "Null":
            return str(actual is None).lower() in [value.lower() for value in expected]
        optional = name.endswith("IfExists")
        name = name.removesuffix("IfExists")
        negated = "Not" in name
        compare = _COMPARISONS[name.replace("Not", "", 1)]
        if actual is None:
            return optional or quantifier == "ForAllValues" or (negated and quantifier != "ForAnyValue")
        resolved = [value for text in expected if (value := _with_variables(text, request)) is not None]
        answers = [any(_compares(compare, item, value) for value in resolved) is not negated for item in actual]
        return all(answers) if quantifier == "ForAllValues" or (negated and not quantifier) else any(answers)

    @property
    def requires_match(self) -> bool:
        """Return whether it is met only if the key exists and matches a value."""
        operator = self.operator.lower()
        positive = operator.startswith(("stringequals", "stringlike", "arnequals", "arnlike", "foranyvalue:string"))
        return positive and "not" not in operator and not operator.endswith("ifexists")

    def excludes_callers(self, *, by_address: bool = False) -> bool | None:
        """Return whether only some callers meet it; with `by_address`, a source network counts too."""
        if by_address and self.key == SOURCE_IP and self.operator.lower() == "ipaddress":
            return self._excludes_addresses()
        is_service = self.key == "aws:principalisawsservice"
        if self.key not in CALLER_KEYS or not (self.requires_match or (is_service and self.operator.lower() == "bool")):
            return False
        values = self._known_values()
        if values is None:
            return None
        if is_service:
            return all(value.lower() == "true" for value in values)
        return all(names_owner(self.key, value) for value in values)

    def excludes_requests(self) -> bool | None:
        """Return whether it excludes some requests of a caller that the statement applies to.

        An operator that is met without its key excludes few requests at most, and counts as none.
        """
        operator = self.operator.lower()
        if self.key == "*":
            return None
        optional = "not" in operator or operator.endswith("ifexists") or operator.startswith("forallvalues:")
        if self.key in INEFFECTIVE_KEYS or optional:
            return False
        values = self._known_values()
        if operator == "null":
            return None if values is None else all(value.lower() == "false" for value in values)
        if self.key == SOURCE_IP and operator.startswith("ipaddress"):
            return self._excludes_addresses()
        if not ("like" in operator or "arnequals" in operator):
            return True  # without patterns, a wildcard is a literal
        return None if values is None else not any(map(self._matches_all, values))

    def _matches_all(self, value: str) -> bool:
        return not value.strip("*") or (self.key == "aws:principalarn" and ROLES.all_match(value))

    def _known_values(self) -> list[str] | None:
        known = [value for value in self.values if value is not UNKNOWN]
        return known if len(known) == len(self.values) else None

    def _excludes_addresses(self) -> bool | None:
        networks = [parse_network(value) for value in self.values]
        if any(network is not None and is_open_range(network) for network in networks):
            return False
        return None if None in networks else True


def conditions_of(element: object) -> Iterator[Condition]:
    """Yield the conditions in the `Condition` element of a statement; all of them must be met."""
    if element is None:
        return
    if not isinstance(element, Mapping):
        yield Condition("*", "*", (UNKNOWN,))
        return
    for operator, keys in cast("Mapping[str, object]", element).items():
        if not isinstance(keys, Mapping):
            yield Condition(operator, "*", (UNKNOWN,))
            continue
        for name, values in cast("Mapping[str, object]", keys).items():
            yield Condition(operator, str(name), texts_of(values))


def texts_of(value: object) -> tuple[str | Unknown, ...]:
    """Return the strings of an element that is one value or a list of them."""
    if value is None:
        return ()
    values = cast("list[object]", value) if isinstance(value, list) else [value]
    return tuple(_text(item) for item in values)


def names_owner(key: str, value: str) -> bool:
    """Return whether the value of a condition key names its owner without a wildcard."""
    if key in _ARN_KEYS and len(parts := value.split(":", 5)) == 6:
        # The account; the ARN of a bucket has none, but its name is globally unique
        bucket = not parts[4] or (parts[2] == "s3" and parts[4] == "*" and "/" not in parts[5])
        owner = parts[5].partition("/")[0] if bucket else parts[4]
    else:
        owner = value.partition(_OWNER_SEPARATORS[key])[0] if key in _OWNER_SEPARATORS else value
    return bool(owner) and not set("*?") & set(owner)


def _text(value: object) -> str | Unknown:
    if isinstance(value, Unknown):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _with_variables(value: str, request: RequestKeys) -> str | None:
    """Return a value with its variables replaced; None if the request lacks one of them."""
    missing = False

    def replaced(match: re.Match[str]) -> str:
        nonlocal missing
        name, _, default = match[1].partition(",")
        if name in _CHARACTERS:
            return name
        values = request.get(name.strip().lower())
        if values:
            return values[0]
        missing = missing or not default
        return default.strip().strip("'")

    resolved = _VARIABLE.sub(replaced, value)
    return None if missing else resolved


def _compares(compare: Callable[[str, str], bool], actual: str, expected: str) -> bool:
    try:
        return compare(actual, expected)
    except ValueError:
        return False  # not a number, a date or an address


def _like(actual: str, expected: str) -> bool:
    return matches(expected, actual)


def _arn_like(actual: str, expected: str) -> bool:
    """Compare part by part: a wildcard does not match a colon, except in the last part."""
    parts, patterns = actual.split(":", 5), expected.split(":", 5)
    return len(parts) == len(patterns) and all(map(matches, patterns, parts))


def _ignoring_case(actual: str, expected: str) -> bool:
    return actual.lower() == expected.lower()


def _timestamp(text: str) -> float:
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parsed = datetime.fromisoformat(text)
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def _in_network(actual: str, expected: str) -> bool:
    return ipaddress.ip_address(actual) in ipaddress.ip_network(expected, strict=False)


def _ordered(parse: Callable[[str], float], holds: Callable[[float, float], bool]) -> Callable[[str, str], bool]:
    return lambda actual, expected: holds(parse(actual), parse(expected))


_COMPARISONS: Mapping[str, Callable[[str, str], bool]] = {
    "StringEquals": str.__eq__,
    "StringEqualsIgnoreCase": _ignoring_case,
    "StringLike": _like,
    "BinaryEquals": str.__eq__,
    "ArnEquals": _arn_like,
    "ArnLike": _arn_like,
    "Bool": _ignoring_case,
    "IpAddress": _in_network,
    **{
        f"{kind}{name}": _ordered(parse, holds)
        for kind, parse in (("Numeric", float), ("Date", _timestamp))
        for name, holds in (
            ("Equals", float.__eq__),
            ("LessThan", float.__lt__),
            ("LessThanEquals", float.__le__),
            ("GreaterThan", float.__gt__),
            ("GreaterThanEquals", float.__ge__),
        )
    },
}
