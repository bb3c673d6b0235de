"""IAM rules about permissions: policies that grant too much, boundaries, and the role of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from agentenv.core.iam.arn_patterns import (
    ACCESS_ENTRIES,
    BUCKETS,
    CLUSTERS,
    FILE_SYSTEMS,
    FUNCTIONS,
    GROUPS,
    INSTANCES,
    KEYS,
    OBJECTS,
    PARAMETERS,
    POLICIES,
    ROLES,
    SECRETS,
    USERS,
    ResourceKind,
)
from agentenv.policies.rules.registry import GRAPH, Outcome, fail, resources, rule, unknown
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.iam.roles import (
    ATTACHMENTS,
    EXCLUSIVE,
    INLINE,
    POLICY,
    ROLE,
    attached_arns,
    aws_policy_name,
    documents_of,
    inline_policies_of,
    policies_attached_to,
    role_assignments,
)
from agentenv.policies.view.iam.statements import Statement, one_or_more, statements, unknown_in
from agentenv.policies.view.references import reference, with_listed
from agentenv.policies.view.resource import Resource

# AWS managed policies that grant too much, besides those whose name ends in FullAccess
BROAD_POLICIES: Final = frozenset(
    {
        "AdministratorAccess",
        "AmazonEC2RoleforSSM",
        "AmazonS3ReadOnlyAccess",
        "AmazonDynamoDBReadOnlyAccess",
        "DatabaseAdministrator",
        "NetworkAdministrator",
        "PowerUserAccess",
        "ReadOnlyAccess",
        "SecretsManagerReadWrite",
        "SystemAdministrator",
    }
)
PASS_ROLE: Final = "iam:PassRole"  # noqa: S105 - an action
# Actions that nobody needs for every resource of a kind: they escalate privileges, or read all secrets or files
RISKY: Final[Mapping[ResourceKind, tuple[str, ...]]] = {
    ROLES: (
        PASS_ROLE,
        "iam:AttachRolePolicy",
        "iam:DeleteRolePermissionsBoundary",
        "iam:PutRolePermissionsBoundary",
        "iam:PutRolePolicy",
        "iam:UpdateAssumeRolePolicy",
        "sts:AssumeRole",
    ),
    USERS: (
        "iam:AttachUserPolicy",
        "iam:CreateAccessKey",
        "iam:CreateLoginProfile",
        "iam:DeleteUserPermissionsBoundary",
        "iam:PutUserPermissionsBoundary",
        "iam:PutUserPolicy",
        "iam:UpdateLoginProfile",
    ),
    GROUPS: ("iam:AddUserToGroup", "iam:AttachGroupPolicy", "iam:PutGroupPolicy"),
    POLICIES: ("iam:CreatePolicyVersion", "iam:SetDefaultPolicyVersion"),
    CLUSTERS: ("eks:CreateAccessEntry",),
    ACCESS_ENTRIES: ("eks:AssociateAccessPolicy",),
    INSTANCES: ("ssm:SendCommand", "ssm:StartSession"),
    FUNCTIONS: ("lambda:UpdateFunctionCode",),
    FILE_SYSTEMS: (
        "elasticfilesystem:ClientMount",
        "elasticfilesystem:ClientRootAccess",
        "elasticfilesystem:PutFileSystemPolicy",
    ),
    SECRETS: ("secretsmanager:BatchGetSecretValue", "secretsmanager:GetSecretValue"),
    PARAMETERS: ("ssm:GetParameter", "ssm:GetParameterHistory", "ssm:GetParameters", "ssm:GetParametersByPath"),
    BUCKETS: ("s3:PutBucketPolicy",),
    OBJECTS: ("s3:GetObject",),
    KEYS: ("kms:CreateGrant", "kms:Decrypt", "kms:PutKeyPolicy"),
}
NODE_POLICIES: Final = frozenset(
    {
        "AmazonEKSWorkerNodePolicy",
        "AmazonEKSWorkerNodeMinimalPolicy",
        "AmazonEKS_CNI_Policy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonEC2ContainerRegistryReadOnly",
        "AmazonSSMManagedInstanceCore",
        "CloudWatchAgentServerPolicy",
    }
)
PROFILE, NODES = "aws:iam/instanceProfile:InstanceProfile", "aws:eks/nodeGroup:NodeGroup"
ENTRY: Final = "aws:eks/accessEntry:AccessEntry"


@rule(
    id="IAM-05",
    title="IAM policies grant only what is needed",
    severity="Critical",
    why="A wildcard includes every action and resource, also future ones. With permissions to pass roles or write"
    " policies, a caller can get any permission.",
    fix="List actions and resources, and add conditions if a resource cannot be named. Set a permissionsBoundary on the"
    " roles of sandboxes.",
    equivalents={
        "Checkov": (
            "CKV_AWS_62",
            "CKV_AWS_63",
            "CKV_AWS_286",
            "CKV_AWS_287",
            "CKV_AWS_288",
            "CKV_AWS_289",
            "CKV_AWS_290",
            "CKV_AWS_274",
        ),
        "Security Hub": ("IAM.1", "IAM.21"),
    },
    applies_to=resources(ROLE, POLICY, *INLINE, *ATTACHMENTS, *EXCLUSIVE),
    defaults="A policy allows nothing by default, and a role has no boundary by default (IAM documents).",
)
def excessive_permissions(resource: Resource, graph: Graph) -> Iterator[Outcome]:
    """Check each allowing statement by itself, regardless of denying ones."""
    for document in documents_of(resource):
        if document.missing or unknown_in(document) is not None:
            yield unknown(document)
            continue
        for statement in statements(document):
            if statement.field.unknown or statement.allows is None:
                yield unknown(statement.field)
            elif statement.allows:
                yield from _excess(statement)
    for arn in attached_arns(resource):
        if arn.unknown and not graph.targets(resource, arn.path.partition("[")[0], POLICY):
            yield unknown(arn)
        elif (name := aws_policy_name(arn)) is not None and (name in BROAD_POLICIES or name.endswith("FullAccess")):
            yield fail(arn, f"the AWS managed policy {name} grants too much")
    if resource.type == ROLE:
        yield from _boundary(graph, resource)


@rule(
    id="IAM-07",
    title="The role of nodes has only the permissions that a kubelet needs",
    severity="High",
    why="After a container escape, or with access to instance metadata, a program has the permissions of the node's"
    " role.",
    fix="Attach only AmazonEKSWorkerNodePolicy, AmazonEC2ContainerRegistryPullOnly and the policy of the CNI. Use"
    " separate roles for programs on nodes.",
    equivalents={"AWS": ("EKS best practices: restrict access to the instance profile",)},
    applies_to=GRAPH,
    defaults="A role has no policies by default.",
)
def node_role(graph: Graph) -> Iterator[Outcome]:
    """Check roles that a node group, an instance profile, a node class or an access entry names."""
    for role in graph.of_type(ROLE):
        answer = _is_node_role(graph, role)
        if isinstance(answer, Field):
            yield unknown(answer, f"whether '{role.name}' is the role of nodes is not known yet")
        if answer is not True:
            continue
        for arn in policies_attached_to(graph, role):
            name = aws_policy_name(arn)
            if arn.unknown:
                yield unknown(arn)
            elif name is None or name not in NODE_POLICIES:
                yield fail(arn, f"gives nodes {name or 'a policy that is not an AWS managed one'}")
        for policy in inline_policies_of(graph, role):
            yield fail(policy.root, "adds an inline policy to the role of nodes")


def _excess(statement: Statement) -> Iterator[Outcome]:
    """Yield the first way in which a statement grants too much."""
    field = statement.field
    if statement.has("NotAction"):
        yield fail(field.at("NotAction"), "allows every action but a few")
        return
    if statement.has("NotResource"):
        yield fail(field.at("NotResource"), "allows every resource but a few")
        return
    has_unknown = False
    for action in one_or_more(field.at("Action")):
        text = action.raw
        if not isinstance(text, str):
            has_unknown = True
        elif not text.strip("*:"):
            yield fail(action, "allows every action")
            return
        elif text.endswith(":*") and statement.matches_all_resources and not statement.excludes_requests:
            message = f"allows every action of {text.partition(':')[0]} on every resource"
            yield unknown(field.at("Condition")) if statement.excludes_requests is None else fail(action, message)
            return
    if has_unknown and statement.matches_all_resources is not False and not statement.excludes_requests:
        yield unknown(field.at("Action"))
        return
    yield from islice(_risky_actions(statement), 1)


def _risky_actions(statement: Statement) -> Iterator[Outcome]:
    """Yield the risky actions on every resource of their kind; certain ones come before unknown ones."""
    doubt: Field | None = None
    for kind, actions in RISKY.items():
        if (all_match := statement.matches_all_of(kind)) is False:
            continue
        for action in actions:
            # A condition on the service to which a role is passed excludes no roles
            excludes = False if action == PASS_ROLE else statement.excludes_requests
            if excludes or not statement.matches_action(action):
                continue
            if all_match and excludes is False:
                message = f"allows {action} on every {kind.title}"
                if action == PASS_ROLE:
                    message = "allows passing every role to the services that it can use"
                yield fail(statement.field.at("Action"), message)
            doubt = doubt or statement.field.at("Condition" if excludes is None else "Resource")
    if doubt is not None:
        yield unknown(doubt)


def _boundary(graph: Graph, role: Resource) -> Iterator[Outcome]:
    boundary = role.at("permissionsBoundary")
    if not boundary.missing and boundary.raw != "":
        return
    answers = [(each.role.refers_to(role), each.is_for_tenants(graph)) for each in role_assignments(graph)]
    if (True, True) in answers or _trusts_sandboxes(role):
        yield fail(boundary, "is a role of sandboxes without a permissions boundary")
    elif (None, True) in answers or (True, None) in answers:
        yield unknown(boundary, "whether it is a role of sandboxes is not known yet")


def _trusts_sandboxes(role: Resource) -> bool:
    document = role.at("assumeRolePolicy")
    if unknown_in(document) is not None or document.missing:
        return False
    subjects = (
        str(value)
        for statement in statements(document)
        for condition in statement.conditions
        if condition.key.endswith((":sub", "kubernetes-namespace"))
        for value in condition.values
    )
    return any(subject.startswith(("system:serviceaccount:sandbox-", "sandbox-")) for subject in subjects)


def _is_node_role(graph: Graph, role: Resource) -> bool | Field:
    """Return whether nodes have a role; the deciding field if that is not known."""
    users: list[tuple[Resource, str]] = [(group, "nodeRoleArn") for group in graph.of_type(NODES)]
    users += [(profile, "role") for profile in graph.of_type(PROFILE)]
    users += [(entry, "principalArn") for entry in graph.of_type(ENTRY) if str(entry.at("type").raw).startswith("EC2")]
    references = [reference(graph, user, (key,), ROLE) for user, key in users]
    answers = [each.refers_to(role) for each in references]
    if True in answers:
        return True
    for node_class in graph.objects("karpenter.k8s.aws", "EC2NodeClass"):
        field = node_class.at("spec", "role")
        names = Field(field.urn, field.path, [] if field.missing else [field.raw])
        if role in with_listed(graph, graph.targets(node_class.resource, "spec", ROLE), names, ROLE):
            return True
    has_policies = bool([*policies_attached_to(graph, role), *inline_policies_of(graph, role)])
    return references[answers.index(None)].field if None in answers and has_policies else False
