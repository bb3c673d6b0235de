"""What a rule is: its header, what it is about, and the one function that judges; and the gathering of all of them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from agentenv.policies.verdicts import Severity, Verdict
from agentenv.policies.view.cluster.pods import PodSpec, pods_of
from agentenv.policies.view.fields import UNKNOWN, Field, boolean_or_unknown
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import KubernetesObject, Resource, holds_objects

View = TypeVar("View")
Source = Literal["Checkov", "CIS", "Security Hub", "Kyverno", "PSS", "AWS"]


@dataclass(frozen=True)
class Outcome:
    """What a rule says of one place."""

    verdict: Verdict
    field: Field
    message: str


def fail(field: Field, message: str) -> Outcome:
    """It is wrong there. The message never shows a value that may be a secret: the engine hands those over in clear."""
    return Outcome(Verdict.FAIL, field, message)


def unknown(field: Field, message: str = "") -> Outcome:
    """What decides is not known there."""
    return Outcome(Verdict.INDETERMINATE, field, message or f"{field.path or 'the resource'} is not known yet")


def not_applicable(field: Field, message: str) -> Outcome:
    """The rule has nothing to say there, and why."""
    return Outcome(Verdict.NOT_APPLICABLE, field, message)


def forbid(field: Field, bad: Callable[[object], bool], message: str) -> Iterator[Outcome]:
    """Fails where a value is bad, `None` standing for a missing one; says so where it is not known.

    It is for leaves: nobody can say what is meant by a list or a mapping where a word belongs.
    """
    if field.unknown or isinstance(field.raw, list | Mapping):
        yield unknown(field)
    elif bad(field.value):
        yield fail(field, message)


def forbid_switch(field: Field, bad: Collection[bool | None], message: str) -> Iterator[Outcome]:
    """As `forbid`, of a switch: what is neither true nor false (a text that a template fills in) is not known."""
    value = boolean_or_unknown(field)
    if value is UNKNOWN:
        yield unknown(field, f"{field.path} is neither true nor false" if field.known else "")
    elif value in bad:
        yield fail(field, message)


def once(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """Says what is said of one place once: a pod's own value counts for each of its containers."""
    seen: set[tuple[str, str]] = set()
    for outcome in outcomes:
        place = (outcome.field.urn, outcome.field.path)
        if place not in seen:
            seen.add(place)
            yield outcome


@dataclass(frozen=True, eq=False)
class About(Generic[View]):
    """What a rule looks at: its word in the reference, the types it can stand in, and the views of it in a resource."""

    title: str
    stands_in: Callable[[str], bool]
    views: Callable[[Resource], Iterable[View]]


POD: About[PodSpec] = About("every pod spec", holds_objects, pods_of)
# The one view of such a rule is the graph, handed over by the core: no resource has one
GRAPH: About[Graph] = About("the whole stack", lambda _: False, lambda _: ())


def resources(*types: str) -> About[Resource]:
    """Resources of those type tokens."""
    return About(", ".join(f"`{kind}`" for kind in types), frozenset(types).__contains__, lambda resource: (resource,))


def objects(group: str, *kinds: str) -> About[KubernetesObject]:
    """Kubernetes objects of those kinds, in whatever version; the core group is the empty text."""
    title = ", ".join(f"{kind} ({group or 'core'})" for kind in kinds)
    endings = tuple(f":{kind}{patch}" for kind in kinds for patch in ("", "Patch"))

    def may_hold(token: str) -> bool:
        """By the last word of the type; a list may hold anything."""
        return holds_objects(token) and token.endswith((*endings, "List"))

    return About(title, may_hold, lambda resource: [found for found in resource.objects if found.is_a(group, *kinds)])


# A rule that takes the graph as its second argument is judged once all resources are known
Judge = Callable[..., Iterator[Outcome]]


@dataclass(frozen=True, eq=False)
class Rule:
    """A rule with its header."""

    id: str
    title: str
    severity: Severity
    why: str
    do: str
    equivalents: Mapping[Source, tuple[str, ...]]
    since: str
    about: About[Any]
    judge: Judge
    with_graph: bool
    # What is so where nothing is said, and who says so
    defaults: str = ""

    @property
    def family(self) -> str:
        """The letters of its id."""
        return self.id.partition("-")[0]

    @property
    def pack(self) -> Literal["isolation", "cost"]:
        """The pack it is in."""
        return "cost" if self.family == "COST" else "isolation"


_RULES: dict[str, Rule] = {}


def rule(
    *,
    id: str,  # noqa: A002
    title: str,
    severity: Severity,
    why: str,
    do: str,
    about: About[View],
    equivalents: Mapping[Source, tuple[str, ...]] | None = None,
    since: str = "0.1",
    defaults: str = "",
) -> Callable[[Callable[..., Iterator[Outcome]]], Callable[..., Iterator[Outcome]]]:
    """Makes a rule of a function `(view)` or `(view, graph)`; with `about=GRAPH`, `(graph)`."""

    def made(judge: Judge) -> Judge:
        if id in _RULES:
            raise ValueError(f"two rules are called {id}")
        graph = len(inspect.signature(judge).parameters) == 2 or about is GRAPH
        _RULES[id] = Rule(id, title, severity, why, do, equivalents or {}, since, about, judge, graph, defaults)
        return judge

    return made


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule of every module of this folder, by id."""
    for found in pkgutil.walk_packages([str(Path(__file__).parent)], "agentenv.policies.rules."):
        importlib.import_module(found.name)
    return tuple(_RULES[key] for key in sorted(_RULES))
