"""Helm releases: helm renders the chart, and its objects are applied, read and deleted as one resource.

A chart that is not available is recorded with its values for a rehearsal's summary, and an error without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Final

from agentenv.rehearsal.providers.common import unsimulated
from agentenv.rehearsal.providers.kubernetes import (
    charts,
    diff,
    installing,
    manifests,
    naming,
    templating,
    waiting,
    words,
)
from agentenv.rehearsal.providers.kubernetes.charts import Chart, ChartUnavailable, InvalidChart, Rendered
from agentenv.rehearsal.providers.kubernetes.checking import Naming
from agentenv.rehearsal.providers.kubernetes.client import ApiError, Unreachable
from agentenv.rehearsal.providers.kubernetes.cluster import Cancelled, Cluster
from agentenv.rehearsal.providers.kubernetes.comparing import DiffResult
from agentenv.rehearsal.providers.kubernetes.discovery import UnknownKind
from agentenv.rehearsal.providers.kubernetes.installing import Installation
from agentenv.rehearsal.providers.kubernetes.manifests import InvalidManifest
from agentenv.rehearsal.providers.kubernetes.objects import Object
from agentenv.rehearsal.providers.kubernetes.provider import Provider
from agentenv.rehearsal.providers.kubernetes.reach import ClusterUnreachable
from agentenv.rehearsal.providers.kubernetes.replacing import touches
from agentenv.rehearsal.providers.kubernetes.settings import Problem
from agentenv.rehearsal.providers.kubernetes.urns import Resource
from agentenv.rehearsal.providers.kubernetes.values import UNKNOWN, PropertyMap, has_unknown
from agentenv.rehearsal.providers.kubernetes.words import InitFailed, InvalidRequest

TOKEN: Final = "kubernetes:helm.sh/v3:Release"  # noqa: S105 - a type
OBJECTS: Final = "__objects"  # what the release made: kind, namespace and name of each
NAMES: Final = "resourceNames"
REPLACED_BY: Final = ("name", "namespace")
PATIENCE: Final = 300.0


@dataclass(frozen=True)
class Releases:
    """The provider's operations on releases."""

    provider: Provider

    def check(
        self, resource: Resource, news: PropertyMap, olds: PropertyMap, rules: Naming
    ) -> tuple[PropertyMap, list[Problem]]:
        """Return the inputs with name, namespace and the names of the chart's objects, and their problems."""
        checked = {k: v for k, v in news.values.items() if v is not None and k != NAMES}
        if not checked.get("chart"):
            return news, [("chart", "chart is required: a path, an address or a name")]
        if not checked.get("name"):
            checked["name"] = olds.values.get("name") or naming.random_name(f"{resource.name}-", rules.seed)
        checked["namespace"] = checked.get("namespace") or self.provider.namespace
        if has_unknown(checked):
            return PropertyMap({**checked, NAMES: UNKNOWN}, news.secrets), []
        try:
            chart = charts.find(str(checked["chart"]), str(checked.get("version") or ""))
            checked["version"] = chart.version
            checked[NAMES] = charts.names(self._all(checked, templating.render_chart(self.provider, chart, checked)))
        except ChartUnavailable as error:
            if not unsimulated.is_recording():
                return PropertyMap(checked, news.secrets), [("chart", str(error))]
            checked[NAMES] = {}
        except (InvalidChart, InvalidManifest) as error:
            return PropertyMap(checked, news.secrets), [("values", str(error))]
        return PropertyMap(checked, news.secrets), []

    def diff(
        self,
        _resource: Resource,
        state: PropertyMap,
        old: PropertyMap,
        news: PropertyMap,
        ignored: tuple[str, ...] = (),
    ) -> DiffResult:
        """Return the changes. Only a new name or namespace replaces a release."""
        before, after = old.values or state.values, news.values
        keys = {k for k in before if not k.startswith("__") and k != "status"}
        changes = diff.changes({k: before[k] for k in keys}, after)
        changes = [c for c in changes if str(c.path[0]) not in ignored]
        replaces = [c for c in changes if touches(c.path, REPLACED_BY)]
        return DiffResult(changes, replaces, delete_before_replace=False)

    def preview_create(self, _resource: Resource, inputs: PropertyMap) -> PropertyMap:
        """Return the state of a release at preview; `check` has already rendered the chart."""
        return PropertyMap({**inputs.values, "status": UNKNOWN}, inputs.secrets)

    def preview_update(self, _state: PropertyMap, news: PropertyMap, _ignored: tuple[str, ...] = ()) -> PropertyMap:
        return PropertyMap({**news.values, "status": UNKNOWN}, news.secrets)

    def create(self, resource: Resource, inputs: PropertyMap, timeout: float = 0) -> tuple[str, PropertyMap]:
        return self._install(resource, inputs, [], 1, timeout)

    def update(
        self,
        resource: Resource,
        state: PropertyMap,
        news: PropertyMap,
        timeout: float = 0,
        *,
        ignored: tuple[str, ...] = (),  # noqa: ARG002 - the engine has put the old values back, which is all a chart can take
    ) -> tuple[str, PropertyMap]:
        """Apply the new objects and delete those that are no longer in the chart."""
        status = state.values.get("status")
        revision = (status.get("revision") if isinstance(status, Mapping) else 0) or 0
        return self._install(resource, news, _objects(state), int(revision) + 1, timeout)

    def _install(
        self, resource: Resource, inputs: PropertyMap, before: list[Object], revision: int, timeout: float
    ) -> tuple[str, PropertyMap]:
        release = inputs.values
        id_ = f"{release['namespace']}/{release['name']}"
        try:
            chart = charts.find(str(release["chart"]), str(release.get("version") or ""))
            rendered = templating.render_chart(self.provider, chart, release)
        except ChartUnavailable as error:
            return id_, self._not_simulated_state(inputs, str(error))
        except (InvalidChart, InvalidManifest) as error:
            raise InvalidRequest(f"release {id_}: {error}") from None
        applied: list[Object] = []
        installation = Installation(self.provider.cluster(), release, self._status_reporter(resource))
        try:
            if release.get("createNamespace"):
                installation.create_namespace()
            if not release.get("skipCrds"):
                installation.define(rendered.definitions)
            if rendered.hooks and not release.get("disableWebhooks"):
                self._warn_about_hooks(resource, release, rendered)
            installation.apply(self._all(release, rendered), applied)
            now = {installing.key(obj) for obj in applied}
            installing.delete(installation.cluster, [obj for obj in before if installing.key(obj) not in now])
            if release.get("atomic") or not release.get("skipAwait"):
                installation.wait(applied, timeout or float(release.get("timeout") or PATIENCE))
        except (
            ApiError,
            Unreachable,
            UnknownKind,
            Cancelled,
            InvalidManifest,
            waiting.NotReady,
            InvalidRequest,
        ) as error:
            checked = {installing.key(obj): obj for obj in [*applied, *before]}
            raise self._failed(
                installation.cluster, inputs, chart, revision=revision, applied=list(checked.values()), error=error
            ) from None
        installation.report("")
        return id_, self._state(inputs, chart, applied, revision, "deployed")

    def _status_reporter(self, resource: Resource) -> installing.Report:
        return lambda text: self.provider.reporter.status(resource.urn, text)

    def _all(self, release: Mapping[str, Any], rendered: Rendered) -> list[Object]:
        return manifests.normalized(rendered.objects, str(release["namespace"]), self.provider.namespaced)

    def _warn_about_hooks(self, resource: Resource, release: Mapping[str, Any], rendered: Rendered) -> None:
        called = [words.describe(hook) for hook in rendered.hooks]
        self.provider.reporter.warn(resource.urn, f"hooks of the chart are not run: {', '.join(called)}")
        if unsimulated.is_recording():
            unsimulated.record(
                f"hooks of helm release {release['name']}", {"objects": called, "chart": release["chart"]}
            )

    def _failed(
        self,
        cluster: Cluster,
        inputs: PropertyMap,
        chart: Chart,
        *,
        revision: int,
        applied: list[Object],
        error: Exception,
    ) -> Exception:
        """Return the error to raise. Applied objects stay in the state, or are deleted if the release is atomic."""
        id_ = f"{inputs.values['namespace']}/{inputs.values['name']}"
        reasons = error.reasons if isinstance(error, waiting.NotReady) else []
        if inputs.values.get("atomic") and revision == 1:
            installing.delete(cluster, applied)
            return InvalidRequest(f"release {id_} was taken back, as atomic asks: {error}")
        if not applied:
            return InvalidRequest(f"release {id_}: {error}")
        state = self._state(inputs, chart, applied, revision, "failed")
        return InitFailed(id_, state, inputs, f"release {id_} was applied, but {error}", reasons)

    def _not_simulated_state(self, inputs: PropertyMap, why: str) -> PropertyMap:
        release = inputs.values
        try:
            templating.record_unavailable(release, inputs.secrets, why)
        except ChartUnavailable as error:
            raise InvalidRequest(f"release {release['name']}: {error}") from None
        chart = Chart(path=FilePath(), name=str(release["chart"]), version=str(release.get("version") or ""))
        return self._state(inputs, chart, [], 1, "not simulated")

    def _state(
        self, inputs: PropertyMap, chart: Chart, applied: list[Object], revision: int, status: str
    ) -> PropertyMap:
        status_output = {
            "appVersion": chart.app_version,
            "chart": chart.name,
            "name": inputs.values["name"],
            "namespace": inputs.values["namespace"],
            "revision": revision,
            "status": status,
            "version": chart.version,
        }
        stored = [
            {"apiVersion": o["apiVersion"], "kind": o["kind"], "metadata": installing.object_metadata(o)}
            for o in applied
        ]
        return PropertyMap({**inputs.values, "status": status_output, OBJECTS: stored}, inputs.secrets)

    def read(
        self, resource: Resource, id_: str, state: PropertyMap, inputs: PropertyMap
    ) -> tuple[str, PropertyMap, PropertyMap] | None:
        """Return the release with its existing objects, or None if there are none."""
        if not state.values:
            raise InvalidRequest(f"release {id_}: the stand-in provider cannot import releases")
        try:
            cluster = self.provider.cluster()
        except ClusterUnreachable as error:
            return self.provider.unreachable_state(resource, id_, state, inputs, error)
        stored = _objects(state)
        existing = [obj for obj in stored if installing.object_exists(cluster, obj)]
        if stored and not existing:
            return None
        names = charts.names(existing)
        if not stored or len(existing) == len(stored):
            return id_, state, inputs
        return (
            id_,
            PropertyMap({**state.values, NAMES: names, OBJECTS: existing}, state.secrets),
            PropertyMap({**inputs.values, NAMES: names}, inputs.secrets),
        )

    def delete(self, resource: Resource, id_: str, state: PropertyMap, timeout: float = 0) -> None:
        """Delete the release's objects, except definitions in the chart's `crds` folder, as helm does."""
        stored = _objects(state)
        if not stored:
            return
        try:
            cluster = self.provider.cluster()
        except ClusterUnreachable as error:
            if self.provider.settings.delete_unreachable:
                return
            raise InvalidRequest(f"{error}, so release {id_} cannot be deleted in it") from None
        wait_seconds = timeout or float(state.values.get("timeout") or PATIENCE)
        deleted = installing.delete(cluster, stored)
        if state.values.get("skipAwait"):
            return
        try:
            installing.until_deleted(cluster, deleted, wait_seconds, self._status_reporter(resource))
        except waiting.NotReady as error:
            raise InvalidRequest("\n  * ".join([f"release {id_}: {error}", *error.reasons])) from None


def _objects(state: PropertyMap) -> list[Object]:
    return [dict(obj) for obj in state.values.get(OBJECTS) or []]
