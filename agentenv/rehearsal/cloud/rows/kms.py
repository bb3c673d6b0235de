"""KMS: key policies that would lock everyone out, and keys that are on their way out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from moto.kms import models, utils

from agentenv.rehearsal.cloud.iam import policy_documents as policy_text
from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Answer, Refused
from agentenv.rehearsal.cloud.rows.eks_common import principal_exists

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk

MANAGES = ("kms:*", "*", "kms:PutKeyPolicy", "kms:Put*")
PENDING = "PendingDeletion"
ROTATION_DAYS = 365
ASYMMETRIC = ("RSA_", "ECC_")


def _key_pair(key_spec: str) -> Any:
    """The pair of an asymmetric key. Moto makes one for every key, which takes longer than all else it does for it."""
    return utils.generate_private_key(key_spec) if key_spec.startswith(ASYMMETRIC) else None


setattr(models, "generate_private_key", _key_pair)  # noqa: B010 - a name that moto has imported


def _policy(desk: Desk, text: str) -> None:
    found = policy_text.faults(text, policy_text.ON_KEY)
    if found:
        raise Refused("MalformedPolicyDocumentException", found[0], 400)
    if policy_text.missing_principals(text, desk.account, lambda arn: principal_exists(desk, arn)):
        text = "Policy contains a statement with one or more invalid principals."
        raise Refused("MalformedPolicyDocumentException", text, 400)
    if not desk.asked.get("BypassPolicyLockoutSafetyCheck") and not _leaves_a_key_holder(desk, text):
        text = "The new key policy will not allow you to update the key policy in the future."
        raise Refused("MalformedPolicyDocumentException", text, 400)


def _leaves_a_key_holder(desk: Desk, text: str) -> bool:
    """Whether someone in the account, or the caller, may still change the policy."""
    document, _ = policy_text.read(text)
    caller = desk.ask("sts", "GetCallerIdentity")["Arn"].replace(":sts:", ":iam:")
    holders = {"*", desk.account, f"arn:aws:iam::{desk.account}:root", caller}
    for one in policy_text.statements(document):
        principal = one.get("Principal")
        named = policy_text.listed(principal.get("AWS", [])) if isinstance(principal, dict) else [principal]
        manages = any(action in MANAGES for action in policy_text.listed(one.get("Action", [])))
        if one.get("Effect") == "Allow" and manages and holders & set(named):
            return True
    return False


def create(desk: Desk) -> Answer:
    """A key with a policy under which it can still be managed."""
    if "Policy" in desk.asked:
        _policy(desk, desk.asked["Policy"])
    return desk.forward()


def put_policy(desk: Desk) -> Answer:
    """Another policy, likewise."""
    _policy(desk, desk.asked["Policy"])
    return desk.forward()


def _key(desk: Desk, named: str) -> Any:
    """The key of an identifier, an ARN or an alias."""
    keys = desk.backend("kms").keys
    if "alias/" in named:
        alias = "alias/" + named.partition("alias/")[2]
        return next((one for one in keys.values() if alias in one.aliases), None)
    return keys.get(named.rpartition("/")[2])


def usable(desk: Desk) -> Answer:
    """Nothing is done to a key that waits for its deletion."""
    key = _key(desk, desk.asked.get("TargetKeyId") or desk.asked.get("KeyId") or "")
    if key is not None and key.key_state == PENDING:
        raise Refused("KMSInvalidStateException", f"{key.arn} is pending deletion.", 400)
    return desk.forward()


def create_alias(desk: Desk) -> Answer:
    """A name that is free, and not one of AWS's own."""
    name = desk.asked["AliasName"]
    if not name.startswith("alias/"):
        raise Refused("ValidationException", f"Invalid identifier: {name} does not begin with alias/.", 400)
    if name.startswith("alias/aws/"):
        raise Refused("NotAuthorizedException", f"{name} is reserved for keys that AWS manages.", 400)
    return usable(desk)


def schedule(desk: Desk) -> Answer | dict[str, Any]:
    """Between a week and a month ahead; the published model has wider bounds than the service."""
    days = desk.asked.get("PendingWindowInDays", 30)
    if not 7 <= days <= 30:
        text = f"PendingWindowInDays must be between 7 and 30 (inclusive), not {days}."
        raise Refused("ValidationException", text, 400)
    key = _key(desk, desk.asked["KeyId"])
    if key is None or key.key_state == PENDING:
        return usable(desk)
    # Moto knows the key by its id only, and AWS tells its ARN.
    return {**desk.result({**desk.asked, "KeyId": key.id}), "KeyId": key.arn}


def rotate(desk: Desk) -> Answer:
    """Rotation, every so many days; moto forgets how many."""
    answer = usable(desk)
    if answer.ok:
        key = _key(desk, desk.asked["KeyId"])
        key.rotation_days = desk.asked.get("RotationPeriodInDays", getattr(key, "rotation_days", ROTATION_DAYS))
        key.rotation_since = datetime.now(UTC)
    return answer


def rotation(desk: Desk) -> dict[str, Any]:
    """Whether a key is rotated, and if so how often and when next."""
    status = desk.result()
    key = _key(desk, desk.asked["KeyId"])
    if not status["KeyRotationEnabled"]:
        return {"KeyRotationEnabled": False, "KeyId": key.arn}
    days = getattr(key, "rotation_days", ROTATION_DAYS)
    since = getattr(key, "rotation_since", datetime.now(UTC))
    return {
        "KeyRotationEnabled": True,
        "KeyId": key.arn,
        "RotationPeriodInDays": days,
        "NextRotationDate": since + timedelta(days=days),
    }


def public_half(desk: Desk) -> Answer:
    """Only an asymmetric key has one."""
    key = _key(desk, desk.asked["KeyId"])
    if key is not None and not key.key_spec.startswith(ASYMMETRIC):
        raise Refused(
            "UnsupportedOperationException", f"{key.arn} key spec is {key.key_spec}, which is symmetric.", 400
        )
    return usable(desk)


ROWS = (
    Row("kms", "CreateKey", create),
    Row("kms", "GetPublicKey", public_half),
    Row("kms", "PutKeyPolicy", put_policy),
    Row("kms", "CreateAlias", create_alias),
    Row("kms", "UpdateAlias", usable),
    Row("kms", "EnableKey", usable),
    Row("kms", "DisableKey", usable),
    Row("kms", "EnableKeyRotation", rotate),
    Row("kms", "GetKeyRotationStatus", rotation),
    Row("kms", "DisableKeyRotation", usable),
    Row("kms", "UpdateKeyDescription", usable),
    Row("kms", "ScheduleKeyDeletion", schedule),
    Row("kms", "Encrypt", usable),
    Row("kms", "Decrypt", usable),
    Row("kms", "GenerateDataKey", usable),
)
