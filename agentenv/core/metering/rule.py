"""Recording rules, and helpers that several of them use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# The namespaces of classes.
SANDBOXES = 'namespace=~"sandbox-.+"'
OWNER = "user, class, workspace, claim_uid, uid"
GIB = "1073741824"
EVERY = "1m"


@dataclass(frozen=True)
class Rule:
    """A recording rule."""

    record: str
    expr: str
    why: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


def named(expr: str, **labels: str) -> str:
    """Return the expression with labels copied to other names."""
    for label, source in labels.items():
        expr = f'label_replace({expr}, "{label}", "$1", "{source}", "(.+)")'
    return expr


def one_each(by: str, expr: str) -> str:
    """Return the expression with one series for each label set: two replicas of an exporter would break joins."""
    return f"topk by ({by}) (1, {expr})"


def shared_out(word: str, ending: str, of: str) -> tuple[Rule, ...]:
    """Return rules that attribute a measure of pods to owners, pools or nobody, each pod to exactly one of them."""
    pods, owners = f"sandbox:pod_{word}:{ending}", "sandbox:pod_owner:info"
    return (
        Rule(
            f"sandbox:owner_{word}:{ending}",
            f'{pods} * on (namespace, pod) group_left ({OWNER}) {owners}{{held_by="owner"}}',
            f"{of}, by the owner at this instant",
        ),
        Rule(
            f"sandbox:pool_{word}:{ending}",
            f'{pods} * on (namespace, pod) group_left (class, uid) {owners}{{held_by="pool"}}',
            f"{of} that waits to be claimed; it stays the pool's after a claim",
        ),
        Rule(
            f"sandbox:nobody_{word}:{ending}",
            f'{pods} unless on (namespace, pod) {owners}{{held_by=~"owner|pool"}}',
            f"{of} without an owner",
        ),
    )
