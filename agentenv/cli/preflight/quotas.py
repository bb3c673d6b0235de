"""Service quotas: how much of each thing the account may have, less what others in it have already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentenv.cli.preflight import needs
from agentenv.cli.preflight.aws_calls import Account, Unanswered
from agentenv.cli.preflight.check import Answer, Question
from agentenv.config import Settings

Used = tuple[int, int]  # all there are, and how many of those are this environment's


@dataclass(frozen=True)
class Quota:
    """A quota as AWS knows it, and what it is where AWS does not say."""

    service: str
    code: str
    otherwise: int | None = None


VPCS = Quota("vpc", "L-F678F1CE")
GATEWAYS = Quota("vpc", "L-A4707A72")
ENDPOINTS = Quota("vpc", "L-29B6F2EB")
ADDRESSES = Quota("ec2", "L-0263D0A3")
CLUSTERS = Quota("eks", "L-1194D53C")
PROFILES = Quota("eks", "L-33415657")
FARGATE = Quota("fargate", "L-3032A538")
FILE_SYSTEMS = Quota("elasticfilesystem", "L-848C634D")
BALANCERS = Quota("elasticloadbalancing", "L-53DA6B97")
TARGET_GROUPS = Quota("elasticloadbalancing", "L-B22855CB")
TARGET_GROUPS_EACH = Quota("elasticloadbalancing", "L-822D1B1B", 100)
# Not among the service's quotas in every region; it cannot be raised.
ACCESS_POINTS = 10_000

CORES = {
    (needs.STANDARD, "on-demand"): Quota("ec2", "L-1216C47A"),
    (needs.STANDARD, "spot"): Quota("ec2", "L-34B43A08"),
    ("G and VT", "on-demand"): Quota("ec2", "L-DB2E81BA"),
    ("G and VT", "spot"): Quota("ec2", "L-3819A6DF"),
    ("P", "on-demand"): Quota("ec2", "L-417A185B"),
    ("P", "spot"): Quota("ec2", "L-7212CCBC"),
    ("Inf", "on-demand"): Quota("ec2", "L-1945791B"),
    ("Inf", "spot"): Quota("ec2", "L-B5D1601B"),
    ("Trn", "on-demand"): Quota("ec2", "L-2C3B7624"),
    ("Trn", "spot"): Quota("ec2", "L-6B0D517C"),
    ("F", "on-demand"): Quota("ec2", "L-74FC7D96"),
    ("F", "spot"): Quota("ec2", "L-88CF9481"),
    ("X", "on-demand"): Quota("ec2", "L-7295265B"),
    ("X", "spot"): Quota("ec2", "L-E3A00192"),
    ("HPC", "on-demand"): Quota("ec2", "L-F7808C92"),
    ("High Memory", "on-demand"): Quota("ec2", "L-43DA4232"),
}


def questions(settings: Settings) -> list[Question]:
    """What the environment takes of the account's quotas."""
    made = [_cores(cores, settings.cluster_name) for cores in needs.node_cores(settings)]
    made.append(_plain("quota: cores on Fargate", needs.fargate_cores(settings), FARGATE))
    if settings.network.existing is None:
        made += [
            _counted("quota: VPCs in the region", 1, VPCS, _ec2("describe_vpcs", "Vpcs", settings)),
            _counted(
                "quota: internet gateways in the region",
                1,
                GATEWAYS,
                _ec2("describe_internet_gateways", "InternetGateways", settings),
            ),
        ]
    if addresses := needs.gateways(settings):
        used = _ec2("describe_addresses", "Addresses", settings)
        made.append(_counted("quota: elastic addresses", addresses, ADDRESSES, used))
    if settings.network.existing is None and settings.network.endpoints:
        made.append(_plain("quota: interface endpoints in a VPC", len(settings.network.endpoints), ENDPOINTS))
    if settings.cluster.existing is None:
        made.append(_counted("quota: EKS clusters in the region", 1, CLUSTERS, _clusters(settings.cluster_name)))
    profiles = needs.fargate_profiles(settings)
    if settings.cluster.existing is None:
        made.append(_plain("quota: Fargate profiles of a cluster", profiles, PROFILES))
    else:
        made.append(_counted("quota: Fargate profiles of a cluster", profiles, PROFILES, _profiles(settings)))
    if not settings.storage.existing:
        count, used = settings.storage.file_systems, _file_systems(settings.environment)
        made.append(_counted("quota: EFS file systems", count, FILE_SYSTEMS, used))
    made.append(_access_points(settings))
    if settings.service.enabled and settings.service.domain:
        made += [
            _counted(
                "quota: load balancers in the region", 1, BALANCERS, _balancing("load_balancers", "LoadBalancers")
            ),
            _counted(
                "quota: target groups in the region", 1, TARGET_GROUPS, _balancing("target_groups", "TargetGroups")
            ),
            # One for everybody: a router behind it tells users apart.
            _plain("quota: target groups of a load balancer", 1, TARGET_GROUPS_EACH),
        ]
    return made


def value(account: Account, quota: Quota) -> int:
    """A quota of the account, or AWS's default where it has none of its own."""
    named = {"ServiceCode": quota.service, "QuotaCode": quota.code}
    try:
        found = account.ask("service-quotas", "get_service_quota", **named)
    except Unanswered as silence:
        if silence.code != "NoSuchResourceException":
            raise
        try:
            found = account.ask("service-quotas", "get_aws_default_service_quota", **named)
        except Unanswered as still:
            if still.code == "NoSuchResourceException" and quota.otherwise is not None:
                return quota.otherwise
            raise
    return int(found["Quota"]["Value"])


