"""IAM beside roles: policies and what ties them to roles, providers of identities, instance profiles."""

from __future__ import annotations

import json
import time
import urllib.parse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import value_kinds as kinds
from agentenv.rehearsal.providers.aws.row import Call, Do, Look, Name, Row, Tags
from agentenv.rehearsal.providers.aws.value_kinds import POLICY, Kind, matching

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

GONE: Final = ("NoSuchEntity",)
PATH: Final = matching(r"/|/[\x21-\x7e]+/", "is not a path: it begins and ends with /")


def iam_tags(noun: str, on: Mapping[str, Any]) -> Tags:
    """IAM's way: an operation for each kind of thing."""
    return Tags("Tags", "", f"Tag{noun}", f"Untag{noun}", on)


def every(s: Situation, operation: str, at: str, **parameters: Any) -> list[Any]:
    """All pages of a list."""
    out: list[Any] = []
    marker: dict[str, str] = {}
    while True:
        answer = s.call(operation, forgives=GONE, **parameters, **marker)
        out += answer.get(at, [])
        if not answer.get("IsTruncated"):
            return out
        marker = {"Marker": answer["Marker"]}


def read_document(told: Any) -> str:
    """IAM writes documents escaped for addresses; boto3 has most of them parsed already."""
    return json.dumps(told) if isinstance(told, dict) else urllib.parse.unquote(str(told))


# -- policies ---------------------------------------------------------------------------------------------------------

KEPT_VERSIONS: Final = 5  # a policy has at most as many


def _current(s: Situation, document: Mapping[str, Any]) -> Mapping[str, Any]:
    told = s.call("GetPolicyVersion", PolicyArn=s.id, VersionId=document["DefaultVersionId"])
    return {"Policy": read_document(told["PolicyVersion"]["Document"])}


def _revise(s: Situation) -> None:
    """A policy is changed by a new version; the oldest has to make room for it."""
    if s.creating:
        return
    old = [v for v in every(s, "ListPolicyVersions", "Versions", PolicyArn=s.id) if not v["IsDefaultVersion"]]
    if len(old) >= KEPT_VERSIONS - 1:
        oldest = min(old, key=lambda v: v["CreateDate"])
        s.call("DeletePolicyVersion", PolicyArn=s.id, VersionId=oldest["VersionId"])
    s.call("CreatePolicyVersion", PolicyArn=s.id, PolicyDocument=s.inputs["policy"], SetAsDefault=True)


def _drop_versions(s: Situation) -> None:
    for version in every(s, "ListPolicyVersions", "Versions", PolicyArn=s.id):
        if not version["IsDefaultVersion"]:
            s.call("DeletePolicyVersion", PolicyArn=s.id, VersionId=version["VersionId"], forgives=GONE)


def _let_spread(s: Situation) -> None:
    if s.creating:
        time.sleep(float(s.inputs.get("delayAfterPolicyCreationInMs") or 0) / 1000)


POLICY_ROW = Row(
    type="aws:iam/policy:Policy",
    service="iam",
    regional=False,
    create=Call(
        "CreatePolicy",
        ("description", "name", "path", "policy"),
        names={"name": "PolicyName", "policy": "PolicyDocument"},
    ),
    id="Policy.Arn",
    find=Look("GetPolicy", {"PolicyArn": "$id"}, "Policy", gone=GONE),
    also=(_current,),
    sets=(Do(_revise, ("policy",)), Do(_let_spread, ("delayAfterPolicyCreationInMs",))),
    delete=(Do(_drop_versions), Call("DeletePolicy", given={"PolicyArn": "$id"})),
    shows={"name": "PolicyName"},
    name=Name(longest=128),
    tags=iam_tags("Policy", {"PolicyArn": "$id"}),
    unread=frozenset({"delayAfterPolicyCreationInMs", "namePrefix"}),
    kinds={"policy": POLICY, "path": PATH},
    defaults={"path": "/"},
    busy=("DeleteConflict",),
    moves=frozenset({"attachmentCount"}),
)


def _parse_role_policy(text: str) -> tuple[str, dict[str, Any]]:
    role, colon, name = text.partition(":")
    if not colon:
        raise ValueError("write ROLE:POLICY")
    return text, {"role": role, "name": name}


PUT_ROLE_POLICY: Final = Call(
    "PutRolePolicy",
    ("name", "policy", "role"),
    names={"name": "PolicyName", "policy": "PolicyDocument", "role": "RoleName"},
)
ROLE_POLICY = Row(
    type="aws:iam/rolePolicy:RolePolicy",
    service="iam",
    regional=False,
    create=PUT_ROLE_POLICY,
    id=lambda s, _: f"{s.inputs['role']}:{s.inputs['name']}",
    find=Look("GetRolePolicy", {"RoleName": "$in.role", "PolicyName": "$in.name"}, gone=GONE),
    sets=(
        Call(
            "PutRolePolicy",
            ("policy",),
            names={"policy": "PolicyDocument"},
            given={"RoleName": "$in.role", "PolicyName": "$in.name"},
            when=lambda s: not s.creating,
        ),
    ),
    delete=(Call("DeleteRolePolicy", given={"RoleName": "$in.role", "PolicyName": "$in.name"}, forgives=GONE),),
    shows={"role": "RoleName", "name": "PolicyName", "policy": lambda _, d: read_document(d["PolicyDocument"])},
    name=Name(longest=128),
    unread=frozenset({"namePrefix"}),
    kinds={"policy": POLICY},
    parse=_parse_role_policy,
)


def _find_attachment(s: Situation) -> Mapping[str, Any] | None:
    role, arn = str(s.value("role")), s.value("policyArn")
    attached = every(s, "ListAttachedRolePolicies", "AttachedPolicies", RoleName=role)
    return next(({**p, "Role": role} for p in attached if p["PolicyArn"] == arn), None)


