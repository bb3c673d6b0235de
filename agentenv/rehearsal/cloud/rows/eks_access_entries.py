"""EKS access entries and the policies associated with them: who may enter a cluster, and as what."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.pagination import page
from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Refused
from agentenv.rehearsal.cloud.rows.eks_common import (
    PRINCIPAL,
    arn,
    belonging_to,
    cluster_of,
    now,
    offered,
    principal_exists,
)

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk
    from agentenv.rehearsal.cloud.store import Record

ENTRIES, ASSOCIATIONS = "eks.access_entries", "eks.access_policy_associations"
TYPES = ("STANDARD", "EC2_LINUX", "EC2_WINDOWS", "FARGATE_LINUX", "EC2", "HYBRID_LINUX", "HYPERPOD_LINUX")
RESERVED = ("system:", "eks:", "aws:", "amazon:", "iam:")
POLICY = "arn:aws:eks::aws:cluster-access-policy/"


def _open_cluster(desk: Desk) -> Any:
    cluster = cluster_of(desk)
    if not open_to_entries(cluster):
        modes = "API or API_AND_CONFIG_MAP"
        text = f"The cluster's authentication mode must be set to {modes} to perform this operation."
        raise Refused("InvalidRequestException", text, clusterName=cluster.name)
    return cluster


def open_to_entries(cluster: Any) -> bool:
    """Whether a cluster's authentication mode knows access entries."""
    return getattr(cluster, "accessConfig", {}).get("authenticationMode") in {"API", "API_AND_CONFIG_MAP"}


def _entry(desk: Desk) -> Record:
    cluster = _open_cluster(desk)
    principal = desk.asked["principalArn"]
    found = desk.shelf(ENTRIES).get(f"{cluster.name}/{principal}")
    if found is None:
        text = f"The specified principalArn could not be found: {principal}."
        raise Refused("ResourceNotFoundException", text, clusterName=cluster.name)
    return found


def _refuse_groups(groups: list[str]) -> None:
    for group in groups:
        if group.startswith(RESERVED):
            start = next(start for start in RESERVED if group.startswith(start))
            text = f"The kubernetes group name {group} is invalid, it cannot start with {start}"
            raise Refused("InvalidParameterException", text)


def enter(desk: Desk, cluster: str, principal: str, kind: str = "STANDARD", **said: Any) -> Record:
    """Make an entry: for the call itself, or for EKS, which makes those of a cluster's creator and its nodes."""
    found = PRINCIPAL.fullmatch(principal)
    account, name = (found["account"], found["name"]) if found else (desk.account, principal)
    session = f"arn:aws:sts::{account}:assumed-role/{name}/{{{{SessionName}}}}"
    username = {
        "STANDARD": session if found and found["kind"] == "role" else principal,
        "FARGATE_LINUX": "system:node:{{SessionName}}",
    }.get(kind, "system:node:{{EC2PrivateDNSName}}")
    groups = {"STANDARD": said.get("groups", []), "FARGATE_LINUX": ["system:nodes"]}.get(kind, ["system:nodes"])
    entry = {
        "clusterName": cluster,
        "principalArn": principal,
        "kubernetesGroups": groups,
        "accessEntryArn": arn(
            desk, f"access-entry/{cluster}/{found['kind'] if found else 'role'}/{account}/{name}/{uuid.uuid4()}"
        ),
        "createdAt": now(),
        "modifiedAt": now(),
        "tags": said.get("tags", {}),
        "username": said.get("username") or username,
        "type": kind,
    }
    desk.shelf(ENTRIES)[f"{cluster}/{principal}"] = entry
    return entry


def create(desk: Desk) -> dict[str, Any]:
    """An entry for a principal that exists and has none in this cluster yet."""
    cluster, asked = _open_cluster(desk), desk.asked
    principal, kind = asked["principalArn"], asked.get("type", "STANDARD")
    found = PRINCIPAL.fullmatch(principal)
    if not found:
        raise Refused("InvalidParameterException", f"The principalArn parameter format is not valid: {principal}")
    if found["account"] == desk.account and not principal_exists(desk, principal):
        text = f"The specified principalArn is invalid: invalid principal. {principal} does not exist."
        raise Refused("InvalidParameterException", text)
    if kind not in TYPES:
        raise Refused("InvalidParameterException", f"The type {kind} is not valid; it is one of {', '.join(TYPES)}.")
    if kind != "STANDARD" and (asked.get("kubernetesGroups") or asked.get("username")):
        text = f"Groups and username can only be set for entries of type STANDARD, not {kind}."
        raise Refused("InvalidRequestException", text)
    _refuse_groups(asked.get("kubernetesGroups", []))
    if f"{cluster.name}/{principal}" in desk.shelf(ENTRIES):
        text = "The specified access entry resource is already in use on this cluster."
        raise Refused("ResourceInUseException", text, clusterName=cluster.name)
    said = {
        "groups": asked.get("kubernetesGroups", []),
        "tags": asked.get("tags", {}),
        "username": asked.get("username"),
    }
    return {"accessEntry": enter(desk, cluster.name, principal, kind, **said)}


