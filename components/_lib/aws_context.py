"""The partition, region and account that a component's resources are created in."""

from dataclasses import dataclass

import pulumi
from pulumi_aws import get_caller_identity_output, get_partition_output, get_region_output


@dataclass(frozen=True)
class AwsContext:
    """The parts of ARNs and service principals that depend on the provider."""

    partition: str
    dns_suffix: str
    region: str
    account: str

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of a resource in this region and account."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"

    @property
    def root(self) -> str:
        """Return the account as a principal."""
        return f"arn:{self.partition}:iam::{self.account}:root"


def aws_context(component: pulumi.ComponentResource) -> pulumi.Output[AwsContext]:
    """Return the context of the provider of the component's children, which need not be the default provider."""
    invoke_options = pulumi.InvokeOptions(parent=component)
    partition = get_partition_output(opts=invoke_options)
    return pulumi.Output.all(
        partition.partition,
        partition.dns_suffix,
        get_region_output(opts=invoke_options).region,
        _account(invoke_options),
    ).apply(lambda parts: AwsContext(*parts))


def _account(invoke_options: pulumi.InvokeOptions) -> pulumi.Output[str]:
    return get_caller_identity_output(opts=invoke_options).account_id
