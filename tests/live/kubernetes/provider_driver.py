"""Calls the provider as the engine does: check, diff, then create, update or replace, with the state between them."""

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
from tests.live.controlplane.objects import TIMEOUT


@dataclass(frozen=True)
class Deployed:
    """A resource in the state."""

    resource: Resource
    id: str
    inputs: PropertyMap
    state: PropertyMap

    @property
    def name(self) -> str:
        return split_identity(self.id)[1]


@dataclass
class Messages:
    """Messages of the provider to the user."""

    warnings: list[str] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)

    def warn(self, _urn: str, text: str) -> None:
        self.warnings.append(text)

    def warn_once(self, text: str) -> None:
        self.warnings.append(text)

    def status(self, _urn: str, text: str) -> None:
        self.statuses.append(text)


@dataclass
class ProviderDriver:
    """One configured provider."""

    provider: Provider
    messages: Messages

    @staticmethod
    def configured(values: Mapping[str, Any]) -> ProviderDriver:
        messages = Messages()
        provider = Provider(messages)
        provider.configure({k: v if isinstance(v, str) else json.dumps(v) for k, v in values.items()}, {})
        return ProviderDriver(provider, messages)

    @property
    def cluster(self) -> Cluster:
        return self.provider.cluster()

    @property
    def namespace(self) -> str:
        return self.provider.namespace

    def check(self, target: Resource, inputs: PropertyMap, old: PropertyMap | None = None) -> PropertyMap:
        deployed, problems = self.provider.check(target, inputs, old or PropertyMap(), Naming())
        assert problems == []
        return deployed

    def up(self, token: str, name: str, inputs: Mapping[str, Any], timeout: float = TIMEOUT) -> Deployed:
        """Preview and create."""
        target = resource(f"urn:pulumi:test::test::kubernetes:{token}::{name}")
        checked = self.check(target, PropertyMap(dict(inputs)))
        self.provider.preview_create(target, checked)
        id_, state = self.provider.create(target, checked, timeout)
        return Deployed(target, id_, checked, state)

    def compare(self, deployed: Deployed, inputs: Mapping[str, Any]) -> tuple[DiffResult, PropertyMap]:
        checked = self.check(deployed.resource, PropertyMap(dict(inputs)), deployed.inputs)
        return self.provider.diff(deployed.resource, deployed.state, deployed.inputs, checked), checked

    def update(self, deployed: Deployed, inputs: Mapping[str, Any], timeout: float = TIMEOUT) -> Deployed:
        """Preview and update in place."""
        compared, checked = self.compare(deployed, inputs)
        assert compared.changes
        assert not compared.replaces
        self.provider.preview_update(deployed.state, checked)
        id_, state = self.provider.update(deployed.resource, deployed.state, checked, timeout)
        return replace(deployed, id=id_, inputs=checked, state=state)

    def refresh(self, deployed: Deployed) -> Deployed | None:
        result = self.provider.read(deployed.resource, deployed.id, deployed.state, deployed.inputs)
        return replace(deployed, id=result[0], state=result[1], inputs=result[2]) if result else None

    def down(self, deployed: Deployed, timeout: float = TIMEOUT) -> None:
        self.provider.delete(deployed.resource, deployed.id, deployed.state, timeout)

    def live(self, deployed: Deployed) -> dict[str, Any]:
        """Return the object from the server."""
        kind = self.cluster.discovery.find(deployed.inputs.values["apiVersion"], deployed.inputs.values["kind"])
        place, name = split_identity(deployed.id)
        return self.cluster.get(kind, place, name)
