"""NODE rules about sources of instances: instance metadata, logins, disks and images."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentenv.policies.rules.registry import Outcome, Scope, fail, resources, rule, unknown
from agentenv.policies.view.cluster.instances import (
    AWS_TYPES,
    INSTANCE,
    NODE_GROUP,
    TEMPLATE,
    InstanceSource,
    boolean,
    instance_sources,
)
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import Resource, holds_objects

INSTANCE_SOURCE: Scope[InstanceSource] = Scope(
    "every EC2NodeClass, launch template, launch configuration and instance",
    lambda kind: kind in AWS_TYPES or holds_objects(kind),
    instance_sources,
)
DEFAULT_ENCRYPTION = "aws:ebs/encryptionByDefault:EncryptionByDefault"
# Parameters that AWS changes with every release of an image
MOVING_PARAMETER = re.compile(r"resolve:ssm:/aws/service/.*(recommended|latest)")


@rule(
    id="NODE-01",
    title="Instance metadata requires tokens and is not reachable from pods",
    severity="Critical",
    why="A pod that reaches the instance metadata of its node gets the node's credentials, and with them other tenants'"
    " images, addresses and interfaces.",
    fix="Set httpTokens to required and httpPutResponseHopLimit to 1. Use a launch template with both for node groups.",
    equivalents={"Checkov": ("CKV_AWS_79", "CKV_AWS_341"), "Security Hub": ("EC2.8", "EC2.170"), "CIS": ("5.4.2",)},
    applies_to=INSTANCE_SOURCE,
    defaults="Karpenter requires tokens and one hop (EC2NodeClass reference). For instances and launch templates, the"
    " image decides; Amazon Linux 2023 allows two hops (EC2 user guide, instance metadata options).",
)
def metadata_service(source: InstanceSource) -> Iterator[Outcome]:
    """Check both options, unless the service is disabled."""
    options = source.metadata
    has_defaults = source.node_class or source.patch
    if options.at("httpEndpoint").raw == "disabled":
        return
    tokens, hops = options.at("httpTokens"), options.at("httpPutResponseHopLimit")
    if tokens.unknown:
        yield unknown(tokens)
    elif tokens.raw != "required" and not (tokens.missing and has_defaults):
        yield fail(tokens, "instance metadata does not require a token")
    if hops.unknown:
        yield unknown(hops)
    elif (hops.missing and not has_defaults) or (hops.number or 0) > 1:
        yield fail(hops, "instance metadata is reachable from pods: the hop limit is not 1")


@rule(
    id="NODE-03",
    title="Nodes have no SSH keys and no public addresses",
    severity="High",
    why="Anybody on a node has access to all its sandboxes.",
    fix="Remove keyName and remoteAccess, set associatePublicIpAddress to false, and use Session Manager to debug a"
    " node.",
    equivalents={"Checkov": ("CKV_AWS_88", "CKV_AWS_100"), "Security Hub": ("EC2.9", "EC2.25"), "CIS": ("5.4.3",)},
    applies_to=INSTANCE_SOURCE,
    defaults="No key, and the public address setting of the subnet, by default (EC2 API reference).",
)
def access_to_nodes(source: InstanceSource) -> Iterator[Outcome]:
    """Check public addresses and SSH keys. NODE-10 is about subnets."""
    for address in source.public_addresses():
        if address.unknown:
            yield unknown(address)
        elif boolean(address) is True:
            yield fail(address, "its instances get public addresses")
    if source.ssh_key.unknown:
        yield unknown(source.ssh_key)
    elif source.ssh_key.known:
        yield fail(source.ssh_key, "its nodes accept an SSH key")


@rule(
    id="NODE-05",
    title="Disks of nodes are encrypted",
    severity="High",
    why="They contain images, logs and temporary files of every sandbox.",
    fix="Set encrypted to true for each disk, with a KMS key of the environment.",
    equivalents={"Checkov": ("CKV_AWS_8", "CKV_AWS_3"), "Security Hub": ("EC2.7",)},
    applies_to=INSTANCE_SOURCE,
    defaults="Karpenter encrypts the root disk if no disks are given (EC2NodeClass reference). AWS encrypts none,"
    " unless the account encrypts by default (EC2 user guide, EBS encryption by default).",
)
def encrypted_disks(source: InstanceSource, graph: Graph) -> Iterator[Outcome]:
    """Check each disk. A launch template without disks uses the disk of the image."""
    if any(each.at("enabled").raw is not False for each in graph.of_type(DEFAULT_ENCRYPTION)):
        return
    disks = source.disks()
    if source.kind == TEMPLATE and not disks:
        yield fail(source.root.at("blockDeviceMappings"), "the disk of the image is not encrypted")
    for disk in disks:
        encrypted = disk.at("encrypted")
        if encrypted.unknown:
            yield unknown(encrypted)
        elif boolean(encrypted) is not True and not source.patch:
            yield fail(encrypted, "the disk is not encrypted")


@rule(
    id="NODE-07",
    title="Node images are pinned",
    severity="High",
    why="The newest image, or any image with a certain name, can change every node without a preview.",
    fix="Pin the alias to a version (`al2023@v20261103`), or set the id and owner of the image.",
    applies_to=INSTANCE_SOURCE,
)
def pinned_image(source: InstanceSource) -> Iterator[Outcome]:
    """Check for the latest alias, a name without an owner, and a parameter that changes."""
    if not source.node_class:
        image = source.root.at("ami" if source.kind == INSTANCE else "imageId")
        if source.kind == TEMPLATE and image.known and MOVING_PARAMETER.match(str(image.raw)):
            yield fail(image, "the image of the parameter changes with every release")
        return
    for term in source.root.at("spec", "amiSelectorTerms").elements():
        alias, name = term.at("alias"), term.at("name")
        if alias.unknown and term.unknown:
            yield unknown(term)
        elif alias.unknown:
            yield unknown(alias)
        elif alias.known and not re.search(r"@v?\d", str(alias.raw)):
            yield fail(alias, "the alias is not pinned to a version")
        elif (name.known or term.at("tags").known) and term.at("owner").missing and term.at("id").missing:
            yield fail(term, "it selects images of any publisher: it names no owner")
        elif name.known and "*" in str(name.raw):
            yield fail(name, "it selects the newest image with a matching name")


@rule(
    id="NODE-08",
    title="Node groups have their own launch template, and no SSH access",
    severity="High",
    why="With EKS's default template, pods reach instance metadata. remoteAccess allows SSH, from everywhere if it"
    " names no group.",
    fix="Give the group a launch template with one hop and encrypted disks, and remove remoteAccess.",
    equivalents={"Checkov": ("CKV_AWS_100",), "CIS": ("5.4.3",)},
    applies_to=resources(NODE_GROUP),
    defaults="A template of EKS with two hops by default (EKS user guide, managed node groups).",
)
def node_group(group: Resource) -> Iterator[Outcome]:
    """Check that there is a template. Other rules check the template itself."""
    template, remote = group.at("launchTemplate"), group.at("remoteAccess")
    if template.missing:
        yield fail(template, "without a launch template, pods reach instance metadata")
    if remote.unknown:
        yield unknown(remote)
    elif remote.known and _allows_ssh(remote):
        yield fail(remote, "the nodes of the group allow SSH")


def _allows_ssh(remote: Field) -> bool:
    return not (remote.at("ec2SshKey").missing and remote.at("sourceSecurityGroupIds").missing)
