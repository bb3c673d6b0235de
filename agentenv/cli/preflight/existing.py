"""Check existing resources that are to be adopted: read them from AWS, and apply the program's adoption checks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from agentenv.cli.preflight.aws_calls import Account, AwsCallError, find_cluster
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

# The audience of service account tokens.
AUDIENCE = "sts.amazonaws.com"

FindProblems = Callable[[Account], Sequence[AdoptionProblem]]


def questions(settings: Settings) -> list[Question]:
    """Return a question for each adopted resource, and for a new cluster whether its name is available."""
    found: list[Question] = []
    network, cluster = settings.network.existing, settings.cluster.existing
    if network is not None:
        found.append(
            _question("existing network", network.vpc_id, lambda account: _network(account, network, settings))
        )
    if cluster is not None:
        found += [
            _question("existing cluster", cluster, lambda account: _cluster(account, settings)),
            _question("add-ons of the existing cluster", cluster, lambda account: _addons(account, settings)),
        ]
    else:
        answer = partial(_cluster_name_answer, settings=settings)
        found.append(Question("the cluster's name", settings.cluster_name, answer))
    found += [
        _question(f"existing file system {id_}", id_, lambda account, id_=id_: _file_system(account, id_, settings))
        for id_ in settings.storage.existing
    ]
    return found


def _question(name: str, needed: str, find_problems: FindProblems) -> Question:
    def answer(account: Account) -> Answer:
        try:
            problems = find_problems(account)
        except AwsCallError as error:
            if "NotFound" not in error.code:
                raise
            return Answer(None, ok=False, why=f"{error}; name an existing one")
        return Answer(needed if not problems else None, ok=not problems, why="\n".join(map(str, problems)))

    return Question(name, needed, answer)


def _network(account: Account, network: ExistingNetwork, settings: Settings) -> list[AdoptionProblem]:
    description = account.call("ec2", "describe_vpcs", VpcIds=[network.vpc_id])["Vpcs"][0]
    dns = {
        name: account.call("ec2", "describe_vpc_attribute", VpcId=network.vpc_id, Attribute=name)[
            name[0].upper() + name[1:]
        ]["Value"]
        for name in ("enableDnsSupport", "enableDnsHostnames")
    }
    vpc = FoundVpc(network.vpc_id, description["State"], dns["enableDnsSupport"], dns["enableDnsHostnames"])
    tagged = [{"Name": f"tag:{DISCOVERY_TAG}", "Values": [settings.cluster_name]}]
    discovered = account.list_all("ec2", "describe_subnets", "Subnets", Filters=tagged)
    private, public = _subnets(account, network.private_subnet_ids), _subnets(account, network.public_subnet_ids)
    ids = [subnet["SubnetId"] for subnet in discovered]
    problems = network_problems(vpc, private, public, ids, settings.cluster_name)
    return [*problems, *_route_problems(account, network, settings)]


def _subnets(account: Account, ids: Sequence[str]) -> list[FoundSubnet]:
    if not ids:
        return []
    subnets = account.list_all("ec2", "describe_subnets", "Subnets", SubnetIds=list(ids))
    return [
        FoundSubnet(
            subnet["SubnetId"],
            subnet["VpcId"],
            subnet["AvailabilityZone"],
            subnet["AvailableIpAddressCount"],
            subnet["MapPublicIpOnLaunch"],
            _tags(subnet),
        )
        for subnet in sorted(subnets, key=lambda subnet: list(ids).index(subnet["SubnetId"]))
    ]


def _route_problems(account: Account, network: ExistingNetwork, settings: Settings) -> list[AdoptionProblem]:
    """Check that a private subnet has a default route, but not to an internet gateway. With nat: none it needs none."""
    in_vpc = [{"Name": "vpc-id", "Values": [network.vpc_id]}]
    tables = account.list_all("ec2", "describe_route_tables", "RouteTables", Filters=in_vpc)
    main = next((t for t in tables if any(a.get("Main") for a in t["Associations"])), None)
    problems: list[AdoptionProblem] = []
    for id_ in network.private_subnet_ids:
        own = (t for t in tables if any(a.get("SubnetId") == id_ for a in t["Associations"]))
        table = next(own, main) or {"Routes": []}
        default = [route for route in table["Routes"] if route.get("DestinationCidrBlock") == "0.0.0.0/0"]
        if any(str(route.get("GatewayId", "")).startswith("igw-") for route in default):
            text = "has a default route to an internet gateway, so it is a public subnet"
            problems.append(AdoptionProblem(id_, text, "name a private subnet, or route it to a NAT gateway"))
        elif not default and settings.network.nat != "none":
            text = "has no default route, so nodes can pull no images and cannot reach AWS"
            problems.append(
                AdoptionProblem(id_, text, "route 0.0.0.0/0 to a NAT or transit gateway, or set network.nat: none")
            )
        elif any(route.get("State") == "blackhole" for route in default):
            problems.append(AdoptionProblem(id_, "has a default route to a deleted target", "repair its default route"))
    return problems


def _cluster(account: Account, settings: Settings) -> list[AdoptionProblem]:
    description = account.call("eks", "describe_cluster", name=settings.cluster_name)["cluster"]
    vpc, network = description.get("resourcesVpcConfig") or {}, settings.network.existing
    issuer = ((description.get("identity") or {}).get("oidc") or {}).get("issuer", "")
    cluster = FoundCluster(
        settings.cluster_name,
        description["status"],
        description["version"],
        (description.get("accessConfig") or {}).get("authenticationMode", ""),
        vpc.get("vpcId", ""),
        bool(vpc.get("endpointPrivateAccess")),
        issuer,
    )
    problems = cluster_problems(cluster, settings.cluster.version, network.vpc_id if network else None)
    return [*problems, *(_issuer(account, issuer, description["arn"]) if issuer else [])]


def _issuer(account: Account, issuer: str, cluster_arn: str) -> list[AdoptionProblem]:
    """Check that IAM has the cluster's OIDC issuer: the environment uses it and does not create it."""
    partition, owner = cluster_arn.split(":")[1], cluster_arn.split(":")[4]
    arn = f"arn:{partition}:iam::{owner}:oidc-provider/{issuer.removeprefix('https://')}"
    try:
        provider = account.call("iam", "get_open_id_connect_provider", OpenIDConnectProviderArn=arn)
    except AwsCallError as error:
        if error.code != "NoSuchEntity":
            raise
        fix = f"aws iam create-open-id-connect-provider --url {issuer} --client-id-list {AUDIENCE}"
        return [AdoptionProblem(issuer, "is not an IAM identity provider, so controllers cannot assume roles", fix)]
    if AUDIENCE not in provider.get("ClientIDList", []):
        fix = (
            "aws iam add-client-id-to-open-id-connect-provider"
            f" --open-id-connect-provider-arn {arn} --client-id {AUDIENCE}"
        )
        return [AdoptionProblem(arn, f"does not accept tokens for {AUDIENCE}", fix)]
    return []


