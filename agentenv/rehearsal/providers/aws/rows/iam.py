"""IAM: policies, policy attachments, identity providers and instance profiles."""

from __future__ import annotations

import json
import time
import urllib.parse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import value_kinds as kinds
from agentenv.rehearsal.providers.aws.row import AutoName, Call, CustomStep, ReadCall, ResourceType, Tagging
from agentenv.rehearsal.providers.aws.value_kinds import POLICY, ValueKind, matching

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

NOT_FOUND: Final = ("NoSuchEntity",)
PATH: Final = matching(r"/|/[\x21-\x7e]+/", "is not a path: it begins and ends with /")


def iam_tags(noun: str, on: Mapping[str, Any]) -> Tagging:
    """Return IAM's tagging, which has an operation per kind of resource."""
    return Tagging("Tags", "", f"Tag{noun}", f"Untag{noun}", on)


def all_pages(op: Operation, operation: str, at: str, **parameters: Any) -> list[Any]:
    """Return the items of all pages of a list."""
    out: list[Any] = []
    marker: dict[str, str] = {}
    while True:
        response = op.call(operation, ignored_errors=NOT_FOUND, **parameters, **marker)
        out += response.get(at, [])
        if not response.get("IsTruncated"):
            return out
        marker = {"Marker": response["Marker"]}


def read_document(response: Any) -> str:
    """Return a policy document as text. IAM URL-encodes documents; boto3 has parsed most of them."""
    return json.dumps(response) if isinstance(response, dict) else urllib.parse.unquote(str(response))


# -- policies ---------------------------------------------------------------------------------------------------------

KEPT_VERSIONS: Final = 5  # a policy has at most as many


def _read_current_version(op: Operation, document: Mapping[str, Any]) -> Mapping[str, Any]:
    response = op.call("GetPolicyVersion", PolicyArn=op.id, VersionId=document["DefaultVersionId"])
    return {"Policy": read_document(response["PolicyVersion"]["Document"])}


def _update_policy(op: Operation) -> None:
    """Update a policy by a new version, after deleting the oldest if there are too many."""
    if op.creating:
        return
    old = [v for v in all_pages(op, "ListPolicyVersions", "Versions", PolicyArn=op.id) if not v["IsDefaultVersion"]]
    if len(old) >= KEPT_VERSIONS - 1:
        oldest = min(old, key=lambda v: v["CreateDate"])
        op.call("DeletePolicyVersion", PolicyArn=op.id, VersionId=oldest["VersionId"])
    op.call("CreatePolicyVersion", PolicyArn=op.id, PolicyDocument=op.inputs["policy"], SetAsDefault=True)


def _delete_versions(op: Operation) -> None:
    for version in all_pages(op, "ListPolicyVersions", "Versions", PolicyArn=op.id):
        if not version["IsDefaultVersion"]:
            op.call("DeletePolicyVersion", PolicyArn=op.id, VersionId=version["VersionId"], ignored_errors=NOT_FOUND)


def _detach_all(op: Operation) -> None:
    if op.creating:
        time.sleep(float(op.inputs.get("delayAfterPolicyCreationInMs") or 0) / 1000)


POLICY_ROW = ResourceType(
    type="aws:iam/policy:Policy",
    service="iam",
    regional=False,
    create=Call(
        "CreatePolicy",
        ("description", "name", "path", "policy"),
        member_names={"name": "PolicyName", "policy": "PolicyDocument"},
    ),
    id="Policy.Arn",
    read=ReadCall("GetPolicy", {"PolicyArn": "$id"}, "Policy", not_found_errors=NOT_FOUND),
    more_reads=(_read_current_version,),
    updates=(CustomStep(_update_policy, ("policy",)), CustomStep(_detach_all, ("delayAfterPolicyCreationInMs",))),
    delete=(CustomStep(_delete_versions), Call("DeletePolicy", constants={"PolicyArn": "$id"})),
    output_sources={"name": "PolicyName"},
    auto_name=AutoName(max_length=128),
    tags=iam_tags("Policy", {"PolicyArn": "$id"}),
    write_only=frozenset({"delayAfterPolicyCreationInMs", "namePrefix"}),
    value_kinds={"policy": POLICY, "path": PATH},
    defaults={"path": "/"},
    retry_delete_on=("DeleteConflict",),
    updated_outputs=frozenset({"attachmentCount"}),
)


