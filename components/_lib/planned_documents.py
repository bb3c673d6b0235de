"""What documents are going to say, before everything that they name is known.

A document in JSON is one text, and the engine knows nothing of it until it knows the last name in it: at a first
preview nobody could tell whom a role trusts. So a component hands out what its documents say with names of nothing in
place of those that are still missing, and policies judge that; the document itself they judge again before it is made.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pulumi

from agentenv.components._lib.aws_context import Whereabouts
from agentenv.components._lib.iam_policies import Document, text

OUTPUT = "documents"
# Names of nothing, of the shape that the real ones have
PROVIDER = "arn:aws:iam::000000000000:oidc-provider/issuer.invalid/id/NOTKNOWNYET"
ISSUER = "https://issuer.invalid/id/NOTKNOWNYET"


def vpc_id(_: Whereabouts) -> str:
    """A VPC's."""
    return "vpc-00000000000000000"


def public_address(_: Whereabouts) -> str:
    """A public address, of a range that is reserved for documentation."""
    return "192.0.2.1"


def file_system_id(_: Whereabouts) -> str:
    """A file system's."""
    return "fs-00000000000000000"


def file_system_arn(place: Whereabouts) -> str:
    """A file system's."""
    return place.arn("elasticfilesystem", f"file-system/{file_system_id(place)}")


def role_arn(place: Whereabouts) -> str:
    """A role's."""
    return f"arn:{place.partition}:iam::{place.account}:role/not-known-yet"


def queue_arn(place: Whereabouts) -> str:
    """A queue's."""
    return place.arn("sqs", "not-known-yet")


def log_group_arn(place: Whereabouts) -> str:
    """A log group's."""
    return place.arn("logs", "log-group:not-known-yet")


def rule_arn(place: Whereabouts) -> str:
    """An event rule's."""
    return place.arn("events", "rule/not-known-yet")


def table_arn(place: Whereabouts) -> str:
    """A table's."""
    return place.arn("dynamodb", "table/not-known-yet")


@dataclass(frozen=True)
class Name:
    """Something that a document names: its value, and a placeholder of the same shape until that is known."""

    value: pulumi.Input[Any]
    placeholder: Callable[[Whereabouts], Any]


@dataclass(frozen=True)
class Planned:
    """A document that names what is not known yet.

    One function makes the document and the planned one, each from as many names. So the two cannot differ in more than
    the names themselves.
    """

    place: pulumi.Output[Whereabouts]
    make: Callable[..., Document]  # of the place, and of each name in its order
    names: tuple[Name, ...]

    @property
    def text(self) -> pulumi.Output[str]:
        """The document as AWS takes it."""
        known = pulumi.Output.all(self.place, *(name.value for name in self.names))
        return known.apply(lambda found: text(self.make(*found)))

    @property
    def says(self) -> pulumi.Output[Document]:
        """The document with placeholders."""
        return self.place.apply(lambda at: self.make(at, *(name.placeholder(at) for name in self.names)))


@dataclass(frozen=True)
class Promises:
    """The documents of one component, for its outputs."""

    made: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def of(self, kind: str, name: str, key: str, says: pulumi.Input[Document]) -> None:
        """What the resource of that type and name is going to have under a key."""
        self.made.append({"type": kind, "name": name, "property": key, "says": says})
