"""Conditions of policies: whether what is known of a request meets what a statement asks for.

Keys of a request have any number of values. A key that is not there fails every operator but the negated ones, those
with `IfExists`, `Null`, and `ForAllValues`, as IAM has it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from agentenv.rehearsal.cloud.iam.policy_documents import listed

Context = Mapping[str, Sequence[str]]  # values by key; keys in lower case, because IAM does not mind theirs

_VARIABLE = re.compile(r"\$\{([^}]+)\}")
_CHARACTERS = ("*", "?", "$")  # that a policy means literally when it writes ${*}


def context_of(**said: str | Sequence[str]) -> dict[str, Sequence[str]]:
    """A context of a few values; a key is written as it is by `context_of(**{"aws:SourceArn": …})`."""
    return {key.lower(): [value] if isinstance(value, str) else value for key, value in said.items()}


def met(condition: Mapping[str, Any], context: Context) -> bool:
    """Whether every test of every operator holds."""
    return all(
        _holds(operator, [_text(value) for value in listed(wanted)], context.get(key.lower()), context)
        for operator, tests in condition.items()
        for key, wanted in tests.items()
    )


def alike(pattern: str, text: str) -> bool:
    """Whether a text is what a pattern with stars and question marks says."""
    return _like(text, pattern)


def _holds(operator: str, wanted: list[str], found: Sequence[str] | None, context: Context) -> bool:
    quantifier, _, name = operator.rpartition(":")
    if name == "Null":
        return str(found is None).lower() in [value.lower() for value in wanted]
    optional = name.endswith("IfExists")
    name = name.removesuffix("IfExists")
    negated = "Not" in name
    compare = _COMPARISONS[name.replace("Not", "", 1)]
    if found is None:
        return optional or quantifier == "ForAllValues" or (negated and quantifier != "ForAnyValue")
    values = [filled for value in wanted if (filled := _filled(value, context)) is not None]
    told = [any(_compared(compare, one, value) for value in values) is not negated for one in found]
    return all(told) if quantifier == "ForAllValues" or (negated and not quantifier) else any(told)


def _filled(value: str, context: Context) -> str | None:
    """A value with its variables in place; None where one of them is not known."""
    missing = False

    def known(found: re.Match[str]) -> str:
        nonlocal missing
        name, _, instead = found[1].partition(",")
        if name in _CHARACTERS:
            return name
        values = context.get(name.strip().lower())
        if values:
            return values[0]
        missing = missing or not instead
        return instead.strip().strip("'")

    filled = _VARIABLE.sub(known, value)
    return None if missing else filled


def _compared(compare: Callable[[str, str], bool], found: str, wanted: str) -> bool:
    try:
        return compare(found, wanted)
    except ValueError:
        return False  # not a number, a date or an address, and so not this one


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _like(found: str, wanted: str) -> bool:
    pattern = "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in wanted)
    return re.fullmatch(pattern, found, re.DOTALL) is not None


def _arn_like(found: str, wanted: str) -> bool:
    """Part by part: a star does not reach over a colon, but in the last part, which may have some of its own."""
    parts, patterns = found.split(":", 5), wanted.split(":", 5)
    return len(parts) == len(patterns) and all(map(_like, parts, patterns))


def _moment(text: str) -> float:
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _in_network(found: str, wanted: str) -> bool:
    return ipaddress.ip_address(found) in ipaddress.ip_network(wanted, strict=False)


_COMPARISONS: Mapping[str, Callable[[str, str], bool]] = {
    "StringEquals": str.__eq__,
    "StringEqualsIgnoreCase": lambda found, wanted: found.lower() == wanted.lower(),
    "StringLike": _like,
    "BinaryEquals": str.__eq__,
    "ArnEquals": _arn_like,
    "ArnLike": _arn_like,
    "Bool": lambda found, wanted: found.lower() == wanted.lower(),
    "IpAddress": _in_network,
    **{
        f"{kind}{name}": (lambda found, wanted, read=read, holds=holds: holds(read(found), read(wanted)))
        for kind, read in (("Numeric", float), ("Date", _moment))
        for name, holds in (
            ("Equals", float.__eq__),
            ("LessThan", float.__lt__),
            ("LessThanEquals", float.__le__),
            ("GreaterThan", float.__gt__),
            ("GreaterThanEquals", float.__ge__),
        )
    },
}
