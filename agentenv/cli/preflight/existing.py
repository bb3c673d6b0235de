"""What stands already and is to be used: found by asking AWS, and judged as the program judges it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from agentenv.cli.preflight.aws_calls import Account, Unanswered, cluster_called
from agentenv.cli.preflight.check import Answer, Question
from agentenv.cli.preflight.zones import zones
from agentenv.config import Settings
from agentenv.config.sections.network import ExistingNetwork
from agentenv.core.adoption import AdoptionProblem
from agentenv.core.adoption.cluster import FoundAddon, FoundCluster, addon_problems, cluster_problems
from agentenv.core.adoption.file_systems import (
    FoundFileSystem,
    FoundMountTarget,
    file_system_problems,
    mount_problems,
    policy_problems,
)
from agentenv.core.adoption.network import FoundSubnet, FoundVpc, network_problems
from agentenv.core.nodes.node_pools import DISCOVERY_TAG

# Whom tokens of service accounts are for.
AUDIENCE = "sts.amazonaws.com"

Judge = Callable[[Account], Sequence[AdoptionProblem]]


def questions(settings: Settings) -> list[Question]:
    """A question for each thing that is to be adopted, and whether the cluster's name is free where one is made."""
    made: list[Question] = []
    network, cluster = settings.network.existing, settings.cluster.existing
    if network is not None:
        made.append(_judged("existing network", network.vpc_id, lambda account: _network(account, network, settings)))
    if cluster is not None:
        made += [
            _judged("existing cluster", cluster, lambda account: _cluster(account, settings)),
            _judged("add-ons of the existing cluster", cluster, lambda account: _addons(account, settings)),
        ]
    else:
        made.append(Question("the cluster's name", settings.cluster_name, lambda account: _free(account, settings)))
    made += [
        _judged(f"existing file system {id_}", id_, lambda account, id_=id_: _file_system(account, id_, settings))
        for id_ in settings.storage.existing
    ]
    return made


def _judged(name: str, needed: str, judge: Judge) -> Question:
    def ask(account: Account) -> Answer:
        try:
            wrong = judge(account)
        except Unanswered as silence:
            if "NotFound" not in silence.code:
                raise
            return Answer(None, ok=False, why=f"{silence}; name one that is there")
        return Answer(needed if not wrong else None, ok=not wrong, why="\n".join(str(one) for one in wrong))

    return Question(name, needed, ask)


def _network(account: Account, named: ExistingNetwork, settings: Settings) -> list[AdoptionProblem]:
    vpc = account.ask("ec2", "describe_vpcs", VpcIds=[named.vpc_id])["Vpcs"][0]
    switches = {
        word: account.ask("ec2", "describe_vpc_attribute", VpcId=named.vpc_id, Attribute=word)[
            word[0].upper() + word[1:]
        ]["Value"]
        for word in ("enableDnsSupport", "enableDnsHostnames")
    }
    found = FoundVpc(named.vpc_id, vpc["State"], switches["enableDnsSupport"], switches["enableDnsHostnames"])
    tagged = [{"Name": f"tag:{DISCOVERY_TAG}", "Values": [settings.cluster_name]}]
    discovered = account.all("ec2", "describe_subnets", "Subnets", Filters=tagged)
    private, public = _subnets(account, named.private_subnet_ids), _subnets(account, named.public_subnet_ids)
    ids = [one["SubnetId"] for one in discovered]
    wrong = network_problems(found, private, public, ids, settings.cluster_name)
    return [*wrong, *_ways_out(account, named, settings)]


def _subnets(account: Account, ids: Sequence[str]) -> list[FoundSubnet]:
    if not ids:
        return []
    found = account.all("ec2", "describe_subnets", "Subnets", SubnetIds=list(ids))
    return [
        FoundSubnet(
            one["SubnetId"],
            one["VpcId"],
            one["AvailabilityZone"],
            one["AvailableIpAddressCount"],
            one["MapPublicIpOnLaunch"],
            _tags(one),
        )
        for one in sorted(found, key=lambda one: list(ids).index(one["SubnetId"]))
    ]


def _ways_out(account: Account, named: ExistingNetwork, settings: Settings) -> list[AdoptionProblem]:
    """A private subnet has a default route, and not to the internet's own gateway; none where there is no NAT."""
    where = [{"Name": "vpc-id", "Values": [named.vpc_id]}]
    tables = account.all("ec2", "describe_route_tables", "RouteTables", Filters=where)
    usual = next((t for t in tables if any(a.get("Main") for a in t["Associations"])), None)
    wrong: list[AdoptionProblem] = []
    for id_ in named.private_subnet_ids:
        own = (t for t in tables if any(a.get("SubnetId") == id_ for a in t["Associations"]))
        table = next(own, usual) or {"Routes": []}
        out = [route for route in table["Routes"] if route.get("DestinationCidrBlock") == "0.0.0.0/0"]
        if any(str(route.get("GatewayId", "")).startswith("igw-") for route in out):
            lack = "leads to the internet by its own gateway, which takes public addresses"
            wrong.append(AdoptionProblem(id_, lack, "name a private subnet, or route it to a NAT gateway"))
        elif not out and settings.network.nat != "none":
            lack = "has no way out, and nodes reach neither images nor AWS"
            wrong.append(
                AdoptionProblem(id_, lack, "route 0.0.0.0/0 to a NAT or transit gateway, or set network.nat: none")
            )
        elif any(route.get("State") == "blackhole" for route in out):
            wrong.append(AdoptionProblem(id_, "has a way out that leads nowhere", "mend its default route"))
    return wrong


