"""From settings to the arguments of the cluster and of what runs on it."""

from dataclasses import asdict
from datetime import timedelta
from typing import Any, cast

from agentenv.components._lib.existing import ExistingRanges
from agentenv.components.capacity.capacity_layout import (
    CapacityDemand,
    CapacityHeadroom,
    CapacityLayout,
    CapacityMirrors,
)
from agentenv.components.cluster.access import ClusterAccess
from agentenv.components.cluster.cluster import ClusterLayout
from agentenv.components.cost.cost_controls import CostLayout
from agentenv.components.sandboxes.agent_sandbox import SandboxControllerLayout
from agentenv.components.sandboxes.controller import ControllerFlags
from agentenv.components.sandboxes.fargate_security_groups import FargateClass, PodGroupRule
from agentenv.components.sandboxes.workspace import SeatLayout
from agentenv.config import Settings
from agentenv.config.sections.cluster import Cluster
from agentenv.config.sections.cost import Cost
from agentenv.config.sections.sandbox_controller import ControllerFlags as Flags
from agentenv.core.capabilities.from_settings import cluster_facts_with_existing
from agentenv.core.capabilities.policies.class_security_groups import class_groups
from agentenv.core.capabilities.policies.security_group_rules import GroupRule
from agentenv.core.nodes.addon_builds import chosen_builds
from agentenv.core.nodes.from_settings import demands, node_layout
from agentenv.core.nodes.mirrors import Mirrors
from agentenv.core.pinned_versions import releases
from agentenv.core.workspaces.seats import SeatPlan, seat_plans


def seat_layouts(settings: Settings) -> list[SeatLayout]:
    """The workspaces that are always there."""
    return [
        _seat(one, destroyed=said.destroy_data)
        for one, said in zip(seat_plans(settings), settings.workspaces, strict=True)
    ]


def _seat(seat: SeatPlan, *, destroyed: bool) -> SeatLayout:
    told: SeatLayout = {
        "name": seat.name,
        "sandbox_class": seat.sandbox_class,
        "user": seat.user,
        "size": seat.size,
        "mount_path": seat.mount_path,
        "mode": seat.mode,
        "destroy_data": destroyed,
    }
    if seat.budget is not None:
        told["budget"] = seat.budget
    return told


def cluster_layout(cluster: Cluster) -> ClusterLayout:
    """What the cluster is to be."""
    access: ClusterAccess = {
        "admins": list(cluster.admins),
        "operators": list(cluster.operators),
        "readers": list(cluster.readers),
        "deployers": list(cluster.deployers),
    }
    return {
        "version": cluster.version,
        "access": access,
        "public_access_cidrs": [str(cidr) for cidr in cluster.public_access_cidrs],
        "service_cidr": str(cluster.service_cidr),
        "log_days": cluster.log_days,
        "support_policy": cluster.support_policy,
        "addon_versions": chosen_builds(cluster.addon_versions),
        "sandbox_controller": cluster.sandbox_controller.place,
    }


def fargate_classes(settings: Settings, standing: ExistingRanges | None = None) -> list[FargateClass]:
    """The classes on Fargate, with the rules that their capabilities are compiled to among what stands already."""
    found = standing or ExistingRanges()
    here = cluster_facts_with_existing(settings, found.vpc_cidrs, found.service_cidr)
    return [
        {
            "name": one.name,
            "groups": [
                {
                    "egress": [_rule(rule) for rule in group.egress],
                    "ingress": [_rule(rule) for rule in group.ingress],
                }
                for group in one.groups
            ],
        }
        for one in class_groups(settings, here)
    ]


def _rule(rule: GroupRule) -> PodGroupRule:
    told: PodGroupRule = {"protocol": rule.protocol, "why": rule.why}
    said = rule.plain()
    if "from_port" in said:
        told["from_port"], told["to_port"] = said["from_port"], said["to_port"]
    if rule.group is not None:
        told["towards"] = rule.group
    if rule.cidr is not None:
        told["cidr"] = rule.cidr
    return told


def capacity_layout(settings: Settings) -> CapacityLayout:
    """How nodes are to be."""
    plain: dict[str, Any] = {
        key: list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value
        for key, value in asdict(node_layout(settings.capacity)).items()
    }
    controller = settings.capacity.controller
    plain["controller_replicas"] = controller.replicas
    plain["controller_cpu"], plain["controller_memory"] = str(controller.cpu), str(controller.memory)
    return cast("CapacityLayout", plain)


def capacity_demands(settings: Settings) -> list[CapacityDemand]:
    """What the classes of sandboxes ask of nodes."""
    return [
        {"tier": one.tier, "kernel": one.kernel, "capacity": one.capacity, "gpu": one.gpu} for one in demands(settings)
    ]


def capacity_mirrors(settings: Settings) -> CapacityMirrors:
    """Where copies are of what the internet has."""
    places = {"registry": settings.network.mirrors.registry, "files": settings.network.mirrors.files}
    return cast("CapacityMirrors", {key: place for key, place in places.items() if place is not None})


def sandbox_controller(settings: Settings) -> SandboxControllerLayout:
    """The controller that turns claims into sandboxes."""
    told = settings.cluster.sandbox_controller
    mirrors = Mirrors(settings.network.mirrors.registry)
    layout: SandboxControllerLayout = {
        "image": told.image or mirrors.image(releases().images["agent-sandbox-controller"]),
        "replicas": told.replicas,
        "cpu": str(told.cpu),
        "memory": str(told.memory),
        "label_domains": list(told.label_domains),
        "flags": _flags(told.flags),
    }
    if told.manifests is not None:
        layout["manifests"] = told.manifests
    return layout


def _flags(flags: Flags) -> ControllerFlags:
    said: dict[str, Any] = {
        "claim_workers": flags.claim_workers,
        "sandbox_workers": flags.sandbox_workers,
        "refill_rate": flags.refill_rate,
        "replenish_seconds": _seconds(flags.replenish_delay),
        "readiness_seconds": _seconds(flags.readiness_grace),
        "api_connections": flags.api_connections,
        "tracing": flags.tracing,
    }
    return cast("ControllerFlags", {key: value for key, value in said.items() if value is not None})


def _seconds(wait: timedelta | None) -> int | None:
    return None if wait is None else int(wait.total_seconds())


def capacity_headroom(settings: Settings) -> CapacityHeadroom:
    """Room kept free."""
    room = settings.capacity.headroom
    return {"pods": room.pods, "cpu": str(room.cpu), "memory": str(room.memory)}


def cost_layout(cost: Cost) -> CostLayout | None:
    """What is controlled of costs, if anything is."""
    if not (cost.monthly_budget or cost.usage_export or cost.anomaly_alerts or cost.platform_dashboard) and (
        cost.cost_tags != "activate"
    ):
        return None
    layout: CostLayout = {
        "notice_at": cost.notice_at,
        "cost_tags": cost.cost_tags,
        "cost_labels": cost.cost_labels,
        "usage_export": cost.usage_export,
        "usage_export_days": cost.usage_export_days,
        "query_scan_bytes": int(cost.query_scan_limit.value),
        "anomaly_alerts": cost.anomaly_alerts,
        "anomaly_from": f"{cost.anomaly_from:f}",
        "platform_dashboard": cost.platform_dashboard,
    }
    if cost.monthly_budget is not None:
        layout["monthly_budget"] = f"{cost.monthly_budget:f}"
    if cost.alert_to is not None:
        layout["alert_to"] = cost.alert_to
    if cost.anomaly_monitor is not None:
        layout["anomaly_monitor_arn"] = cost.anomaly_monitor
    return layout
