"""KMS: key policies that would lock out the account, and keys that wait for deletion."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from moto.kms import models, utils

from agentenv.core.iam import documents
from agentenv.rehearsal.cloud.iam import policy_documents
from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError, Response
from agentenv.rehearsal.cloud.rows.eks_common import principal_exists

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext

MANAGES = ("kms:*", "*", "kms:PutKeyPolicy", "kms:Put*")
PENDING = "PendingDeletion"
ROTATION_DAYS = 365
ASYMMETRIC = ("RSA_", "ECC_")


def _key_pair(key_spec: str) -> Any:
    """Return the pair of an asymmetric key; moto generates one for every key, which is slow."""
    return utils.generate_private_key(key_spec) if key_spec.startswith(ASYMMETRIC) else None


setattr(models, "generate_private_key", _key_pair)  # noqa: B010 - a name that moto has imported


def _check_policy(context: RequestContext, text: str) -> None:
    violations = policy_documents.violations(text, policy_documents.ON_KEY)
    if violations:
        raise AwsError("MalformedPolicyDocumentException", violations[0], 400)
    if policy_documents.missing_principals(text, context.account, lambda arn: principal_exists(context, arn)):
        text = "Policy contains a statement with one or more invalid principals."
        raise AwsError("MalformedPolicyDocumentException", text, 400)
    if not context.parameters.get("BypassPolicyLockoutSafetyCheck") and not _stays_manageable(context, text):
        text = "The new key policy will not allow you to update the key policy in the future."
        raise AwsError("MalformedPolicyDocumentException", text, 400)


def _stays_manageable(context: RequestContext, text: str) -> bool:
    """Return whether someone in the account, or the caller, may still change the policy."""
    document, _ = documents.read(text)
    caller = context.invoke("sts", "GetCallerIdentity")["Arn"].replace(":sts:", ":iam:")
    holders = {"*", context.account, f"arn:aws:iam::{context.account}:root", caller}
    for statement in documents.statements(document):
        everyone = statement.get("Principal") == "*"
        manages = any(action in MANAGES for action in statement.texts("Action"))
        if statement.allows and manages and (everyone or holders & set(statement.principals("AWS"))):
            return True
    return False


def create(context: RequestContext) -> Response:
    """Create a key with a policy that keeps it manageable."""
    if "Policy" in context.parameters:
        _check_policy(context, context.parameters["Policy"])
    return context.forward()


def put_policy(context: RequestContext) -> Response:
    """Set a policy that keeps the key manageable."""
    _check_policy(context, context.parameters["Policy"])
    return context.forward()


def find_key(context: RequestContext, named: str) -> Any:
    """Return the key of an identifier, an ARN or an alias."""
    keys = context.backend("kms").keys
    if "alias/" in named:
        alias = "alias/" + named.partition("alias/")[2]
        return next((key for key in keys.values() if alias in key.aliases), None)
    return keys.get(named.rpartition("/")[2])


def check_usable(context: RequestContext) -> Response:
    """Refuse operations on a key that waits for deletion."""
    key = find_key(context, context.parameters.get("TargetKeyId") or context.parameters.get("KeyId") or "")
    if key is not None and key.key_state == PENDING:
        raise AwsError("KMSInvalidStateException", f"{key.arn} is pending deletion.", 400)
    return context.forward()


def create_alias(context: RequestContext) -> Response:
    """Create an unused alias, other than AWS's own."""
    name = context.parameters["AliasName"]
    if not name.startswith("alias/"):
        raise AwsError("ValidationException", f"Invalid identifier: {name} does not begin with alias/.", 400)
    if name.startswith("alias/aws/"):
        raise AwsError("NotAuthorizedException", f"{name} is reserved for keys that AWS manages.", 400)
    return check_usable(context)


def schedule_deletion(context: RequestContext) -> Response | dict[str, Any]:
    """Schedule a deletion 7 to 30 days ahead; the published model has wider bounds than the service."""
    days = context.parameters.get("PendingWindowInDays", 30)
    if not 7 <= days <= 30:
        text = f"PendingWindowInDays must be between 7 and 30 (inclusive), not {days}."
        raise AwsError("ValidationException", text, 400)
    key = find_key(context, context.parameters["KeyId"])
    if key is None or key.key_state == PENDING:
        return check_usable(context)
    # Moto knows the key by its id only, and AWS tells its ARN.
    return {**context.result({**context.parameters, "KeyId": key.id}), "KeyId": key.arn}


def enable_rotation(context: RequestContext) -> Response:
    """Enable rotation with its period, which moto does not store."""
    response = check_usable(context)
    if response.ok:
        key = find_key(context, context.parameters["KeyId"])
        key.rotation_days = context.parameters.get("RotationPeriodInDays", getattr(key, "rotation_days", ROTATION_DAYS))
        key.rotation_since = datetime.now(UTC)
    return response


def rotation_status(context: RequestContext) -> dict[str, Any]:
    """Return whether a key is rotated, how often and when next."""
    status = context.result()
    key = find_key(context, context.parameters["KeyId"])
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


def get_public_key(context: RequestContext) -> Response:
    """Return the public key of an asymmetric key."""
    key = find_key(context, context.parameters["KeyId"])
    if key is not None and not key.key_spec.startswith(ASYMMETRIC):
        raise AwsError(
            "UnsupportedOperationException", f"{key.arn} key spec is {key.key_spec}, which is symmetric.", 400
        )
    return check_usable(context)


ROWS = (
    OperationHandler("kms", "CreateKey", create),
    OperationHandler("kms", "GetPublicKey", get_public_key),
    OperationHandler("kms", "PutKeyPolicy", put_policy),
    OperationHandler("kms", "CreateAlias", create_alias),
    OperationHandler("kms", "UpdateAlias", check_usable),
    OperationHandler("kms", "EnableKey", check_usable),
    OperationHandler("kms", "DisableKey", check_usable),
    OperationHandler("kms", "EnableKeyRotation", enable_rotation),
    OperationHandler("kms", "GetKeyRotationStatus", rotation_status),
    OperationHandler("kms", "DisableKeyRotation", check_usable),
    OperationHandler("kms", "UpdateKeyDescription", check_usable),
    OperationHandler("kms", "ScheduleKeyDeletion", schedule_deletion),
    OperationHandler("kms", "Encrypt", check_usable),
    OperationHandler("kms", "Decrypt", check_usable),
    OperationHandler("kms", "GenerateDataKey", check_usable),
)