def _addons(account: Account, settings: Settings) -> list[AdoptionProblem]:
    cluster = settings.cluster_name
    found: dict[str, FoundAddon] = {}
    for name in account.list_all("eks", "list_addons", "addons", clusterName=cluster):
        addon = account.call("eks", "describe_addon", clusterName=cluster, addonName=name)["addon"]
        found[name] = FoundAddon(
            name,
            addon["addonVersion"],
            addon["status"],
            addon.get("configurationValues") or "",
            addon.get("tags") or {},
        )
    return addon_problems(cluster, found, settings.environment)


def _cluster_name_answer(account: Account, settings: Settings) -> Answer:
    cluster = find_cluster(account, settings.cluster_name)
    if cluster is None:
        return Answer("free", ok=True, why="")
    if (cluster.get("tags") or {}).get("environment") == settings.environment:
        return Answer("this environment's", ok=True, why="")
    why = "a cluster with that name exists; choose another in cluster.name, or adopt it with cluster.existing"
    return Answer("taken", ok=False, why=why)


def _file_system(account: Account, id_: str, settings: Settings) -> list[AdoptionProblem]:
    description = account.call("efs", "describe_file_systems", FileSystemId=id_)["FileSystems"][0]
    file_system = FoundFileSystem(
        id_,
        bool(description.get("Encrypted")),
        description.get("AvailabilityZoneName") or "",
        description["PerformanceMode"],
    )
    group, network = settings.storage.mount_group, settings.network.existing
    own_groups = _own_mount_groups(account, settings) if group is None else frozenset[str]()
    targets = [
        FoundMountTarget(
            target["MountTargetId"],
            id_,
            target["VpcId"],
            target["AvailabilityZoneName"],
            groups,
        )
        for target in account.list_all("efs", "describe_mount_targets", "MountTargets", FileSystemId=id_)
        if not own_groups
        & set(
            groups := account.call(
                "efs", "describe_mount_target_security_groups", MountTargetId=target["MountTargetId"]
            )["SecurityGroups"]
        )
    ]
    zone_names = zones(account, settings) if group is not None else []
    return [
        *file_system_problems(file_system),
        *mount_problems(id_, targets, zone_names, network.vpc_id if network else None, group),
        *policy_problems(id_, _file_system_policy(account, id_)),
    ]


def _own_mount_groups(account: Account, settings: Settings) -> frozenset[str]:
    """Return the security groups of the mount targets that this environment has created."""
    tags = [
        {"Name": "tag:environment", "Values": [settings.environment]},
        {"Name": "tag:component", "Values": ["storage"]},
    ]
    groups = account.cached(
        "mount groups", lambda: account.list_all("ec2", "describe_security_groups", "SecurityGroups", Filters=tags)
    )
    return frozenset(group["GroupId"] for group in groups)


def _file_system_policy(account: Account, id_: str) -> dict[str, Any] | None:
    try:
        return json.loads(account.call("efs", "describe_file_system_policy", FileSystemId=id_)["Policy"])
    except AwsCallError as error:
        if error.code != "PolicyNotFound":
            raise
        return None


def _tags(resource: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in resource.get("Tags") or []}
