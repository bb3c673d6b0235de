"""What documents are going to say, before everything that they name is known.

A document in JSON is one text, and the engine knows nothing of it until it knows the last name in it: at a first
preview nobody could tell whom a role trusts. So a component hands out what its documents say with names of nothing in
place of those that are still missing, and policies judge that; the document itself they judge again before it is made.
"""

from dataclasses import dataclass, field
from typing import Any

import pulumi

from components.documents import Document
from components.whereabouts import Whereabouts

OUTPUT = "documents"
# Names of nothing, of the shape that the real ones have
PROVIDER = "arn:aws:iam::000000000000:oidc-provider/issuer.invalid/id/NOTKNOWNYET"
ISSUER = "https://issuer.invalid/id/NOTKNOWNYET"


def file_system_arn(place: Whereabouts) -> str:
    """A file system's."""
    return place.arn("elasticfilesystem", "file-system/fs-00000000000000000")


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


@dataclass(frozen=True)
class Promises:
    """The documents of one component, for its outputs."""

    made: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def of(self, kind: str, name: str, key: str, says: pulumi.Input[Document]) -> None:
        """What the resource of that type and name is going to have under a key."""
        self.made.append({"type": kind, "name": name, "property": key, "says": says})
