"""CLU rules about the control plane: its endpoint, logs, authentication, encryption and version."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.core.capabilities.sets.address_ranges import OPEN_ADDRESS_COUNT, is_open_range, parse_network
from agentenv.policies.rules.registry import Outcome, Scope, fail, forbid, forbid_boolean, resources, rule, unknown
from agentenv.policies.view.cluster.clusters import PATHS, RESOURCE, Cluster, clusters_in
from agentenv.policies.view.fields import Field, scalar
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import Resource

CLUSTER: Scope[Cluster] = Scope("every EKS cluster", PATHS.__contains__, clusters_in, Cluster.has_inner_resource)

KEY = "aws:kms/key:Key"
LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")
# The oldest minor version of Kubernetes 1 in standard support (EKS Kubernetes release calendar)
OLDEST_MINOR = 34


@rule(
    id="CLU-01",
    title="The API server is not open to the internet",
    severity="Critical",
    why="With a public endpoint, one stolen token or one vulnerability of the API server is enough to attack the"
    " cluster.",
    fix="Set endpointPublicAccess to false, or publicAccessCidrs to the ranges of operators and deployments.",
    equivalents={"Checkov": ("CKV_AWS_38",), "CIS": ("5.4.1",)},
    applies_to=CLUSTER,
    defaults="Public, for 0.0.0.0/0, by default (EKS API reference, VpcConfigRequest).",
)
def open_endpoint(cluster: Cluster) -> Iterator[Outcome]:
    """Check the ranges of a public endpoint, each and in total."""
    public, ranges = cluster.at("public"), cluster.at("ranges")
    if public.raw is False:
        return
    outcomes = list(_open_ranges(ranges))
    if public.unknown and outcomes:
        yield unknown(public)
    else:
        yield from outcomes


def _open_ranges(ranges: Field) -> Iterator[Outcome]:
    elements = ranges.elements()
    if not elements:
        yield fail(ranges, "publicAccessCidrs is empty, so the public endpoint is open to every address")
    addresses = 0
    for element in elements:
        network = parse_network(element.raw)
        if network is None:
            yield unknown(element)
        elif is_open_range(network):
            yield fail(element, f"the public endpoint is open to {network}")
        elif network.version == 4:
            addresses += network.num_addresses
    if addresses >= OPEN_ADDRESS_COUNT:
        yield fail(ranges, "the ranges of the public endpoint contain a quarter of the internet or more")


@rule(
    id="CLU-02",
    title="All control plane logs are enabled",
    severity="Medium",
    why="Only the audit log shows who ran what in a sandbox.",
    fix=f"Set enabledClusterLogTypes to {', '.join(LOG_TYPES)}.",
    equivalents={"Checkov": ("CKV_AWS_37",), "Security Hub": ("EKS.8",), "CIS": ("2.1.1",)},
    applies_to=CLUSTER,
    defaults="No logs by default (EKS API reference, Logging).",
)
def control_plane_logs(cluster: Cluster) -> Iterator[Outcome]:
    """Check that all five types are enabled."""
    logs = cluster.at("logs")
    elements = logs.elements()
    missing = [kind for kind in LOG_TYPES if kind not in {scalar(element) for element in elements}]
    if missing and (undecided := [element for element in elements if element.unknown]):
        yield unknown(undecided[0])
    elif missing:
        yield fail(logs, f"the control plane does not log {', '.join(missing)}")


@rule(
    id="CLU-03",
    title="Access to the cluster is granted only by access entries",
    severity="Medium",
    why="Anybody who can edit the aws-auth ConfigMap can lock out everybody else, and IAM audits do not show it.",
    fix="Set authenticationMode to API.",
    applies_to=CLUSTER,
    defaults="CONFIG_MAP by default (EKS API reference, CreateAccessConfigRequest).",
)
def authentication_mode(cluster: Cluster) -> Iterator[Outcome]:
    """Check that the mode is `API`."""
    mode = cluster.at("authentication")
    yield from forbid(
        mode,
        lambda value: value != "API",
        "the aws-auth ConfigMap also grants access: the authentication mode is not API",
    )


@rule(
    id="CLU-07",
    title="Secrets are encrypted with a customer managed key",
    severity="Medium",
    why="Only a customer managed key can be audited, and revoked if the cluster is compromised.",
    fix="Set encryptionConfig of the cluster with a KMS key, for the resources `secrets`.",
    equivalents={"Checkov": ("CKV_AWS_58",), "Security Hub": ("EKS.3",), "CIS": ("5.3.1",)},
    applies_to=CLUSTER,
    defaults="A key of AWS by default, since Kubernetes 1.28 (EKS user guide, envelope encryption).",
)
def secrets_key(cluster: Cluster, graph: Graph) -> Iterator[Outcome]:
    """Check that there is a key. An unknown configuration may have none, unless it depends on a key of the stack."""
    key = cluster.at("key")
    if key.missing:
        yield fail(key, "Secrets are not encrypted with a customer managed key")
    elif key.unknown and cluster.resource.at("encryptionConfig").unknown and not _is_from_key(cluster, graph):
        yield unknown(key)


def _is_from_key(cluster: Cluster, graph: Graph) -> bool:
    """Return whether an unknown configuration depends on a key, as that of the eks component does if it has one."""
    return bool(graph.targets(cluster.resource, "encryptionConfig", KEY))


@rule(
    id="CLU-08",
    title="The Kubernetes version is in standard support",
    severity="Medium",
    why="A version in extended support gets fixes late and costs six times as much.",
    fix="Upgrade the cluster, one minor version at a time.",
    equivalents={"Checkov": ("CKV_AWS_339",), "Security Hub": ("EKS.2",)},
    applies_to=CLUSTER,
    defaults="The newest version of EKS by default (EKS API reference, CreateCluster).",
)
def supported_version(cluster: Cluster) -> Iterator[Outcome]:
    """Compare with the oldest supported version at the time of this release."""
    version = cluster.at("version")
    if version.missing:
        return
    major, _, minor = (version.text or "").partition(".")
    if not (major.isdigit() and minor.isdigit()):
        yield unknown(version)
    elif (int(major), int(minor)) < (1, OLDEST_MINOR):
        yield fail(
            version, f"Kubernetes {major}.{minor} is older than 1.{OLDEST_MINOR}, the oldest in standard support"
        )


@rule(
    id="CLU-09",
    title="The creator of the cluster is not its admin",
    severity="Medium",
    why="The creator's access is not in the list of access entries, and remains after that person or pipeline is gone.",
    fix="Set accessConfig.bootstrapClusterCreatorAdminPermissions to false, and grant access with access entries.",
    applies_to=resources(RESOURCE),
    defaults="True by default (EKS API reference, CreateAccessConfigRequest).",
)
def creator_admin(cluster: Resource) -> Iterator[Outcome]:
    """Check the resource: the component of the eks provider has no such setting."""
    creator = cluster.at("accessConfig", "bootstrapClusterCreatorAdminPermissions")
    yield from forbid_boolean(creator, {True, None}, "the creator of the cluster remains its admin")


@rule(
    id="CLU-12",
    title="The private endpoint of the API server is enabled",
    severity="Medium",
    why="Without it, nodes and pods reach the API server over the internet, and publicAccessCidrs must allow all of"
    " them.",
    fix="Set endpointPrivateAccess to true.",
    equivalents={"CIS": ("5.4.2",)},
    applies_to=CLUSTER,
    defaults="Off by default (EKS API reference, VpcConfigRequest).",
)
def private_endpoint(cluster: Cluster) -> Iterator[Outcome]:
    """Check that it is enabled, regardless of the public one."""
    private = cluster.at("private")
    yield from forbid_boolean(private, {False, None}, "the private endpoint is disabled")