def _cluster(account: Account, settings: Settings) -> list[AdoptionProblem]:
    one = account.ask("eks", "describe_cluster", name=settings.cluster_name)["cluster"]
    vpc, network = one.get("resourcesVpcConfig") or {}, settings.network.existing
    issuer = ((one.get("identity") or {}).get("oidc") or {}).get("issuer", "")
    found = FoundCluster(
        settings.cluster_name,
        one["status"],
        one["version"],
        (one.get("accessConfig") or {}).get("authenticationMode", ""),
        vpc.get("vpcId", ""),
        bool(vpc.get("endpointPrivateAccess")),
        issuer,
    )
    wrong = cluster_problems(found, settings.cluster.version, network.vpc_id if network else None)
    return [*wrong, *(_issuer(account, issuer, one["arn"]) if issuer else [])]


def _issuer(account: Account, issuer: str, cluster_arn: str) -> list[AdoptionProblem]:
    """The cluster's issuer has to be known to IAM: the environment uses it and does not make it."""
    partition, owner = cluster_arn.split(":")[1], cluster_arn.split(":")[4]
    arn = f"arn:{partition}:iam::{owner}:oidc-provider/{issuer.removeprefix('https://')}"
    try:
        known = account.ask("iam", "get_open_id_connect_provider", OpenIDConnectProviderArn=arn)
    except Unanswered as silence:
        if silence.code != "NoSuchEntity":
            raise
        way_out = f"aws iam create-open-id-connect-provider --url {issuer} --client-id-list {AUDIENCE}"
        return [AdoptionProblem(issuer, "is no identity provider of IAM, and controllers get no roles", way_out)]
    if AUDIENCE not in known.get("ClientIDList", []):
        way_out = (
            "aws iam add-client-id-to-open-id-connect-provider"
            f" --open-id-connect-provider-arn {arn} --client-id {AUDIENCE}"
        )
        return [AdoptionProblem(arn, f"does not take tokens for {AUDIENCE}", way_out)]
    return []


def _addons(account: Account, settings: Settings) -> list[AdoptionProblem]:
    cluster = settings.cluster_name
    found: dict[str, FoundAddon] = {}
    for name in account.all("eks", "list_addons", "addons", clusterName=cluster):
        one = account.ask("eks", "describe_addon", clusterName=cluster, addonName=name)["addon"]
        found[name] = FoundAddon(
            name, one["addonVersion"], one["status"], one.get("configurationValues") or "", one.get("tags") or {}
        )
    return addon_problems(cluster, found, settings.environment)


def _free(account: Account, settings: Settings) -> Answer:
    found = cluster_called(account, settings.cluster_name)
    if found is None:
        return Answer("free", ok=True, why="")
    if (found.get("tags") or {}).get("environment") == settings.environment:
        return Answer("this environment's", ok=True, why="")
    why = "a cluster of that name is there; choose another in cluster.name, or use it by cluster.existing"
    return Answer("taken", ok=False, why=why)


def _file_system(account: Account, id_: str, settings: Settings) -> list[AdoptionProblem]:
    one = account.ask("efs", "describe_file_systems", FileSystemId=id_)["FileSystems"][0]
    found = FoundFileSystem(
        id_, bool(one.get("Encrypted")), one.get("AvailabilityZoneName") or "", one["PerformanceMode"]
    )
    group, network = settings.storage.mount_group, settings.network.existing
    ours = _mounted_by_us(account, settings) if group is None else frozenset[str]()
    targets = [
        FoundMountTarget(
            target["MountTargetId"],
            id_,
            target["VpcId"],
            target["AvailabilityZoneName"],
            groups,
        )
        for target in account.all("efs", "describe_mount_targets", "MountTargets", FileSystemId=id_)
        if not ours
        & set(
            groups := account.ask(
                "efs", "describe_mount_target_security_groups", MountTargetId=target["MountTargetId"]
            )["SecurityGroups"]
        )
    ]
    places = zones(account, settings) if group is not None else []
    return [
        *file_system_problems(found),
        *mount_problems(id_, targets, places, network.vpc_id if network else None, group),
        *policy_problems(id_, _policy(account, id_)),
    ]


def _mounted_by_us(account: Account, settings: Settings) -> frozenset[str]:
    """The groups of mount targets that this environment has made already."""
    marked = [
        {"Name": "tag:environment", "Values": [settings.environment]},
        {"Name": "tag:component", "Values": ["storage"]},
    ]
    found = account.once(
        "mount groups", lambda: account.all("ec2", "describe_security_groups", "SecurityGroups", Filters=marked)
    )
    return frozenset(one["GroupId"] for one in found)


def _policy(account: Account, id_: str) -> dict[str, Any] | None:
    try:
        return json.loads(account.ask("efs", "describe_file_system_policy", FileSystemId=id_)["Policy"])
    except Unanswered as silence:
        if silence.code != "PolicyNotFound":
            raise
        return None


def _tags(thing: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in thing.get("Tags") or []}
