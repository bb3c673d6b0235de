"""Authorize the calls of pods' sessions by the policies of their roles.

Only sessions that were opened for a pod's token are checked, and only for the operations in the table: every other
caller owns the account. So a role that a stack gives to a program in the cluster must have the permissions that it
uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moto.core.utils import utcnow

from agentenv.core.iam import evaluation
from agentenv.core.iam.evaluation import request_keys
from agentenv.core.iam.principals import SPOT_ROLE
from agentenv.rehearsal.cloud.iam import role_sessions
from agentenv.rehearsal.cloud.responses import AwsError

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.moto_backend import MotoBackend
    from agentenv.rehearsal.cloud.request_context import RequestContext


@dataclass(frozen=True)
class Need:
    """One permission that a call requires: the action, the resource, and the request's condition keys."""

    action: str
    resource: str
    request_keys: Mapping[str, Any]


def check_authorization(context: RequestContext) -> None:
    """Raise AWS's error for an expired session or one whose role lacks a permission."""
    session_record = role_sessions.session_of(context)
    if session_record is None:
        return
    is_json = context.call.protocol in {"json", "rest-json", "smithy-rpc-v2-cbor"}
    if session_record["session"].expiration <= utcnow():
        text = "The security token included in the request is expired"
        raise AwsError("ExpiredTokenException" if is_json else "ExpiredToken", text, 403)
    needs = _NEEDS_BY_OPERATION.get((context.call.service, context.call.name))
    if needs is None:
        return
    role = role_sessions.role_of(context, session_record["role"])
    own, bounds = role_texts(role), boundary_texts(context.moto, role)
    for need in needs(context):
        tags = {f"aws:PrincipalTag/{key}": value for key, value in session_record["tags"].items()}
        condition_context = request_keys(**{**tags, "aws:PrincipalArn": session_record["role"], **need.request_keys})
        if not all(evaluation.grants(texts, need.action, need.resource, condition_context) for texts in (own, *bounds)):
            arn = session_record["session"].arn
            text = f"User: {arn} is not authorized to perform: {need.action} on the specified resource"
            raise AwsError("AccessDeniedException" if is_json else "AccessDenied", text, 403)


def role_texts(role: Any) -> list[str]:
    """Return the policies of a role, as JSON; none without a role."""
    return [] if role is None else [*role.policies.values(), *map(_text, role.managed_policies.values())]


def boundary_texts(moto: MotoBackend, role: Any) -> list[list[str]]:
    """Return the permissions boundary's document alone: every call must be allowed by it too."""
    if role is None or not role.permissions_boundary_arn:
        return []
    policy = moto.backend("iam", role.account_id, "aws").managed_policies.get(role.permissions_boundary_arn)
    return [[_text(policy)] if policy is not None else []]


def _text(policy: Any) -> str:
    version = next(version for version in policy.versions if version.version_id == policy.default_version_id)
    return str(version.document)


def _file_system_needs(context: RequestContext) -> Iterator[Need]:
    yield Need(_action(context), _file_system(context, context.parameters.get("FileSystemId")), {})


def _access_point_needs(context: RequestContext) -> Iterator[Need]:
    parameters = context.parameters
    if point := parameters.get("AccessPointId"):
        # A missing access point has no tags; the operation itself reports that it does not exist
        if point.rpartition("/")[2] in context.backend("efs").access_points:
            yield Need(_action(context), _point(context, point), _tags_of(context, point))
    else:
        yield from _file_system_needs(context)


def _create_point_needs(context: RequestContext) -> Iterator[Need]:
    tags = {tag["Key"]: tag["Value"] for tag in context.parameters.get("Tags", [])}
    brought = {f"aws:RequestTag/{key}": value for key, value in tags.items()} | {"aws:TagKeys": sorted(tags)}
    yield Need(_action(context), _file_system(context, context.parameters["FileSystemId"]), brought)
    if tags:
        # Tags given at creation count as resource tags when the tagging is authorized
        resource_tags = {f"aws:ResourceTag/{key}": value for key, value in tags.items()}
        tag_keys = {**brought, **resource_tags, "elasticfilesystem:CreateAction": "CreateAccessPoint"}
        yield Need("elasticfilesystem:TagResource", _point(context, "fsap-to-be"), tag_keys)


