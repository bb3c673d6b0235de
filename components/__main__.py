"""Serves the components to every Pulumi language; the engine starts it as `PulumiPlugin.yaml` says."""

from importlib.metadata import version

from pulumi.provider.experimental import component_provider_host

from components.adopted_cluster import AdoptedCluster
from components.adopted_network import AdoptedNetwork
from components.adopted_storage import AdoptedStorage
from components.agent_sandbox import AgentSandbox
from components.capacity import Capacity
from components.cluster import Cluster
from components.cluster_addons import ClusterAddons
from components.environment import Environment
from components.network import Network
from components.storage import Storage
from components.workspace import Workspace

component_provider_host(
    [
        AdoptedCluster,
        AdoptedNetwork,
        AdoptedStorage,
        AgentSandbox,
        Capacity,
        Cluster,
        ClusterAddons,
        Environment,
        Network,
        Storage,
        Workspace,
    ],
    name="agent-environment",
    version=version("agent-environment"),
)
