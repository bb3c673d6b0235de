"""KMS: keys and the names they go by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.row import Call, Do, Form, Look, Name, Row, Tags, Until
from agentenv.rehearsal.providers.aws.value_kinds import POLICY, Kind, between, matching

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

KEY_ID: Final = {"KeyId": "$id"}
GONE: Final = ("NotFoundException",)


def _rotation(s: Situation) -> None:
    if s.inputs.get("enableKeyRotation"):
        days = s.inputs.get("rotationPeriodInDays")
        s.call("EnableKeyRotation", KeyId=s.id, **({"RotationPeriodInDays": days} if days else {}))
    else:
        s.call("DisableKeyRotation", KeyId=s.id)


def _switch(s: Situation) -> None:
    s.call("DisableKey" if s.inputs.get("isEnabled") is False else "EnableKey", KeyId=s.id)


def _rotates(s: Situation, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Only symmetric keys rotate; of others there is nothing to ask."""
    if document.get("KeySpec", "SYMMETRIC_DEFAULT") != "SYMMETRIC_DEFAULT":
        return {"EnableKeyRotation": False}
    told = s.call("GetKeyRotationStatus", KeyId=s.id)
    on = told.get("KeyRotationEnabled", False)
    return {"EnableKeyRotation": on, "RotationPeriodInDays": told.get("RotationPeriodInDays") if on else None}


KEY = Row(
    type="aws:kms/key:Key",
    service="kms",
    create=Call(
        "CreateKey",
        (
            *("bypassPolicyLockoutSafetyCheck", "customKeyStoreId", "customerMasterKeySpec", "description"),
            *("keyUsage", "multiRegion", "policy", "xksKeyId"),
        ),
        names={"customerMasterKeySpec": "KeySpec"},
    ),
    id="KeyMetadata.KeyId",
    find=Look("DescribeKey", KEY_ID, "KeyMetadata", gone=GONE),
    also=(
        Look("GetKeyPolicy", {"KeyId": "$id", "PolicyName": "default"}, puts={"Policy": "Policy"}),
        Look("ListResourceTags", KEY_ID, puts={"Tags": "Tags"}),
        _rotates,
    ),
    sets=(
        Call("UpdateKeyDescription", ("description",), given=KEY_ID, when=lambda s: not s.creating),
        Call(
            "PutKeyPolicy",
            ("policy", "bypassPolicyLockoutSafetyCheck"),
            given={"KeyId": "$id", "PolicyName": "default"},
            when=lambda s: not s.creating and bool(s.inputs.get("policy")),
        ),
        Do(_rotation, ("enableKeyRotation", "rotationPeriodInDays")),
        Do(_switch, ("isEnabled",)),
    ),
    delete=(
        Call(
            "ScheduleKeyDeletion",
            ("deletionWindowInDays",),
            names={"deletionWindowInDays": "PendingWindowInDays"},
            given=KEY_ID,
            forgives=(*GONE, "KMSInvalidStateException"),
        ),
    ),
    shows={"customerMasterKeySpec": "KeySpec", "isEnabled": "Enabled", "xksKeyId": "XksKeyConfiguration.Id"},
    tags=Tags("Tags", "", "TagResource", "UntagResource", KEY_ID, pair=("TagKey", "TagValue")),
    gone=Until("KeyState", ("PendingDeletion", "PendingReplicaDeletion")),
    unread=frozenset({"bypassPolicyLockoutSafetyCheck", "deletionWindowInDays"}),
    kinds={
        "policy": POLICY,
        "deletionWindowInDays": between(7, 30),
        "rotationPeriodInDays": between(90, 2560),
    },
    defaults={
        "bypassPolicyLockoutSafetyCheck": False,
        "customerMasterKeySpec": "SYMMETRIC_DEFAULT",
        "enableKeyRotation": False,
        "isEnabled": True,
        "keyUsage": "ENCRYPT_DECRYPT",
    },
)


def _find_alias(s: Situation) -> Mapping[str, Any] | None:
    marker: dict[str, str] = {}
    while True:
        answer = s.call("ListAliases", **marker)
        for alias in answer["Aliases"]:
            if alias["AliasName"] == s.id:
                return alias
        if not answer.get("Truncated"):
            return None
        marker = {"Marker": answer["NextMarker"]}


def _bare_key(text: Any) -> str:
    return str(text).rsplit("key/", 1)[-1]


ALIAS = Row(
    type="aws:kms/alias:Alias",
    service="kms",
    create=Call("CreateAlias", ("name", "targetKeyId"), names={"name": "AliasName"}),
    id="$in.name",
    find=_find_alias,
    sets=(Call("UpdateAlias", ("targetKeyId",), given={"AliasName": "$id"}, when=lambda s: not s.creating),),
    delete=(Call("DeleteAlias", given={"AliasName": "$id"}, forgives=GONE),),
    shows={
        "name": "AliasName",
        "arn": "AliasArn",
        "targetKeyArn": Form("arn:{partition}:kms:{region}:{account}:key/{targetKeyId}"),
    },
    name=Name(longest=256, prefix="alias/"),
    unread=frozenset({"namePrefix"}),
    kinds={
        "name": matching(r"alias/[a-zA-Z0-9/_-]{1,250}", "is not an alias: write alias/NAME"),
        "targetKeyId": Kind(same=lambda a, b: _bare_key(a) == _bare_key(b)),
    },
    parse=lambda text: (text, {"name": text}),
    moves=frozenset({"targetKeyArn"}),
)

ROWS: Final = (KEY, ALIAS)
