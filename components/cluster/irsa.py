"""IAM roles for service accounts, by OIDC tokens (IRSA) or by EKS Pod Identity; each role trusts one account only."""

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
from agentenv.core.iam.documents import policy_document

AUDIENCE = "sts.amazonaws.com"


@dataclass(frozen=True)
class Issuer:
    """The OIDC issuer of a cluster's service account tokens, and its IAM OIDC provider."""

    provider_arn: pulumi.Output[str]
    url: pulumi.Output[str]


@dataclass(frozen=True)
class ServiceAccount:
    """A Kubernetes service account."""

    namespace: str
    name: str

    @property
    def subject(self) -> str:
        """Return the `sub` claim of its tokens."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


def irsa_trust_policy(provider_arn: str, url: str, service_account: ServiceAccount) -> Document:
    """Return an IRSA trust policy, for tokens of one service account with the audience of STS."""
    host = url.removeprefix("https://")
    return policy_document(
        {
            "Sid": "OneServiceAccount",
            "Effect": "Allow",
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Principal": {"Federated": provider_arn},
            "Condition": {"StringEquals": {f"{host}:aud": AUDIENCE, f"{host}:sub": service_account.subject}},
        }
    )


def pod_identity_trust_policy(aws: AwsContext, cluster: str, service_account: ServiceAccount) -> Document:
    """Return a Pod Identity trust policy, for one service account of one cluster, by the session tags that EKS sets."""
    return policy_document(
        {
            "Sid": "OneServiceAccount",
            "Effect": "Allow",
            "Action": ["sts:AssumeRole", "sts:TagSession"],
            "Principal": {"Service": "pods.eks.amazonaws.com"},
            "Condition": {
                "StringEquals": {
                    "aws:SourceAccount": aws.account,
                    "aws:RequestTag/kubernetes-namespace": service_account.namespace,
                    "aws:RequestTag/kubernetes-service-account": service_account.name,
                },
                "ArnEquals": {"aws:SourceArn": aws.arn("eks", f"cluster/{cluster}")},
            },
        }
    )


@dataclass(frozen=True)
class Roles:
    """Creates the IAM roles of one component, each with its permissions boundary if there is one."""

    labels: Labels
    child: ChildOptions
    boundary: str | None
    planned_documents: PlannedDocuments = field(default_factory=PlannedDocuments)

    def create_role(self, suffix: str, description: str, trust: pulumi.Input[str] | PlannedDocument) -> iam.Role:
        """Create a role without permissions."""
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
        """Add an inline policy to a role."""
        if isinstance(policy, PlannedDocument):
            self.planned_documents.add(
                "aws:iam/rolePolicy:RolePolicy", f"{self.labels.base}-{suffix}", "policy", policy.planned
            )
            policy = policy.json
        return iam.RolePolicy(
            f"{self.labels.base}-{suffix}", name=suffix, role=role.name, policy=policy, opts=self.child()
        )

    def attach_policies(self, role: iam.Role, suffix: str, policies: Sequence[str]) -> None:
        """Attach existing policies to a role.

        Two accounts or paths may each have a policy of the same name, so resource names contain a hash of the ARN.
        Otherwise adding one could rename another: Pulumi would attach it under its new name and then detach it under
        the old one. The alias covers stacks in which the first policy of a name had no hash.
        """
        values: set[str] = set()
        for arn in policies:
            policy_name = arn.rsplit("/", 1)[-1]
            aliases = [] if policy_name in values else [pulumi.Alias(name=f"{self.labels.base}-{suffix}-{policy_name}")]
            values.add(policy_name)
            iam.RolePolicyAttachment(
                f"{self.labels.base}-{suffix}-{policy_name}-{sha256(arn.encode()).hexdigest()[:8]}",
                role=role.name,
                policy_arn=arn,
                opts=self.child(pulumi.ResourceOptions(aliases=aliases)),
            )

    def attach_aws_policies(
        self, role: iam.Role, suffix: str, aws: pulumi.Output[AwsContext], policies: Sequence[str]
    ) -> list[pulumi.Resource]:
        """Attach AWS managed policies to a role, which AWS keeps up to date for its services."""
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

    def irsa_role(self, suffix: str, description: str, issuer: Issuer, service_account: ServiceAccount) -> iam.Role:
        """Create a role for a service account's OIDC tokens (IRSA), which also works on Fargate and with gVisor."""
        trust = pulumi.Output.all(issuer.provider_arn, issuer.url).apply(
            lambda values: iam_policies.to_json(irsa_trust_policy(values[0], values[1], service_account))
        )
        planned_trust = irsa_trust_policy(PLACEHOLDER_PROVIDER_ARN, PLACEHOLDER_ISSUER_URL, service_account)
        self.planned_documents.add(
            "aws:iam/role:Role", f"{self.labels.base}-{suffix}", "assumeRolePolicy", planned_trust
        )
        return self.create_role(suffix, description, trust)

    def pod_identity_role(
        self,
        suffix: str,
        description: str,
        aws: pulumi.Output[AwsContext],
        cluster: str,
        service_account: ServiceAccount,
    ) -> iam.Role:
        """Create a role for EKS Pod Identity, for pods on nodes of the named cluster only."""
        return self.create_role(
            suffix,
            description,
            aws.apply(
                lambda context: iam_policies.to_json(pod_identity_trust_policy(context, cluster, service_account))
            ),
        )
