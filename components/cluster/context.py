"""The cluster that other components run on, whether it is created or adopted."""

from dataclasses import dataclass, field, replace

import pulumi

from agentenv.components._lib.arguments import ArgumentError
from agentenv.components.cluster.irsa import Issuer


def _no_groups() -> pulumi.Output[dict[str, list[str]]]:
    return pulumi.Output.from_input({})


def _no_file_systems() -> pulumi.Output[list[str]]:
    return pulumi.Output.from_input([])


@dataclass(frozen=True)
class ClusterContext:
    """The cluster for components that run on it, and the file systems that they use."""

    name: str
    endpoint: pulumi.Input[str]
    issuer: Issuer
    # The security groups of the pods of each class on Fargate
    class_security_group_ids: pulumi.Output[dict[str, list[str]]] = field(default_factory=_no_groups)
    file_system_ids: pulumi.Output[list[str]] = field(default_factory=_no_file_systems)  # of homes, by shard
    karpenter_profile: pulumi.Input[str] | None = None  # the Fargate profile of Karpenter's controller

    def with_file_systems(self, ids: pulumi.Input[list[str]]) -> "ClusterContext":
        """Return the cluster with the file systems of homes, by shard."""
        return replace(self, file_system_ids=pulumi.Output.from_input(ids))

    def file_systems(self, count: int) -> pulumi.Output[list[str]]:
        """Return the file systems of homes, by shard; a deployment fails if there are fewer."""

        def check(ids: list[str]) -> list[str]:
            if len(ids) < count:
                allowed = f"{count}, as storage.fileSystems, by cluster.context.with_file_systems(...)"
                raise ArgumentError("cluster.file_system_ids", str(len(ids)), allowed)
            return ids

        return self.file_system_ids.apply(check)

    def security_groups(self, class_name: str) -> pulumi.Output[list[str]]:
        """Return the security groups of a class on Fargate; a deployment fails if there are none."""

        def find(groups: dict[str, list[str]]) -> list[str]:
            if class_name not in groups:
                found = ", ".join(sorted(groups)) or "none"
                allowed = f"those of class {class_name}: create the cluster with a plan that has the class"
                raise ArgumentError("cluster.class_security_group_ids", found, allowed)
            return groups[class_name]

        return self.class_security_group_ids.apply(find)
