"""Statements of IAM policies: whom they let do what, by their actions, resources, principals and conditions.

A document is JSON in a text, or, where a program wrote it as an object, a mapping of which parts may not be known yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import Final, Literal

from agentenv.core.iam.arn_patterns import Kind, everything
from agentenv.policies.view.fields import UNKNOWN, Field
from agentenv.policies.view.iam.conditions import Condition, one_or_more

# Where it stands for the unknown part of a text that a program put together
SENTINEL: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


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
        return _any_of(None if text is None else everything(text) for text in self._resources)

    def every(self, kind: Kind) -> bool | None:
        """Whether it is about every one of a kind; None where that is not known."""
        if self.has("NotResource"):
            return True
        return _any_of(None if text is None else kind.whole(text) for text in self._resources)

    @cached_property
    def _resources(self) -> tuple[str | None, ...]:
        return tuple(None if one.unknown else str(one.raw) for one in self.patterns("Resource"))

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """All comparisons, of which all have to hold; one that is not known where they are not known."""
        return tuple(_conditions(self.field.at("Condition")))

    @property
    def conditional(self) -> bool:
        """Whether it only holds under conditions."""
        return bool(self.conditions)

    @cached_property
    def bound(self) -> bool | None:
        """Whether a condition leaves out anything of what it allows; None where that is not known."""
        return _any_of(one.binds() for one in self.conditions)

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
        return _any_of(
            None if one.unknown else one.raw == "*"
            for kind, value in principal.entries()
            # Whoever has a token of any issuer at all is everybody, too
            if kind in {"AWS", "Federated", "*"}
            for one in one_or_more(value)
        )

    def for_anybody(self, *, by_address: bool = False) -> bool | None:
        """Whether really anybody is let in: everybody, and no condition says who."""
        everybody = self.everybody
        if not everybody:
            return everybody
        narrowing = [one.narrows(by_address=by_address) for one in self.conditions]
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


@lru_cache(maxsize=4096)
def like(text: str, pattern: str) -> bool:
    """Whether a text is one of a pattern's, whatever its case, as actions are."""
    return fnmatchcase(text.lower(), pattern.lower().replace("[", "[[]"))


def _among(field: Field, action: str) -> bool | None:
    return _any_of(None if one.unknown else like(action, str(one.raw)) for one in one_or_more(field))


def _any_of(answers: Iterable[bool | None]) -> bool | None:
    """Yes is stronger than not known yet."""
    found = set(answers)
    return True if True in found else None if None in found else False


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
