"""Statements of IAM policies: whom they let do what, by their actions, resources, principals and conditions.

A document is JSON in a text, or, where a program wrote it as an object, a mapping of which parts may not be known yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import Final, Literal

from policies.view.fields import UNKNOWN, Field

# Where it stands for the unknown part of a text that a program put together
SENTINEL: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
# Who calls, said in a way that only some can be: what makes a statement for everybody one for some.
NARROWING: Final = frozenset(
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


@dataclass(frozen=True)
class Condition:
    """One comparison of a statement."""

    operator: str
    key: str
    field: Field

    @property
    def values(self) -> list[Field]:
        """What the key is compared with."""
        return one_or_more(self.field)

    @property
    def equals(self) -> bool:
        """Whether it holds only where the key is there and is like a value."""
        word = self.operator.lower()
        positive = word.startswith(("stringequals", "stringlike", "arnequals", "arnlike", "foranyvalue:string"))
        return positive and "not" not in word and not word.endswith("ifexists")

    def narrows(self) -> bool | None:
        """Whether only some callers fulfil it."""
        if self.key not in NARROWING:
            return False
        if not self.equals and self.operator.lower() != "bool":
            return False
        if any(value.unknown for value in self.values):
            return None
        return all(set(str(value.raw)) - set("*?:") for value in self.values)


@dataclass(frozen=True)
class Statement:
    """One statement."""

    field: Field

    @property
    def allows(self) -> bool | None:
        """Whether it allows; None where that is not known."""
        effect = self.field.at("Effect")
        return None if effect.unknown else effect.raw == "Allow"

    @property
    def denies(self) -> bool | None:
        """Whether it denies; None where that is not known."""
        effect = self.field.at("Effect")
        return None if effect.unknown else effect.raw == "Deny"

    def has(self, key: str) -> bool:
        """Whether it has such an element."""
        return not self.field.at(key).missing

    def does(self, action: str) -> bool | None:
        """Whether an action is among its actions; None where that is not known."""
        if self.has("NotAction"):
            found = _among(self.field.at("NotAction"), action)
            return None if found is None else not found
        return _among(self.field.at("Action"), action)

    def patterns(self, key: str) -> list[Field]:
        """The texts of an element that may be one or more."""
        return one_or_more(self.field.at(key))

    @property
    def anything(self) -> bool | None:
        """Whether it is about every resource: by a star, or by naming those that it is not about."""
        if self.has("NotResource"):
            return True
        found = [None if one.unknown else _everything(str(one.raw)) for one in self.patterns("Resource")]
        return True if True in found else None if None in found else False

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """All comparisons, of which all have to hold; one that is not known where they are not known."""
        return tuple(_conditions(self.field.at("Condition")))

    @property
    def conditional(self) -> bool:
        """Whether it only holds under conditions."""
        return bool(self.conditions)

    def compares(self, key: str) -> list[Condition]:
        """The comparisons with a key."""
        return [one for one in self.conditions if one.key == key.lower()]

    @property
    def everybody(self) -> bool | None:
        """Whether its principal is everybody there is, in whatever account; NotPrincipal leaves out a few of them."""
        if self.has("NotPrincipal"):
            return True
        principal = self.field.at("Principal")
        if principal.unknown or principal.raw == "*":
            return None if principal.unknown else True
        found: list[bool | None] = []
        for kind, value in principal.entries():
            if kind in {"AWS", "*"}:
                found += [None if one.unknown else one.raw == "*" for one in one_or_more(value)]
        return True if True in found else None if None in found else False

    @property
    def for_anybody(self) -> bool | None:
        """Whether really anybody is let in: everybody, and no condition says who."""
        everybody = self.everybody
        if not everybody:
            return everybody
        narrowing = [one.narrows() for one in self.conditions]
        if True in narrowing:
            return False
        unknown = None in narrowing or any(one.key == "*" for one in self.conditions)
        return None if unknown else True

    def principals(self, kind: Literal["AWS", "Service", "Federated"]) -> list[Field]:
        """The principals of a kind."""
        principal = self.field.at("Principal")
        return [] if principal.raw == "*" or principal.missing else one_or_more(principal.at(kind))


def statements(document: Field) -> list[Statement]:
    """The statements of a document; one that is not known where it is not known."""
    if isinstance(document.raw, str) and SENTINEL in document.raw:
        return [Statement(Field(document.urn, document.path, UNKNOWN))]
    found = document.parsed()
    if found.unknown:
        return [Statement(found)]
    return [Statement(one) for one in one_or_more(found.at("Statement"))]


def unknown_in(document: Field) -> Field | None:
    """The document where nobody can read it yet."""
    found = statements(document)
    return document if len(found) == 1 and found[0].field.unknown and found[0].field.path == document.path else None


def one_or_more(field: Field) -> list[Field]:
    """The elements of a list, or the one value that stands for a list of one."""
    if field.missing:
        return []
    return field.elements() if isinstance(field.raw, list) else [field]


@lru_cache(maxsize=4096)
def like(text: str, pattern: str) -> bool:
    """Whether a text is one of a pattern's, whatever its case, as actions are."""
    return fnmatchcase(text.lower(), pattern.lower().replace("[", "[[]"))


def _among(field: Field, action: str) -> bool | None:
    found = [None if one.unknown else like(action, str(one.raw)) for one in one_or_more(field)]
    return True if True in found else None if None in found else False


def _everything(text: str) -> bool:
    """A star for the whole, or for all that an ARN tells apart."""
    parts = text.split(":", 5)
    return not text.strip("*") or (len(parts) == 6 and not parts[5].strip("*") and parts[0] in {"arn", "*"})


def _conditions(field: Field) -> Iterator[Condition]:
    if field.unknown:
        yield Condition("*", "*", field)
        return
    for operator, keys in field.entries():
        if not isinstance(keys.raw, Mapping):
            yield Condition(operator, "*", keys)
            continue
        for key, value in keys.entries():
            yield Condition(operator, key.lower(), value)
