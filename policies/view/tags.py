"""Tags of AWS resources: who can carry them, and which a provider gives to everything by itself."""

from __future__ import annotations

from functools import cache, reduce
from pathlib import Path

from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph

PROVIDER = "pulumi:providers:aws"
_LIST = Path(__file__).parent.parent / "taggable.txt"


@cache
def taggable() -> frozenset[str]:
    """The types that take tags as a mapping; generated from the provider's SDK."""
    return frozenset(_LIST.read_text(encoding="utf-8").split())


def lacking(tags: Field, wanted: tuple[str, ...]) -> list[str]:
    """The keys that tags or labels do not have, or have with nothing in them."""
    return [key for key in wanted if tags.at(key).missing or tags.at(key).raw == ""]


def given_to_all(graph: Graph) -> frozenset[str]:
    """The keys that every AWS provider of the stack gives to whatever it makes."""
    found: list[frozenset[str]] = []
    for provider in graph.of_type(PROVIDER):
        tags = provider.at("defaultTags").parsed().at("tags")
        found.append(frozenset() if tags.unknown else frozenset(key for key, _ in tags.entries()))
    return reduce(lambda one, other: one & other, found) if found else frozenset()