def _parse_attachment(text: str) -> tuple[str, dict[str, Any]]:
    role, _, arn = text.partition("/")
    if kinds.IS_ARN.wrong(arn):
        raise ValueError("write ROLE/POLICY-ARN")
    return text, {"role": role, "policyArn": arn}


ATTACHMENT: Final = {"RoleName": "$in.role", "PolicyArn": "$in.policyArn"}
ROLE_POLICY_ATTACHMENT = Row(
    type="aws:iam/rolePolicyAttachment:RolePolicyAttachment",
    service="iam",
    regional=False,
    create=Call("AttachRolePolicy", ("policyArn", "role"), names={"role": "RoleName"}),
    id=lambda s, _: f"{s.inputs['role']}/{s.inputs['policyArn']}",
    find=_find_attachment,
    delete=(Call("DetachRolePolicy", given=ATTACHMENT, forgives=GONE),),
    parse=_parse_attachment,
)

# -- profiles and providers -------------------------------------------------------------------------------------------


def _fill_profile(s: Situation) -> None:
    """A profile holds one role: the old one goes before the new one comes."""
    told = s.call("GetInstanceProfile", InstanceProfileName=s.id)["InstanceProfile"]
    there = {r["RoleName"] for r in told.get("Roles", [])}
    wanted = {s.inputs["role"]} if s.inputs.get("role") else set[str]()
    for role in sorted(there - wanted):
        s.call("RemoveRoleFromInstanceProfile", InstanceProfileName=s.id, RoleName=role, forgives=GONE)
    for role in sorted(wanted - there):
        s.call("AddRoleToInstanceProfile", InstanceProfileName=s.id, RoleName=role)


def _empty_profile(s: Situation) -> None:
    told = s.call("GetInstanceProfile", InstanceProfileName=s.id, forgives=GONE)
    for role in told.get("InstanceProfile", {}).get("Roles", []):
        s.call("RemoveRoleFromInstanceProfile", InstanceProfileName=s.id, RoleName=role["RoleName"], forgives=GONE)


PROFILE_NAME: Final = {"InstanceProfileName": "$id"}
INSTANCE_PROFILE = Row(
    type="aws:iam/instanceProfile:InstanceProfile",
    service="iam",
    regional=False,
    create=Call("CreateInstanceProfile", ("name", "path"), names={"name": "InstanceProfileName"}),
    id="InstanceProfile.InstanceProfileName",
    find=Look("GetInstanceProfile", PROFILE_NAME, "InstanceProfile", gone=GONE),
    sets=(Do(_fill_profile, ("role",)),),
    delete=(Do(_empty_profile), Call("DeleteInstanceProfile", given=PROFILE_NAME)),
    shows={"name": "InstanceProfileName", "uniqueId": "InstanceProfileId", "role": "Roles[0].RoleName"},
    name=Name(longest=128),
    tags=iam_tags("InstanceProfile", PROFILE_NAME),
    unread=frozenset({"namePrefix"}),
    kinds={"path": PATH},
    defaults={"path": "/"},
)


def _clients(s: Situation) -> None:
    if s.creating:
        return
    there = set(s.call("GetOpenIDConnectProvider", OpenIDConnectProviderArn=s.id).get("ClientIDList", []))
    wanted = set(s.inputs["clientIdLists"])
    for client in sorted(there - wanted):
        s.call("RemoveClientIDFromOpenIDConnectProvider", OpenIDConnectProviderArn=s.id, ClientID=client)
    for client in sorted(wanted - there):
        s.call("AddClientIDToOpenIDConnectProvider", OpenIDConnectProviderArn=s.id, ClientID=client)


def _bare_host(url: Any) -> str:
    return str(url).removeprefix("https://")


PROVIDER_ARN: Final = {"OpenIDConnectProviderArn": "$id"}
OIDC_PROVIDER = Row(
    type="aws:iam/openIdConnectProvider:OpenIdConnectProvider",
    service="iam",
    regional=False,
    create=Call(
        "CreateOpenIDConnectProvider",
        ("clientIdLists", "thumbprintLists", "url"),
        names={"clientIdLists": "ClientIDList", "thumbprintLists": "ThumbprintList"},
    ),
    id="OpenIDConnectProviderArn",
    find=Look("GetOpenIDConnectProvider", PROVIDER_ARN, gone=GONE),
    sets=(
        Do(_clients, ("clientIdLists",)),
        Call(
            "UpdateOpenIDConnectProviderThumbprint",
            ("thumbprintLists",),
            names={"thumbprintLists": "ThumbprintList"},
            given=PROVIDER_ARN,
            when=lambda s: not s.creating,
        ),
    ),
    delete=(Call("DeleteOpenIDConnectProvider", given=PROVIDER_ARN),),
    shows={
        "arn": lambda s, _: s.id,
        "clientIdLists": "ClientIDList",
        "thumbprintLists": "ThumbprintList",
        "url": lambda _, d: _bare_host(d["Url"]),
    },
    tags=iam_tags("OpenIDConnectProvider", PROVIDER_ARN),
    kinds={
        "url": Kind(
            lambda v: f"{v!r} has to begin with https://" if str(v).startswith("http://") else None,
            lambda a, b: _bare_host(a) == _bare_host(b),
            lambda v: f"https://{_bare_host(v)}",  # IAM tells the host alone, and takes it only whole
        )
    },
)

ROWS: Final = (POLICY_ROW, ROLE_POLICY, ROLE_POLICY_ATTACHMENT, INSTANCE_PROFILE, OIDC_PROVIDER)
