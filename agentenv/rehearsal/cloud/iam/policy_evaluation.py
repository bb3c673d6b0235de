"""What a policy says to a request: allowed by one statement at least, and denied by none.

Used for roles alone: who may take them on (their trust policies), and what their sessions may do. The rehearsal's own
caller owns the account and is not asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentenv.rehearsal.cloud.iam import policy_documents as policy_text
from agentenv.rehearsal.cloud.iam.policy_conditions import Context, alike, met


@dataclass(frozen=True)
class Principal:
    """Who asks: the kind as policies name it, and every name that a policy may know them by."""

    kind: str  # AWS, Service or Federated
    names: frozenset[str]


def trusts(document: str, principal: Principal, action: str, context: Context) -> bool:
    """Whether a trust policy lets somebody do something with its role."""
    return _allowed([document], action, None, principal, context)


def grants(documents: Iterable[str], action: str, resource: str, context: Context) -> bool:
    """Whether the policies of a role let its sessions do something to something."""
    return _allowed(documents, action, resource, None, context)


def _allowed(
    documents: Iterable[str], action: str, resource: str | None, principal: Principal | None, context: Context
) -> bool:
    allowed = False
    for text in documents:
        document, _ = policy_text.read(text)
        for one in policy_text.statements(document):
            about = _acts(one, action) and _reaches(one, resource) and _concerns(one, principal)
            if about and met(one.get("Condition", {}), context):
                if one["Effect"] == "Deny":
                    return False
                allowed = True
    return allowed


def _acts(one: Mapping[str, Any], action: str) -> bool:
    named = policy_text.listed(one.get("Action", one.get("NotAction", [])))
    return any(alike(name.lower(), action.lower()) for name in named) is ("Action" in one)


def _reaches(one: Mapping[str, Any], resource: str | None) -> bool:
    if resource is None:
        return True
    named = policy_text.listed(one.get("Resource", one.get("NotResource", [])))
    return any(alike(name, resource) for name in named) is ("Resource" in one)


def _concerns(one: Mapping[str, Any], principal: Principal | None) -> bool:
    if principal is None:
        return True
    said = one.get("Principal", one.get("NotPrincipal"))
    if said == "*":
        found = True
    else:
        named = policy_text.listed(said.get(principal.kind, [])) if isinstance(said, dict) else []
        everyone = principal.kind == "AWS" and "*" in named
        found = everyone or not principal.names.isdisjoint(named)
    return found is ("Principal" in one)
