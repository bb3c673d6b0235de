"""The definition of a rule: its header, what it applies to, and its check; and the collection of all rules."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from agentenv.policies.verdicts import Severity, Verdict
from agentenv.policies.view.cluster.pods import PodMetadata, PodSpec, metadata_of, pods_of
from agentenv.policies.view.fields import UNKNOWN, Field, boolean_or_unknown
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import KubernetesObject, Resource, holds_objects

View = TypeVar("View")
Source = Literal["Checkov", "CIS", "Security Hub", "Kyverno", "PSS", "AWS"]


@dataclass(frozen=True)
class Outcome:
    """The verdict of a rule about one field."""

    verdict: Verdict
    field: Field
    message: str


def fail(field: Field, message: str) -> Outcome:
    """Return a failure. The message must show no value that may be secret: the engine passes secrets in clear."""
    return Outcome(Verdict.FAIL, field, message)


def unknown(field: Field, message: str = "") -> Outcome:
    """Return an indeterminate verdict: the deciding value is not known."""
    return Outcome(Verdict.INDETERMINATE, field, message or f"{field.path or 'the resource'} is not known yet")


def not_applicable(field: Field, message: str) -> Outcome:
    """Return that the rule does not apply to a field, with the reason."""
    return Outcome(Verdict.NOT_APPLICABLE, field, message)


def forbid(field: Field, bad: Callable[[object], bool], message: str) -> Iterator[Outcome]:
    """Yield a failure if a value is bad (`None` if it is missing), and an unknown if it is not known.

    The field must be a scalar: a list or a mapping counts as unknown.
    """
    if field.unknown or isinstance(field.raw, list | Mapping):
        yield unknown(field)
    elif bad(field.value):
        yield fail(field, message)


def forbid_boolean(field: Field, bad: Collection[bool | None], message: str) -> Iterator[Outcome]:
    """Do the same for a boolean field. A value that is neither true nor false, such as a template, is unknown."""
    value = boolean_or_unknown(field)
    if value is UNKNOWN:
        yield unknown(field, f"{field.path} is neither true nor false" if field.known else "")
    elif value in bad:
        yield fail(field, message)


def first_of_each_field(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """Yield the first outcome of each field: a value of the pod applies to all its containers."""
    seen: set[tuple[str, str]] = set()
    for outcome in outcomes:
        field = (outcome.field.urn, outcome.field.path)
        if field not in seen:
            seen.add(field)
            yield outcome


@dataclass(frozen=True, eq=False)
class Scope(Generic[View]):
    """The scope of rules: its title in the reference, the matching resource types, and the views of a resource.

    `elsewhere` returns whether the rules evaluate another resource of the graph instead of a view.
    """

    title: str
    matches_type: Callable[[str], bool]
    views: Callable[[Resource], Iterable[View]]
    elsewhere: Callable[[View, Graph], bool] | None = None


POD: Scope[PodSpec] = Scope("every pod spec", holds_objects, pods_of)
POD_METADATA: Scope[PodMetadata] = Scope(
    "the metadata of every pod spec, and what a SandboxClaim adds to it", holds_objects, metadata_of
)
# The only view of such a rule is the graph, which `evaluate_graph` passes; no resource matches
GRAPH: Scope[Graph] = Scope("the whole stack", lambda _: False, lambda _: ())


def resources(*types: str) -> Scope[Resource]:
    """Return the scope of resources with these type tokens."""
    return Scope(", ".join(f"`{kind}`" for kind in types), frozenset(types).__contains__, lambda resource: (resource,))


def objects(group: str, *kinds: str) -> Scope[KubernetesObject]:
    """Return the scope of Kubernetes objects of these kinds, in any version. The core group is empty."""
    title = ", ".join(f"{kind} ({group or 'core'})" for kind in kinds)
    endings = tuple(f":{kind}{patch}" for kind in kinds for patch in ("", "Patch"))

    def matches(token: str) -> bool:  # a list may have objects of any kind
        return holds_objects(token) and token.endswith((*endings, "List"))

    return Scope(title, matches, lambda resource: [item for item in resource.objects if item.is_a(group, *kinds)])


# A check that takes the graph as its second argument runs once all resources are known
Check = Callable[..., Iterator[Outcome]]


@dataclass(frozen=True, eq=False)
class Rule:
    """A rule: its header and its check."""

    id: str
    title: str
    severity: Severity
    why: str
    fix: str
    equivalents: Mapping[Source, tuple[str, ...]]
    since: str
    applies_to: Scope[Any]
    check: Check
    with_graph: bool
    # The default of the API if a field is missing, with its source
    defaults: str = ""

    @property
    def family(self) -> str:
        """Return the letters of its id."""
        return self.id.partition("-")[0]

    @property
    def pack(self) -> Literal["isolation", "cost"]:
        """Return its pack."""
        return "cost" if self.family == "COST" else "isolation"

    @property
    def module(self) -> str:
        """Return the path of its module in the repository."""
        return self.check.__module__.removeprefix("agentenv.").replace(".", "/") + ".py"


_RULES: dict[str, Rule] = {}


def rule(
    *,
    id: str,  # noqa: A002
    title: str,
    severity: Severity,
    why: str,
    fix: str,
    applies_to: Scope[View],
    equivalents: Mapping[Source, tuple[str, ...]] | None = None,
    since: str = "0.1",
    defaults: str = "",
) -> Callable[[Callable[..., Iterator[Outcome]]], Callable[..., Iterator[Outcome]]]:
    """Register a function as a rule: `(view)`, `(view, graph)`, or `(graph)` with `applies_to=GRAPH`."""

    def register(check: Check) -> Check:
        if id in _RULES:
            raise ValueError(f"two rules have the id {id}")
        takes_graph = len(inspect.signature(check).parameters) == 2
        graph = takes_graph or applies_to is GRAPH or applies_to.elsewhere is not None

        @functools.wraps(check)
        def check_here(view: View, graph: Graph) -> Iterator[Outcome]:
            if applies_to.elsewhere is None or not applies_to.elsewhere(view, graph):
                yield from check(view, graph) if takes_graph else check(view)

        checked = check_here if applies_to.elsewhere is not None else check
        _RULES[id] = Rule(id, title, severity, why, fix, equivalents or {}, since, applies_to, checked, graph, defaults)
        return check

    return register


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return every rule of the modules in this folder, by id."""
    for module in pkgutil.walk_packages([str(Path(__file__).parent)], "agentenv.policies.rules."):
        importlib.import_module(module.name)
    return tuple(_RULES[key] for key in sorted(_RULES))
