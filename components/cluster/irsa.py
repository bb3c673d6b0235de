"""Roles that a service account of the cluster takes on: for it alone, by the cluster's own tokens or by its agent."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import pulumi
from pulumi_aws import iam

from agentenv.components._lib import iam_policies
from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.iam_policies import Document
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.planned_documents import (
    PLACEHOLDER_ISSUER_URL,
    PLACEHOLDER_PROVIDER_ARN,
    PlannedDocument,
    PlannedDocuments,
)
from agentenv.components._lib.tags import Labels

AUDIENCE = "sts.amazonaws.com"


@dataclass(frozen=True)
class Issuer:
    """Who signs the tokens of a cluster's service accounts, as IAM knows it."""

    provider_arn: pulumi.Output[str]
    url: pulumi.Output[str]


@dataclass(frozen=True)
class ServiceAccount:
    """A service account."""

    namespace: str
    name: str

    @property
    def subject(self) -> str:
        """What its tokens call it."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


def irsa_trust_policy(provider_arn: str, url: str, bearer: ServiceAccount) -> Document:
    """Who may take on a role: whoever brings a token of this very account that was made for AWS and nothing else."""
    host = url.removeprefix("https://")
    return iam_policies.document(
        {
            "Sid": "OneServiceAccount",
            "Effect": "Allow",
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Principal": {"Federated": provider_arn},
            "Condition": {"StringEquals": {f"{host}:aud": AUDIENCE, f"{host}:sub": bearer.subject}},
        }
    )


def pod_identity_trust_policy(aws: AwsContext, cluster: str, bearer: ServiceAccount) -> Document:
    """Who may take on a role: EKS, for this very account of this cluster; it says whom it acts for in its tags."""
    return iam_policies.document(
        {
            "Sid": "OneServiceAccount",
            "Effect": "Allow",
            "Action": ["sts:AssumeRole", "sts:TagSession"],
            "Principal": {"Service": "pods.eks.amazonaws.com"},
            "Condition": {
                "StringEquals": {
                    "aws:SourceAccount": aws.account,
                    "aws:RequestTag/kubernetes-namespace": bearer.namespace,
                    "aws:RequestTag/kubernetes-service-account": bearer.name,
                },
                "ArnEquals": {"aws:SourceArn": aws.arn("eks", f"cluster/{cluster}")},
            },
        }
    )


@dataclass(frozen=True)
class Roles:
    """How the roles of one component are made: all the same way, within the boundary where there is one."""

    labels: Labels
    child: ChildOptions
    boundary: str | None
    planned_documents: PlannedDocuments = field(default_factory=PlannedDocuments)

    def create_role(self, suffix: str, description: str, trust: pulumi.Input[str] | PlannedDocument) -> iam.Role:
        """A role that may do nothing yet."""
        if isinstance(trust, PlannedDocument):
            self.planned_documents.add(
                "aws:iam/role:Role", f"{self.labels.base}-{suffix}", "assumeRolePolicy", trust.planned
            )
            trust = trust.json
        return iam.Role(
            f"{self.labels.base}-{suffix}",
            name=self.labels.name("iam-role", suffix),
            description=description,
            assume_role_policy=trust,
            permissions_boundary=self.boundary,
            tags=self.labels.tags(suffix),
            opts=self.child(),
        )

    def add_policy(self, role: iam.Role, suffix: str, policy: pulumi.Input[str] | PlannedDocument) -> iam.RolePolicy:
        """What it may do, by a policy of ours."""
        if isinstance(policy, PlannedDocument):
            self.planned_documents.add(
                "aws:iam/rolePolicy:RolePolicy", f"{self.labels.base}-{suffix}", "policy", policy.planned
            )
            policy = policy.json
        return iam.RolePolicy(
            f"{self.labels.base}-{suffix}", name=suffix, role=role.name, policy=policy, opts=self.child()
        )

    def attach_policies(self, role: iam.Role, suffix: str, policies: Sequence[str]) -> None:
        """What it may do, by policies that stand already.

        Two accounts, or two paths of one, may each have a policy of one name. Each is called by its whole ARN, so that
        one more or less renames none: a policy under a new name is attached before it is detached under the old one,
        and gone then. The first of a name was once called by that alone.
        """
        known: set[str] = set()
        for arn in policies:
            word = arn.rsplit("/", 1)[-1]
            former = [] if word in known else [pulumi.Alias(name=f"{self.labels.base}-{suffix}-{word}")]
            known.add(word)
            iam.RolePolicyAttachment(
                f"{self.labels.base}-{suffix}-{word}-{sha256(arn.encode()).hexdigest()[:8]}",
                role=role.name,
                policy_arn=arn,
                opts=self.child(pulumi.ResourceOptions(aliases=former)),
            )

    def attach_aws_policies(
        self, role: iam.Role, suffix: str, aws: pulumi.Output[AwsContext], policies: Sequence[str]
    ) -> list[pulumi.Resource]:
        """What it may do, by policies of AWS, which follow what its services need."""
        return [
            iam.RolePolicyAttachment(
                f"{self.labels.base}-{suffix}-{policy.rsplit('/', 1)[-1]}",
                role=role.name,
                policy_arn=aws.apply(
                    lambda context, policy=policy: f"arn:{context.partition}:iam::aws:policy/{policy}"
                ),
                opts=self.child(),
            )
            for policy in policies
        ]

    def irsa_role(self, suffix: str, description: str, issuer: Issuer, bearer: ServiceAccount) -> iam.Role:
        """A role for the account's tokens: works wherever the pod runs, Fargate and gVisor included."""
        trust = pulumi.Output.all(issuer.provider_arn, issuer.url).apply(
            lambda known: iam_policies.to_json(irsa_trust_policy(known[0], known[1], bearer))
        )
        says = irsa_trust_policy(PLACEHOLDER_PROVIDER_ARN, PLACEHOLDER_ISSUER_URL, bearer)
        self.planned_documents.add("aws:iam/role:Role", f"{self.labels.base}-{suffix}", "assumeRolePolicy", says)
        return self.create_role(suffix, description, trust)

    def pod_identity_role(
        self, suffix: str, description: str, aws: pulumi.Output[AwsContext], cluster: str, bearer: ServiceAccount
    ) -> iam.Role:
        """A role that the agent on the node hands out: for pods on nodes, and tied to the cluster by name."""
        return self.create_role(
            suffix,
            description,
            aws.apply(lambda context: iam_policies.to_json(pod_identity_trust_policy(context, cluster, bearer))),
        )
