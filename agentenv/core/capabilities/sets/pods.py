"""Sets of pods selected by labels, exact under union and difference.

A label selector is a conjunction of conditions, each on one key; what a key may be is a finite set of values or all but
a finite set, and "the pod has no such label" is one of the values. A selector is then a product over keys, and the
difference of two products is a finite union of products: the same arithmetic as for boxes of addresses, so that one
selector covered by two others together is seen to be covered.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Literal

from agentenv.core.capabilities.sets.boxes import ALL_PORTS, PROTOCOLS, Protocol
from agentenv.core.capabilities.sets.intervals import Intervals

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Side = Literal["namespace", "pod"]
Key = tuple[Side, str]

# The API server puts this label on every namespace, with its name.
NAMESPACE_NAME = "kubernetes.io/metadata.name"


@dataclass(frozen=True)
class Values:
    """The possible values of one label: those values, or all but those. `None` means that the label is absent."""

    named: frozenset[str | None]
    all_but: bool = False

    def __and__(self, other: Values) -> Values:
        if self.all_but and other.all_but:
            return Values(self.named | other.named, all_but=True)
        if self.all_but:
            return Values(other.named - self.named)
        return Values(self.named - other.named) if other.all_but else Values(self.named & other.named)

    def __sub__(self, other: Values) -> Values:
        return self & Values(other.named, all_but=not other.all_but)

    def __bool__(self) -> bool:
        return self.all_but or bool(self.named)

    def __contains__(self, value: str | None) -> bool:
        return (value in self.named) != self.all_but

    @property
    def example(self) -> str | None:
        """Return one of the values; one that is present, where possible."""
        if not self.all_but:
            return min((value for value in self.named if value is not None), default=None)
        if None not in self.named:
            return None
        return next(name for number in count(1) if (name := f"any-{number}") not in self.named)


ANY = Values(frozenset(), all_but=True)
PRESENT = Values(frozenset({None}), all_but=True)


@dataclass(frozen=True)
class Pods:
    """The pods in all namespaces whose labels, and whose namespace's labels, match; other keys are unconstrained."""

    labels: tuple[tuple[Key, Values], ...] = ()

    @classmethod
    def of(cls, conditions: Mapping[Key, Values]) -> Pods:
        """Return the pods under those conditions, in canonical order and without trivial conditions."""
        # A namespace without its name does not exist; without this, "every named namespace" would not be all of them.
        name: Key = ("namespace", NAMESPACE_NAME)
        conditions = {**conditions, **({name: conditions[name] & PRESENT} if name in conditions else {})}
        return cls(
            tuple(
                sorted(
                    (key, values) for key, values in conditions.items() if values != (PRESENT if key == name else ANY)
                )
            )
        )

    @classmethod
    def labelled(cls, namespace: str, labels: Mapping[str, str]) -> Pods:
        """Return the pods of one namespace with these labels."""
        return cls.of(
            {
                ("namespace", NAMESPACE_NAME): Values(frozenset({namespace})),
                **{("pod", key): Values(frozenset({value})) for key, value in labels.items()},
            }
        )

    def at(self, key: Key) -> Values:
        """Return the possible values of a key."""
        return next(
            (values for mine, values in self.labels if mine == key),
            PRESENT if key == ("namespace", NAMESPACE_NAME) else ANY,
        )

    def __bool__(self) -> bool:
        return all(values for _, values in self.labels)

    def __and__(self, other: Pods) -> Pods:
        keys = {key for key, _ in (*self.labels, *other.labels)}
        return Pods.of({key: self.at(key) & other.at(key) for key in keys})

    def __sub__(self, other: Pods) -> tuple[Pods, ...]:
        """Return disjoint sets of pods whose union is the difference."""
        if not self & other:
            return (self,) if self else ()
        pieces: list[Pods] = []
        shared_pod_ports = dict(self.labels)
        for key, values in other.labels:
            outside = self.at(key) - values
            if outside:
                pieces.append(Pods.of({**shared_pod_ports, key: outside}))
            shared_pod_ports[key] = self.at(key) & values
        return tuple(piece for piece in pieces if piece)

    @property
    def namespace(self) -> str | None:
        """Return the single namespace that they are in, or None."""
        values = self.at(("namespace", NAMESPACE_NAME))
        return values.example if not values.all_but and len(values.named) == 1 else None


ALL_PODS = Pods()


@dataclass(frozen=True)
class PodPorts:
    """Ports of a set of pods, on one protocol."""

    pods: Pods
    protocol: Protocol
    ports: Intervals

    def __sub__(self, other: PodPorts) -> tuple[PodPorts, ...]:
        shared_pod_ports = self.pods & other.pods
        if self.protocol != other.protocol or not shared_pod_ports or not self.ports & other.ports:
            return (self,)
        outside = tuple(PodPorts(piece, self.protocol, self.ports) for piece in self.pods - other.pods)
        closed = self.ports - other.ports
        return (*outside, PodPorts(shared_pod_ports, self.protocol, closed)) if closed else outside


def pod_ports_of(pods: Pods, protocols: Iterable[Protocol], ports: Intervals) -> frozenset[PodPorts]:
    """Return these ports of these pods, on each of the protocols; empty without pods or ports."""
    return frozenset(PodPorts(pods, protocol, ports) for protocol in protocols) if pods and ports else frozenset()


ALL_POD_PORTS = pod_ports_of(ALL_PODS, PROTOCOLS, ALL_PORTS)


def remaining_pod_ports(mine: Iterable[PodPorts], theirs: Iterable[PodPorts]) -> tuple[PodPorts, ...]:
    """Return what is open in `mine` and not in `theirs`."""
    left = [entry for entry in mine if entry.pods and entry.ports]
    for other in theirs:
        left = [piece for entry in left for piece in entry - other]
    return tuple(sorted(left, key=_sort_key))


def shared_pod_ports(mine: Iterable[PodPorts], theirs: Iterable[PodPorts]) -> frozenset[PodPorts]:
    """Return what is open in both."""
    pairs = (
        PodPorts(left.pods & other.pods, left.protocol, left.ports & other.ports)
        for left in mine
        for other in theirs
        if left.protocol == other.protocol
    )
    return frozenset(entry for entry in pairs if entry.pods and entry.ports)


def _sort_key(entry: PodPorts) -> tuple[str, int, tuple[tuple[int, int], ...]]:
    return repr(entry.pods.labels), PROTOCOLS.index(entry.protocol), entry.ports.spans
