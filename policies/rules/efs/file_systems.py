"""EFS, file systems: what encrypts one, who may mount it and how, where it answers, and whether it is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from agentenv.policies.rules.registry import GRAPH, Outcome, fail, forbid, resources, rule, unknown
from agentenv.policies.view.fields import Field, is_one_of
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.iam.statements import Statement, statements, unknown_in
from agentenv.policies.view.references import Reference, among, reference
from agentenv.policies.view.resource import Resource
from agentenv.policies.view.tenants.security_groups import GROUPS, Passing, may_have_more, passing

FILE_SYSTEM, POLICY = "aws:efs/fileSystem:FileSystem", "aws:efs/fileSystemPolicy:FileSystemPolicy"
BACKUP, TARGET, SUBNET = "aws:efs/backupPolicy:BackupPolicy", "aws:efs/mountTarget:MountTarget", "aws:ec2/subnet:Subnet"
SELECTION: Final = "aws:backup/selection:Selection"
MOUNT, ROOT = "elasticfilesystem:ClientMount", "elasticfilesystem:ClientRootAccess"
NFS: Final = (2049, 2049)
OPEN: Final = frozenset({"0.0.0.0/0", "::/0"})


@rule(
    id="EFS-01",
    title="A file system is encrypted with a key of one's own",
    severity="High",
    why="Everybody's files are on it. With AWS's own key nobody can say who may decrypt them, nor take that back.",
    do="Set encrypted to true and kmsKeyId to a key of the environment's.",
    equivalents={"Checkov": ("CKV_AWS_42", "CKV_AWS_184"), "Security Hub": ("EFS.1",)},
    about=resources(FILE_SYSTEM),
    defaults="Not encrypted where nothing is said, and with AWS's key where only that is (EFS API reference,"
    " CreateFileSystem).",
)
def encrypted(system: Resource) -> Iterator[Outcome]:
    """Both have to be said."""
    flag, key = system.at("encrypted"), system.at("kmsKeyId")
    yield from forbid(flag, lambda value: value is not True, "is not encrypted")
    if flag.raw is True and (key.missing or key.raw == ""):
        yield fail(key, "is encrypted with AWS's key and not with one of one's own")


@rule(
    id="EFS-06",
    title="A file system is mounted by access points, encrypted, and never as root",
    severity="Critical",
    why="Without a policy every client in the VPC mounts the whole file system as root.",
    do="Give it a policy that denies mounting without an access point, without TLS and as root, or that allows it only"
    " with all three.",
    equivalents={"AWS": ("EFS documents: using IAM to control file system access",)},
    about=GRAPH,
    defaults="Full access for whoever reaches a mount target, where there is no policy; where there is one, a role's"
    " own policies allow as well (EFS documents).",
)
def mounted_as_meant(graph: Graph) -> Iterator[Outcome]:
    """What denies for everybody counts for all; else each statement that allows has to have the condition itself."""
    named = {one: reference(graph, one, ("fileSystemId",), FILE_SYSTEM) for one in graph.of_type(POLICY)}
    for system in graph.of_type(FILE_SYSTEM):
        yield from _has_one(named, system, "has no policy: whoever reaches it mounts all of it, as root")
    for policy in named:
        document = policy.at("policy")
        if document.missing or unknown_in(document) is not None:
            yield unknown(document)
            continue
        every = statements(document)
        if doubtful := next((one.field for one in every if one.field.unknown or one.allows is None), None):
            yield unknown(doubtful)
        allowing = [one for one in every if one.allows and one.does(MOUNT) is not False]
        by_point, by_tls = _denied(every, MOUNT, _without_point), _denied(every, MOUNT, _without_tls)
        if not by_point and not all(map(_by_point, allowing)):
            yield fail(document, "lets a client mount it without an access point")
        if not by_tls and not all(map(_by_tls, allowing)):
            yield fail(document, "lets a client mount it without TLS")
        if not allowing and not (by_point and by_tls) and not doubtful:
            what = " and ".join(word for word, said in (("an access point", by_point), ("TLS", by_tls)) if not said)
            yield fail(document, f"leaves it to the roles' own policies who mounts it without {what}")
        rooted = [one for one in every if one.allows and one.does(ROOT) is not False]
        if rooted and not _denied(every, ROOT, _always):
            yield fail(document, "lets a client be root")
        if any(one.for_anybody() and not _by_point(one) for one in allowing):
            yield fail(document, "lets anybody mount it, whoever it is")


@rule(
    id="EFS-09",
    title="A file system answers the nodes on its port only, in private subnets",
    severity="High",
    why="A mount target that more can reach than the nodes is a second way to everybody's files.",
    do="Give its mount targets a security group that takes port 2049 from the nodes' group only, in subnets without a"
    " way to the internet.",
    equivalents={"Security Hub": ("EFS.6",)},
    about=GRAPH,
    defaults="A mount target without security groups is in the VPC's default group (EFS API reference,"
    " CreateMountTarget). A subnet gives no public addresses where nothing is said (EC2 API reference).",
)
def answers_nodes_only(graph: Graph) -> Iterator[Outcome]:
    """Each group once, however many targets are in it."""
    judged: set[str] = set()
    for target in graph.of_type(TARGET):
        given = target.at("securityGroups")
        if given.missing or (given.known and not given.elements()):
            yield fail(given, "is in the VPC's default security group")
        found = among(graph, graph.targets(target, "securityGroups", *GROUPS), given, *GROUPS)
        if not found and given.holds_unknown():
            yield unknown(given)
        for group in found:
            if group.urn not in judged:
                judged.add(group.urn)
                yield from _let_in(graph, group)
        subnet = reference(graph, target, ("subnetId",), SUBNET)
        for one in subnet.targets:
            public = one.at("mapPublicIpOnLaunch")
            if public.unknown:
                yield unknown(public)
            elif public.raw is True:
                yield fail(target.at("subnetId"), f"is in the public subnet '{one.name}'")


@rule(
    id="EFS-10",
    title="A file system is backed up",
    severity="Medium",
    why="A file system is deleted, or emptied by somebody's program, in seconds; then the backup is all there is.",
    do="Add a BackupPolicy with status ENABLED, or a backup selection that names it.",
    equivalents={"Security Hub": ("EFS.2",)},
    about=GRAPH,
    defaults="Not backed up where nothing is said, but for file systems of one zone (EFS API reference,"
    " CreateFileSystem, Backup).",
)
def backed_up(graph: Graph) -> Iterator[Outcome]:
    """Where something could be missed: an environment that is thrown away has nothing to keep."""
    if graph.situation.short_lived:
        return
    named = {one: reference(graph, one, ("fileSystemId",), FILE_SYSTEM) for one in graph.of_type(BACKUP)}
    selected = {target for one in graph.of_type(SELECTION) for target in graph.targets(one, "resources", FILE_SYSTEM)}
    for system in graph.of_type(FILE_SYSTEM):
        if system in selected or any(_by_tag(one, system) for one in graph.of_type(SELECTION)):
            continue
        if not system.at("availabilityZoneName").missing:
            continue
        yield from _has_one(named, system, "has no backup policy")
    for policy in named:
        status = policy.at("backupPolicy", "status")
        yield from forbid(status, lambda value: value not in ("ENABLED", "ENABLING"), "is not backed up")


@rule(
    id="EFS-11",
    title="A file system of production is in more than one zone",
    severity="Medium",
    why="A file system of one zone is gone with its zone, and every workspace with it.",
    do="Leave availabilityZoneName out, so that the file system is a regional one.",
    about=resources(FILE_SYSTEM),
    defaults="Regional where nothing is said (EFS API reference, CreateFileSystem).",
)
def regional(system: Resource) -> Iterator[Outcome]:
    """Elsewhere one zone is a way to save money."""
    if system.situation.environment == "prod":
        yield from forbid(system.at("availabilityZoneName"), lambda value: value is not None, "is in one zone only")


def _has_one(named: dict[Resource, Reference], system: Resource, words: str) -> Iterator[Outcome]:
    answers = [one.names(system) for one in named.values()]
    if True in answers:
        return
    doubtful = next((one.field for one in named.values() if one.names(system) is None), None)
    yield fail(system.root, words) if doubtful is None else unknown(doubtful)


def _denied(every: list[Statement], action: str, when: Callable[[Statement], bool]) -> bool:
    """Whether everybody is refused the action, at least in that case."""
    return any(
        one.denies and one.everybody and not one.has("NotPrincipal") and one.does(action) and when(one) for one in every
    )


def _always(one: Statement) -> bool:
    return not one.conditional


def _by_tag(selection: Resource, system: Resource) -> bool:
    return any(
        isinstance(tag.at("key").raw, str) and system.at("tags", str(tag.at("key").raw)).raw == tag.at("value").raw
        for tag in selection.at("selectionTags").elements()
    )


def _without_point(one: Statement) -> bool:
    if not one.conditional:
        return True
    return len(one.conditions) == 1 and any(
        found.operator.lower() == "null" and _all(found.values, "true")
        for found in one.compares("elasticfilesystem:AccessPointArn")
    )


def _without_tls(one: Statement) -> bool:
    if not one.conditional:
        return True
    return len(one.conditions) == 1 and any(
        found.operator.lower() in {"bool", "boolifexists"} and _all(found.values, "false")
        for found in one.compares("aws:SecureTransport")
    )


def _by_point(one: Statement) -> bool:
    return any(
        (found.equals and not any(str(value.raw).strip("*") == "" for value in found.values))
        or (found.operator.lower() == "null" and _all(found.values, "false"))
        for found in one.compares("elasticfilesystem:AccessPointArn")
    )


def _by_tls(one: Statement) -> bool:
    return any(
        found.operator.lower() == "bool" and _all(found.values, "true") for found in one.compares("aws:SecureTransport")
    )


def _all(values: list[Field], word: str) -> bool:
    return bool(values) and all(str(value.raw).lower() == word for value in values)


def _let_in(graph: Graph, group: Resource) -> Iterator[Outcome]:
    for one in passing(graph, group, "ingress"):
        yield from _opens_more(one)
    if nobody := may_have_more(graph, "ingress"):
        yield unknown(nobody, "whose rule it is is not known yet")


def _opens_more(one: Passing) -> Iterator[Outcome]:
    for cidr in one.ranges:
        if cidr.unknown:
            yield unknown(cidr)
        elif is_one_of(cidr, OPEN):
            yield fail(one.field, "lets the whole internet at the file system")
            return
    if one.every_port is None:
        yield unknown(next(field for field in (one.protocol, one.first, one.last) if field.unknown))
    elif one.every_port or one.span != NFS:
        yield fail(one.field, "lets more in than port 2049")
