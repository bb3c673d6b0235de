"""What the session of a pod may do: the policies of its role, asked before a call is answered.

Only sessions that were opened for a pod's token are asked, and only about the services in the table: everybody else is
the account's owner here. So a role that a stack gives to a program of the cluster has to hold what that program does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moto.core.utils import utcnow

from agentenv.rehearsal.cloud.iam import policy_evaluation as verdicts
from agentenv.rehearsal.cloud.iam import role_sessions as sessions
from agentenv.rehearsal.cloud.iam.policy_conditions import context_of
from agentenv.rehearsal.cloud.responses import Refused

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk


@dataclass(frozen=True)
class Need:
    """One thing that a call does: the action, to what, and what conditions may be about."""

    action: str
    resource: str
    about: Mapping[str, Any]


def refuse(desk: Desk) -> None:
    """Say no, as AWS would, to a session whose time is over or whose role may not do that."""
    known = sessions.session_of(desk)
    if known is None:
        return
    json = desk.call.protocol in {"json", "rest-json", "smithy-rpc-v2-cbor"}
    if known["session"].expiration <= utcnow():
        text = "The security token included in the request is expired"
        raise Refused("ExpiredTokenException" if json else "ExpiredToken", text, 403)
    needs = _NEEDS.get((desk.call.service, desk.call.name))
    if needs is None:
        return
    role = sessions.role_of(desk, known["role"])
    own = [] if role is None else [*role.policies.values(), *map(_text, role.managed_policies.values())]
    bounds = _boundary(desk, role)
    for need in needs(desk):
        tags = {f"aws:PrincipalTag/{key}": value for key, value in known["tags"].items()}
        context = context_of(**{**tags, "aws:PrincipalArn": known["role"], **need.about})
        if not all(verdicts.grants(texts, need.action, need.resource, context) for texts in (own, *bounds)):
            text = f"User: {known['session'].arn} is not authorized to perform: {need.action} on the specified resource"
            raise Refused("AccessDeniedException" if json else "AccessDenied", text, 403)


def _boundary(desk: Desk, role: Any) -> list[list[str]]:
    """The boundary's document, alone in a list: it allows nothing by itself, and everything has to pass it."""
    if role is None or not role.permissions_boundary_arn:
        return []
    found = desk.backend("iam").managed_policies.get(role.permissions_boundary_arn)
    return [[_text(found)] if found is not None else []]


def _text(policy: Any) -> str:
    version = next(one for one in policy.versions if one.version_id == policy.default_version_id)
    return str(version.document)


def _file_systems(desk: Desk) -> Iterator[Need]:
    yield Need(_action(desk), _file_system(desk, desk.asked.get("FileSystemId")), {})


def _points(desk: Desk) -> Iterator[Need]:
    asked = desk.asked
    if point := asked.get("AccessPointId"):
        # What is not there has no tags to judge by: whoever asks for it hears that
        if point.rpartition("/")[2] in desk.backend("efs").access_points:
            yield Need(_action(desk), _point(desk, point), _tags_of(desk, point))
    else:
        yield from _file_systems(desk)


def _made_point(desk: Desk) -> Iterator[Need]:
    tags = {tag["Key"]: tag["Value"] for tag in desk.asked.get("Tags", [])}
    brought = {f"aws:RequestTag/{key}": value for key, value in tags.items()} | {"aws:TagKeys": sorted(tags)}
    yield Need(_action(desk), _file_system(desk, desk.asked["FileSystemId"]), brought)
    if tags:
        # What is tagged as it is made has these tags already when the tagging is judged
        has = {f"aws:ResourceTag/{key}": value for key, value in tags.items()}
        about = {**brought, **has, "elasticfilesystem:CreateAction": "CreateAccessPoint"}
        yield Need("elasticfilesystem:TagResource", _point(desk, "fsap-to-be"), about)


def _tagged(desk: Desk) -> Iterator[Need]:
    name = str(desk.asked["ResourceId"]).rpartition("/")[2]
    there = {*desk.backend("efs").access_points, *desk.backend("efs").file_systems_by_id}
    if name not in there:
        return
    brought = {tag["Key"]: tag["Value"] for tag in desk.asked.get("Tags", [])}
    keys = sorted([*brought, *desk.asked.get("TagKeys", [])])
    about = {f"aws:RequestTag/{key}": value for key, value in brought.items()} | {"aws:TagKeys": keys}
    of = _point(desk, name) if name.startswith("fsap-") else _file_system(desk, name)
    yield Need(_action(desk), of, {**about, **_tags_of(desk, name)})


def _action(desk: Desk) -> str:
    return f"elasticfilesystem:{desk.call.name}"


def _file_system(desk: Desk, name: str | None) -> str:
    return _arn(desk, f"file-system/{name.rpartition('/')[2]}") if name else "*"


def _point(desk: Desk, name: str) -> str:
    return _arn(desk, f"access-point/{name.rpartition('/')[2]}")


def _arn(desk: Desk, rest: str) -> str:
    return f"arn:aws:elasticfilesystem:{desk.region}:{desk.account}:{rest}"


def _tags_of(desk: Desk, point: str) -> dict[str, str]:
    found = desk.ask("efs", "ListTagsForResource", ResourceId=point.rpartition("/")[2])["Tags"]
    return {f"aws:ResourceTag/{tag['Key']}": tag["Value"] for tag in found}


def _assumed(desk: Desk) -> Iterator[Need]:
    tags = {tag["Key"]: tag["Value"] for tag in desk.asked.get("Tags", [])}
    brought = {f"aws:RequestTag/{key}": value for key, value in tags.items()} | {"aws:TagKeys": sorted(tags)}
    yield Need("sts:AssumeRole", desk.asked["RoleArn"], brought)
    if tags:
        yield Need("sts:TagSession", desk.asked["RoleArn"], brought)


def _items(desk: Desk) -> Iterator[Need]:
    asked = desk.asked
    for name in asked.get("RequestItems") or [asked["TableName"]]:
        arn = f"arn:aws:dynamodb:{desk.region}:{desk.account}:table/{name.rpartition('/')[2]}"
        index = asked.get("IndexName")
        yield Need(f"dynamodb:{desk.call.name}", f"{arn}/index/{index}" if index else arn, {})


_NEEDS: Mapping[tuple[str, str], Callable[[Desk], Iterator[Need]]] = {
    ("efs", "CreateAccessPoint"): _made_point,
    ("efs", "DeleteAccessPoint"): _points,
    ("efs", "DescribeAccessPoints"): _points,
    ("efs", "DescribeFileSystems"): _file_systems,
    ("efs", "DescribeMountTargets"): _file_systems,
    ("efs", "TagResource"): _tagged,
    ("efs", "UntagResource"): _tagged,
    ("dynamodb", "BatchGetItem"): _items,
    ("dynamodb", "DeleteItem"): _items,
    ("dynamodb", "GetItem"): _items,
    ("dynamodb", "PutItem"): _items,
    ("dynamodb", "Query"): _items,
    ("dynamodb", "Scan"): _items,
    ("dynamodb", "UpdateItem"): _items,
    ("sts", "AssumeRole"): _assumed,
}
