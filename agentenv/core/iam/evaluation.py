"""Evaluate policies for a request: a statement must allow it, and none may deny it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from agentenv.core.iam.conditions import RequestKeys
from agentenv.core.iam.documents import Statement, as_list, read, statements


@dataclass(frozen=True)
class Principal:
    """A caller: its kind as policies name it, and every name that a policy may use for it."""

    kind: str  # AWS, Service or Federated
    names: frozenset[str]


def request_keys(**keys: str | Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the condition keys of a request; keys have colons: `request_keys(**{"aws:SourceArn": …})`."""
    return {key.lower(): [value] if isinstance(value, str) else value for key, value in keys.items()}


def trusts(text: str, principal: Principal, action: str, keys: RequestKeys) -> bool:
    """Return whether a trust policy allows a principal's action on its role."""
    return effect([text], action, None, keys, principal) == "Allow"


def grants(texts: Iterable[str], action: str, resource: str, keys: RequestKeys) -> bool:
    """Return whether the policies of a role allow an action on a resource."""
    return effect(texts, action, resource, keys) == "Allow"


def effect(
    texts: Iterable[str], action: str, resource: str | None, keys: RequestKeys, principal: Principal | None = None
) -> Literal["Allow", "Deny", None]:
    """Return what policies say of a request: the effect of its statements, None if no statement applies."""
    allowed = False
    for text in texts:
        document, _ = read(text)
        for statement in statements(document):
            applies = (
                statement.matches_action(action)
                and (resource is None or statement.matches_resource(resource))
                and (principal is None or _matches_principal(statement, principal))
                and all(condition.is_met(keys) for condition in statement.conditions)
            )
            if applies and statement.denies:
                return "Deny"
            allowed = allowed or bool(applies and statement.allows)
    return "Allow" if allowed else None


def _matches_principal(statement: Statement, principal: Principal) -> bool:
    negated = statement.has("NotPrincipal")
    element = statement.get("NotPrincipal" if negated else "Principal")
    if element == "*":
        matches = True
    else:
        values: Any = cast("Mapping[str, Any]", element).get(principal.kind, []) if isinstance(element, Mapping) else []
        names = as_list(values)
        everyone = principal.kind == "AWS" and "*" in names
        matches = everyone or not principal.names.isdisjoint(names)
    return matches is not negated
