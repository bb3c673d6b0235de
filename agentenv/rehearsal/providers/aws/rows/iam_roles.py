"""IAM roles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.row import AutoName, Call, CustomStep, ReadCall, ResourceType
from agentenv.rehearsal.providers.aws.rows.iam import NOT_FOUND, PATH, all_pages, iam_tags, read_document
from agentenv.rehearsal.providers.aws.value_kinds import POLICY, ValueKind

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

ROLE_NAME: Final = {"RoleName": "$id"}


def _attached_policies(op: Operation) -> set[str]:
    return {p["PolicyArn"] for p in all_pages(op, "ListAttachedRolePolicies", "AttachedPolicies", RoleName=op.id)}


def _inline_policies(op: Operation) -> dict[str, str]:
    names = all_pages(op, "ListRolePolicies", "PolicyNames", RoleName=op.id)
    response = {
        name: op.call("GetRolePolicy", RoleName=op.id, PolicyName=name, ignored_errors=NOT_FOUND) for name in names
    }
    return {
        name: read_document(response_item["PolicyDocument"])
        for name, response_item in response.items()
        if response_item
    }


def _read_policies(op: Operation, document: Mapping[str, Any]) -> Mapping[str, Any]:
    inline = [{"name": name, "policy": policy} for name, policy in sorted(_inline_policies(op).items())]
    boundary = (document.get("PermissionsBoundary") or {}).get("PermissionsBoundaryArn")
    return {
        "ManagedPolicyArns": sorted(_attached_policies(op)),
        "InlinePolicies": inline,
        "PermissionsBoundary": boundary,
    }


def _update_attached(op: Operation) -> None:
    existing, expected = _attached_policies(op), set(op.inputs.get("managedPolicyArns") or [])
    for arn in sorted(existing - expected):
        op.call("DetachRolePolicy", RoleName=op.id, PolicyArn=arn, ignored_errors=NOT_FOUND)
    for arn in sorted(expected - existing):
        op.call("AttachRolePolicy", RoleName=op.id, PolicyArn=arn)


def _update_inline(op: Operation) -> None:
    existing = _inline_policies(op)
    blocks = [b for b in op.inputs.get("inlinePolicies") or [] if b.get("name")]
    expected = {b["name"]: b.get("policy") or "" for b in blocks}
    for name in sorted(existing.keys() - expected.keys()):
        op.call("DeleteRolePolicy", RoleName=op.id, PolicyName=name, ignored_errors=NOT_FOUND)
    for name, policy in expected.items():
        if not POLICY.equal(existing.get(name), policy):
            op.call("PutRolePolicy", RoleName=op.id, PolicyName=name, PolicyDocument=policy)


def _update_boundary(op: Operation) -> None:
    if op.creating:
        return
    if op.inputs.get("permissionsBoundary"):
        op.call("PutRolePermissionsBoundary", RoleName=op.id, PermissionsBoundary=op.inputs["permissionsBoundary"])
    else:
        op.call("DeleteRolePermissionsBoundary", RoleName=op.id, ignored_errors=NOT_FOUND)


def _detach_all_policies(op: Operation) -> None:
    """Detach the policies this resource attached, and with `forceDetachPolicies` all others."""
    force = op.inputs.get("forceDetachPolicies")
    for profile in all_pages(op, "ListInstanceProfilesForRole", "InstanceProfiles", RoleName=op.id) if force else ():
        name = profile["InstanceProfileName"]
        op.call("RemoveRoleFromInstanceProfile", RoleName=op.id, InstanceProfileName=name, ignored_errors=NOT_FOUND)
    for arn in sorted(_attached_policies(op)):
        if force or arn in (op.inputs.get("managedPolicyArns") or ()):
            op.call("DetachRolePolicy", RoleName=op.id, PolicyArn=arn, ignored_errors=NOT_FOUND)
    ours = {b.get("name") for b in op.inputs.get("inlinePolicies") or []}
    for name in sorted(_inline_policies(op)):
        if force or name in ours:
            op.call("DeleteRolePolicy", RoleName=op.id, PolicyName=name, ignored_errors=NOT_FOUND)


def _equal_inline(left: Any, right: Any) -> bool:
    def named(blocks: Any) -> dict[str, Any]:
        return {b["name"]: b.get("policy") for b in blocks or [] if b.get("name")}

    a, b = named(left), named(right)
    return a.keys() == b.keys() and all(POLICY.equal(a[name], b[name]) for name in a)


ROLE = ResourceType(
    type="aws:iam/role:Role",
    service="iam",
    regional=False,
    create=Call(
        "CreateRole",
        ("assumeRolePolicy", "description", "maxSessionDuration", "name", "path", "permissionsBoundary"),
        member_names={"name": "RoleName", "assumeRolePolicy": "AssumeRolePolicyDocument"},
    ),
    id="Role.RoleName",
    read=ReadCall("GetRole", ROLE_NAME, "Role", not_found_errors=NOT_FOUND),
    more_reads=(_read_policies,),
    updates=(
        Call(
            "UpdateAssumeRolePolicy",
            ("assumeRolePolicy",),
            member_names={"assumeRolePolicy": "PolicyDocument"},
            constants=ROLE_NAME,
            condition=lambda op: not op.creating,
        ),
        Call(
            "UpdateRole",
            ("description", "maxSessionDuration"),
            constants=ROLE_NAME,
            condition=lambda op: not op.creating,
        ),
        CustomStep(_update_boundary, ("permissionsBoundary",)),
        CustomStep(_update_attached, ("managedPolicyArns",)),
        CustomStep(_update_inline, ("inlinePolicies",)),
    ),
    delete=(CustomStep(_detach_all_policies, ("forceDetachPolicies",)), Call("DeleteRole", constants=ROLE_NAME)),
    output_sources={
        "name": "RoleName",
        "uniqueId": "RoleId",
        "assumeRolePolicy": lambda _, d: read_document(d["AssumeRolePolicyDocument"]),
    },
    auto_name=AutoName(max_length=64),
    tags=iam_tags("Role", ROLE_NAME),
    write_only=frozenset({"forceDetachPolicies", "namePrefix"}),
    value_kinds={
        "assumeRolePolicy": POLICY,
        "inlinePolicies.policy": POLICY,
        "inlinePolicies": ValueKind(equal=_equal_inline, whole_list=True),
        "path": PATH,
    },
    defaults={"forceDetachPolicies": False, "maxSessionDuration": 3600, "path": "/"},
    retry_delete_on=("DeleteConflict",),
)

ROWS: Final = (ROLE,)
