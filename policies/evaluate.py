"""Runs rules over resources and the graph, and makes findings of what they say.

A rule that breaks is a finding of its own: indeterminate, with the rule's name and the kind of the error, and neither
an end of the run nor silence. The error's own words are left out: they may hold a secret's value.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from agentenv.policies.rules.registry import GRAPH, About, Rule, unknown
from agentenv.policies.verdicts import Finding, Verdict
from agentenv.policies.view.fields import Field, UnknownReached
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import Resource

__all__ = ["judge_all", "judge_graph", "judge_resource", "place_of"]


def judge_resource(rules: Sequence[Rule], resource: Resource) -> Iterator[Finding]:
    """What the rules that need no graph say of one resource."""
    views = _Views(resource)
    for rule in _local(tuple(rules), resource.type):
        yield from _over_views(rule, views, ())


def judge_graph(rules: Sequence[Rule], graph: Graph) -> Iterator[Finding]:
    """What the rules say that need all resources."""
    wide = tuple(rule for rule in rules if rule.with_graph)
    for rule in wide:
        if rule.about is GRAPH:
            yield from _findings(rule, Field("", "", {}), (graph,))
    for resource in graph.resources.values():
        views = _Views(resource)
        for rule in _fitting(wide, resource.type):
            yield from _over_views(rule, views, (graph,))


def judge_all(rules: Sequence[Rule], graph: Graph) -> list[Finding]:
    """What all the rules say of a whole stack."""
    local = (finding for resource in graph.resources.values() for finding in judge_resource(rules, resource))
    return [*local, *judge_graph(rules, graph)]


@lru_cache(maxsize=1024)
def _local(rules: tuple[Rule, ...], kind: str) -> tuple[Rule, ...]:
    return _fitting(tuple(rule for rule in rules if not rule.with_graph), kind)


@lru_cache(maxsize=1024)
def _fitting(rules: tuple[Rule, ...], kind: str) -> tuple[Rule, ...]:
    return tuple(rule for rule in rules if rule.about.stands_in(kind))


class _Views:
    """The views of one resource, each made once for all the rules about it."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self._made: dict[About[Any], tuple[object, ...]] = {}

    def of(self, about: About[Any]) -> tuple[object, ...]:
        if about not in self._made:
            self._made[about] = tuple(about.views(self.resource))
        return self._made[about]


def _over_views(rule: Rule, seen: _Views, more: tuple[object, ...]) -> Iterator[Finding]:
    resource = seen.resource
    try:
        views = seen.of(rule.about)
    except Exception as error:  # noqa: BLE001 whatever is wrong with a rule must neither stop the engine nor be lost
        yield _broken(rule, resource.root, error)
        return
    # What stands once for several views is wrong once
    yield from dict.fromkeys(
        finding for view in views for finding in _findings(rule, getattr(view, "root", resource.root), (view, *more))
    )


def _findings(rule: Rule, whole: Field, arguments: tuple[object, ...]) -> Iterator[Finding]:
    """What a rule says of one view; a pass where it says nothing, or nothing but that it does not apply."""
    said = False
    try:
        for outcome in rule.judge(*arguments):
            said = True
            yield Finding(
                rule.id, rule.severity, outcome.verdict, outcome.field.urn, outcome.field.path, outcome.message
            )
    except UnknownReached as reached:
        outcome = unknown(reached.field)
        yield Finding(rule.id, rule.severity, outcome.verdict, reached.field.urn, reached.field.path, outcome.message)
        return
    except Exception as error:  # noqa: BLE001 as above
        yield _broken(rule, whole, error)
        return
    if not said:
        yield Finding(rule.id, rule.severity, Verdict.PASS, whole.urn, whole.path, "")


def place_of(error: Exception) -> str:
    """Where an error came from, without its words."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.name}, line {last.lineno}"


def _broken(rule: Rule, field: Field, error: Exception) -> Finding:
    kind = f"{type(error).__name__} in {place_of(error)}"
    message = f"the rule {rule.id} itself broke ({kind}): it has judged nothing here"
    return Finding(rule.id, rule.severity, Verdict.INDETERMINATE, field.urn, field.path, message)
