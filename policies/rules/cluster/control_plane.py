"""CLU: the cluster's control plane: who reaches it, what it writes down, and how it is kept."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.core.capabilities.sets.address_ranges import OPEN_ADDRESS_COUNT, is_open_range, parse_network
from agentenv.policies.rules.registry import About, Outcome, fail, rule, unknown
from agentenv.policies.view.cluster.clusters import WORDS, Cluster, clusters_of
from agentenv.policies.view.fields import Field, scalar
from agentenv.policies.view.graph import Graph

CLUSTER: About[Cluster] = About("every EKS cluster", WORDS.__contains__, clusters_of)

LOGS = ("api", "audit", "authenticator", "controllerManager", "scheduler")
# The oldest minor version of Kubernetes 1 that AWS supports without a surcharge (its Kubernetes release calendar)
OLDEST = 34


@rule(
    id="CLU-01",
    title="The API server is not open to the world",
    severity="Critical",
    why="A public endpoint puts the cluster one stolen token, or one flaw of the API server, away from everybody.",
    do="Set endpointPublicAccess to false, or publicAccessCidrs to the ranges of those who deploy and operate.",
    equivalents={"Checkov": ("CKV_AWS_38",), "CIS": ("5.4.1",)},
    about=CLUSTER,
    defaults="Public, for 0.0.0.0/0, where nothing is said (EKS API reference, VpcConfigRequest).",
)
def open_endpoint(cluster: Cluster, graph: Graph) -> Iterator[Outcome]:
    """What the ranges allow, alone and together, where the endpoint is public."""
    public, ranges = cluster.at("public"), cluster.at("ranges")
    if cluster.made_by_another(graph) or public.raw is False:
        return
    said = list(_open(ranges))
    if public.unknown and said:
        yield unknown(public)
    else:
        yield from said


def _open(ranges: Field) -> Iterator[Outcome]:
    elements = ranges.elements()
    if not elements:
        yield fail(ranges, "no ranges are named for the public endpoint, so it is open to every address")
    reached = 0
    for element in elements:
        network = parse_network(element.raw)
        if network is None:
            yield unknown(element)
        elif is_open_range(network):
            yield fail(element, f"the public endpoint is open to {network}")
        elif network.version == 4:
            reached += network.num_addresses
    if reached >= OPEN_ADDRESS_COUNT:
        yield fail(ranges, "the ranges of the public endpoint add up to a quarter of the internet or more")


@rule(
    id="CLU-02",
    title="The control plane writes all its logs",
    severity="Medium",
    why="Who ran what in whose sandbox stands in the audit log, and in no other place.",
    do=f"Set enabledClusterLogTypes to {', '.join(LOGS)}.",
    equivalents={"Checkov": ("CKV_AWS_37",), "Security Hub": ("EKS.8",), "CIS": ("2.1.1",)},
    about=CLUSTER,
    defaults="No log is written where nothing is said (EKS API reference, Logging).",
)
def control_plane_logs(cluster: Cluster, graph: Graph) -> Iterator[Outcome]:
    """All five kinds."""
    if cluster.made_by_another(graph):
        return
    logs = cluster.at("logs")
    elements = logs.elements()
    lacking = [kind for kind in LOGS if kind not in {scalar(element) for element in elements}]
    if lacking and (unsaid := [element for element in elements if element.unknown]):
        yield unknown(unsaid[0])
    elif lacking:
        yield fail(logs, f"the control plane does not log {', '.join(lacking)}")


@rule(
    id="CLU-03",
    title="Access to the cluster is given by access entries alone",
    severity="Medium",
    why="The aws-auth ConfigMap is a file: whoever edits it can lock everybody out, and no IAM audit sees it.",
    do="Set authenticationMode to API.",
    about=CLUSTER,
    defaults="CONFIG_MAP where nothing is said (EKS API reference, CreateAccessConfigRequest).",
)
def authentication_mode(cluster: Cluster, graph: Graph) -> Iterator[Outcome]:
    """`API` and nothing beside it."""
    mode = cluster.at("authentication")
    if cluster.made_by_another(graph):
        return
    if mode.unknown:
        yield unknown(mode)
    elif mode.raw != "API":
        yield fail(mode, "the aws-auth ConfigMap is heard, too: the authentication mode is not API")


@rule(
    id="CLU-07",
    title="Secrets are encrypted with a key of one's own",
    severity="Medium",
    why="Only a key of one's own can be audited, and taken away from a cluster that was broken into.",
    do="Give the cluster a KMS key: encryptionConfig, for the resources `secrets`.",
    equivalents={"Checkov": ("CKV_AWS_58",), "Security Hub": ("EKS.3",), "CIS": ("5.3.1",)},
    about=CLUSTER,
    defaults="A key that AWS owns where nothing is said, from Kubernetes 1.28 (EKS user guide, envelope encryption).",
)
def secrets_key(cluster: Cluster, graph: Graph) -> Iterator[Outcome]:
    """A key that is not known yet is one; a configuration that is not known yet may have none."""
    key = cluster.at("key")
    if cluster.made_by_another(graph):
        return
    if key.missing:
        yield fail(key, "the cluster's secrets have no key of their own")
    elif key.unknown and cluster.resource.at("encryptionConfig").unknown:
        yield unknown(key)


@rule(
    id="CLU-08",
    title="The cluster's version is in standard support",
    severity="Medium",
    why="A version that has left standard support gets fixes late, and costs six times as much for them.",
    do="Upgrade the cluster, one minor version after another.",
    equivalents={"Checkov": ("CKV_AWS_339",), "Security Hub": ("EKS.2",)},
    about=CLUSTER,
    defaults="The newest that EKS offers by itself where nothing is said (EKS API reference, CreateCluster).",
)
def supported_version(cluster: Cluster, graph: Graph) -> Iterator[Outcome]:
    """By the oldest that is supported when this is written: a newer one is never called old."""
    version = cluster.at("version")
    if cluster.made_by_another(graph) or version.missing:
        return
    major, _, minor = (version.text or "").partition(".")
    if not (major.isdigit() and minor.isdigit()):
        yield unknown(version)
    elif (int(major), int(minor)) < (1, OLDEST):
        yield fail(version, f"Kubernetes {major}.{minor} is older than 1.{OLDEST}, the oldest in standard support")


@rule(
    id="CLU-09",
    title="Who made the cluster does not stay its admin",
    severity="Medium",
    why="The entry of the creator is in no list of access entries, and outlives the person or pipeline it was.",
    do="Set accessConfig.bootstrapClusterCreatorAdminPermissions to false and name those who deploy by access entries.",
    about=CLUSTER,
    defaults="True where nothing is said (EKS API reference, CreateAccessConfigRequest).",
)
def creator_admin(cluster: Cluster) -> Iterator[Outcome]:
    """The component of the eks plugin has no word for it: what it makes has."""
    if cluster.says("creator"):
        creator = cluster.at("creator")
        if creator.unknown:
            yield unknown(creator)
        elif creator.raw is not False:
            yield fail(creator, "whoever makes the cluster is its admin for ever")


@rule(
    id="CLU-12",
    title="Nodes reach the API server inside the VPC",
    severity="Medium",
    why="Without the private endpoint nodes and pods talk to the API server over the internet, and its ranges have"
    " to let all of them in.",
    do="Set endpointPrivateAccess to true.",
    equivalents={"CIS": ("5.4.2",)},
    about=CLUSTER,
    defaults="Off where nothing is said (EKS API reference, VpcConfigRequest).",
)
def private_endpoint(cluster: Cluster, graph: Graph) -> Iterator[Outcome]:
    """On, whatever the public one is."""
    private = cluster.at("private")
    if cluster.made_by_another(graph):
        return
    if private.unknown:
        yield unknown(private)
    elif private.raw is not True:
        yield fail(private, "the endpoint inside the VPC is off")
