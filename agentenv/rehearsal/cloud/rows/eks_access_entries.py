"""EKS access entries and their access policies: who may access a cluster, and with which permissions."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.pagination import page
from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError
from agentenv.rehearsal.cloud.rows.eks_common import (
    PRINCIPAL,
    arn,
    catalog,
    cluster_of,
    cluster_records,
    now,
    principal_exists,
)

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext
    from agentenv.rehearsal.cloud.store import Record

ENTRIES, ASSOCIATIONS = "eks.access_entries", "eks.access_policy_associations"
TYPES = ("STANDARD", "EC2_LINUX", "EC2_WINDOWS", "FARGATE_LINUX", "EC2", "HYBRID_LINUX", "HYPERPOD_LINUX")
RESERVED = ("system:", "eks:", "aws:", "amazon:", "iam:")
POLICY = "arn:aws:eks::aws:cluster-access-policy/"


def _cluster_with_entries(context: RequestContext) -> Any:
    cluster = cluster_of(context)
    if not has_access_entries(cluster):
        modes = "API or API_AND_CONFIG_MAP"
        text = f"The cluster's authentication mode must be set to {modes} to perform this operation."
        raise AwsError("InvalidRequestException", text, clusterName=cluster.name)
    return cluster


def has_access_entries(cluster: Any) -> bool:
    """Return whether a cluster's authentication mode supports access entries."""
    return getattr(cluster, "accessConfig", {}).get("authenticationMode") in {"API", "API_AND_CONFIG_MAP"}


def _entry(context: RequestContext) -> Record:
    cluster = _cluster_with_entries(context)
    principal = context.parameters["principalArn"]
    entry = context.records(ENTRIES).get(f"{cluster.name}/{principal}")
    if entry is None:
        text = f"The specified principalArn could not be found: {principal}."
        raise AwsError("ResourceNotFoundException", text, clusterName=cluster.name)
    return entry


def _check_groups(groups: list[str]) -> None:
    for group in groups:
        if group.startswith(RESERVED):
            start = next(start for start in RESERVED if group.startswith(start))
            text = f"The kubernetes group name {group} is invalid, it cannot start with {start}"
            raise AwsError("InvalidParameterException", text)


def create_entry(
    context: RequestContext, cluster: str, principal: str, kind: str = "STANDARD", **options: Any
) -> Record:
    """Store an entry: for the call, or for a cluster's creator and nodes, for which EKS creates one."""
    match = PRINCIPAL.fullmatch(principal)
    account, name = (match["account"], match["name"]) if match else (context.account, principal)
    session = f"arn:aws:sts::{account}:assumed-role/{name}/{{{{SessionName}}}}"
    username = {
        "STANDARD": session if match and match["kind"] == "role" else principal,
        "FARGATE_LINUX": "system:node:{{SessionName}}",
    }.get(kind, "system:node:{{EC2PrivateDNSName}}")
    groups = {"STANDARD": options.get("groups", []), "FARGATE_LINUX": ["system:nodes"]}.get(kind, ["system:nodes"])
    entry = {
        "clusterName": cluster,
        "principalArn": principal,
        "kubernetesGroups": groups,
        "accessEntryArn": arn(
            context, f"access-entry/{cluster}/{match['kind'] if match else 'role'}/{account}/{name}/{uuid.uuid4()}"
        ),
        "createdAt": now(),
        "modifiedAt": now(),
        "tags": options.get("tags", {}),
        "username": options.get("username") or username,
        "type": kind,
    }
    context.records(ENTRIES)[f"{cluster}/{principal}"] = entry
    return entry


def create(context: RequestContext) -> dict[str, Any]:
    """Create an entry for an existing principal without one in this cluster."""
    cluster, parameters = _cluster_with_entries(context), context.parameters
    principal, kind = parameters["principalArn"], parameters.get("type", "STANDARD")
    match = PRINCIPAL.fullmatch(principal)
    if not match:
        raise AwsError("InvalidParameterException", f"The principalArn parameter format is not valid: {principal}")
    if match["account"] == context.account and not principal_exists(context, principal):
        text = f"The specified principalArn is invalid: invalid principal. {principal} does not exist."
        raise AwsError("InvalidParameterException", text)
    if kind not in TYPES:
        raise AwsError("InvalidParameterException", f"The type {kind} is not valid; it is one of {', '.join(TYPES)}.")
    if kind != "STANDARD" and (parameters.get("kubernetesGroups") or parameters.get("username")):
        text = f"Groups and username can only be set for entries of type STANDARD, not {kind}."
        raise AwsError("InvalidRequestException", text)
    _check_groups(parameters.get("kubernetesGroups", []))
    if f"{cluster.name}/{principal}" in context.records(ENTRIES):
        text = "The specified access entry resource is already in use on this cluster."
        raise AwsError("ResourceInUseException", text, clusterName=cluster.name)
    options = {
        "groups": parameters.get("kubernetesGroups", []),
        "tags": parameters.get("tags", {}),
        "username": parameters.get("username"),
    }
    return {"accessEntry": create_entry(context, cluster.name, principal, kind, **options)}


