"""Evaluate rules over resources and over the graph, and return the findings.

A rule that raises an error yields an indeterminate finding with the rule's id and the type of the error. The run goes
on. The error's message is left out, because it may contain the value of a secret.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from agentenv.policies.rules.registry import GRAPH, Rule, Scope, unknown
from agentenv.policies.verdicts import Finding, Verdict
from agentenv.policies.view.fields import Field, UnknownReached
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import Resource

__all__ = ["error_location", "evaluate_graph", "evaluate_resource", "evaluate_stack"]


def evaluate_resource(rules: Sequence[Rule], resource: Resource) -> Iterator[Finding]:
    """Yield the findings of the rules that need no graph, for one resource."""
    views = _Views(resource)
    for rule in _resource_rules(tuple(rules), resource.type):
        yield from _evaluate_views(rule, views, ())


def evaluate_graph(rules: Sequence[Rule], graph: Graph) -> Iterator[Finding]:
    """Yield the findings of the rules that need all resources."""
    graph_rules = tuple(rule for rule in rules if rule.with_graph)
    for rule in graph_rules:
        if rule.applies_to is GRAPH:
            yield from _findings(rule, Field("", "", {}), (graph,))
    for resource in graph.resources.values():
        views = _Views(resource)
        for rule in _matching_rules(graph_rules, resource.type):
            yield from _evaluate_views(rule, views, (graph,))


def evaluate_stack(rules: Sequence[Rule], graph: Graph) -> list[Finding]:
    """Return the findings of all rules for a whole stack."""
    local = (finding for resource in graph.resources.values() for finding in evaluate_resource(rules, resource))
    return [*local, *evaluate_graph(rules, graph)]


@lru_cache(maxsize=1024)
def _resource_rules(rules: tuple[Rule, ...], kind: str) -> tuple[Rule, ...]:
    return _matching_rules(tuple(rule for rule in rules if not rule.with_graph), kind)


@lru_cache(maxsize=1024)
def _matching_rules(rules: tuple[Rule, ...], kind: str) -> tuple[Rule, ...]:
    return tuple(rule for rule in rules if rule.applies_to.matches_type(kind))


class _Views:
    """The views of one resource, each created once for all rules that share it."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self._cache: dict[Scope[Any], tuple[object, ...]] = {}

    def of(self, scope: Scope[Any]) -> tuple[object, ...]:
        if scope not in self._cache:
            self._cache[scope] = tuple(scope.views(self.resource))
        return self._cache[scope]


def _evaluate_views(rule: Rule, views: _Views, more: tuple[object, ...]) -> Iterator[Finding]:
    resource = views.resource
    try:
        matching = views.of(rule.applies_to)
    except Exception as error:  # noqa: BLE001 an error in a rule must neither stop the engine nor be lost
        yield _rule_error(rule, resource.root, error)
        return
    # Several views may share a field, which is reported once
    yield from dict.fromkeys(
        finding for view in matching for finding in _findings(rule, getattr(view, "root", resource.root), (view, *more))
    )


def _findings(rule: Rule, root: Field, arguments: tuple[object, ...]) -> Iterator[Finding]:
    """Yield the findings of a rule for one view; a pass if the rule yields no outcome."""
    empty = True
    try:
        for outcome in rule.check(*arguments):
            empty = False
            yield Finding(
                rule.id, rule.severity, outcome.verdict, outcome.field.urn, outcome.field.path, outcome.message
            )
    except UnknownReached as reached:
        outcome = unknown(reached.field)
        yield Finding(rule.id, rule.severity, outcome.verdict, reached.field.urn, reached.field.path, outcome.message)
        return
    except Exception as error:  # noqa: BLE001 as above
        yield _rule_error(rule, root, error)
        return
    if empty:
        yield Finding(rule.id, rule.severity, Verdict.PASS, root.urn, root.path, "")


def error_location(error: Exception) -> str:
    """Return the function and line that raised an error, without its message."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.name}, line {last.lineno}"


def _rule_error(rule: Rule, field: Field, error: Exception) -> Finding:
    kind = f"{type(error).__name__} in {error_location(error)}"
    message = f"the rule {rule.id} failed to run ({kind}): nothing is evaluated here"
    return Finding(rule.id, rule.severity, Verdict.INDETERMINATE, field.urn, field.path, message)
