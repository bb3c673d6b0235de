"""Says a destination in plain words, as a counterexample that somebody can try."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentenv.core.capabilities.sets.address_ranges import METADATA, NOT_INTERNET, address_text, spans
from agentenv.core.capabilities.sets.domains import EVERY_NAME, example
from agentenv.core.capabilities.sets.pods import NAMESPACE_NAME, remainder

if TYPE_CHECKING:
    from agentenv.core.capabilities.sets.boxes import BoxSet, Version
    from agentenv.core.capabilities.sets.domains import Name
    from agentenv.core.capabilities.sets.intervals import Span
    from agentenv.core.capabilities.sets.pods import Door, Pods
    from agentenv.core.capabilities.sets.reach import Reach


def destination(reach: Reach) -> str:
    """The first destination of a reach that is not empty: the smallest address, else pods, else a name."""
    if reach.boxes:
        return _address(reach.boxes)
    doors = remainder(reach.doors, ())
    return _door(doors[0]) if doors else _name(min(reach.names, key=lambda name: name.pattern))


def _address(boxes: BoxSet) -> str:
    (version, protocol), slabs = boxes.planes[0]
    low, high, ports = slabs[0]
    where = "by ICMP or another protocol without ports" if protocol == "OTHER" else f"on {protocol} port {ports.first}"
    found = f"{address_text(version, low)}{_meaning(version, low)} {where}"
    wider = [f"{address_text(version, low)} to {address_text(version, high)}"] if high > low else []
    if protocol != "OTHER" and ports.spans != ((ports.first, ports.first),):
        wider.append(f"ports {_spans(ports.spans)}")
    return f"{found} (of {', '.join(wider)})" if wider else found


def _meaning(version: Version, address: int) -> str:
    text = address_text(version, address)
    if text in METADATA:
        return ", where credentials are handed out,"
    return next(
        (f", which is {why}," for cidr, why in NOT_INTERNET.items() if address in spans((cidr,)).get(version, ())), ""
    )


def _spans(ports: tuple[Span, ...]) -> str:
    return " and ".join(str(low) if low == high else f"{low}-{high}" for low, high in ports)


def _door(door: Door) -> str:
    what = "protocols without ports" if door.protocol == "OTHER" else f"{door.protocol} port {door.ports.first}"
    return f"{_pods(door.pods)} on {what}"


def _pods(pods: Pods) -> str:
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


def _name(name: Name) -> str:
    host = "any name" if name.pattern == EVERY_NAME else example(name)
    return f"{host} on TCP port {name.ports.first}"
