"""IAM: documents that IAM would not take, quotas, and what may not go while it is in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentenv.rehearsal.cloud.iam import policy_documents as policy_text
from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Answer, Refused
from agentenv.rehearsal.cloud.rows.eks_common import principal_exists

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentenv.rehearsal.cloud.request_context import Desk

TRUST_LENGTH, INLINE_LENGTH, MANAGED_LENGTH = 2048, 10240, 6144
ATTACHED = 10


def _document(desk: Desk, name: str, kind: policy_text.Kind, longest: int, quota: str) -> None:
    text = desk.asked[name]
    found = policy_text.faults(text, kind)
    if found:
        raise Refused("MalformedPolicyDocument", found[0], 400)
    if kind is policy_text.TRUST:
        missing = policy_text.missing_principals(text, desk.account, lambda arn: principal_exists(desk, arn))
        if missing:
            raise Refused("MalformedPolicyDocument", f'Invalid principal in policy: "AWS":"{missing[0]}"', 400)
    if policy_text.compact_length(text) > longest:
        raise Refused("LimitExceeded", f"Cannot exceed quota for {quota}: {longest}", 409)


def trust(name: str) -> Callable[[Desk], Answer]:
    """A document that says who may take a role."""

    def answer(desk: Desk) -> Answer:
        _document(desk, name, policy_text.TRUST, TRUST_LENGTH, "ACLSizePerRole")
        return desk.forward()

    return answer


def managed(desk: Desk) -> Answer:
    """A policy of its own."""
    _document(desk, "PolicyDocument", policy_text.IDENTITY, MANAGED_LENGTH, "PolicySize")
    return desk.forward()


def inline(desk: Desk) -> Answer:
    """A policy inside a role; all of a role's inline policies share one quota."""
    asked = desk.asked
    _document(desk, "PolicyDocument", policy_text.IDENTITY, INLINE_LENGTH, "RolePolicySize")
    role = next((one for one in desk.backend("iam").roles.values() if one.name == asked["RoleName"]), None)
    if role is not None:
        others = (text for name, text in role.policies.items() if name != asked["PolicyName"])
        total = sum(map(policy_text.compact_length, [*others, asked["PolicyDocument"]]))
        if total > INLINE_LENGTH:
            text = f"Maximum policy size of {INLINE_LENGTH} bytes exceeded for role {role.name}"
            raise Refused("LimitExceeded", text, 409)
    return desk.forward()


def attach(desk: Desk) -> Answer:
    """As many policies to a role as the quota allows."""
    role = next((one for one in desk.backend("iam").roles.values() if one.name == desk.asked["RoleName"]), None)
    attached = [] if role is None else [arn for arn in role.managed_policies if arn != desk.asked["PolicyArn"]]
    if len(attached) >= ATTACHED:
        raise Refused("LimitExceeded", f"Cannot exceed quota for PoliciesPerRole: {ATTACHED}", 409)
    return desk.forward()


def delete_policy(desk: Desk) -> Answer:
    """A policy goes when nothing has it and only its default version is left."""
    policy = desk.backend("iam").managed_policies.get(desk.asked["PolicyArn"])
    if policy is not None:
        if policy.attachment_count:
            raise Refused("DeleteConflict", "Cannot delete a policy attached to entities.", 409)
        if len(policy.versions) > 1:
            text = "This policy has more than one version. Before you delete a policy, you must delete the policy's "
            raise Refused("DeleteConflict", f"{text}versions. The default version is deleted with the policy.", 409)
    return desk.forward()


def delete_profile(desk: Desk) -> Answer:
    """An instance profile goes without its role."""
    profile = next(
        (
            one
            for one in desk.backend("iam").instance_profiles.values()
            if one.name == desk.asked["InstanceProfileName"]
        ),
        None,
    )
    if profile is not None and profile.roles:
        raise Refused("DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.", 409)
    return desk.forward()


def add_role(desk: Desk) -> Answer:
    """An instance profile has one role."""
    for profile in desk.backend("iam").instance_profiles.values():
        if profile.name == desk.asked["InstanceProfileName"] and profile.roles:
            raise Refused("LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1", 409)
    return desk.forward()


def provider(desk: Desk) -> Answer:
    """An OIDC provider is known by an https address."""
    if not desk.asked["Url"].startswith("https://"):
        raise Refused("ValidationError", "Invalid Open ID Connect Provider URL", 400)
    return desk.forward()


ROWS = (
    Row("iam", "CreateRole", trust("AssumeRolePolicyDocument")),
    Row("iam", "UpdateAssumeRolePolicy", trust("PolicyDocument")),
    Row("iam", "CreatePolicy", managed),
    Row("iam", "CreatePolicyVersion", managed),
    Row("iam", "DeletePolicy", delete_policy),
    Row("iam", "PutRolePolicy", inline),
    Row("iam", "AttachRolePolicy", attach),
    Row("iam", "DeleteInstanceProfile", delete_profile),
    Row("iam", "AddRoleToInstanceProfile", add_role),
    Row("iam", "CreateOpenIDConnectProvider", provider),
)
