"""Describe a destination for a message, as a counterexample that a reader can try."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentenv.core.capabilities.sets.address_ranges import METADATA, NOT_INTERNET, address_text, spans
from agentenv.core.capabilities.sets.domains import EVERY_NAME, example
from agentenv.core.capabilities.sets.pods import NAMESPACE_NAME, remaining_pod_ports

if TYPE_CHECKING:
    from agentenv.core.capabilities.sets.boxes import BoxSet, Version
    from agentenv.core.capabilities.sets.domains import Name
    from agentenv.core.capabilities.sets.intervals import Span
    from agentenv.core.capabilities.sets.pods import PodPorts, Pods
    from agentenv.core.capabilities.sets.reach import Reach


def destination(reach: Reach) -> str:
    """Describe the first destination of a reach that is not empty: the smallest address, else pods, else a name."""
    if reach.boxes:
        return _address_text(reach.boxes)
    pod_ports = remaining_pod_ports(reach.pod_ports, ())
    return _pod_ports_text(pod_ports[0]) if pod_ports else _name_text(min(reach.names, key=lambda name: name.pattern))


def _address_text(boxes: BoxSet) -> str:
    (version, protocol), slabs = boxes.planes[0]
    low, high, ports = slabs[0]
    where = "by ICMP or another protocol without ports" if protocol == "OTHER" else f"on {protocol} port {ports.first}"
    found = f"{address_text(version, low)}{_meaning(version, low)} {where}"
    wider = [f"{address_text(version, low)} to {address_text(version, high)}"] if high > low else []
    if protocol != "OTHER" and ports.spans != ((ports.first, ports.first),):
        wider.append(f"ports {_ports_text(ports.spans)}")
    return f"{found} (of {', '.join(wider)})" if wider else found


def _meaning(version: Version, address: int) -> str:
    text = address_text(version, address)
    if text in METADATA:
        return ", where credentials are handed out,"
    return next(
        (f", which is {why}," for cidr, why in NOT_INTERNET.items() if address in spans((cidr,)).get(version, ())), ""
    )


def _ports_text(ports: tuple[Span, ...]) -> str:
    return " and ".join(str(low) if low == high else f"{low}-{high}" for low, high in ports)


def _pod_ports_text(pod_ports: PodPorts) -> str:
    what = (
        "protocols without ports"
        if pod_ports.protocol == "OTHER"
        else f"{pod_ports.protocol} port {pod_ports.ports.first}"
    )
    return f"{_pods_text(pod_ports.pods)} on {what}"


def _pods_text(pods: Pods) -> str:
    labels: dict[str, list[str]] = {"pod": [], "namespace": []}
    for (side, key), values in pods.labels:
        if key != NAMESPACE_NAME:
            value = values.example
            labels[side].append(f"without {key}" if value is None else f"{key}={value}")
    name = pods.at(("namespace", NAMESPACE_NAME)).example
    namespace = "any namespace" if name is None or name.startswith("any-") else f"namespace {name}"
    if labels["namespace"]:
        namespace += f" labelled {' and '.join(labels['namespace'])}"
    labelled = f" labelled {' and '.join(labels['pod'])}" if labels["pod"] else ""
    return f"a pod{labelled} in {namespace}"


def _name_text(name: Name) -> str:
    host = "any name" if name.pattern == EVERY_NAME else example(name)
    return f"{host} on TCP port {name.ports.first}"