def update(context: RequestContext) -> dict[str, Any]:
    """Change groups or username; the type stays."""
    entry, parameters = _entry(context), context.parameters
    _check_groups(parameters.get("kubernetesGroups", []))
    for name in ("kubernetesGroups", "username"):
        if name in parameters:
            entry[name] = parameters[name]
    entry["modifiedAt"] = now()
    return {"accessEntry": entry}


def delete(context: RequestContext) -> dict[str, Any]:
    """Delete an entry with its policies."""
    entry = _entry(context)
    own = f"{entry['clusterName']}/{entry['principalArn']}"
    del context.records(ENTRIES)[own]
    associations = context.records(ASSOCIATIONS)
    for name in [name for name in associations if name.startswith(f"{own}/")]:
        del associations[name]
    return {}


def list_entries(context: RequestContext) -> dict[str, Any]:
    """Return the principals of a cluster's entries."""
    cluster = _cluster_with_entries(context)
    policy = context.parameters.get("associatedPolicyArn")
    own = cluster_records(context, ASSOCIATIONS, cluster.name)
    names = [
        entry["principalArn"]
        for entry in cluster_records(context, ENTRIES, cluster.name).values()
        if not policy or f"{cluster.name}/{entry['principalArn']}/{policy}" in own
    ]
    shown, token = page(sorted(names), context.parameters.get("maxResults"), context.parameters.get("nextToken"))
    return {"accessEntries": shown, "nextToken": token}


def associate(context: RequestContext) -> dict[str, Any]:
    """Associate a policy with an entry, over the cluster or namespaces; a repetition replaces it."""
    entry, parameters = _entry(context), context.parameters
    policy, scope = parameters["policyArn"], parameters["accessScope"]
    if policy.removeprefix(POLICY) not in catalog()["access_policies"]:
        raise AwsError("ResourceNotFoundException", f"The policyArn {policy} does not name an access policy.")
    if entry["type"] not in {"STANDARD", "EC2"}:
        text = f"Access policies cannot be associated with an entry of type {entry['type']}."
        raise AwsError("InvalidRequestException", text)
    namespaces = scope.get("namespaces") or []
    if (scope.get("type") == "namespace") != bool(namespaces):
        text = "Namespaces go with an access scope of type namespace, and only with that."
        raise AwsError("InvalidParameterException", text)
    association = put_association(context, entry["clusterName"], entry["principalArn"], policy, scope)
    return {
        "clusterName": entry["clusterName"],
        "principalArn": entry["principalArn"],
        "associatedAccessPolicy": association,
    }


def put_association(
    context: RequestContext, cluster: str, principal: str, policy: str, scope: dict[str, Any]
) -> Record:
    """Store an association."""
    associations = context.records(ASSOCIATIONS)
    own = f"{cluster}/{principal}/{policy}"
    first = associations.get(own, {}).get("associatedAt", now())
    scope = {"type": scope.get("type", "cluster"), "namespaces": scope.get("namespaces") or []}
    associations[own] = {"policyArn": policy, "accessScope": scope, "associatedAt": first, "modifiedAt": now()}
    return associations[own]


def disassociate(context: RequestContext) -> dict[str, Any]:
    """Remove a policy from an entry."""
    entry, policy = _entry(context), context.parameters["policyArn"]
    if context.records(ASSOCIATIONS).pop(f"{entry['clusterName']}/{entry['principalArn']}/{policy}", None) is None:
        raise AwsError("ResourceNotFoundException", f"The policy {policy} is not associated with this principal.")
    return {}


def list_associated_policies(context: RequestContext) -> dict[str, Any]:
    """Return the policies of an entry."""
    entry = _entry(context)
    own = f"{entry['clusterName']}/{entry['principalArn']}/"
    records = [record for name, record in context.records(ASSOCIATIONS).items() if name.startswith(own)]
    shown, token = page(records, context.parameters.get("maxResults"), context.parameters.get("nextToken"))
    names = {name: entry[name] for name in ("clusterName", "principalArn")}
    return {**names, "associatedAccessPolicies": shown, "nextToken": token}


def list_policies(context: RequestContext) -> dict[str, Any]:
    """Return the access policies that EKS offers."""
    rows = [{"name": name, "arn": POLICY + name} for name in catalog()["access_policies"]]
    shown, token = page(rows, context.parameters.get("maxResults"), context.parameters.get("nextToken"))
    return {"accessPolicies": shown, "nextToken": token}


ROWS = (
    OperationHandler("eks", "CreateAccessEntry", create),
    OperationHandler("eks", "DescribeAccessEntry", lambda context: {"accessEntry": _entry(context)}),
    OperationHandler("eks", "ListAccessEntries", list_entries),
    OperationHandler("eks", "UpdateAccessEntry", update),
    OperationHandler("eks", "DeleteAccessEntry", delete),
    OperationHandler("eks", "AssociateAccessPolicy", associate),
    OperationHandler("eks", "DisassociateAccessPolicy", disassociate),
    OperationHandler("eks", "ListAssociatedAccessPolicies", list_associated_policies),
    OperationHandler("eks", "ListAccessPolicies", list_policies),
)
