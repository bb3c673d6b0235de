"""Access to the cluster's API: an access entry per principal, with EKS access policies and a Kubernetes group."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import eks, get_caller_identity_output, iam

from agentenv.components._lib.arguments import ArgumentError
from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.config.sections.cluster import Cluster
from agentenv.core.classes.names import namespace
from agentenv.core.iam.principals import session_role
from agentenv.core.metering.locations import NAMESPACE as METERING
from agentenv.core.values.names import fit


@dataclass(frozen=True)
class Grant:
    """An EKS access policy, for the whole cluster or for some namespaces."""

    policy: str
    namespaces: tuple[str, ...] = ()

    @property
    def scope(self) -> Any:
        """Return the access scope of the policy association."""
        return {"type": "namespace", "namespaces": list(self.namespaces)} if self.namespaces else {"type": "cluster"}


# The access policies of each group. Deployers create CRDs and cluster roles, which requires cluster admin.
# AmazonEKSEditPolicy allows impersonating service accounts of a namespace and exec into its pods. So operators have it
# in the namespaces of sandboxes and metering only, and not where the controllers are that guardrails exempt.
# The Kubernetes groups are for custom resources, which EKS access policies do not cover.
GRANTS = {
    "admins": (Grant("AmazonEKSClusterAdminPolicy"),),
    "operators": (
        Grant("AmazonEKSEditPolicy", (namespace("*"), METERING)),
        Grant("AmazonEKSViewPolicy"),
    ),
    "readers": (Grant("AmazonEKSViewPolicy"),),
    "deployers": (Grant("AmazonEKSClusterAdminPolicy"),),
}
GROUPS = {group: f"agent-environment:{group}" for group in GRANTS}


@dataclass(frozen=True)
class Access:
    """The principals of each group."""

    by_group: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, settings: Cluster) -> "Access":
        """Return the principals of the cluster's settings."""
        return cls({group: getattr(settings, group) for group in GRANTS})

    @property
    def principals(self) -> list[str]:
        """Return all principals."""
        return [principal for principals in self.by_group.values() for principal in principals]

    @property
    def can_deploy(self) -> bool:
        """Return whether any principal can deploy."""
        return bool(self.by_group["admins"] or self.by_group["deployers"])


@dataclass(frozen=True)
class Entries:
    """Creates the access entries of one cluster."""

    cluster: pulumi.Output[str]
    aws: pulumi.Output[AwsContext]
    labels: Labels
    child: ChildOptions
    invoke_options: pulumi.InvokeOptions

    def grant(self, access: Access) -> list[pulumi.Resource]:
        """Create the entries and return them, because the Kubernetes provider must depend on them.

        Without admins and deployers, the caller that creates the cluster gets an entry, and keeps it when a later
        update runs as another caller. With them, the caller must be one of them: EKS rejects a second entry for a
        principal, and a caller without an entry could create the cluster but nothing in it.
        """
        caller = _caller(self.invoke_options)
        if not access.can_deploy:
            keep_principal = pulumi.ResourceOptions(ignore_changes=["principalArn"])
            return self._entry("creator", "deployers", caller, keep_principal)
        admitted_caller = caller.apply(lambda arn: _admit(arn, access))
        return [
            resource
            for group, principals in access.by_group.items()
            for principal in principals
            for resource in self._entry(
                f"{group}-{slug(principal)}", group, admitted_caller.apply(lambda _, principal=principal: principal)
            )
        ]

    def _entry(
        self, suffix: str, group: str, principal: pulumi.Output[str], more: pulumi.ResourceOptions | None = None
    ) -> list[pulumi.Resource]:
        entry = eks.AccessEntry(
            f"{self.labels.base}-{suffix}",
            cluster_name=self.cluster,
            principal_arn=principal,
            type="STANDARD",
            kubernetes_groups=[GROUPS[group]],
            tags=self.labels.tags(suffix),
            opts=self.child(more),
        )
        first, *others = GRANTS[group]
        others_created = [
            self._grant(f"{suffix}-{number}", entry, grant) for number, grant in enumerate(others, start=2)
        ]
        return [entry, self._grant(suffix, entry, first), *others_created]

    def _grant(self, suffix: str, entry: eks.AccessEntry, grant: Grant) -> eks.AccessPolicyAssociation:
        return eks.AccessPolicyAssociation(
            f"{self.labels.base}-{suffix}",
            cluster_name=self.cluster,
            principal_arn=entry.principal_arn,
            policy_arn=self.aws.apply(
                lambda context: f"arn:{context.partition}:eks::aws:cluster-access-policy/{grant.policy}"
            ),
            access_scope=grant.scope,
            # EKS has one association per principal and policy: deleting the old one would also delete its replacement.
            opts=self.child(pulumi.ResourceOptions(delete_before_replace=True)),
        )


def slug(principal: str) -> str:
    """Return a principal's part of a resource name: readable, and distinct for same-named roles of two accounts."""
    group = re.sub(r"[^A-Za-z0-9-]+", "-", principal.rsplit("/", 1)[-1])
    return f"{fit(group, 40)}-{hashlib.sha256(principal.encode()).hexdigest()[:6]}"


def principal_name(arn: str) -> str:
    """Return the IAM ARN of a caller without a session; some AWS emulators report users under `sts`."""
    return arn.replace(":sts:", ":iam:")


def _caller(invoke_options: pulumi.InvokeOptions) -> pulumi.Output[str]:
    """Return the IAM ARN of the caller. EKS takes no session as a principal, but its role with its path."""

    def principal(arn: str) -> pulumi.Output[str]:
        role = session_role(arn)
        if role:
            return iam.get_role_output(name=role, opts=invoke_options).arn
        return pulumi.Output.from_input(principal_name(arn))

    return get_caller_identity_output(opts=invoke_options).arn.apply(principal)


def _admit(caller: str, access: Access) -> str:
    if caller not in access.principals:
        raise ArgumentError(
            "cluster.deployers",
            f"the caller {caller}, which is not listed",
            "the caller among deployers or admins; or leave both empty, and it gets an entry",
        )
    return caller
