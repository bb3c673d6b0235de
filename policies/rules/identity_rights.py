"""IAM, rights: what the policies of roles allow, and how far a role that sandboxes can take on could ever go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policies.rules.registry import GRAPH, Outcome, fail, resources, rule, unknown
from policies.view.fields import Field
from policies.view.graph import Graph
from policies.view.references import among, reference
from policies.view.resource import Resource
from policies.view.roles import (
    ATTACHMENTS,
    INLINE,
    POLICY,
    ROLE,
    attached,
    aws_policy,
    bearers,
    documents_of,
    inline,
)
from policies.view.statements import Statement, like, statements, unknown_in

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
# With any of these a caller gives itself, or somebody that it is, whatever it likes.
ESCALATION: Final = (
    "iam:AddUserToGroup",
    "iam:AttachGroupPolicy",
    "iam:AttachRolePolicy",
    "iam:AttachUserPolicy",
    "iam:CreateAccessKey",
    "iam:CreateLoginProfile",
    "iam:CreatePolicyVersion",
    "iam:PutGroupPolicy",
    "iam:PutRolePolicy",
    "iam:PutUserPolicy",
    "iam:SetDefaultPolicyVersion",
    "iam:UpdateAssumeRolePolicy",
    "iam:UpdateLoginProfile",
    "sts:AssumeRole",
)
# What reads everybody's secrets and files.
READING: Final = ("secretsmanager:GetSecretValue", "ssm:GetParameter", "s3:GetObject", "kms:Decrypt")
PASS_ROLE: Final = "iam:PassRole"  # noqa: S105 - an action
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
    title="No role may do more than it was made for",
    severity="Critical",
    why="A star in a policy is every action and every resource that there is or will be, and with the passing of roles"
    " or the writing of policies a caller becomes whoever it likes.",
    do="List actions and resources one by one, and conditions where a resource cannot be named; set a"
    " permissionsBoundary on roles that sandboxes take on.",
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
            "CKV_AWS_355",
        ),
        "Security Hub": ("IAM.1", "IAM.21"),
    },
    about=resources(ROLE, POLICY, *INLINE, *ATTACHMENTS),
    defaults="A policy allows nothing that it does not say, and a role has no boundary where nothing is said (IAM"
    " documents).",
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
    arns = resource.at("managedPolicyArns").elements()
    if resource.type in ATTACHMENTS:
        arns = [resource.at("policyArn")]
    for arn in arns:
        if arn.unknown and not graph.targets(resource, arn.path.partition("[")[0], POLICY):
            yield unknown(arn)
        elif (name := aws_policy(arn)) is not None and (name in BROAD or name.endswith("FullAccess")):
            yield fail(arn, f"AWS's policy {name} allows far more than any role of a sandbox platform needs")
    if resource.type == ROLE:
        yield from _boundary(graph, resource)


@rule(
    id="IAM-07",
    title="The role of nodes allows what a kubelet needs, and no more",
    severity="High",
    why="What a node's role may do, everybody may who gets out of one container, or whose container reaches metadata.",
    do="Attach AmazonEKSWorkerNodePolicy, AmazonEC2ContainerRegistryPullOnly and the CNI's policy only; give what runs"
    " on nodes roles of its own.",
    equivalents={"AWS": ("EKS best practices: restrict access to the instance profile",)},
    about=GRAPH,
    defaults="A role has no policies where nothing is attached.",
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
    anything = one.anything
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
        elif text.endswith(":*") and anything and not one.conditional:
            yield fail(action, f"allows every action of {text.partition(':')[0]} on everything")
            return
    if doubt and anything is not False and not one.conditional:
        yield unknown(field.at("Action"))
        return
    if anything is None and any(like(word, str(one_.raw)) for word in _RISKY for one_ in one.patterns("Action")):
        yield unknown(field.at("Resource"))
        return
    if one.does(PASS_ROLE) and _every_role(one):
        yield fail(field.at("Action"), "passes any role to whatever it starts")
    elif anything and not one.conditional:
        hit = next((word for word in (*ESCALATION, *READING) if one.does(word)), None)
        if hit is not None:
            yield fail(field.at("Action"), f"allows {hit} on everything")


_RISKY: Final = (PASS_ROLE, *ESCALATION, *READING)


def _every_role(one: Statement) -> bool:
    """On every role there is, in the account or anywhere; a condition on the service leaves all roles in."""
    found = [str(resource.raw) for resource in one.patterns("Resource")]
    return bool(one.anything) or any(text.rpartition(":")[2] in {"role/*", "*"} for text in found)


def _boundary(graph: Graph, role: Resource) -> Iterator[Outcome]:
    boundary = role.at("permissionsBoundary")
    if not boundary.missing and boundary.raw != "":
        return
    answers = [(one.role.names(role), one.tenants(graph)) for one in bearers(graph)]
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
    answers = [one.names(role) for one in named_by]
    if True in answers:
        return True
    for thing in graph.objects("karpenter.k8s.aws", "EC2NodeClass"):
        named = among(graph, graph.targets(thing.resource, "spec", ROLE), _listed(thing.at("spec", "role")), ROLE)
        if role in named:
            return True
    if None in answers and (arns := [*attached(graph, role), *inline(graph, role)]):
        return named_by[answers.index(None)].field if arns else False
    return False


def _listed(field: Field) -> Field:
    return Field(field.urn, field.path, [] if field.missing else [field.raw])
