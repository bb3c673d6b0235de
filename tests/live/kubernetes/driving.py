"""Drives the provider as the engine does: check, diff, then create, update or replace, and keeps the state between."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agentenv.rehearsal.providers.kubernetes.checking import Naming
from agentenv.rehearsal.providers.kubernetes.cluster import Cluster
from agentenv.rehearsal.providers.kubernetes.comparing import DiffResult
from agentenv.rehearsal.providers.kubernetes.objects import split_identity
from agentenv.rehearsal.providers.kubernetes.provider import Provider
from agentenv.rehearsal.providers.kubernetes.urns import Resource, resource
from agentenv.rehearsal.providers.kubernetes.values import PropertyMap
from tests.live.controlplane.things import PATIENCE


@dataclass(frozen=True)
class Kept:
    """A resource as the state has it."""

    resource: Resource
    id: str
    inputs: PropertyMap
    state: PropertyMap

    @property
    def name(self) -> str:
        return split_identity(self.id)[1]


@dataclass
class Heard:
    """What the provider told the user."""

    warnings: list[str] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)

    def warn(self, _urn: str, text: str) -> None:
        self.warnings.append(text)

    def warn_once(self, text: str) -> None:
        self.warnings.append(text)

    def status(self, _urn: str, text: str) -> None:
        self.statuses.append(text)


@dataclass
class Driver:
    """One configured provider."""

    provider: Provider
    heard: Heard

    @staticmethod
    def configured(values: Mapping[str, Any]) -> Driver:
        heard = Heard()
        provider = Provider(heard)
        provider.configure({k: v if isinstance(v, str) else json.dumps(v) for k, v in values.items()}, {})
        return Driver(provider, heard)

    @property
    def cluster(self) -> Cluster:
        return self.provider.cluster()

    @property
    def namespace(self) -> str:
        return self.provider.namespace

    def check(self, one: Resource, inputs: PropertyMap, old: PropertyMap | None = None) -> PropertyMap:
        kept, problems = self.provider.check(one, inputs, old or PropertyMap(), Naming())
        assert problems == []
        return kept

    def up(self, token: str, name: str, inputs: Mapping[str, Any], timeout: float = PATIENCE) -> Kept:
        """Preview and create."""
        one = resource(f"urn:pulumi:test::test::kubernetes:{token}::{name}")
        checked = self.check(one, PropertyMap(dict(inputs)))
        self.provider.preview_create(one, checked)
        id_, state = self.provider.create(one, checked, timeout)
        return Kept(one, id_, checked, state)

    def compare(self, kept: Kept, inputs: Mapping[str, Any]) -> tuple[DiffResult, PropertyMap]:
        checked = self.check(kept.resource, PropertyMap(dict(inputs)), kept.inputs)
        return self.provider.diff(kept.resource, kept.state, kept.inputs, checked), checked

    def update(self, kept: Kept, inputs: Mapping[str, Any], timeout: float = PATIENCE) -> Kept:
        """Preview and update in place."""
        compared, checked = self.compare(kept, inputs)
        assert compared.changes
        assert not compared.replaces
        self.provider.preview_update(kept.state, checked)
        id_, state = self.provider.update(kept.resource, kept.state, checked, timeout)
        return replace(kept, id=id_, inputs=checked, state=state)

    def refresh(self, kept: Kept) -> Kept | None:
        found = self.provider.read(kept.resource, kept.id, kept.state, kept.inputs)
        return replace(kept, id=found[0], state=found[1], inputs=found[2]) if found else None

    def down(self, kept: Kept, timeout: float = PATIENCE) -> None:
        self.provider.delete(kept.resource, kept.id, kept.state, timeout)

    def live(self, kept: Kept) -> dict[str, Any]:
        """The object as the server has it."""
        kind = self.cluster.discovery.find(kept.inputs.values["apiVersion"], kept.inputs.values["kind"])
        place, name = split_identity(kept.id)
        return self.cluster.get(kind, place, name)
