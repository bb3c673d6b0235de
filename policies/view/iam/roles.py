"""IAM roles of the stack: what is attached to each, and which accounts of the cluster take them on."""

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
# Lists of all that is attached to one
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
    """An account that a role is given to, by a token of its own or by the agent on the node."""

    role: Reference
    namespace: str | Unknown
    account: Field
    association: Resource | None

    def is_for_tenants(self, graph: Graph) -> bool | None:
        """Whether sandboxes run as it; None where its namespace is not known."""
        space = find_namespace(graph, self.namespace)
        return None if space is None else space.has_tenants


@once_per_graph
def role_assignments(graph: Graph) -> list[RoleAssignment]:
    """All accounts that are given a role."""
    found: list[RoleAssignment] = []
    for one in graph.of_type(ASSOCIATION):
        space = one.at("namespace")
        targets = graph.targets(one, "namespace", "kubernetes:core/v1:Namespace") if space.unknown else []
        name = space.raw if isinstance(space.raw, str) else UNKNOWN
        if len(targets) == 1:
            made = targets[0].objects[0].name.raw
            name = made if isinstance(made, str) else targets[0].urn
        found.append(RoleAssignment(reference(graph, one, ("roleArn",), ROLE), name, one.at("serviceAccount"), one))
    for thing in graph.objects("", "ServiceAccount"):
        field = thing.at("metadata", "annotations", ROLE_ANNOTATION)
        if not field.missing and not thing.patch:
            role = reference(graph, thing.resource, ("metadata", "annotations", ROLE_ANNOTATION), ROLE)
            found.append(RoleAssignment(role, namespace_of(graph, thing), thing.name, None))
    return found


def documents_of(resource: Resource) -> Iterator[Field]:
    """The policies that are written in a resource itself: what they allow, not whom they trust."""
    if resource.type == ROLE:
        yield from (one.at("policy") for one in resource.at("inlinePolicies").elements())
    elif resource.type in {POLICY, *INLINE}:
        yield resource.at("policy")


def arns_of(resource: Resource) -> list[Field]:
    """The ARNs of policies that a resource attaches to something, or a role to itself."""
    if resource.type in ATTACHMENTS:
        return [resource.at("policyArn")]
    return resource.at("policyArns" if resource.type in EXCLUSIVE else "managedPolicyArns").elements()


def attached(graph: Graph, role: Resource) -> Iterator[Field]:
    """The ARNs of what is attached to a role, wherever that is written."""
    yield from role.at("managedPolicyArns").elements()
    for one in graph.of_type(OF_ROLES):
        if reference(graph, one, ("role",), ROLE).refers_to(role):
            yield one.at("policyArn")
    for one in graph.of_type(EXCLUSIVE[0]):
        if reference(graph, one, ("roleName",), ROLE).refers_to(role):
            yield from arns_of(one)


def inline(graph: Graph, role: Resource) -> Iterator[Resource]:
    """The resources that write a policy into a role."""
    if role.at("inlinePolicies").elements():
        yield role
    for one in graph.of_type(ROLE_POLICY):
        if reference(graph, one, ("role",), ROLE).refers_to(role):
            yield one


def aws_policy(arn: Field) -> str | None:
    """The name of a policy of AWS's own, without its path; None for another, or where it is not known."""
    if not isinstance(arn.raw, str) or ":iam::aws:policy/" not in arn.raw:
        return None
    return arn.raw.rpartition("/")[2]
