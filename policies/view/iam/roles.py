"""IAM roles of the stack: their policies, and the service accounts that can assume them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from agentenv.core.capabilities.unknown_values import UNKNOWN, Unknown
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.references import Reference, reference
from agentenv.policies.view.resource import Resource
from agentenv.policies.view.tenants.namespaces import find_namespace, namespace_of

ROLE: Final = "aws:iam/role:Role"
POLICY: Final = "aws:iam/policy:Policy"
ATTACHMENTS: Final = (
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
    "aws:iam/userPolicyAttachment:UserPolicyAttachment",
    "aws:iam/groupPolicyAttachment:GroupPolicyAttachment",
    "aws:iam/policyAttachment:PolicyAttachment",
)
OF_ROLES: Final = ATTACHMENTS[0]
# Resources with the complete list of attached policies
EXCLUSIVE: Final = (
    "aws:iam/rolePolicyAttachmentsExclusive:RolePolicyAttachmentsExclusive",
    "aws:iam/userPolicyAttachmentsExclusive:UserPolicyAttachmentsExclusive",
    "aws:iam/groupPolicyAttachmentsExclusive:GroupPolicyAttachmentsExclusive",
)
ROLE_POLICY: Final = "aws:iam/rolePolicy:RolePolicy"
INLINE: Final = (ROLE_POLICY, "aws:iam/userPolicy:UserPolicy", "aws:iam/groupPolicy:GroupPolicy")
ASSOCIATION: Final = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
ROLE_ANNOTATION: Final = "eks.amazonaws.com/role-arn"


@dataclass(frozen=True)
class RoleAssignment:
    """A service account with a role: by Pod Identity (`association`), or by an annotation."""

    role: Reference
    namespace: str | Unknown
    account: Field
    association: Resource | None

    def is_for_tenants(self, graph: Graph) -> bool | None:
        """Return whether it is for sandboxes; None if its namespace is not known."""
        namespace = find_namespace(graph, self.namespace)
        return None if namespace is None else namespace.has_tenants


@once_per_graph
def role_assignments(graph: Graph) -> list[RoleAssignment]:
    """Return all service accounts with a role."""
    assignments: list[RoleAssignment] = []
    for association in graph.of_type(ASSOCIATION):
        field = association.at("namespace")
        targets = graph.targets(association, "namespace", "kubernetes:core/v1:Namespace") if field.unknown else []
        namespace = field.raw if isinstance(field.raw, str) else UNKNOWN
        if len(targets) == 1:
            name = targets[0].objects[0].name.raw
            namespace = name if isinstance(name, str) else targets[0].urn
        role = reference(graph, association, ("roleArn",), ROLE)
        assignments.append(RoleAssignment(role, namespace, association.at("serviceAccount"), association))
    for item in graph.objects("", "ServiceAccount"):
        field = item.at("metadata", "annotations", ROLE_ANNOTATION)
        if not field.missing and not item.patch:
            role = reference(graph, item.resource, ("metadata", "annotations", ROLE_ANNOTATION), ROLE)
            assignments.append(RoleAssignment(role, namespace_of(graph, item), item.name, None))
    return assignments


def documents_of(resource: Resource) -> Iterator[Field]:
    """Yield the permission policies that are part of a resource itself, and no trust policies."""
    if resource.type == ROLE:
        yield from (policy.at("policy") for policy in resource.at("inlinePolicies").elements())
    elif resource.type in {POLICY, *INLINE}:
        yield resource.at("policy")


def attached_arns(resource: Resource) -> list[Field]:
    """Return the ARNs of the managed policies that a resource attaches."""
    if resource.type in ATTACHMENTS:
        return [resource.at("policyArn")]
    return resource.at("policyArns" if resource.type in EXCLUSIVE else "managedPolicyArns").elements()


def policies_attached_to(graph: Graph, role: Resource) -> Iterator[Field]:
    """Yield the ARNs of the managed policies of a role, from any resource."""
    yield from role.at("managedPolicyArns").elements()
    for attachment in graph.of_type(OF_ROLES):
        if reference(graph, attachment, ("role",), ROLE).refers_to(role):
            yield attachment.at("policyArn")
    for attachments in graph.of_type(EXCLUSIVE[0]):
        if reference(graph, attachments, ("roleName",), ROLE).refers_to(role):
            yield from attached_arns(attachments)


def inline_policies_of(graph: Graph, role: Resource) -> Iterator[Resource]:
    """Yield the resources with inline policies of a role."""
    if role.at("inlinePolicies").elements():
        yield role
    for policy in graph.of_type(ROLE_POLICY):
        if reference(graph, policy, ("role",), ROLE).refers_to(role):
            yield policy


def aws_policy_name(arn: Field) -> str | None:
    """Return the name of an AWS managed policy, without its path; None for other or unknown policies."""
    if not isinstance(arn.raw, str) or ":iam::aws:policy/" not in arn.raw:
        return None
    return arn.raw.rpartition("/")[2]
