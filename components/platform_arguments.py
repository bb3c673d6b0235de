"""Converts settings to the arguments of the cluster and its workloads."""

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
    """Return the declared workspaces."""
    return [
        _seat(plan, destroy_data=workspace.destroy_data)
        for plan, workspace in zip(seat_plans(settings), settings.workspaces, strict=True)
    ]


def _seat(seat: SeatPlan, *, destroy_data: bool) -> SeatLayout:
    layout: SeatLayout = {
        "name": seat.name,
        "sandbox_class": seat.sandbox_class,
        "user": seat.user,
        "size": seat.size,
        "mode": seat.mode,
        "destroy_data": destroy_data,
    }
    if seat.budget is not None:
        layout["budget"] = seat.budget
    return layout


def cluster_layout(cluster: Cluster) -> ClusterLayout:
    """Return the layout of the cluster."""
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


def fargate_classes(settings: Settings, existing: ExistingRanges | None = None) -> list[FargateClass]:
    """Return the Fargate classes with the security group rules that their capabilities compile to."""
    ranges = existing or ExistingRanges()
    network = cluster_facts_with_existing(settings, ranges.vpc_cidrs, ranges.service_cidr)
    return [
        {
            "name": each.name,
            "groups": [
                {
                    "egress": [_rule(rule) for rule in group.egress],
                    "ingress": [_rule(rule) for rule in group.ingress],
                }
                for group in each.groups
            ],
        }
        for each in class_groups(settings, network)
    ]


def _rule(rule: GroupRule) -> PodGroupRule:
    group_rule: PodGroupRule = {"protocol": rule.protocol, "why": rule.why}
    ports = rule.plain()
    if "from_port" in ports:
        group_rule["from_port"], group_rule["to_port"] = ports["from_port"], ports["to_port"]
    if rule.group is not None:
        group_rule["towards"] = rule.group
    if rule.cidr is not None:
        group_rule["cidr"] = rule.cidr
    return group_rule


def capacity_layout(settings: Settings) -> CapacityLayout:
    """Return the layout of nodes."""
    layout: dict[str, Any] = {
        key: list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value
        for key, value in asdict(node_layout(settings.capacity)).items()
    }
    controller = settings.capacity.controller
    layout["controller_replicas"] = controller.replicas
    layout["controller_cpu"], layout["controller_memory"] = str(controller.cpu), str(controller.memory)
    return cast("CapacityLayout", layout)


def capacity_demands(settings: Settings) -> list[CapacityDemand]:
    """Return the node requirements of the sandbox classes."""
    return [
        {"tier": demand.tier, "kernel": demand.kernel, "capacity": demand.capacity, "gpu": demand.gpu}
        for demand in demands(settings)
    ]


def capacity_mirrors(settings: Settings) -> CapacityMirrors:
    """Return the mirrors of images and runtimes."""
    mirrors = {"registry": settings.network.mirrors.registry, "files": settings.network.mirrors.files}
    return cast("CapacityMirrors", {key: place for key, place in mirrors.items() if place is not None})


def sandbox_controller(settings: Settings) -> SandboxControllerLayout:
    """Return the configuration of the agent-sandbox controller."""
    controller = settings.cluster.sandbox_controller
    mirrors = Mirrors(settings.network.mirrors.registry)
    layout: SandboxControllerLayout = {
        "image": controller.image or mirrors.image(releases().images["agent-sandbox-controller"]),
        "replicas": controller.replicas,
        "cpu": str(controller.cpu),
        "memory": str(controller.memory),
        "label_domains": list(controller.label_domains),
        "flags": _flags(controller.flags),
    }
    if controller.manifests is not None:
        layout["manifests"] = controller.manifests
    return layout


def _flags(flags: Flags) -> ControllerFlags:
    values: dict[str, Any] = {
        "claim_workers": flags.claim_workers,
        "sandbox_workers": flags.sandbox_workers,
        "refill_rate": flags.refill_rate,
        "replenish_seconds": _seconds(flags.replenish_delay),
        "readiness_seconds": _seconds(flags.readiness_grace),
        "api_connections": flags.api_connections,
        "tracing": flags.tracing,
    }
    return cast("ControllerFlags", {key: value for key, value in values.items() if value is not None})


def _seconds(duration: timedelta | None) -> int | None:
    return None if duration is None else int(duration.total_seconds())


def capacity_headroom(settings: Settings) -> CapacityHeadroom:
    """Return the headroom to keep free on nodes."""
    headroom = settings.capacity.headroom
    return {"pods": headroom.pods, "cpu": str(headroom.cpu), "memory": str(headroom.memory)}


def cost_layout(cost: Cost) -> CostLayout | None:
    """Return the cost controls, or None if the settings enable none."""
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
