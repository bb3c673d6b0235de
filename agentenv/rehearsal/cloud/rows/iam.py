"""IAM: invalid documents, quotas, and the deletion of resources in use."""

from __future__ import annotations

import functools
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from moto.iam import models
from moto.iam.aws_managed_policies import aws_managed_policies_data

from agentenv.core.iam.principals import SPOT_ROLE
from agentenv.rehearsal.cloud.iam import policy_documents
from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError, Response
from agentenv.rehearsal.cloud.rows.eks_common import principal_exists

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentenv.rehearsal.cloud.request_context import RequestContext

# Moto does not know how EC2 calls the role of its Spot service
models.SERVICE_NAME_CONVERSION.setdefault("spot", SPOT_ROLE.removeprefix("AWSServiceRoleFor"))


@functools.cache
def _managed_policies() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "path": row["Path"],
            "default_version_id": row["DefaultVersionId"],
            "document": json.dumps(row["Document"]),
            "create_date": datetime.fromisoformat(row["CreateDate"]),
            "update_date": datetime.fromisoformat(row["UpdateDate"]),
        }
        for name, row in json.loads(aws_managed_policies_data).items()
    ]


def _create_managed_policies(backend: models.IAMBackend) -> list[Any]:
    """Create AWS's own policies; moto reads all 1,500 again for each account, six times over."""
    where = {"account_id": backend.account_id, "region": backend.region_name}
    return [models.AWSManagedPolicy(**row, **where) for row in _managed_policies()]


setattr(models.IAMBackend, "_init_aws_policies", _create_managed_policies)  # noqa: B010 - the method has a private name
TRUST_LENGTH, INLINE_LENGTH, MANAGED_LENGTH = 2048, 10240, 6144
ATTACHED = 10


def _check_document(context: RequestContext, name: str, kind: policy_documents.Kind, longest: int, quota: str) -> None:
    text = context.parameters[name]
    violations = policy_documents.violations(text, kind)
    if violations:
        raise AwsError("MalformedPolicyDocument", violations[0], 400)
    if kind is policy_documents.TRUST:
        missing = policy_documents.missing_principals(text, context.account, lambda arn: principal_exists(context, arn))
        if missing:
            raise AwsError("MalformedPolicyDocument", f'Invalid principal in policy: "AWS":"{missing[0]}"', 400)
    if policy_documents.compact_length(text) > longest:
        raise AwsError("LimitExceeded", f"Cannot exceed quota for {quota}: {longest}", 409)


def check_trust_policy(name: str) -> Callable[[RequestContext], Response]:
    """Return a handler that validates a trust policy."""

    def response(context: RequestContext) -> Response:
        _check_document(context, name, policy_documents.TRUST, TRUST_LENGTH, "ACLSizePerRole")
        return context.forward()

    return response


def check_managed_policy(context: RequestContext) -> Response:
    """Validate a managed policy."""
    _check_document(context, "PolicyDocument", policy_documents.IDENTITY, MANAGED_LENGTH, "PolicySize")
    return context.forward()


def put_inline_policy(context: RequestContext) -> Response:
    """Validate an inline policy; all of a role's inline policies share one quota."""
    parameters = context.parameters
    _check_document(context, "PolicyDocument", policy_documents.IDENTITY, INLINE_LENGTH, "RolePolicySize")
    role = next((role for role in context.backend("iam").roles.values() if role.name == parameters["RoleName"]), None)
    if role is not None:
        others = (text for name, text in role.policies.items() if name != parameters["PolicyName"])
        total = sum(map(policy_documents.compact_length, [*others, parameters["PolicyDocument"]]))
        if total > INLINE_LENGTH:
            text = f"Maximum policy size of {INLINE_LENGTH} bytes exceeded for role {role.name}"
            raise AwsError("LimitExceeded", text, 409)
    return context.forward()


def attach_policy(context: RequestContext) -> Response:
    """Attach a policy to a role within the quota."""
    role = next(
        (role for role in context.backend("iam").roles.values() if role.name == context.parameters["RoleName"]), None
    )
    attached = [] if role is None else [arn for arn in role.managed_policies if arn != context.parameters["PolicyArn"]]
    if len(attached) >= ATTACHED:
        raise AwsError("LimitExceeded", f"Cannot exceed quota for PoliciesPerRole: {ATTACHED}", 409)
    return context.forward()


def delete_policy(context: RequestContext) -> Response:
    """Delete a policy that is not attached and has only its default version."""
    policy = context.backend("iam").managed_policies.get(context.parameters["PolicyArn"])
    if policy is not None:
        if policy.attachment_count:
            raise AwsError("DeleteConflict", "Cannot delete a policy attached to entities.", 409)
        if len(policy.versions) > 1:
            text = "This policy has more than one version. Before you delete a policy, you must delete the policy's "
            raise AwsError("DeleteConflict", f"{text}versions. The default version is deleted with the policy.", 409)
    return context.forward()


def delete_profile(context: RequestContext) -> Response:
    """Delete an instance profile without a role."""
    profile = next(
        (
            profile
            for profile in context.backend("iam").instance_profiles.values()
            if profile.name == context.parameters["InstanceProfileName"]
        ),
        None,
    )
    if profile is not None and profile.roles:
        raise AwsError("DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.", 409)
    return context.forward()


def add_role(context: RequestContext) -> Response:
    """Add the only role of an instance profile."""
    for profile in context.backend("iam").instance_profiles.values():
        if profile.name == context.parameters["InstanceProfileName"] and profile.roles:
            raise AwsError("LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1", 409)
    return context.forward()


def create_oidc_provider(context: RequestContext) -> Response:
    """Create an OIDC provider with an https address."""
    if not context.parameters["Url"].startswith("https://"):
        raise AwsError("ValidationError", "Invalid Open ID Connect Provider URL", 400)
    return context.forward()


def create_service_linked_role(context: RequestContext) -> Response:
    """Create the role of a service, once in an account."""
    service = context.parameters["AWSServiceName"]
    path = f"/aws-service-role/{service}/"
    if any(role.path == path for role in context.backend("iam").roles.values()):
        text = f"Service role name of {service} has been taken in this account, please try a different suffix."
        raise AwsError("InvalidInput", text, 400)
    return context.forward()


ROWS = (
    OperationHandler("iam", "CreateServiceLinkedRole", create_service_linked_role),
    OperationHandler("iam", "CreateRole", check_trust_policy("AssumeRolePolicyDocument")),
    OperationHandler("iam", "UpdateAssumeRolePolicy", check_trust_policy("PolicyDocument")),
    OperationHandler("iam", "CreatePolicy", check_managed_policy),
    OperationHandler("iam", "CreatePolicyVersion", check_managed_policy),
    OperationHandler("iam", "DeletePolicy", delete_policy),
    OperationHandler("iam", "PutRolePolicy", put_inline_policy),
    OperationHandler("iam", "AttachRolePolicy", attach_policy),
    OperationHandler("iam", "DeleteInstanceProfile", delete_profile),
    OperationHandler("iam", "AddRoleToInstanceProfile", add_role),
    OperationHandler("iam", "CreateOpenIDConnectProvider", create_oidc_provider),
)
