"""Sources of EC2 instances: Karpenter's node classes, launch templates, launch configurations and instances.

A launch template has numbers and booleans as strings, and a node class has other names for the same fields. Rules see
one set of names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agentenv.policies.view.environment import PolicyContext
from agentenv.policies.view.fields import MISSING, Field
from agentenv.policies.view.resource import Resource

TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
INSTANCE = "aws:ec2/instance:Instance"
CONFIGURATION = "aws:ec2/launchConfiguration:LaunchConfiguration"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
NODE_CLASS_GROUP = "karpenter.k8s.aws"
AWS_TYPES = frozenset({TEMPLATE, INSTANCE, CONFIGURATION})


@dataclass(frozen=True, eq=False)
class InstanceSource:
    """A resource that starts instances."""

    root: Field
    node_class: bool
    patch: bool
    kind: str
    context: PolicyContext

    @property
    def metadata(self) -> Field:
        """Return the options of the metadata service."""
        return self.root.at("spec", "metadataOptions") if self.node_class else self.root.at("metadataOptions")

    def public_addresses(self) -> list[Field]:
        """Return the fields that decide whether instances get public addresses."""
        if self.node_class:
            return [self.root.at("spec", "associatePublicIPAddress")]
        if self.kind == TEMPLATE:
            return [
                interface.at("associatePublicIpAddress") for interface in self.root.at("networkInterfaces").elements()
            ]
        return [self.root.at("associatePublicIpAddress")]

    @property
    def ssh_key(self) -> Field:
        """Return the SSH key of its instances."""
        return Field(self.root.urn, "", MISSING) if self.node_class else self.root.at("keyName")

    def disks(self) -> list[Field]:
        """Return its EBS volumes. Instance stores are always encrypted."""
        if self.kind in {INSTANCE, CONFIGURATION}:
            root = self.root.at("rootBlockDevice")
            return [root, *self.root.at("ebsBlockDevices").elements()]
        path = ("spec", "blockDeviceMappings") if self.node_class else ("blockDeviceMappings",)
        return [row.at("ebs") for row in self.root.at(*path).elements() if not row.at("ebs").missing]


def boolean(field: Field) -> bool | None:
    """Return a boolean, which launch templates have as a string; None if it is missing."""
    value = field.value
    return value.lower() == "true" if isinstance(value, str) else None if value is None else value is True


def instance_sources(resource: Resource) -> Iterator[InstanceSource]:
    """Yield the sources of instances in a resource."""
    if resource.type in AWS_TYPES:
        yield InstanceSource(resource.root, False, False, resource.type, resource.context)
        return
    for item in resource.objects:
        if item.is_a(NODE_CLASS_GROUP, "EC2NodeClass"):
            yield InstanceSource(item.root, True, item.patch, "EC2NodeClass", item.context)
