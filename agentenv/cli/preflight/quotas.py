"""Check service quotas: the account's limits, less what is already in use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentenv.cli.preflight import needs
from agentenv.cli.preflight.aws_calls import Account, AwsCallError
from agentenv.cli.preflight.check import Answer, Question
from agentenv.config import Settings

Usage = tuple[int, int]  # in use in the account, and of those by this environment


@dataclass(frozen=True)
class Quota:
    """A service quota, with a default for regions where AWS does not list it."""

    service: str
    code: str
    default: int | None = None


VPCS = Quota("vpc", "L-F678F1CE")
INTERNET_GATEWAYS = Quota("vpc", "L-A4707A72")
ENDPOINTS = Quota("vpc", "L-29B6F2EB")
ADDRESSES = Quota("ec2", "L-0263D0A3")
CLUSTERS = Quota("eks", "L-1194D53C")
FARGATE_PROFILES = Quota("eks", "L-33415657")
FARGATE_CORES = Quota("fargate", "L-3032A538")
FILE_SYSTEMS = Quota("elasticfilesystem", "L-848C634D")
BALANCERS = Quota("elasticloadbalancing", "L-69A177A2")  # network load balancers
TARGET_GROUPS = Quota("elasticloadbalancing", "L-B22855CB")
TARGET_GROUPS_EACH = Quota("elasticloadbalancing", "L-822D1B1B", 100)
# AWS does not list it in every region; it cannot be raised.
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
    """Return a question for each quota that the environment needs."""
    found = [_cores(cores, settings.cluster_name) for cores in needs.node_cores(settings)]
    found.append(_limit_question("quota: cores on Fargate", needs.fargate_cores(settings), FARGATE_CORES))
    if settings.network.existing is None:
        found += [
            _usage_question("quota: VPCs in the region", 1, VPCS, _ec2("describe_vpcs", "Vpcs", settings)),
            _usage_question(
                "quota: internet gateways in the region",
                1,
                INTERNET_GATEWAYS,
                _ec2("describe_internet_gateways", "InternetGateways", settings),
            ),
        ]
    if addresses := needs.nat_gateways(settings):
        usage = _ec2("describe_addresses", "Addresses", settings)
        found.append(_usage_question("quota: elastic addresses", addresses, ADDRESSES, usage))
    if settings.network.existing is None and settings.network.endpoints:
        found.append(_limit_question("quota: interface endpoints in a VPC", len(settings.network.endpoints), ENDPOINTS))
    if settings.cluster.existing is None:
        found.append(
            _usage_question("quota: EKS clusters in the region", 1, CLUSTERS, _clusters(settings.cluster_name))
        )
    profiles = needs.fargate_profiles(settings)
    if settings.cluster.existing is None:
        found.append(_limit_question("quota: Fargate profiles of a cluster", profiles, FARGATE_PROFILES))
    else:
        usage = _profiles(settings)
        found.append(_usage_question("quota: Fargate profiles of a cluster", profiles, FARGATE_PROFILES, usage))
    if not settings.storage.existing:
        count, usage = settings.storage.file_systems, _file_systems(settings.environment)
        found.append(_usage_question("quota: EFS file systems", count, FILE_SYSTEMS, usage))
    found.append(_access_points(settings))
    if settings.service.enabled and settings.service.domain:
        found += [
            _usage_question(
                "quota: load balancers in the region", 1, BALANCERS, _balancing("load_balancers", "LoadBalancers")
            ),
            _usage_question(
                "quota: target groups in the region", 1, TARGET_GROUPS, _balancing("target_groups", "TargetGroups")
            ),
            # One target group for all users: a router behind it separates them.
            _limit_question("quota: target groups of a load balancer", 1, TARGET_GROUPS_EACH),
        ]
    return found


def quota_value(account: Account, quota: Quota) -> int:
    """Return the value of a quota in the account, or AWS's default if the account has no value."""
    key = {"ServiceCode": quota.service, "QuotaCode": quota.code}
    try:
        response = account.call("service-quotas", "get_service_quota", **key)
    except AwsCallError as error:
        if error.code != "NoSuchResourceException":
            raise
        try:
            response = account.call("service-quotas", "get_aws_default_service_quota", **key)
        except AwsCallError as second:
            if second.code == "NoSuchResourceException" and quota.default is not None:
                return quota.default
            raise
    return int(response["Quota"]["Value"])


def quota_answer(needed: int, limit: int, usage: Usage, unit: str = "") -> Answer:
    """Return whether the need fits beside the usage of others. The environment's own usage covers part of its need."""
    total, own = usage
    missing = total + max(0, needed - own) - limit
    text = f"{total}{unit} in use" + (f", {own} of them by this environment" if own else "")
    if missing <= 0:
        return Answer(limit, ok=True, why=text)
    return Answer(limit, ok=False, why=f"{text}: {missing} too few; request a higher quota, or free some")


def _limit_question(name: str, needed: int, quota: Quota) -> Question:
    return Question(name, needed, lambda account: _limit_answer(needed, quota_value(account, quota)))


def _limit_answer(needed: int, limit: int) -> Answer:
    if needed <= limit:
        return Answer(limit, ok=True, why="")
    return Answer(limit, ok=False, why=f"{needed - limit} too few; request a higher quota, or reduce the need")


