"""Conditions of IAM's statements: whether one leaves anybody, or anything, out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agentenv.core.capabilities.sets.address_ranges import is_open_range, parse_network
from agentenv.core.iam.arn_patterns import ROLES
from agentenv.policies.view.fields import Field

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
# What is so of every call of whoever has a policy, or of any call that somebody takes care to make so
IDLE: Final = frozenset(
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
        # Whose the resource is: nearly all of an account's own, as with the account in its ARN
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
SOURCE_ADDRESS: Final = "aws:sourceip"
_ARNS: Final = frozenset({"aws:principalarn", "aws:sourcearn"})
# What comes before that sign says whose it is; behind it anything may be
_FIRST: Final = {"aws:principalorgpaths": "/", "aws:sourceorgpaths": "/", "aws:userid": ":"}


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

    def narrows(self, *, by_address: bool = False) -> bool | None:
        """Whether only some callers fulfil it; `by_address` where it counts as well from which network they call."""
        if by_address and self.key == SOURCE_ADDRESS and self.operator.lower() == "ipaddress":
            return self._near()
        service = self.key == "aws:principalisawsservice"
        if self.key not in NARROWING or not (self.equals or (service and self.operator.lower() == "bool")):
            return False
        if any(value.unknown for value in self.values):
            return None
        if service:
            return all(str(value.raw).lower() == "true" for value in self.values)
        return all(names_owner(self.key, str(value.raw)) for value in self.values)

    def binds(self) -> bool | None:
        """Whether it leaves out anything of what whoever has the policy may do otherwise.

        What holds without its key as well leaves out at most a few.
        """
        word = self.operator.lower()
        if self.key == "*":
            return None
        if self.key in IDLE or "not" in word or word.endswith("ifexists") or word.startswith("forallvalues:"):
            return False
        return self._is_there() if word == "null" else self._leaves_out(word)

    def _leaves_out(self, word: str) -> bool | None:
        if self.key == SOURCE_ADDRESS and word.startswith("ipaddress"):
            return self._near()
        if not ("like" in word or "arnequals" in word):
            # Without patterns a star is a star
            return True
        if any(value.unknown for value in self.values):
            return None
        return not any(_idle(self.key, str(value.raw)) for value in self.values)

    def _is_there(self) -> bool | None:
        if any(value.unknown for value in self.values):
            return None
        return all(str(value.raw).lower() == "false" for value in self.values)

    def _near(self) -> bool | None:
        found = [parse_network(value.raw) for value in self.values]
        if any(one is not None and is_open_range(one) for one in found):
            return False
        return None if None in found else True


def one_or_more(field: Field) -> list[Field]:
    """The elements of a list, or the one value that stands for a list of one."""
    if field.missing:
        return []
    return field.elements() if isinstance(field.raw, list) else [field]


def names_owner(key: str, text: str) -> bool:
    """Whether a value is somebody's: the part that says whose has no star in it, and is there at all."""
    if key in _ARNS and len(parts := text.split(":", 5)) == 6:
        # The account; a bucket's name has none, and is one of all the world
        bucket = not parts[4] or (parts[2] == "s3" and parts[4] == "*" and "/" not in parts[5])
        decisive = parts[5].partition("/")[0] if bucket else parts[4]
    else:
        decisive = text.partition(_FIRST[key])[0] if key in _FIRST else text
    return bool(decisive) and not set("*?") & set(decisive)


def _idle(key: str, text: str) -> bool:
    return not text.strip("*") or (key == "aws:principalarn" and ROLES.whole(text))
