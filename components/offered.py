"""The components that other languages may use."""

import pulumi

from components.adopted_cluster import AdoptedCluster
from components.adopted_network import AdoptedNetwork
from components.adopted_storage import AdoptedStorage
from components.agent_sandbox import AgentSandbox
from components.capacity import Capacity
from components.cluster import Cluster
from components.cluster_addons import ClusterAddons
from components.cluster_costs import ClusterCosts
from components.cost_controls import CostControls
from components.environment import Environment
from components.guardrails import Guardrails
from components.network import Network
from components.sandbox_class import SandboxClass
from components.storage import Storage
from components.storage_metering import StorageMetering
from components.workspace import Workspace
from components.workspace_service import WorkspaceService

COMPONENTS: list[type[pulumi.ComponentResource]] = [
    AdoptedCluster,
    AdoptedNetwork,
    AdoptedStorage,
    AgentSandbox,
    Capacity,
    Cluster,
    ClusterAddons,
    ClusterCosts,
    CostControls,
    Environment,
    Guardrails,
    Network,
    SandboxClass,
    Storage,
    StorageMetering,
    Workspace,
    WorkspaceService,
]
