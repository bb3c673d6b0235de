"""What starts instances, in whatever type it is written: node classes of Karpenter, launch templates, instances.

A launch template writes numbers and switches as texts, and a node class has other names for the same things: rules see
one set of words. Each source also says what AWS or Karpenter does where nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agentenv.policies.view.environment import Situation
from agentenv.policies.view.fields import MISSING, Field
from agentenv.policies.view.resource import Resource

TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
INSTANCE = "aws:ec2/instance:Instance"
CONFIGURATION = "aws:ec2/launchConfiguration:LaunchConfiguration"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
NODE_CLASS_GROUP = "karpenter.k8s.aws"
AWS_TYPES = frozenset({TEMPLATE, INSTANCE, CONFIGURATION})


@dataclass(frozen=True, eq=False)
class Machine:
    """One source of instances."""

    root: Field
    node_class: bool
    patch: bool
    kind: str
    situation: Situation

    @property
    def metadata(self) -> Field:
        """The options of the instances' metadata service."""
        return self.root.at("spec", "metadataOptions") if self.node_class else self.root.at("metadataOptions")

    def public_addresses(self) -> list[Field]:
        """Where it says whether instances get an address of the internet."""
        if self.node_class:
            return [self.root.at("spec", "associatePublicIPAddress")]
        if self.kind == TEMPLATE:
            return [one.at("associatePublicIpAddress") for one in self.root.at("networkInterfaces").elements()]
        return [self.root.at("associatePublicIpAddress")]

    @property
    def login(self) -> Field:
        """The SSH key that opens its instances."""
        return Field(self.root.urn, "", MISSING) if self.node_class else self.root.at("keyName")

    def disks(self) -> list[Field]:
        """Its disks that AWS keeps elsewhere: those in the machine itself are encrypted by it."""
        if self.kind in {INSTANCE, CONFIGURATION}:
            root = self.root.at("rootBlockDevice")
            return [root, *self.root.at("ebsBlockDevices").elements()]
        place = ("spec", "blockDeviceMappings") if self.node_class else ("blockDeviceMappings",)
        mapped = self.root.at(*place).elements()
        return [one.at("ebs") for one in mapped if not one.at("ebs").missing]


def flag(field: Field) -> bool | None:
    """A switch, which launch templates write as a text; None where nothing is written. Unknown as `Field.value`."""
    value = field.value
    return value.lower() == "true" if isinstance(value, str) else None if value is None else value is True


def machines_of(resource: Resource) -> Iterator[Machine]:
    """What starts instances in a resource."""
    if resource.type in AWS_TYPES:
        yield Machine(resource.root, False, False, resource.type, resource.situation)
        return
    for thing in resource.objects:
        if thing.is_a(NODE_CLASS_GROUP, "EC2NodeClass"):
            yield Machine(thing.root, True, thing.patch, "EC2NodeClass", thing.situation)