def _usage_question(name: str, needed: int, quota: Quota, usage: Callable[[Account], Usage]) -> Question:
    return Question(name, needed, lambda account: quota_answer(needed, quota_value(account, quota), usage(account)))


def _cores(cores: needs.Cores, cluster: str) -> Question:
    name = f"quota: {'Spot' if cores.capacity == 'spot' else 'on-demand'} cores, {cores.group}"

    def answer(account: Account) -> Answer:
        quota = CORES.get((cores.group, cores.capacity))
        if quota is None:
            return Answer(None, None, "no EC2 quota is known for these instance families")
        answer = quota_answer(cores.amount, quota_value(account, quota), _running(account, cores, cluster), " cores")
        return Answer(answer.limit, answer.ok, f"{answer.why}; for {cores.basis}")

    return Question(name, cores.amount, answer)


def _running(account: Account, cores: needs.Cores, cluster: str) -> Usage:
    """Return the cores of running instances of the same group and purchase option."""
    running = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    reservations = account.cached(
        "instances", lambda: account.list_all("ec2", "describe_instances", "Reservations", Filters=running)
    )
    total = own = 0
    for instance in (instance for reservation in reservations for instance in reservation["Instances"]):
        capacity = "spot" if instance.get("InstanceLifecycle") == "spot" else "on-demand"
        family = instance["InstanceType"].partition(".")[0]
        if (needs.group_of(family), capacity) == (cores.group, cores.capacity):
            options = instance.get("CpuOptions") or {}
            count = options.get("CoreCount", needs.NODE_CORES) * options.get("ThreadsPerCore", 1)
            total += count
            own += count if _tag(instance, "eks:eks-cluster-name") == cluster else 0
    return total, own


def _ec2(operation: str, key: str, settings: Settings) -> Callable[[Account], Usage]:
    def usage(account: Account) -> Usage:
        resources = account.list_all("ec2", operation, key)
        return len(resources), sum(_tag(row, "environment") == settings.environment for row in resources)

    return usage


def _clusters(name: str) -> Callable[[Account], Usage]:
    def usage(account: Account) -> Usage:
        names = account.list_all("eks", "list_clusters", "clusters")
        return len(names), names.count(name)

    return usage


def _profiles(settings: Settings) -> Callable[[Account], Usage]:
    def usage(account: Account) -> Usage:
        names = account.list_all(
            "eks", "list_fargate_profiles", "fargateProfileNames", clusterName=settings.cluster_name
        )
        return len(names), sum(name.startswith("agents-cluster-") for name in names)

    return usage


def _file_systems(environment: str) -> Callable[[Account], Usage]:
    def usage(account: Account) -> Usage:
        file_systems = account.list_all("efs", "describe_file_systems", "FileSystems")
        return len(file_systems), sum(_tag(row, "environment") == environment for row in file_systems)

    return usage


def _balancing(kind: str, key: str) -> Callable[[Account], Usage]:
    return lambda account: (len(account.list_all("elbv2", f"describe_{kind}", key)), 0)


def _access_points(settings: Settings) -> Question:
    needed = needs.access_points(settings)

    def answer(account: Account) -> Answer:
        quotas = account.list_all("service-quotas", "list_service_quotas", "Quotas", ServiceCode="elasticfilesystem")
        named = (row for row in quotas if row.get("QuotaName", "").lower().startswith("access points"))
        limit = next((int(row["Value"]) for row in named), ACCESS_POINTS)
        return access_point_answer(needed, limit, max(_access_point_usage(account, settings), default=()))

    return Question("quota: access points of a file system", needed, answer)


def access_point_answer(needed: int, limit: int, fullest: tuple[int, int] | tuple[()]) -> Answer:
    """Return whether a file system has room for all sandboxes, beside the retained homes of deleted workspaces.

    `fullest` has the access points of the fullest file system, and how many of them have an owner. EFS does not know
    which of those still have a sandbox, so any number of them may be retained.
    """
    total, owned = fullest or (0, 0)
    if not total or needed > limit:
        return _limit_answer(needed, limit)
    text = f"{total} on the fullest file system, {owned} of them with an owner"
    if total >= limit:
        return Answer(
            limit, ok=False, why=f"{text}: full; add a file system, or shorten the retention of deleted homes"
        )
    if needed + owned <= limit:
        return Answer(limit, ok=True, why=text)
    why = f"{text}: too few if more than {max(0, limit - needed)} of those are retained after their workspaces"
    return Answer(limit, ok=None, why=why)


def _access_point_usage(account: Account, settings: Settings) -> list[tuple[int, int]]:
    """Return for each file system of the environment its access points, and how many of those have an owner."""
    ids = list(settings.storage.existing) or [
        row["FileSystemId"]
        for row in account.list_all("efs", "describe_file_systems", "FileSystems")
        if _tag(row, "environment") == settings.environment
    ]
    found: list[tuple[int, int]] = []
    for id_ in ids:
        points = account.list_all("efs", "describe_access_points", "AccessPoints", FileSystemId=id_)
        found.append((len(points), sum(_tag(point, "sandbox-user") is not None for point in points)))
    return found


def _tag(resource: dict[str, Any], key: str) -> str | None:
    return next((tag["Value"] for tag in resource.get("Tags") or [] if tag["Key"] == key), None)
