"""What the EKS rows share: finding a cluster, and writing down an update."""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.responses import Refused

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk
    from agentenv.rehearsal.cloud.store import Record

PRINCIPAL = re.compile(
    r"arn:aws[\w-]*:iam::(?P<account>\d{12}):(?P<kind>root|role|user)(/(?P<path>.*/)?(?P<name>[^/]+))?"
)
# Kinds of records that belong to a cluster and go with it.
BELONGING = (
    "eks.addons",
    "eks.access_entries",
    "eks.access_policy_associations",
    "eks.pod_identity_associations",
    "eks.identity_provider_configs",
    "_eks.updates",
)


@cache
def offered() -> dict[str, Any]:
    """What EKS offers, from `data/eks.json`."""
    return json.loads(files("agentenv.rehearsal.cloud").joinpath("data/eks.json").read_text(encoding="utf-8"))


def now() -> datetime:
    """The present, to the millisecond, as EKS tells it."""
    moment = datetime.now(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def cluster_of(desk: Desk) -> Any:
    """Moto's cluster for the call's `clusterName` or `name`."""
    name = desk.asked.get("clusterName") or desk.asked.get("name") or ""
    found = desk.backend("eks").clusters.get(name)
    if found is None:
        raise Refused("ResourceNotFoundException", f"No cluster found for name: {name}.", clusterName=name)
    return found


def arn(desk: Desk, rest: str) -> str:
    """The name of something of EKS in the call's account and region."""
    return f"arn:aws:eks:{desk.region}:{desk.account}:{rest}"


def update_of(desk: Desk, cluster: str, kind: str, said: dict[str, Any]) -> Record:
    """An update that is already done, kept for DescribeUpdate."""
    update = {
        "id": str(uuid.uuid4()),
        "status": "Successful",
        "type": kind,
        "params": [{"type": name, "value": json.dumps(value)} for name, value in said.items()],
        "createdAt": now(),
        "errors": [],
    }
    desk.shelf("_eks.updates")[f"{cluster}/{update['id']}"] = update
    return update


def belonging_to(desk: Desk, kind: str, cluster: str) -> dict[str, Record]:
    """The records of a kind that belong to a cluster."""
    return {name: record for name, record in desk.shelf(kind).items() if name.startswith(f"{cluster}/")}


def refuse_role(desk: Desk, role: str, text: str) -> None:
    """Say no to a role that is not one, or that is of this account and not there."""
    found = PRINCIPAL.fullmatch(role)
    if not found or found["kind"] != "role":
        raise Refused("InvalidParameterException", f"{text}: {role} is not the ARN of a role.")
    if found["account"] == desk.account and not principal_exists(desk, role):
        raise Refused("InvalidParameterException", f"{text}: {role} does not exist.")


def principal_exists(desk: Desk, principal: str) -> bool:
    """Whether a role or user of this account is there."""
    found = PRINCIPAL.fullmatch(principal)
    iam = desk.moto.backend("iam", desk.account, "aws")
    if found is None:
        return False
    if found["kind"] == "root":
        return True
    things = iam.roles.values() if found["kind"] == "role" else iam.users.values()
    return any(thing.arn == principal for thing in things)
