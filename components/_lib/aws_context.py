"""Where a component's resources are: partition, region and account, of its own provider, and the zones it was told."""

from dataclasses import dataclass

import pulumi
from pulumi_aws import get_caller_identity_output, get_partition_output, get_region_output

from agentenv.components._lib.arguments import ArgumentError, Plain


@dataclass(frozen=True)
class Whereabouts:
    """What an ARN or a service principal is made of."""

    partition: str
    dns_suffix: str
    region: str
    account: str

    def arn(self, service: str, resource: str) -> str:
        """The ARN of a resource of this region and account."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"

    @property
    def root(self) -> str:
        """The account as a principal."""
        return f"arn:{self.partition}:iam::{self.account}:root"


def whereabouts(component: pulumi.ComponentResource) -> pulumi.Output[Whereabouts]:
    """Ask the provider that the component's children use, which need not be the default one."""
    asked = pulumi.InvokeOptions(parent=component)
    partition = get_partition_output(opts=asked)
    return pulumi.Output.all(
        partition.partition, partition.dns_suffix, get_region_output(opts=asked).region, _account(asked)
    ).apply(lambda found: Whereabouts(*found))


def _account(asked: pulumi.InvokeOptions) -> pulumi.Output[str]:
    return get_caller_identity_output(opts=asked).account_id


def chosen_zones(layout: Plain) -> tuple[list[pulumi.Input[str]] | None, int]:
    """The zones by name where a layout gives them so, and their number."""
    names = layout.texts("zone_names")
    count = layout.whole("zones", 1, 6, default=len(names) or 2)
    if names and count != len(names):
        raise ArgumentError(
            f"{layout.path}.zones", f"{count} beside {len(names)} zone_names", f"{len(names)}, or one of the two only"
        )
    return (list(names) if names else None), count
