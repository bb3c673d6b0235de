"""IAM, rights: what the policies of roles allow, and how far a role that sandboxes can take on could ever go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from agentenv.core.iam.arn_patterns import (
    BUCKETS,
    CLUSTERS,
    ENTRIES,
    FILE_SYSTEMS,
    FILES,
    FUNCTIONS,
    GROUPS,
    INSTANCES,
    KEYS,
    PARAMETERS,
    POLICIES,
    ROLES,
    SECRETS,
    USERS,
    Kind,
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
    arns_of,
    attached,
    aws_policy,
    documents_of,
    inline,
    role_assignments,
)
from agentenv.policies.view.iam.statements import Statement, statements, unknown_in
from agentenv.policies.view.references import reference, with_listed
from agentenv.policies.view.resource import Resource

# Broad whatever their name says; those that end in FullAccess are besides.
BROAD: Final = frozenset(
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
# What nobody needs on every one of its kind: it makes the caller, or somebody that it is, whatever it likes, or it
# reads everybody's secrets and files.
RISKY: Final[Mapping[Kind, tuple[str, ...]]] = {
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
    ENTRIES: ("eks:AssociateAccessPolicy",),
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
    FILES: ("s3:GetObject",),
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
def rights(resource: Resource, graph: Graph) -> Iterator[Outcome]:
    """Statements that allow, each by itself; what another one denies, people forget."""
    for document in documents_of(resource):
        if document.missing or unknown_in(document) is not None:
            yield unknown(document)
            continue
        for one in statements(document):
            if one.field.unknown or one.allows is None:
                yield unknown(one.field)
            elif one.allows:
                yield from _excess(one)
    for arn in arns_of(resource):
        if arn.unknown and not graph.targets(resource, arn.path.partition("[")[0], POLICY):
            yield unknown(arn)
        elif (name := aws_policy(arn)) is not None and (name in BROAD or name.endswith("FullAccess")):
            yield fail(arn, f"AWS's policy {name} allows far more than any role of a sandbox platform needs")
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
    """A role is the nodes' where a node group, an instance profile, a node class or an access entry names it."""
    for role in graph.of_type(ROLE):
        answer = _of_nodes(graph, role)
        if isinstance(answer, Field):
            yield unknown(answer, f"whether '{role.name}' is the role of nodes is not known yet")
        if answer is not True:
            continue
        for arn in attached(graph, role):
            name = aws_policy(arn)
            if arn.unknown:
                yield unknown(arn)
            elif name is None or name not in NODE_POLICIES:
                yield fail(arn, f"gives nodes {name or 'a policy beside those of AWS'}")
        yield from (fail(one.root, "writes a policy into the role of nodes") for one in inline(graph, role))


def _excess(one: Statement) -> Iterator[Outcome]:
    """What is too much about a statement; the first reason is enough."""
    field = one.field
    if one.has("NotAction"):
        yield fail(field.at("NotAction"), "allows every action but a few")
        return
    if one.has("NotResource"):
        yield fail(field.at("NotResource"), "allows every resource but a few")
        return
    doubt = False
    for action in one.patterns("Action"):
        text = action.raw
        if not isinstance(text, str):
            doubt = True
        elif not text.strip("*:"):
            yield fail(action, "allows every action")
            return
        elif text.endswith(":*") and one.anything and not one.bound:
            words = f"allows every action of {text.partition(':')[0]} on everything"
            yield unknown(field.at("Condition")) if one.bound is None else fail(action, words)
            return
    if doubt and one.anything is not False and not one.bound:
        yield unknown(field.at("Action"))
        return
    yield from islice(_on_every_one(one), 1)


def _on_every_one(one: Statement) -> Iterator[Outcome]:
    """The actions that it allows on every one of their kind; what is sure comes before what is not known."""
    unsure: Field | None = None
    for kind, actions in RISKY.items():
        if (whole := one.every(kind)) is False:
            continue
        for action in actions:
            # A condition on the service that a role is passed to leaves all roles in
            bound = False if action == PASS_ROLE else one.bound
            if bound or not one.does(action):
                continue
            if whole and bound is False:
                passes = "passes any role to whatever it starts"
                yield fail(
                    one.field.at("Action"), passes if action == PASS_ROLE else f"allows {action} on every {kind.word}"
                )
            unsure = unsure or one.field.at("Condition" if bound is None else "Resource")
    if unsure is not None:
        yield unknown(unsure)


def _boundary(graph: Graph, role: Resource) -> Iterator[Outcome]:
    boundary = role.at("permissionsBoundary")
    if not boundary.missing and boundary.raw != "":
        return
    answers = [(one.role.refers_to(role), one.is_for_tenants(graph)) for one in role_assignments(graph)]
    if (True, True) in answers or _trusts_sandboxes(role):
        yield fail(boundary, "is a role of sandboxes that nothing bounds")
    elif (None, True) in answers or (True, None) in answers:
        yield unknown(boundary, "whether it is a role of sandboxes is not known yet")


def _trusts_sandboxes(role: Resource) -> bool:
    document = role.at("assumeRolePolicy")
    if unknown_in(document) is not None or document.missing:
        return False
    subjects = (
        str(value.raw)
        for one in statements(document)
        for condition in one.conditions
        if condition.key.endswith((":sub", "kubernetes-namespace"))
        for value in condition.values
    )
    return any(text.startswith(("system:serviceaccount:sandbox-", "sandbox-")) for text in subjects)


def _of_nodes(graph: Graph, role: Resource) -> bool | Field:
    """Whether nodes have it; the field by which nobody can tell."""
    users: list[tuple[Resource, str]] = [(one, "nodeRoleArn") for one in graph.of_type(NODES)]
    users += [(one, "role") for one in graph.of_type(PROFILE)]
    users += [(one, "principalArn") for one in graph.of_type(ENTRY) if str(one.at("type").raw).startswith("EC2")]
    named_by = [reference(graph, one, (key,), ROLE) for one, key in users]
    answers = [one.refers_to(role) for one in named_by]
    if True in answers:
        return True
    for thing in graph.objects("karpenter.k8s.aws", "EC2NodeClass"):
        named = with_listed(graph, graph.targets(thing.resource, "spec", ROLE), _listed(thing.at("spec", "role")), ROLE)
        if role in named:
            return True
    if None in answers and (arns := [*attached(graph, role), *inline(graph, role)]):
        return named_by[answers.index(None)].field if arns else False
    return False


def _listed(field: Field) -> Field:
    return Field(field.urn, field.path, [] if field.missing else [field.raw])
