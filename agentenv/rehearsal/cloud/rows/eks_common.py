"""Helpers of the EKS rows: find a cluster, record an update, validate principals."""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.responses import AwsError

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext
    from agentenv.rehearsal.cloud.store import Record

PRINCIPAL = re.compile(
    r"arn:aws[\w-]*:iam::(?P<account>\d{12}):(?P<kind>root|role|user)(/(?P<path>.*/)?(?P<name>[^/]+))?"
)
# Kinds of records that are deleted with their cluster.
BELONGING = (
    "eks.addons",
    "eks.access_entries",
    "eks.access_policy_associations",
    "eks.pod_identity_associations",
    "eks.identity_provider_configs",
    "_eks.updates",
)


@cache
def catalog() -> dict[str, Any]:
    """Return what EKS offers, from `data/eks.json`."""
    return json.loads(files("agentenv.rehearsal.cloud").joinpath("data/eks.json").read_text(encoding="utf-8"))


def now() -> datetime:
    """Return the current time, to the millisecond, as EKS does."""
    timestamp = datetime.now(UTC)
    return timestamp.replace(microsecond=timestamp.microsecond // 1000 * 1000)


def cluster_of(context: RequestContext) -> Any:
    """Return moto's cluster for the call's `clusterName` or `name`."""
    name = context.parameters.get("clusterName") or context.parameters.get("name") or ""
    cluster = context.backend("eks").clusters.get(name)
    if cluster is None:
        raise AwsError("ResourceNotFoundException", f"No cluster found for name: {name}.", clusterName=name)
    return cluster


def arn(context: RequestContext, rest: str) -> str:
    """Return an EKS ARN in the call's account and region."""
    return f"arn:aws:eks:{context.region}:{context.account}:{rest}"


def record_update(context: RequestContext, cluster: str, kind: str, parameters: dict[str, Any]) -> Record:
    """Store a completed update for DescribeUpdate."""
    update = {
        "id": str(uuid.uuid4()),
        "status": "Successful",
        "type": kind,
        "params": [{"type": name, "value": json.dumps(value)} for name, value in parameters.items()],
        "createdAt": now(),
        "errors": [],
    }
    context.records("_eks.updates")[f"{cluster}/{update['id']}"] = update
    return update


def cluster_records(context: RequestContext, kind: str, cluster: str) -> dict[str, Record]:
    """Return the records of a kind that belong to a cluster."""
    return {name: record for name, record in context.records(kind).items() if name.startswith(f"{cluster}/")}


def check_role(context: RequestContext, role: str, text: str) -> None:
    """Raise for an ARN that is not a role's, or for a missing role of this account."""
    match = PRINCIPAL.fullmatch(role)
    if not match or match["kind"] != "role":
        raise AwsError("InvalidParameterException", f"{text}: {role} is not the ARN of a role.")
    if match["account"] == context.account and not principal_exists(context, role):
        raise AwsError("InvalidParameterException", f"{text}: {role} does not exist.")


def principal_exists(context: RequestContext, principal: str) -> bool:
    """Return whether a role or user of this account exists."""
    match = PRINCIPAL.fullmatch(principal)
    iam = context.moto.backend("iam", context.account, "aws")
    if match is None:
        return False
    if match["kind"] == "root":
        return True
    things = iam.roles.values() if match["kind"] == "role" else iam.users.values()
    return any(thing.arn == principal for thing in things)