def _parse_role_policy(text: str) -> tuple[str, dict[str, Any]]:
    role, colon, name = text.partition(":")
    if not colon:
        raise ValueError("write ROLE:POLICY")
    return text, {"role": role, "name": name}


PUT_ROLE_POLICY: Final = Call(
    "PutRolePolicy",
    ("name", "policy", "role"),
    member_names={"name": "PolicyName", "policy": "PolicyDocument", "role": "RoleName"},
)
ROLE_POLICY = ResourceType(
    type="aws:iam/rolePolicy:RolePolicy",
    service="iam",
    regional=False,
    create=PUT_ROLE_POLICY,
    id=lambda op, _: f"{op.inputs['role']}:{op.inputs['name']}",
    read=ReadCall("GetRolePolicy", {"RoleName": "$in.role", "PolicyName": "$in.name"}, not_found_errors=NOT_FOUND),
    updates=(
        Call(
            "PutRolePolicy",
            ("policy",),
            member_names={"policy": "PolicyDocument"},
            constants={"RoleName": "$in.role", "PolicyName": "$in.name"},
            condition=lambda op: not op.creating,
        ),
    ),
    delete=(
        Call(
            "DeleteRolePolicy", constants={"RoleName": "$in.role", "PolicyName": "$in.name"}, ignored_errors=NOT_FOUND
        ),
    ),
    output_sources={
        "role": "RoleName",
        "name": "PolicyName",
        "policy": lambda _, d: read_document(d["PolicyDocument"]),
    },
    auto_name=AutoName(max_length=128),
    write_only=frozenset({"namePrefix"}),
    value_kinds={"policy": POLICY},
    parse_import_id=_parse_role_policy,
)


def _read_attachment(op: Operation) -> Mapping[str, Any] | None:
    role, arn = str(op.value("role")), op.value("policyArn")
    attached = all_pages(op, "ListAttachedRolePolicies", "AttachedPolicies", RoleName=role)
    return next(({**p, "Role": role} for p in attached if p["PolicyArn"] == arn), None)


def _parse_attachment(text: str) -> tuple[str, dict[str, Any]]:
    role, _, arn = text.partition("/")
    if kinds.IS_ARN.validate(arn):
        raise ValueError("write ROLE/POLICY-ARN")
    return text, {"role": role, "policyArn": arn}


ATTACHMENT: Final = {"RoleName": "$in.role", "PolicyArn": "$in.policyArn"}
ROLE_POLICY_ATTACHMENT = ResourceType(
    type="aws:iam/rolePolicyAttachment:RolePolicyAttachment",
    service="iam",
    regional=False,
    create=Call("AttachRolePolicy", ("policyArn", "role"), member_names={"role": "RoleName"}),
    id=lambda op, _: f"{op.inputs['role']}/{op.inputs['policyArn']}",
    read=_read_attachment,
    delete=(Call("DetachRolePolicy", constants=ATTACHMENT, ignored_errors=NOT_FOUND),),
    parse_import_id=_parse_attachment,
)

# -- profiles and providers -------------------------------------------------------------------------------------------


def _update_profile_role(op: Operation) -> None:
    """Set the role of a profile. It has one role only: the old one is removed first."""
    response = op.call("GetInstanceProfile", InstanceProfileName=op.id)["InstanceProfile"]
    existing = {r["RoleName"] for r in response.get("Roles", [])}
    expected = {op.inputs["role"]} if op.inputs.get("role") else set[str]()
    for role in sorted(existing - expected):
        op.call("RemoveRoleFromInstanceProfile", InstanceProfileName=op.id, RoleName=role, ignored_errors=NOT_FOUND)
    for role in sorted(expected - existing):
        op.call("AddRoleToInstanceProfile", InstanceProfileName=op.id, RoleName=role)


