"""KMS: keys and aliases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.row import (
    AutoName,
    Call,
    CustomStep,
    ReadCall,
    ResourceType,
    StateCheck,
    Tagging,
    Template,
)
from agentenv.rehearsal.providers.aws.value_kinds import POLICY, ValueKind, between, matching

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

KEY_ID: Final = {"KeyId": "$id"}
NOT_FOUND: Final = ("NotFoundException",)


def _update_rotation(op: Operation) -> None:
    if op.inputs.get("enableKeyRotation"):
        days = op.inputs.get("rotationPeriodInDays")
        op.call("EnableKeyRotation", KeyId=op.id, **({"RotationPeriodInDays": days} if days else {}))
    else:
        op.call("DisableKeyRotation", KeyId=op.id)


def _update_enabled(op: Operation) -> None:
    op.call("DisableKey" if op.inputs.get("isEnabled") is False else "EnableKey", KeyId=op.id)


def _read_rotation(op: Operation, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the rotation status. Only symmetric keys rotate."""
    if document.get("KeySpec", "SYMMETRIC_DEFAULT") != "SYMMETRIC_DEFAULT":
        return {"EnableKeyRotation": False}
    response = op.call("GetKeyRotationStatus", KeyId=op.id)
    on = response.get("KeyRotationEnabled", False)
    return {"EnableKeyRotation": on, "RotationPeriodInDays": response.get("RotationPeriodInDays") if on else None}


KEY = ResourceType(
    type="aws:kms/key:Key",
    service="kms",
    create=Call(
        "CreateKey",
        (
            *("bypassPolicyLockoutSafetyCheck", "customKeyStoreId", "customerMasterKeySpec", "description"),
            *("keyUsage", "multiRegion", "policy", "xksKeyId"),
        ),
        member_names={"customerMasterKeySpec": "KeySpec"},
    ),
    id="KeyMetadata.KeyId",
    read=ReadCall("DescribeKey", KEY_ID, "KeyMetadata", not_found_errors=NOT_FOUND),
    more_reads=(
        ReadCall("GetKeyPolicy", {"KeyId": "$id", "PolicyName": "default"}, fields={"Policy": "Policy"}),
        ReadCall("ListResourceTags", KEY_ID, fields={"Tags": "Tags"}),
        _read_rotation,
    ),
    updates=(
        Call("UpdateKeyDescription", ("description",), constants=KEY_ID, condition=lambda op: not op.creating),
        Call(
            "PutKeyPolicy",
            ("policy", "bypassPolicyLockoutSafetyCheck"),
            constants={"KeyId": "$id", "PolicyName": "default"},
            condition=lambda op: not op.creating and bool(op.inputs.get("policy")),
        ),
        CustomStep(_update_rotation, ("enableKeyRotation", "rotationPeriodInDays")),
        CustomStep(_update_enabled, ("isEnabled",)),
    ),
    delete=(
        Call(
            "ScheduleKeyDeletion",
            ("deletionWindowInDays",),
            member_names={"deletionWindowInDays": "PendingWindowInDays"},
            constants=KEY_ID,
            ignored_errors=(*NOT_FOUND, "KMSInvalidStateException"),
        ),
    ),
    output_sources={"customerMasterKeySpec": "KeySpec", "isEnabled": "Enabled", "xksKeyId": "XksKeyConfiguration.Id"},
    tags=Tagging("Tags", "", "TagResource", "UntagResource", KEY_ID, key_value_members=("TagKey", "TagValue")),
    deleted_state=StateCheck("KeyState", ("PendingDeletion", "PendingReplicaDeletion")),
    write_only=frozenset({"bypassPolicyLockoutSafetyCheck", "deletionWindowInDays"}),
    value_kinds={
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


def _read_alias(op: Operation) -> Mapping[str, Any] | None:
    marker: dict[str, str] = {}
    while True:
        response = op.call("ListAliases", **marker)
        for alias in response["Aliases"]:
            if alias["AliasName"] == op.id:
                return alias
        if not response.get("Truncated"):
            return None
        marker = {"Marker": response["NextMarker"]}


def _key_id(text: Any) -> str:
    return str(text).rsplit("key/", 1)[-1]


ALIAS = ResourceType(
    type="aws:kms/alias:Alias",
    service="kms",
    create=Call("CreateAlias", ("name", "targetKeyId"), member_names={"name": "AliasName"}),
    id="$in.name",
    read=_read_alias,
    updates=(
        Call("UpdateAlias", ("targetKeyId",), constants={"AliasName": "$id"}, condition=lambda op: not op.creating),
    ),
    delete=(Call("DeleteAlias", constants={"AliasName": "$id"}, ignored_errors=NOT_FOUND),),
    output_sources={
        "name": "AliasName",
        "arn": "AliasArn",
        "targetKeyArn": Template("arn:{partition}:kms:{region}:{account}:key/{targetKeyId}"),
    },
    auto_name=AutoName(max_length=256, prefix="alias/"),
    write_only=frozenset({"namePrefix"}),
    value_kinds={
        "name": matching(r"alias/[a-zA-Z0-9/_-]{1,250}", "is not an alias: write alias/NAME"),
        "targetKeyId": ValueKind(equal=lambda a, b: _key_id(a) == _key_id(b)),
    },
    parse_import_id=lambda text: (text, {"name": text}),
    updated_outputs=frozenset({"targetKeyArn"}),
)

ROWS: Final = (KEY, ALIAS)