def judged(needed: int, limit: int, used: Used, unit: str = "") -> Answer:
    """Whether a number fits beside what others have; what is this environment's already is not needed again."""
    total, ours = used
    short = total + max(0, needed - ours) - limit
    told = f"{total}{unit} in use" + (f", {ours} of them by this environment" if ours else "")
    if short <= 0:
        return Answer(limit, ok=True, why=told)
    return Answer(limit, ok=False, why=f"{told}: {short} too few; ask for a higher quota, or give some back")


def _plain(name: str, needed: int, quota: Quota) -> Question:
    return Question(name, needed, lambda account: _enough(needed, value(account, quota)))


def _enough(needed: int, limit: int) -> Answer:
    if needed <= limit:
        return Answer(limit, ok=True, why="")
    return Answer(limit, ok=False, why=f"{needed - limit} too few; ask for a higher quota, or need less")


def _counted(name: str, needed: int, quota: Quota, used: Callable[[Account], Used]) -> Question:
    return Question(name, needed, lambda account: judged(needed, value(account, quota), used(account)))


def _cores(cores: needs.Cores, cluster: str) -> Question:
    name = f"quota: {'Spot' if cores.capacity == 'spot' else 'on-demand'} cores, {cores.group}"

    def ask(account: Account) -> Answer:
        quota = CORES.get((cores.group, cores.capacity))
        if quota is None:
            return Answer(None, None, "EC2 has no quota for these that is known here")
        answer = judged(cores.amount, value(account, quota), _running(account, cores, cluster), " cores")
        return Answer(answer.limit, answer.ok, f"{answer.why}; for {cores.reckoned}")

    return Question(name, cores.amount, ask)


def _running(account: Account, cores: needs.Cores, cluster: str) -> Used:
    """The cores of instances that run now, of the same kind and bought the same way."""
    alive = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    reservations = account.once(
        "instances", lambda: account.all("ec2", "describe_instances", "Reservations", Filters=alive)
    )
    total = ours = 0
    for instance in (one for reservation in reservations for one in reservation["Instances"]):
        bought = "spot" if instance.get("InstanceLifecycle") == "spot" else "on-demand"
        family = instance["InstanceType"].partition(".")[0]
        if (needs.group_of(family), bought) == (cores.group, cores.capacity):
            options = instance.get("CpuOptions") or {}
            count = options.get("CoreCount", needs.NODE_CORES) * options.get("ThreadsPerCore", 1)
            total += count
            ours += count if _tag(instance, "eks:eks-cluster-name") == cluster else 0
    return total, ours


def _ec2(operation: str, key: str, settings: Settings) -> Callable[[Account], Used]:
    def used(account: Account) -> Used:
        found = account.all("ec2", operation, key)
        return len(found), sum(_tag(one, "environment") == settings.environment for one in found)

    return used


def _clusters(name: str) -> Callable[[Account], Used]:
    def used(account: Account) -> Used:
        names = account.all("eks", "list_clusters", "clusters")
        return len(names), names.count(name)

    return used


def _profiles(settings: Settings) -> Callable[[Account], Used]:
    def used(account: Account) -> Used:
        names = account.all("eks", "list_fargate_profiles", "fargateProfileNames", clusterName=settings.cluster_name)
        return len(names), sum(name.startswith("agents-cluster-") for name in names)

    return used


def _file_systems(environment: str) -> Callable[[Account], Used]:
    def used(account: Account) -> Used:
        found = account.all("efs", "describe_file_systems", "FileSystems")
        return len(found), sum(_tag(one, "environment") == environment for one in found)

    return used


def _balancing(what: str, key: str) -> Callable[[Account], Used]:
    return lambda account: (len(account.all("elbv2", f"describe_{what}", key)), 0)


def _access_points(settings: Settings) -> Question:
    needed = needs.access_points(settings)

    def ask(account: Account) -> Answer:
        listed = account.all("service-quotas", "list_service_quotas", "Quotas", ServiceCode="elasticfilesystem")
        told = [int(one["Value"]) for one in listed if one.get("QuotaName", "").lower().startswith("access points")]
        return room_for_homes(needed, told[0] if told else ACCESS_POINTS, max(_standing(account, settings), default=()))

    return Question("quota: access points of a file system", needed, ask)


def room_for_homes(needed: int, limit: int, standing: tuple[int, int] | tuple[()]) -> Answer:
    """Whether a file system has room for all that may be held at once, beside homes that are kept after their end.

    `standing` are the access points of the fullest one, and how many of them have an owner. EFS does not know which of
    those still have their sandbox: between none and all of them are kept.
    """
    there, owned = standing or (0, 0)
    if not there or needed > limit:
        return _enough(needed, limit)
    said = f"{there} on the fullest, {owned} of them with an owner"
    if there >= limit:
        return Answer(limit, ok=False, why=f"{said}: full; add a file system, or keep deleted homes for less long")
    if needed + owned <= limit:
        return Answer(limit, ok=True, why=said)
    why = f"{said}: too few if more than {max(0, limit - needed)} of those are kept for owners that left"
    return Answer(limit, ok=None, why=why)


def _standing(account: Account, settings: Settings) -> list[tuple[int, int]]:
    """Of each file system of the environment, how many access points it has, and how many of those have an owner."""
    named = list(settings.storage.existing) or [
        one["FileSystemId"]
        for one in account.all("efs", "describe_file_systems", "FileSystems")
        if _tag(one, "environment") == settings.environment
    ]
    found: list[tuple[int, int]] = []
    for id_ in named:
        points = account.all("efs", "describe_access_points", "AccessPoints", FileSystemId=id_)
        found.append((len(points), sum(_tag(one, "sandbox-user") is not None for one in points)))
    return found


def _tag(thing: dict[str, Any], key: str) -> str | None:
    return next((tag["Value"] for tag in thing.get("Tags") or [] if tag["Key"] == key), None)
