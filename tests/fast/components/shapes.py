"""Components that tests begin from, with plans of settings that they change in what they are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from agentenv.components.cluster.cluster import Cluster
from agentenv.components.network.network import Network, NetworkContext
from agentenv.components.storage.storage import Storage
from agentenv.config import read
from agentenv.config.sections.network import Network as NetworkSettings
from agentenv.core.environment import EnvironmentFacts
from agentenv.core.plan import NetworkPlan, Plan, plan
from tests.fast.components.graph import REGION
from tests.fast.config.stack_samples import config

if TYPE_CHECKING:
    import pulumi

ROUTED: dict[str, Any] = {"peers": (IPv4Network("10.9.0.0/16"),), "transit_gateway": "tgw-0a1b2c3d4e5f60718"}
TAGS = {"environment": "dev", "owner": "platform", "cost-center": "cc-1"}
FACTS = EnvironmentFacts("dev", "dev-agents", TAGS)
NETWORK = NetworkContext("vpc-1", ("subnet-a", "subnet-b"), "sg-nodes", "arn:aws:kms:eu-west-1:123456789012:key/logs")


def planned(sections: Mapping[str, Any] | None = None, environment: str = "dev") -> Plan:
    """The plan of these sections, with the names and tags of the others here."""
    chosen = {"cost": {}, "cluster": {}, **(sections or {})}
    chosen["cost"] = {"costCenter": "cc-1", **chosen["cost"]}
    if "existing" not in chosen["cluster"]:
        chosen["cluster"] = {"name": f"{environment}-agents", **chosen["cluster"]}
    return plan(read(config(chosen, REGION), environment))


def network(
    name: str = "net",
    opts: pulumi.ResourceOptions | None = None,
    *,
    facts: EnvironmentFacts = FACTS,
    runtime_bucket: bool = False,
    **settings: Any,
) -> Network:
    """A network of two zones, less what is given."""
    return Network(name, NetworkPlan(facts, NetworkSettings(**settings), runtime_bucket), opts)


def storage(
    name: str = "files",
    opts: pulumi.ResourceOptions | None = None,
    *,
    facts: EnvironmentFacts = FACTS,
    within: NetworkContext = NETWORK,
    clients: pulumi.Input[Sequence[pulumi.Input[str]]] = (),
    **settings: Any,
) -> Storage:
    """A storage in two subnets; the settings are those of a stack file."""
    plan_ = replace(planned({"storage": settings}).storage, environment=facts)
    return Storage(name, plan_, within, client_role_arns=clients, opts=opts)


def cluster(
    name: str = "eks",
    opts: pulumi.ResourceOptions | None = None,
    *,
    facts: EnvironmentFacts = FACTS,
    within: NetworkContext = NETWORK,
    classes: Sequence[Mapping[str, Any]] = (),
    **settings: Any,
) -> Cluster:
    """A cluster in two subnets for these sandbox classes; the settings are those of a stack file."""
    plan_ = planned({"cluster": settings, "sandboxClasses": list(classes)}).cluster
    return Cluster(name, replace(plan_, environment=facts), within, opts)
