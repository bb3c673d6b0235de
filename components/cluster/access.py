"""Who may use the cluster's API: an entry a principal, each with policies of EKS and a group of ours."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_aws import eks, get_caller_identity_output, iam

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.core.classes.names import namespace
from agentenv.core.iam.principals import session_role
from agentenv.core.metering.locations import NAMESPACE as METERING
from agentenv.core.values.names import fit


@dataclass(frozen=True)
class Grant:
    """A policy of EKS, for the whole cluster or in some namespaces."""

    policy: str
    namespaces: tuple[str, ...] = ()

    @property
    def scope(self) -> Any:
        """Where it holds, as EKS is told."""
        return {"type": "namespace", "namespaces": list(self.namespaces)} if self.namespaces else {"type": "cluster"}


# What EKS grants to each; deployers make custom resource definitions and cluster roles, which takes every right.
# Whoever may edit may also impersonate the service accounts of a namespace and enter its pods, so operators do where
# sandboxes are and what meters them, and not where the controllers are whom guardrails know by their accounts.
# Groups are for the custom resources, of which EKS's policies know nothing.
GRANTS = {
    "admins": (Grant("AmazonEKSClusterAdminPolicy"),),
    "operators": (
        Grant("AmazonEKSEditPolicy", (namespace("*"), METERING)),
        Grant("AmazonEKSViewPolicy"),
    ),
    "readers": (Grant("AmazonEKSViewPolicy"),),
    "deployers": (Grant("AmazonEKSClusterAdminPolicy"),),
}
GROUPS = {word: f"agent-environment:{word}" for word in GRANTS}

_PRINCIPAL = re.compile(r"arn:[a-z-]+:iam::\d{12}:(role|user)/\S+")


class ClusterAccess(TypedDict):
    """Who may use the API, as ARNs of IAM roles and users. Where there are neither admins nor deployers, whoever makes
    the cluster may deploy to it."""

    admins: NotRequired[list[str]]
    """Those with every right."""

    operators: NotRequired[list[str]]
    """Those who may look, and change what is in the namespaces of classes and of metering, and not who has access."""

    readers: NotRequired[list[str]]
    """Those who may look, at everything but secrets."""

    deployers: NotRequired[list[str]]
    """Those who run deployments."""


@dataclass(frozen=True)
class Access:
    """Who may do what."""

    by_group: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, reader: ArgumentReader) -> "Access":
        """Who was named; nobody may be named twice, because EKS has one entry a principal."""
        found: dict[str, str] = {}
        for word in GRANTS:
            for principal in reader.texts(word):
                path = f"{reader.path}.{word}"
                if not _PRINCIPAL.fullmatch(principal):
                    raise ArgumentError(path, f"'{principal}'", "ARNs of IAM roles and users")
                if principal in found:
                    raise ArgumentError(path, f"{principal}, who is among the {found[principal]} already", "one group")
                found[principal] = word
        return cls({word: reader.texts(word) for word in GRANTS})

    @property
    def principals(self) -> list[str]:
        """Everybody who was named."""
        return [principal for named in self.by_group.values() for principal in named]

    @property
    def can_deploy(self) -> bool:
        """Whether anybody was named who can make what a deployment makes."""
        return bool(self.by_group["admins"] or self.by_group["deployers"])


@dataclass(frozen=True)
class Entries:
    """The entries of one cluster."""

    cluster: pulumi.Output[str]
    aws: pulumi.Output[AwsContext]
    labels: Labels
    child: ChildOptions
    asked: pulumi.InvokeOptions

    def grant(self, access: Access) -> list[pulumi.Resource]:
        """Make the entries; returns them, for whatever speaks to the API has to wait for them.

        Where nobody is named who can deploy, whoever makes the cluster gets an entry, and keeps it whoever comes next.
        Where somebody is, whoever runs this has to be among those named: a second entry for one of them would be
        refused, and a caller without one could make the cluster and nothing in it.
        """
        caller = _caller(self.asked)
        if not access.can_deploy:
            kept = pulumi.ResourceOptions(ignore_changes=["principalArn"])
            return self._entry("creator", "deployers", caller, kept)
        admitted = caller.apply(lambda arn: _admit(arn, access))
        return [
            made
            for word, principals in access.by_group.items()
            for principal in principals
            for made in self._entry(
                f"{word}-{slug(principal)}", word, admitted.apply(lambda _, principal=principal: principal)
            )
        ]

    def _entry(
        self, suffix: str, word: str, principal: pulumi.Output[str], more: pulumi.ResourceOptions | None = None
    ) -> list[pulumi.Resource]:
        entry = eks.AccessEntry(
            f"{self.labels.base}-{suffix}",
            cluster_name=self.cluster,
            principal_arn=principal,
            type="STANDARD",
            kubernetes_groups=[GROUPS[word]],
            tags=self.labels.tags(suffix),
            opts=self.child(more),
        )
        first, *others = GRANTS[word]
        further = [self._grant(f"{suffix}-{number}", entry, grant) for number, grant in enumerate(others, start=2)]
        return [entry, self._grant(suffix, entry, first), *further]

    def _grant(self, suffix: str, entry: eks.AccessEntry, grant: Grant) -> eks.AccessPolicyAssociation:
        return eks.AccessPolicyAssociation(
            f"{self.labels.base}-{suffix}",
            cluster_name=self.cluster,
            principal_arn=entry.principal_arn,
            policy_arn=self.aws.apply(
                lambda context: f"arn:{context.partition}:eks::aws:cluster-access-policy/{grant.policy}"
            ),
            access_scope=grant.scope,
            # EKS keeps one for a principal and a policy: one that is made before the old one goes would go with it.
            opts=self.child(pulumi.ResourceOptions(delete_before_replace=True)),
        )


def slug(principal: str) -> str:
    """A principal's part of a resource's name: readable, and different for roles of one name in two accounts."""
    word = re.sub(r"[^A-Za-z0-9-]+", "-", principal.rsplit("/", 1)[-1])
    return f"{fit(word, 40)}-{hashlib.sha256(principal.encode()).hexdigest()[:6]}"


def principal_name(arn: str) -> str:
    """A caller that is no session, as EKS takes it: some clouds that are not AWS say that a user is STS's."""
    return arn.replace(":sts:", ":iam:")


def _caller(asked: pulumi.InvokeOptions) -> pulumi.Output[str]:
    """Who runs this, as IAM knows them: a session is not a principal that EKS takes, its role with its path is."""

    def principal(arn: str) -> pulumi.Output[str]:
        role = session_role(arn)
        if role:
            return iam.get_role_output(name=role, opts=asked).arn
        return pulumi.Output.from_input(principal_name(arn))

    return get_caller_identity_output(opts=asked).arn.apply(principal)


def _admit(caller: str, access: Access) -> str:
    if caller not in access.principals:
        raise ArgumentError(
            "cluster.layout.access",
            f"{caller} making the environment without being named",
            "that principal among deployers or admins, or neither of the two, and it is given an entry",
        )
    return caller