def update(desk: Desk) -> dict[str, Any]:
    """Other groups or another username; the type stays."""
    entry, asked = _entry(desk), desk.asked
    _refuse_groups(asked.get("kubernetesGroups", []))
    for name in ("kubernetesGroups", "username"):
        if name in asked:
            entry[name] = asked[name]
    entry["modifiedAt"] = now()
    return {"accessEntry": entry}


def delete(desk: Desk) -> dict[str, Any]:
    """Gone, with its policies."""
    entry = _entry(desk)
    own = f"{entry['clusterName']}/{entry['principalArn']}"
    del desk.shelf(ENTRIES)[own]
    associations = desk.shelf(ASSOCIATIONS)
    for name in [name for name in associations if name.startswith(f"{own}/")]:
        del associations[name]
    return {}


def listed(desk: Desk) -> dict[str, Any]:
    """The principals that may enter a cluster."""
    cluster = _open_cluster(desk)
    wanted = desk.asked.get("associatedPolicyArn")
    own = belonging_to(desk, ASSOCIATIONS, cluster.name)
    names = [
        entry["principalArn"]
        for entry in belonging_to(desk, ENTRIES, cluster.name).values()
        if not wanted or f"{cluster.name}/{entry['principalArn']}/{wanted}" in own
    ]
    shown, token = page(sorted(names), desk.asked.get("maxResults"), desk.asked.get("nextToken"))
    return {"accessEntries": shown, "nextToken": token}


def associate(desk: Desk) -> dict[str, Any]:
    """A policy for an entry, over the whole cluster or some namespaces; said again, it replaces."""
    entry, asked = _entry(desk), desk.asked
    policy, scope = asked["policyArn"], asked["accessScope"]
    if policy.removeprefix(POLICY) not in offered()["access_policies"]:
        raise Refused("ResourceNotFoundException", f"The policyArn {policy} does not name an access policy.")
    if entry["type"] not in {"STANDARD", "EC2"}:
        text = f"Access policies cannot be associated with an entry of type {entry['type']}."
        raise Refused("InvalidRequestException", text)
    namespaces = scope.get("namespaces") or []
    if (scope.get("type") == "namespace") != bool(namespaces):
        text = "Namespaces go with an access scope of type namespace, and only with that."
        raise Refused("InvalidParameterException", text)
    association = put(desk, entry["clusterName"], entry["principalArn"], policy, scope)
    return {
        "clusterName": entry["clusterName"],
        "principalArn": entry["principalArn"],
        "associatedAccessPolicy": association,
    }


def put(desk: Desk, cluster: str, principal: str, policy: str, scope: dict[str, Any]) -> Record:
    """Keep an association."""
    kept = desk.shelf(ASSOCIATIONS)
    own = f"{cluster}/{principal}/{policy}"
    first = kept.get(own, {}).get("associatedAt", now())
    scope = {"type": scope.get("type", "cluster"), "namespaces": scope.get("namespaces") or []}
    kept[own] = {"policyArn": policy, "accessScope": scope, "associatedAt": first, "modifiedAt": now()}
    return kept[own]


def disassociate(desk: Desk) -> dict[str, Any]:
    """One policy less."""
    entry, policy = _entry(desk), desk.asked["policyArn"]
    if desk.shelf(ASSOCIATIONS).pop(f"{entry['clusterName']}/{entry['principalArn']}/{policy}", None) is None:
        raise Refused("ResourceNotFoundException", f"The policy {policy} is not associated with this principal.")
    return {}


def associated(desk: Desk) -> dict[str, Any]:
    """The policies of an entry."""
    entry = _entry(desk)
    own = f"{entry['clusterName']}/{entry['principalArn']}/"
    found = [record for name, record in desk.shelf(ASSOCIATIONS).items() if name.startswith(own)]
    shown, token = page(found, desk.asked.get("maxResults"), desk.asked.get("nextToken"))
    names = {name: entry[name] for name in ("clusterName", "principalArn")}
    return {**names, "associatedAccessPolicies": shown, "nextToken": token}


def policies(desk: Desk) -> dict[str, Any]:
    """The access policies that EKS offers."""
    found = [{"name": name, "arn": POLICY + name} for name in offered()["access_policies"]]
    shown, token = page(found, desk.asked.get("maxResults"), desk.asked.get("nextToken"))
    return {"accessPolicies": shown, "nextToken": token}


ROWS = (
    Row("eks", "CreateAccessEntry", create),
    Row("eks", "DescribeAccessEntry", lambda desk: {"accessEntry": _entry(desk)}),
    Row("eks", "ListAccessEntries", listed),
    Row("eks", "UpdateAccessEntry", update),
    Row("eks", "DeleteAccessEntry", delete),
    Row("eks", "AssociateAccessPolicy", associate),
    Row("eks", "DisassociateAccessPolicy", disassociate),
    Row("eks", "ListAssociatedAccessPolicies", associated),
    Row("eks", "ListAccessPolicies", policies),
)
