"""Evaluate the conditions of policy statements against a request's condition keys.

Keys have any number of values. A missing key fails every operator except the negated ones, those with `IfExists`,
`Null`, and `ForAllValues`, as in IAM.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from agentenv.core.iam.documents import as_list

Context = Mapping[str, Sequence[str]]  # values by key; keys in lower case, because IAM does not mind theirs

_VARIABLE = re.compile(r"\$\{([^}]+)\}")
_CHARACTERS = ("*", "?", "$")  # that a policy means literally when it writes ${*}


def context_of(**keys: str | Sequence[str]) -> dict[str, Sequence[str]]:
    """Return a context of these keys; keys with colons are passed as `context_of(**{"aws:SourceArn": …})`."""
    return {key.lower(): [value] if isinstance(value, str) else value for key, value in keys.items()}


def conditions_met(condition: Mapping[str, Any], context: Context) -> bool:
    """Return whether every test of every operator holds."""
    return all(
        _holds(operator, [_text(value) for value in as_list(values)], context.get(key.lower()), context)
        for operator, tests in condition.items()
        for key, values in tests.items()
    )


def matches_glob(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern with stars and question marks."""
    return _like(text, pattern)


def _holds(operator: str, expected: list[str], actual: Sequence[str] | None, context: Context) -> bool:
    quantifier, _, name = operator.rpartition(":")
    if name == "Null":
        return str(actual is None).lower() in [value.lower() for value in expected]
    optional = name.endswith("IfExists")
    name = name.removesuffix("IfExists")
    negated = "Not" in name
    compare = _COMPARISONS[name.replace("Not", "", 1)]
    if actual is None:
        return optional or quantifier == "ForAllValues" or (negated and quantifier != "ForAnyValue")
    values = [filled for value in expected if (filled := _with_variables(value, context)) is not None]
    matches = [any(_matches_safely(compare, item, value) for value in values) is not negated for item in actual]
    return all(matches) if quantifier == "ForAllValues" or (negated and not quantifier) else any(matches)


def _with_variables(value: str, context: Context) -> str | None:
    """Return a value with its variables replaced; None where one of them is not known."""
    missing = False

    def replaced(actual: re.Match[str]) -> str:
        nonlocal missing
        name, _, instead = actual[1].partition(",")
        if name in _CHARACTERS:
            return name
        values = context.get(name.strip().lower())
        if values:
            return values[0]
        missing = missing or not instead
        return instead.strip().strip("'")

    filled = _VARIABLE.sub(replaced, value)
    return None if missing else filled


def _matches_safely(compare: Callable[[str, str], bool], actual: str, expected: str) -> bool:
    try:
        return compare(actual, expected)
    except ValueError:
        return False  # not a number, a date or an address, and so not this one


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _like(text: str, glob: str) -> bool:
    pattern = "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in glob)
    return re.fullmatch(pattern, text, re.DOTALL) is not None


def _arn_like(actual: str, expected: str) -> bool:
    """Compare part by part: a star does not match a colon, except in the last part."""
    parts, patterns = actual.split(":", 5), expected.split(":", 5)
    return len(parts) == len(patterns) and all(map(_like, parts, patterns))


def _timestamp(text: str) -> float:
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parsed = datetime.fromisoformat(text)
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def _in_network(actual: str, expected: str) -> bool:
    return ipaddress.ip_address(actual) in ipaddress.ip_network(expected, strict=False)


_COMPARISONS: Mapping[str, Callable[[str, str], bool]] = {
    "StringEquals": str.__eq__,
    "StringEqualsIgnoreCase": lambda actual, expected: actual.lower() == expected.lower(),
    "StringLike": _like,
    "BinaryEquals": str.__eq__,
    "ArnEquals": _arn_like,
    "ArnLike": _arn_like,
    "Bool": lambda actual, expected: actual.lower() == expected.lower(),
    "IpAddress": _in_network,
    **{
        f"{kind}{name}": (lambda actual, expected, read=read, holds=holds: holds(read(actual), read(expected)))
        for kind, read in (("Numeric", float), ("Date", _timestamp))
        for name, holds in (
            ("Equals", float.__eq__),
            ("LessThan", float.__lt__),
            ("LessThanEquals", float.__le__),
            ("GreaterThan", float.__gt__),
            ("GreaterThanEquals", float.__ge__),
        )
    },
}