def _tagging_needs(context: RequestContext) -> Iterator[Need]:
    name = str(context.parameters["ResourceId"]).rpartition("/")[2]
    existing = {*context.backend("efs").access_points, *context.backend("efs").file_systems_by_id}
    if name not in existing:
        return
    brought = {tag["Key"]: tag["Value"] for tag in context.parameters.get("Tags", [])}
    keys = sorted([*brought, *context.parameters.get("TagKeys", [])])
    tag_keys = {f"aws:RequestTag/{key}": value for key, value in brought.items()} | {"aws:TagKeys": keys}
    of = _point(context, name) if name.startswith("fsap-") else _file_system(context, name)
    yield Need(_action(context), of, {**tag_keys, **_tags_of(context, name)})


def _action(context: RequestContext) -> str:
    return f"elasticfilesystem:{context.call.name}"


def _file_system(context: RequestContext, name: str | None) -> str:
    return _arn(context, f"file-system/{name.rpartition('/')[2]}") if name else "*"


def _point(context: RequestContext, name: str) -> str:
    return _arn(context, f"access-point/{name.rpartition('/')[2]}")


def _arn(context: RequestContext, rest: str) -> str:
    return f"arn:aws:elasticfilesystem:{context.region}:{context.account}:{rest}"


def _tags_of(context: RequestContext, point: str) -> dict[str, str]:
    tags = context.invoke("efs", "ListTagsForResource", ResourceId=point.rpartition("/")[2])["Tags"]
    return {f"aws:ResourceTag/{tag['Key']}": tag["Value"] for tag in tags}


def _linked_role_needs(context: RequestContext) -> Iterator[Need]:
    service = context.parameters["AWSServiceName"]
    role = f"arn:aws:iam::{context.account}:role/aws-service-role/{service}/{SPOT_ROLE}"
    yield Need("iam:CreateServiceLinkedRole", role, {"iam:AWSServiceName": service})


def _assume_role_needs(context: RequestContext) -> Iterator[Need]:
    tags = {tag["Key"]: tag["Value"] for tag in context.parameters.get("Tags", [])}
    brought = {f"aws:RequestTag/{key}": value for key, value in tags.items()} | {"aws:TagKeys": sorted(tags)}
    yield Need("sts:AssumeRole", context.parameters["RoleArn"], brought)
    if tags:
        yield Need("sts:TagSession", context.parameters["RoleArn"], brought)


def _table_needs(context: RequestContext) -> Iterator[Need]:
    parameters = context.parameters
    for name in parameters.get("RequestItems") or [parameters["TableName"]]:
        arn = f"arn:aws:dynamodb:{context.region}:{context.account}:table/{name.rpartition('/')[2]}"
        index = parameters.get("IndexName")
        yield Need(f"dynamodb:{context.call.name}", f"{arn}/index/{index}" if index else arn, {})


_NEEDS_BY_OPERATION: Mapping[tuple[str, str], Callable[[RequestContext], Iterator[Need]]] = {
    ("efs", "CreateAccessPoint"): _create_point_needs,
    ("efs", "DeleteAccessPoint"): _access_point_needs,
    ("efs", "DescribeAccessPoints"): _access_point_needs,
    ("efs", "DescribeFileSystems"): _file_system_needs,
    ("efs", "DescribeMountTargets"): _file_system_needs,
    ("efs", "TagResource"): _tagging_needs,
    ("efs", "UntagResource"): _tagging_needs,
    ("dynamodb", "BatchGetItem"): _table_needs,
    ("dynamodb", "DeleteItem"): _table_needs,
    ("dynamodb", "GetItem"): _table_needs,
    ("dynamodb", "PutItem"): _table_needs,
    ("dynamodb", "Query"): _table_needs,
    ("dynamodb", "Scan"): _table_needs,
    ("dynamodb", "UpdateItem"): _table_needs,
    ("iam", "CreateServiceLinkedRole"): _linked_role_needs,
    ("sts", "AssumeRole"): _assume_role_needs,
}
