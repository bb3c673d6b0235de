"""EFS rules about file systems: encryption, mount policies, mount targets, backups and zones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from agentenv.core.capabilities.unknown_values import Unknown
from agentenv.policies.rules.registry import GRAPH, Outcome, fail, forbid, resources, rule, unknown
from agentenv.policies.view.fields import is_one_of
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.iam.statements import Statement, statements, unknown_in
from agentenv.policies.view.references import Reference, reference, with_listed
from agentenv.policies.view.resource import Resource
from agentenv.policies.view.tenants.security_groups import GROUPS, GroupRule, group_rules, rule_of_unknown_group

FILE_SYSTEM, POLICY = "aws:efs/fileSystem:FileSystem", "aws:efs/fileSystemPolicy:FileSystemPolicy"
BACKUP, TARGET, SUBNET = "aws:efs/backupPolicy:BackupPolicy", "aws:efs/mountTarget:MountTarget", "aws:ec2/subnet:Subnet"
SELECTION: Final = "aws:backup/selection:Selection"
MOUNT, ROOT = "elasticfilesystem:ClientMount", "elasticfilesystem:ClientRootAccess"
NFS: Final = (2049, 2049)
# The only condition keys that EFS enforces for the mounts of NFS clients
ENFORCED_KEYS: Final = frozenset(
    {
        "aws:securetransport",
        "aws:sourceip",
        "elasticfilesystem:accesspointarn",
        "elasticfilesystem:accessedviamounttarget",
    }
)
ALL_ADDRESSES: Final = frozenset({"0.0.0.0/0", "::/0"})


@rule(
    id="EFS-01",
    title="File systems are encrypted with a customer managed key",
    severity="High",
    why="The file system has the files of all users. With AWS's own key, access to decryption can be neither controlled"
    " nor revoked.",
    fix="Set encrypted to true and kmsKeyId to a key of the environment.",
    equivalents={"Checkov": ("CKV_AWS_42", "CKV_AWS_184"), "Security Hub": ("EFS.1",)},
    applies_to=resources(FILE_SYSTEM),
    defaults="Not encrypted by default, and with AWS's key if only encrypted is set (EFS API reference,"
    " CreateFileSystem).",
)
def encrypted(system: Resource) -> Iterator[Outcome]:
    """Check both fields."""
    flag, key = system.at("encrypted"), system.at("kmsKeyId")
    yield from forbid(flag, lambda value: value is not True, "is not encrypted")
    if flag.raw is True and (key.missing or key.raw == ""):
        yield fail(key, "is encrypted with AWS's key and not with a customer managed one")


@rule(
    id="EFS-06",
    title="Clients mount a file system through an access point, with TLS and not as root",
    severity="Critical",
    why="Without a policy, every client in the VPC can mount the whole file system as root.",
    fix="Add a policy that denies mounting without an access point, without TLS and as root, or that allows it only"
    " with all three conditions.",
    equivalents={"AWS": ("EFS documents: using IAM to control file system access",)},
    applies_to=GRAPH,
    defaults="Without a policy, every client that reaches a mount target has full access. With one, the policies of a"
    " role can also allow it. Of a mount, EFS enforces four condition keys only: a negated condition on another key is"
    " always met (EFS documents).",
)
def mount_policy(graph: Graph) -> Iterator[Outcome]:
    """Check that everybody is denied, or that each allowing statement has the condition; and the condition keys."""
    references = {policy: reference(graph, policy, ("fileSystemId",), FILE_SYSTEM) for policy in graph.of_type(POLICY)}
    for system in graph.of_type(FILE_SYSTEM):
        yield from _has_reference(references, system, "has no policy: every client can mount all of it as root")
    for policy in references:
        document = policy.at("policy")
        if document.missing or unknown_in(document) is not None:
            yield unknown(document)
            continue
        every = statements(document)
        unknown_fields = (each.field for each in every if each.field.unknown or each.allows is None)
        if doubt := next(unknown_fields, None):
            yield unknown(doubt)
        allowing = [each for each in every if each.allows and each.matches_action(MOUNT) is not False]
        denies_no_point = _is_denied(every, MOUNT, _without_access_point)
        denies_no_tls = _is_denied(every, MOUNT, _without_tls)
        if not denies_no_point and not all(map(_requires_access_point, allowing)):
            yield fail(document, "allows a client to mount it without an access point")
        if not denies_no_tls and not all(map(_requires_tls, allowing)):
            yield fail(document, "allows a client to mount it without TLS")
        if not allowing and not (denies_no_point and denies_no_tls) and not doubt:
            conditions = (("an access point", denies_no_point), ("TLS", denies_no_tls))
            missing = " and ".join(name for name, is_denied in conditions if not is_denied)
            yield fail(document, f"does not deny mounting without {missing}, which the policies of roles can allow")
        about_mounts = (each for each in every if each.matches_action(MOUNT) is not False)
        keys = {condition.key: condition.name for each in about_mounts for condition in each.conditions}
        for key in sorted(keys.keys() - ENFORCED_KEYS - {"*"}):
            yield fail(document, f"has a condition on {keys[key]}, which EFS does not enforce for mounts")
        root = [each for each in every if each.allows and each.matches_action(ROOT) is not False]
        if root and not _is_denied(every, ROOT, _is_unconditional):
            yield fail(document, "allows root access of clients")
        if any(each.is_open_to_everybody() and not _requires_access_point(each) for each in allowing):
            yield fail(document, "allows everybody to mount it")


@rule(
    id="EFS-09",
    title="Mount targets accept only port 2049 from nodes, in private subnets",
    severity="High",
    why="Every other client that can reach a mount target can try to read the files of all users.",
    fix="Use a security group that allows port 2049 only from the group of the nodes, in subnets without a route to the"
    " internet.",
    equivalents={"Security Hub": ("EFS.6",)},
    applies_to=GRAPH,
    defaults="A mount target without security groups is in the default group of the VPC (EFS API reference,"
    " CreateMountTarget). A subnet assigns no public addresses by default (EC2 API reference).",
)
def mount_targets(graph: Graph) -> Iterator[Outcome]:
    """Check the groups of mount targets, each once, and their subnets."""
    checked: set[str] = set()
    for target in graph.of_type(TARGET):
        ids = target.at("securityGroups")
        if ids.missing or (ids.known and not ids.elements()):
            yield fail(ids, "is in the default security group of the VPC")
        groups = with_listed(graph, graph.targets(target, "securityGroups", *GROUPS), ids, *GROUPS)
        if not groups and ids.holds_unknown():
            yield unknown(ids)
        for group in groups:
            if group.urn not in checked:
                checked.add(group.urn)
                yield from _group_ingress(graph, group)
        for subnet in reference(graph, target, ("subnetId",), SUBNET).targets:
            public = subnet.at("mapPublicIpOnLaunch")
            if public.unknown:
                yield unknown(public)
            elif public.raw is True:
                yield fail(target.at("subnetId"), f"is in the public subnet '{subnet.name}'")


@rule(
    id="EFS-10",
    title="File systems are backed up",
    severity="Medium",
    why="A file system can be deleted, or emptied by a program, in seconds. Then only a backup is left.",
    fix="Add a BackupPolicy with status ENABLED, or a backup selection with the file system.",
    equivalents={"Security Hub": ("EFS.2",)},
    applies_to=GRAPH,
    defaults="Not backed up by default, except file systems in one zone (EFS API reference, CreateFileSystem, Backup).",
)
def backed_up(graph: Graph) -> Iterator[Outcome]:
    """Check environments that are not short-lived."""
    if graph.context.short_lived:
        return
    references = {policy: reference(graph, policy, ("fileSystemId",), FILE_SYSTEM) for policy in graph.of_type(BACKUP)}
    selections = graph.of_type(SELECTION)
    selected = {system for each in selections for system in graph.targets(each, "resources", FILE_SYSTEM)}
    for system in graph.of_type(FILE_SYSTEM):
        if system in selected or any(_selects_by_tag(each, system) for each in selections):
            continue
        if not system.at("availabilityZoneName").missing:
            continue
        yield from _has_reference(references, system, "has no backup policy")
    for policy in references:
        status = policy.at("backupPolicy", "status")
        yield from forbid(status, lambda value: value not in ("ENABLED", "ENABLING"), "is not backed up")


@rule(
    id="EFS-11",
    title="File systems of production are in several zones",
    severity="Medium",
    why="If its only zone fails, a file system is lost with all workspaces.",
    fix="Remove availabilityZoneName, so that the file system is regional.",
    applies_to=resources(FILE_SYSTEM),
    defaults="Regional by default (EFS API reference, CreateFileSystem).",
)
def regional(system: Resource) -> Iterator[Outcome]:
    """Check production only: elsewhere, one zone saves money."""
    if system.context.environment == "prod":
        yield from forbid(system.at("availabilityZoneName"), lambda value: value is not None, "is in one zone only")


def _has_reference(references: dict[Resource, Reference], system: Resource, message: str) -> Iterator[Outcome]:
    answers = [each.refers_to(system) for each in references.values()]
    if True in answers:
        return
    doubt = next((each.field for each in references.values() if each.refers_to(system) is None), None)
    yield fail(system.root, message) if doubt is None else unknown(doubt)


def _is_denied(every: list[Statement], action: str, in_case: Callable[[Statement], bool]) -> bool:
    """Return whether a statement denies everybody the action, at least in a case."""
    denying = (each for each in every if each.denies and each.has_every_principal and not each.has("NotPrincipal"))
    return any(each.matches_action(action) and in_case(each) for each in denying)


def _is_unconditional(statement: Statement) -> bool:
    return not statement.is_conditional


def _selects_by_tag(selection: Resource, system: Resource) -> bool:
    return any(
        isinstance(tag.at("key").raw, str) and system.at("tags", str(tag.at("key").raw)).raw == tag.at("value").raw
        for tag in selection.at("selectionTags").elements()
    )


def _without_access_point(statement: Statement) -> bool:
    if not statement.is_conditional:
        return True
    return len(statement.conditions) == 1 and any(
        condition.operator.lower() == "null" and _all(condition.values, "true")
        for condition in statement.conditions_on("elasticfilesystem:AccessPointArn")
    )


def _without_tls(statement: Statement) -> bool:
    if not statement.is_conditional:
        return True
    return len(statement.conditions) == 1 and any(
        condition.operator.lower() in {"bool", "boolifexists"} and _all(condition.values, "false")
        for condition in statement.conditions_on("aws:SecureTransport")
    )


def _requires_access_point(statement: Statement) -> bool:
    return any(
        (condition.requires_match and not any(str(value).strip("*") == "" for value in condition.values))
        or (condition.operator.lower() == "null" and _all(condition.values, "false"))
        for condition in statement.conditions_on("elasticfilesystem:AccessPointArn")
    )


def _requires_tls(statement: Statement) -> bool:
    return any(
        condition.operator.lower() == "bool" and _all(condition.values, "true")
        for condition in statement.conditions_on("aws:SecureTransport")
    )


def _all(values: tuple[str | Unknown, ...], text: str) -> bool:
    return bool(values) and all(str(value).lower() == text for value in values)


def _group_ingress(graph: Graph, group: Resource) -> Iterator[Outcome]:
    for group_rule in group_rules(graph, group, "ingress"):
        yield from _more_than_nfs(group_rule)
    if field := rule_of_unknown_group(graph, "ingress"):
        yield unknown(field, "the group of the rule is not known yet")


def _more_than_nfs(group_rule: GroupRule) -> Iterator[Outcome]:
    for cidr in group_rule.ranges:
        if cidr.unknown:
            yield unknown(cidr)
        elif is_one_of(cidr, ALL_ADDRESSES):
            yield fail(group_rule.field, "allows ingress from the internet")
            return
    if group_rule.all_ports is None:
        fields = (group_rule.protocol, group_rule.first, group_rule.last)
        yield unknown(next(field for field in fields if field.unknown))
    elif group_rule.all_ports or group_rule.port_range != NFS:
        yield fail(group_rule.field, "allows ingress on other ports than 2049")
