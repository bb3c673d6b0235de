"""Where a component's resources are: partition, region and account, asked of the component's own provider."""

from dataclasses import dataclass

import pulumi
from pulumi_aws import get_caller_identity_output, get_partition_output, get_region_output


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
