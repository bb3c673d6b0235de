"""The components that are exported to other Pulumi languages."""

import pulumi

from agentenv.components.capacity.capacity import Capacity
from agentenv.components.cluster.adopted_cluster import AdoptedCluster
from agentenv.components.cluster.cluster import Cluster
from agentenv.components.cluster.cluster_addons import ClusterAddons
from agentenv.components.cost.cluster_costs import ClusterCosts
from agentenv.components.cost.cost_controls import CostControls
from agentenv.components.environment import Environment
from agentenv.components.network.adopted_network import AdoptedNetwork
from agentenv.components.network.network import Network
from agentenv.components.sandboxes.agent_sandbox import AgentSandbox
from agentenv.components.sandboxes.guardrails import Guardrails
from agentenv.components.sandboxes.sandbox_class import SandboxClass
from agentenv.components.sandboxes.workspace import Workspace
from agentenv.components.service.workspace_service import WorkspaceService
from agentenv.components.storage.adopted_storage import AdoptedStorage
from agentenv.components.storage.home_metering import StorageMetering
from agentenv.components.storage.storage import Storage

EXPORTED_COMPONENTS: list[type[pulumi.ComponentResource]] = [
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
