"""KMS: key policies that would lock everyone out, and keys that are on their way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehearsal.cloud import policy_text
from rehearsal.cloud.answers import Answer, Refused
from rehearsal.cloud.desk import Row
from rehearsal.cloud.rows.eks_found import principal_exists

if TYPE_CHECKING:
    from rehearsal.cloud.desk import Desk

MANAGES = ("kms:*", "*", "kms:PutKeyPolicy", "kms:Put*")
PENDING = "PendingDeletion"


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


def usable(desk: Desk) -> Answer:
    """Nothing is done to a key that waits for its deletion."""
    backend = desk.backend("kms")
    named = desk.asked.get("TargetKeyId") or desk.asked.get("KeyId") or ""
    if named.startswith("alias/") or ":alias/" in named:
        alias = "alias/" + named.partition("alias/")[2]
        key = next((one for one in backend.keys.values() if alias in one.aliases), None)
    else:
        key = backend.keys.get(named.rpartition("/")[2])
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


def schedule(desk: Desk) -> Answer:
    """Between a week and a month ahead; the published model has wider bounds than the service."""
    days = desk.asked.get("PendingWindowInDays", 30)
    if not 7 <= days <= 30:
        text = f"PendingWindowInDays must be between 7 and 30 (inclusive), not {days}."
        raise Refused("ValidationException", text, 400)
    return usable(desk)


ROWS = (
    Row("kms", "CreateKey", create),
    Row("kms", "PutKeyPolicy", put_policy),
    Row("kms", "CreateAlias", create_alias),
    Row("kms", "UpdateAlias", usable),
    Row("kms", "EnableKey", usable),
    Row("kms", "DisableKey", usable),
    Row("kms", "EnableKeyRotation", usable),
    Row("kms", "DisableKeyRotation", usable),
    Row("kms", "UpdateKeyDescription", usable),
    Row("kms", "ScheduleKeyDeletion", schedule),
    Row("kms", "Encrypt", usable),
    Row("kms", "Decrypt", usable),
    Row("kms", "GenerateDataKey", usable),
)