def _remove_profile_roles(op: Operation) -> None:
    response = op.call("GetInstanceProfile", InstanceProfileName=op.id, ignored_errors=NOT_FOUND)
    for role in response.get("InstanceProfile", {}).get("Roles", []):
        op.call(
            "RemoveRoleFromInstanceProfile",
            InstanceProfileName=op.id,
            RoleName=role["RoleName"],
            ignored_errors=NOT_FOUND,
        )


PROFILE_NAME: Final = {"InstanceProfileName": "$id"}
INSTANCE_PROFILE = ResourceType(
    type="aws:iam/instanceProfile:InstanceProfile",
    service="iam",
    regional=False,
    create=Call("CreateInstanceProfile", ("name", "path"), member_names={"name": "InstanceProfileName"}),
    id="InstanceProfile.InstanceProfileName",
    read=ReadCall("GetInstanceProfile", PROFILE_NAME, "InstanceProfile", not_found_errors=NOT_FOUND),
    updates=(CustomStep(_update_profile_role, ("role",)),),
    delete=(CustomStep(_remove_profile_roles), Call("DeleteInstanceProfile", constants=PROFILE_NAME)),
    output_sources={"name": "InstanceProfileName", "uniqueId": "InstanceProfileId", "role": "Roles[0].RoleName"},
    auto_name=AutoName(max_length=128),
    tags=iam_tags("InstanceProfile", PROFILE_NAME),
    write_only=frozenset({"namePrefix"}),
    value_kinds={"path": PATH},
    defaults={"path": "/"},
)


def _update_clients(op: Operation) -> None:
    if op.creating:
        return
    existing = set(op.call("GetOpenIDConnectProvider", OpenIDConnectProviderArn=op.id).get("ClientIDList", []))
    expected = set(op.inputs["clientIdLists"])
    for client in sorted(existing - expected):
        op.call("RemoveClientIDFromOpenIDConnectProvider", OpenIDConnectProviderArn=op.id, ClientID=client)
    for client in sorted(expected - existing):
        op.call("AddClientIDToOpenIDConnectProvider", OpenIDConnectProviderArn=op.id, ClientID=client)


def _bare_host(url: Any) -> str:
    return str(url).removeprefix("https://")


PROVIDER_ARN: Final = {"OpenIDConnectProviderArn": "$id"}
OIDC_PROVIDER = ResourceType(
    type="aws:iam/openIdConnectProvider:OpenIdConnectProvider",
    service="iam",
    regional=False,
    create=Call(
        "CreateOpenIDConnectProvider",
        ("clientIdLists", "thumbprintLists", "url"),
        member_names={"clientIdLists": "ClientIDList", "thumbprintLists": "ThumbprintList"},
    ),
    id="OpenIDConnectProviderArn",
    read=ReadCall("GetOpenIDConnectProvider", PROVIDER_ARN, not_found_errors=NOT_FOUND),
    updates=(
        CustomStep(_update_clients, ("clientIdLists",)),
        Call(
            "UpdateOpenIDConnectProviderThumbprint",
            ("thumbprintLists",),
            member_names={"thumbprintLists": "ThumbprintList"},
            constants=PROVIDER_ARN,
            condition=lambda op: not op.creating,
        ),
    ),
    delete=(Call("DeleteOpenIDConnectProvider", constants=PROVIDER_ARN),),
    output_sources={
        "arn": lambda op, _: op.id,
        "clientIdLists": "ClientIDList",
        "thumbprintLists": "ThumbprintList",
        "url": lambda _, d: _bare_host(d["Url"]),
    },
    tags=iam_tags("OpenIDConnectProvider", PROVIDER_ARN),
    value_kinds={
        "url": ValueKind(
            lambda v: f"{v!r} has to begin with https://" if str(v).startswith("http://") else None,
            lambda a, b: _bare_host(a) == _bare_host(b),
            # IAM tells the host alone, and takes it only whole
            lambda v: v if str(v).startswith("http://") else f"https://{_bare_host(v)}",
        )
    },
)

ROWS: Final = (POLICY_ROW, ROLE_POLICY, ROLE_POLICY_ATTACHMENT, INSTANCE_PROFILE, OIDC_PROVIDER)
