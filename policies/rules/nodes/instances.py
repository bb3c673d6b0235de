"""NODE: what starts instances: who reaches their credentials and their doors, and what they start from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentenv.policies.rules.registry import About, Outcome, fail, resources, rule, unknown
from agentenv.policies.view.cluster.instances import (
    AWS_TYPES,
    INSTANCE,
    NODE_GROUP,
    TEMPLATE,
    Machine,
    flag,
    machines_of,
)
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import Resource, holds_objects

MACHINE: About[Machine] = About(
    "every EC2NodeClass, launch template, launch configuration and instance",
    lambda kind: kind in AWS_TYPES or holds_objects(kind),
    machines_of,
)
DEFAULT_ENCRYPTION = "aws:ebs/encryptionByDefault:EncryptionByDefault"
# A parameter that AWS points at another image with every release
MOVING_PARAMETER = re.compile(r"resolve:ssm:/aws/service/.*(recommended|latest)")


@rule(
    id="NODE-01",
    title="The metadata service answers tokens only, and no pod",
    severity="Critical",
    why="A pod that reaches its node's metadata service has the node's credentials, and with them other"
    " tenants' images, addresses and interfaces.",
    do="Set httpTokens to required and httpPutResponseHopLimit to 1; give node groups a launch template that says so.",
    equivalents={"Checkov": ("CKV_AWS_79", "CKV_AWS_341"), "Security Hub": ("EC2.8", "EC2.170"), "CIS": ("5.4.2",)},
    about=MACHINE,
    defaults="Karpenter requires tokens and sets one hop (EC2NodeClass reference). For instances and launch"
    " templates the image decides, and Amazon Linux 2023 allows two hops (EC2 user guide, instance metadata"
    " options).",
)
def metadata_service(machine: Machine) -> Iterator[Outcome]:
    """Both options; a service that is switched off answers nobody."""
    options = machine.metadata
    silent = machine.node_class or machine.patch
    if options.at("httpEndpoint").raw == "disabled":
        return
    tokens, hops = options.at("httpTokens"), options.at("httpPutResponseHopLimit")
    if tokens.unknown:
        yield unknown(tokens)
    elif tokens.raw != "required" and not (tokens.missing and silent):
        yield fail(tokens, "the metadata service answers without a token")
    if hops.unknown:
        yield unknown(hops)
    elif (hops.missing and not silent) or (hops.number or 0) > 1:
        yield fail(hops, "the metadata service's answers reach pods: its hop limit is not 1")


@rule(
    id="NODE-03",
    title="Nobody logs in to a node, or reaches it from the internet",
    severity="High",
    why="Whoever is on a node is in all of its sandboxes.",
    do="Leave out keyName and remoteAccess, set associatePublicIpAddress to false, and use Session Manager"
    " where a person has to look.",
    equivalents={"Checkov": ("CKV_AWS_88", "CKV_AWS_100"), "Security Hub": ("EC2.9", "EC2.25"), "CIS": ("5.4.3",)},
    about=MACHINE,
    defaults="No key, and the address that the subnet gives where nothing is said (EC2 API reference).",
)
def ways_in(machine: Machine) -> Iterator[Outcome]:
    """Addresses of the internet, and keys; a subnet that gives addresses is the network's affair."""
    for address in machine.public_addresses():
        if address.unknown:
            yield unknown(address)
        elif flag(address) is True:
            yield fail(address, "its instances get addresses of the internet")
    if machine.login.unknown:
        yield unknown(machine.login)
    elif machine.login.known:
        yield fail(machine.login, "whoever has the SSH key is in every node")


@rule(
    id="NODE-05",
    title="A node's disks are encrypted",
    severity="High",
    why="Images, logs and the scratch files of every sandbox are on them.",
    do="Set encrypted to true for each disk, with a KMS key of the environment.",
    equivalents={"Checkov": ("CKV_AWS_8", "CKV_AWS_3"), "Security Hub": ("EC2.7",)},
    about=MACHINE,
    defaults="Karpenter encrypts the root disk where no disks are given (EC2NodeClass reference). AWS encrypts"
    " none, unless the account does so by itself (EC2 user guide, EBS encryption by default).",
)
def encrypted_disks(machine: Machine, graph: Graph) -> Iterator[Outcome]:
    """Each disk; for a launch template without any, the one of the image."""
    if any(one.at("enabled").raw is not False for one in graph.of_type(DEFAULT_ENCRYPTION)):
        return
    disks = machine.disks()
    if machine.kind == TEMPLATE and not disks:
        yield fail(machine.root.at("blockDeviceMappings"), "the image's own disk is not encrypted")
    for disk in disks:
        encrypted = disk.at("encrypted")
        if encrypted.unknown:
            yield unknown(encrypted)
        elif flag(encrypted) is not True and not machine.patch:
            yield fail(encrypted, "the disk is not encrypted")


@rule(
    id="NODE-07",
    title="A node starts from an image that was chosen",
    severity="High",
    why="An image that is chosen by its newest version, or by whoever published under a name, changes every"
    " node without a preview.",
    do="Pin the alias to a version (`al2023@v20261103`), or name the image's id and owner.",
    about=MACHINE,
)
def pinned_image(machine: Machine) -> Iterator[Outcome]:
    """An alias at its latest, a name without its owner, or a parameter that moves."""
    if not machine.node_class:
        image = machine.root.at("ami" if machine.kind == INSTANCE else "imageId")
        if machine.kind == TEMPLATE and image.known and MOVING_PARAMETER.match(str(image.raw)):
            yield fail(image, "the parameter points at another image with every release")
        return
    for term in machine.root.at("spec", "amiSelectorTerms").elements():
        alias, name = term.at("alias"), term.at("name")
        if alias.unknown and term.unknown:
            yield unknown(term)
        elif alias.unknown:
            yield unknown(alias)
        elif alias.known and not re.search(r"@v?\d", str(alias.raw)):
            yield fail(alias, "the alias is whatever is newest")
        elif (name.known or term.at("tags").known) and term.at("owner").missing and term.at("id").missing:
            yield fail(term, "anybody may publish an image that it selects: it names no owner")
        elif name.known and "*" in str(name.raw):
            yield fail(name, "the newest image whose name fits is taken")


@rule(
    id="NODE-08",
    title="A node group starts from a launch template of one's own, and opens no door",
    severity="High",
    why="EKS's own template lets pods reach the metadata service; remoteAccess opens SSH, to everybody where no"
    " group is named.",
    do="Give the group a launch template with one hop and encrypted disks, and leave out remoteAccess.",
    equivalents={"Checkov": ("CKV_AWS_100",), "CIS": ("5.4.3",)},
    about=resources(NODE_GROUP),
    defaults="A template of EKS's own with two hops where none is given (EKS user guide, managed node groups).",
)
def node_group(group: Resource) -> Iterator[Outcome]:
    """The template is looked at where it stands; here only that there is one."""
    template, remote = group.at("launchTemplate"), group.at("remoteAccess")
    if template.missing:
        yield fail(template, "the group starts from EKS's own template, which lets pods reach the metadata service")
    if remote.unknown:
        yield unknown(remote)
    elif remote.known and _opens(remote):
        yield fail(remote, "the group's nodes take logins by SSH")


def _opens(remote: Field) -> bool:
    return not (remote.at("ec2SshKey").missing and remote.at("sourceSecurityGroupIds").missing)
