"""IAM roles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.row import Call, Do, Look, Name, Row
from agentenv.rehearsal.providers.aws.rows.iam import GONE, PATH, every, iam_tags, read_document
from agentenv.rehearsal.providers.aws.value_kinds import POLICY, Kind

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

ROLE_NAME: Final = {"RoleName": "$id"}


def _attached(s: Situation) -> set[str]:
    return {p["PolicyArn"] for p in every(s, "ListAttachedRolePolicies", "AttachedPolicies", RoleName=s.id)}


def _inline(s: Situation) -> dict[str, str]:
    names = every(s, "ListRolePolicies", "PolicyNames", RoleName=s.id)
    told = {name: s.call("GetRolePolicy", RoleName=s.id, PolicyName=name, forgives=GONE) for name in names}
    return {name: read_document(one["PolicyDocument"]) for name, one in told.items() if one}


def _role_parts(s: Situation, document: Mapping[str, Any]) -> Mapping[str, Any]:
    inline = [{"name": name, "policy": policy} for name, policy in sorted(_inline(s).items())]
    boundary = (document.get("PermissionsBoundary") or {}).get("PermissionsBoundaryArn")
    return {"ManagedPolicyArns": sorted(_attached(s)), "InlinePolicies": inline, "PermissionsBoundary": boundary}


def _set_attached(s: Situation) -> None:
    there, wanted = _attached(s), set(s.inputs.get("managedPolicyArns") or [])
    for arn in sorted(there - wanted):
        s.call("DetachRolePolicy", RoleName=s.id, PolicyArn=arn, forgives=GONE)
    for arn in sorted(wanted - there):
        s.call("AttachRolePolicy", RoleName=s.id, PolicyArn=arn)


def _set_inline(s: Situation) -> None:
    there = _inline(s)
    blocks = [b for b in s.inputs.get("inlinePolicies") or [] if b.get("name")]
    wanted = {b["name"]: b.get("policy") or "" for b in blocks}
    for name in sorted(there.keys() - wanted.keys()):
        s.call("DeleteRolePolicy", RoleName=s.id, PolicyName=name, forgives=GONE)
    for name, policy in wanted.items():
        if not POLICY.same(there.get(name), policy):
            s.call("PutRolePolicy", RoleName=s.id, PolicyName=name, PolicyDocument=policy)


def _set_boundary(s: Situation) -> None:
    if s.creating:
        return
    if s.inputs.get("permissionsBoundary"):
        s.call("PutRolePermissionsBoundary", RoleName=s.id, PermissionsBoundary=s.inputs["permissionsBoundary"])
    else:
        s.call("DeleteRolePermissionsBoundary", RoleName=s.id, forgives=GONE)


def _strip(s: Situation) -> None:
    """Take off what this resource put on, and everything else if it was told to."""
    force = s.inputs.get("forceDetachPolicies")
    for profile in every(s, "ListInstanceProfilesForRole", "InstanceProfiles", RoleName=s.id) if force else ():
        name = profile["InstanceProfileName"]
        s.call("RemoveRoleFromInstanceProfile", RoleName=s.id, InstanceProfileName=name, forgives=GONE)
    for arn in sorted(_attached(s)):
        if force or arn in (s.inputs.get("managedPolicyArns") or ()):
            s.call("DetachRolePolicy", RoleName=s.id, PolicyArn=arn, forgives=GONE)
    ours = {b.get("name") for b in s.inputs.get("inlinePolicies") or []}
    for name in sorted(_inline(s)):
        if force or name in ours:
            s.call("DeleteRolePolicy", RoleName=s.id, PolicyName=name, forgives=GONE)


def _same_inline(left: Any, right: Any) -> bool:
    def named(blocks: Any) -> dict[str, Any]:
        return {b["name"]: b.get("policy") for b in blocks or [] if b.get("name")}

    a, b = named(left), named(right)
    return a.keys() == b.keys() and all(POLICY.same(a[name], b[name]) for name in a)


ROLE = Row(
    type="aws:iam/role:Role",
    service="iam",
    regional=False,
    create=Call(
        "CreateRole",
        ("assumeRolePolicy", "description", "maxSessionDuration", "name", "path", "permissionsBoundary"),
        names={"name": "RoleName", "assumeRolePolicy": "AssumeRolePolicyDocument"},
    ),
    id="Role.RoleName",
    find=Look("GetRole", ROLE_NAME, "Role", gone=GONE),
    also=(_role_parts,),
    sets=(
        Call(
            "UpdateAssumeRolePolicy",
            ("assumeRolePolicy",),
            names={"assumeRolePolicy": "PolicyDocument"},
            given=ROLE_NAME,
            when=lambda s: not s.creating,
        ),
        Call("UpdateRole", ("description", "maxSessionDuration"), given=ROLE_NAME, when=lambda s: not s.creating),
        Do(_set_boundary, ("permissionsBoundary",)),
        Do(_set_attached, ("managedPolicyArns",)),
        Do(_set_inline, ("inlinePolicies",)),
    ),
    delete=(Do(_strip, ("forceDetachPolicies",)), Call("DeleteRole", given=ROLE_NAME)),
    shows={
        "name": "RoleName",
        "uniqueId": "RoleId",
        "assumeRolePolicy": lambda _, d: read_document(d["AssumeRolePolicyDocument"]),
    },
    name=Name(longest=64),
    tags=iam_tags("Role", ROLE_NAME),
    unread=frozenset({"forceDetachPolicies", "namePrefix"}),
    kinds={
        "assumeRolePolicy": POLICY,
        "inlinePolicies.policy": POLICY,
        "inlinePolicies": Kind(same=_same_inline, whole=True),
        "path": PATH,
    },
    defaults={"forceDetachPolicies": False, "maxSessionDuration": 3600, "path": "/"},
    busy=("DeleteConflict",),
)

ROWS: Final = (ROLE,)
