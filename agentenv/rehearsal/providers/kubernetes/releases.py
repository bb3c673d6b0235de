"""Helm releases: charts rendered by helm, and their objects applied, looked after and deleted as one resource.

A chart that cannot be had is recorded with its values where a rehearsal listens for that, and refused where none does.
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
from agentenv.rehearsal.providers.kubernetes.charts import BadChart, Chart, NotHad, Rendered
from agentenv.rehearsal.providers.kubernetes.checking import Naming
from agentenv.rehearsal.providers.kubernetes.client import ApiError, Unreachable
from agentenv.rehearsal.providers.kubernetes.cluster import Cancelled, Cluster
from agentenv.rehearsal.providers.kubernetes.comparing import Compared
from agentenv.rehearsal.providers.kubernetes.discovery import UnknownKind
from agentenv.rehearsal.providers.kubernetes.installing import Installation
from agentenv.rehearsal.providers.kubernetes.manifests import BadManifest
from agentenv.rehearsal.providers.kubernetes.objects import Object
from agentenv.rehearsal.providers.kubernetes.provider import Provider
from agentenv.rehearsal.providers.kubernetes.reach import Unreached
from agentenv.rehearsal.providers.kubernetes.replacing import touches
from agentenv.rehearsal.providers.kubernetes.settings import Problem
from agentenv.rehearsal.providers.kubernetes.urns import Resource
from agentenv.rehearsal.providers.kubernetes.values import UNKNOWN, Bag, has_unknown
from agentenv.rehearsal.providers.kubernetes.words import Impossible, Partial

TOKEN: Final = "kubernetes:helm.sh/v3:Release"  # noqa: S105 - a type
OBJECTS: Final = "__objects"  # what the release made: kind, namespace and name of each
NAMES: Final = "resourceNames"
REPLACED_BY: Final = ("name", "namespace")
PATIENCE: Final = 300.0


@dataclass(frozen=True)
class Releases:
    """The provider, as far as releases go."""

    provider: Provider

    def check(self, resource: Resource, news: Bag, olds: Bag, rules: Naming) -> tuple[Bag, list[Problem]]:
        """The inputs with name, namespace and what the chart will make; values that the chart refuses are told."""
        kept = {k: v for k, v in news.values.items() if v is not None and k != NAMES}
        if not kept.get("chart"):
            return news, [("chart", "chart is required: a path, an address or a name")]
        if not kept.get("name"):
            kept["name"] = olds.values.get("name") or naming.random_name(f"{resource.name}-", rules.seed)
        kept["namespace"] = kept.get("namespace") or self.provider.namespace
        if has_unknown(kept):
            return Bag({**kept, NAMES: UNKNOWN}, news.secrets), []
        try:
            chart = charts.find(str(kept["chart"]), str(kept.get("version") or ""))
            kept["version"] = chart.version
            kept[NAMES] = charts.names(self._all(kept, templating.rendered(self.provider, chart, kept)))
        except NotHad as error:
            if not unsimulated.is_recording():
                return Bag(kept, news.secrets), [("chart", str(error))]
            kept[NAMES] = {}
        except (BadChart, BadManifest) as error:
            return Bag(kept, news.secrets), [("values", str(error))]
        return Bag(kept, news.secrets), []

    def diff(self, _resource: Resource, state: Bag, old: Bag, news: Bag, ignored: tuple[str, ...] = ()) -> Compared:
        """A release changes in place, unless its name or its namespace does."""
        before, after = old.values or state.values, news.values
        keys = {k for k in before if not k.startswith("__") and k != "status"}
        found = diff.changes({k: before[k] for k in keys}, after)
        found = [c for c in found if str(c.path[0]) not in ignored]
        replaces = [c for c in found if touches(c.path, REPLACED_BY)]
        return Compared(found, replaces, first_delete=False)

    def preview_create(self, _resource: Resource, inputs: Bag) -> Bag:
        """What is known of a release before it is made; `check` has already rendered it."""
        return Bag({**inputs.values, "status": UNKNOWN}, inputs.secrets)

    def preview_update(self, _state: Bag, news: Bag, _ignored: tuple[str, ...] = ()) -> Bag:
        return Bag({**news.values, "status": UNKNOWN}, news.secrets)

    def create(self, resource: Resource, inputs: Bag, timeout: float = 0) -> tuple[str, Bag]:
        return self._install(resource, inputs, [], 1, timeout)

    def update(
        self,
        resource: Resource,
        state: Bag,
        news: Bag,
        timeout: float = 0,
        *,
        ignored: tuple[str, ...] = (),  # noqa: ARG002 - the engine has put the old values back, which is all a chart can take
    ) -> tuple[str, Bag]:
        """Apply the new objects, and take away what is no longer among them."""
        status = state.values.get("status")
        revision = (status.get("revision") if isinstance(status, Mapping) else 0) or 0
        return self._install(resource, news, _objects(state), int(revision) + 1, timeout)

    def _install(
        self, resource: Resource, inputs: Bag, before: list[Object], revision: int, timeout: float
    ) -> tuple[str, Bag]:
        asked = inputs.values
        id_ = f"{asked['namespace']}/{asked['name']}"
        try:
            chart = charts.find(str(asked["chart"]), str(asked.get("version") or ""))
            rendered = templating.rendered(self.provider, chart, asked)
        except NotHad as error:
            return id_, self._pretended(inputs, str(error))
        except (BadChart, BadManifest) as error:
            raise Impossible(f"release {id_}: {error}") from None
        made: list[Object] = []
        put = Installation(self.provider.cluster(), asked, self._tell(resource))
        try:
            if asked.get("createNamespace"):
                put.house()
            if not asked.get("skipCrds"):
                put.define(rendered.definitions)
            if rendered.hooks and not asked.get("disableWebhooks"):
                self._tell_hooks(resource, asked, rendered)
            put.apply(self._all(asked, rendered), made)
            now = {installing.key(obj) for obj in made}
            installing.delete(put.cluster, [obj for obj in before if installing.key(obj) not in now])
            if asked.get("atomic") or not asked.get("skipAwait"):
                put.wait(made, timeout or float(asked.get("timeout") or PATIENCE))
        except (ApiError, Unreachable, UnknownKind, Cancelled, BadManifest, waiting.NotReady, Impossible) as error:
            kept = {installing.key(obj): obj for obj in [*made, *before]}
            raise self._failed(
                put.cluster, inputs, chart, revision=revision, made=list(kept.values()), error=error
            ) from None
        put.tell("")
        return id_, self._state(inputs, chart, made, revision, "deployed")

    def _tell(self, resource: Resource) -> installing.Tell:
        return lambda text: self.provider.reporter.status(resource.urn, text)

    def _all(self, asked: Mapping[str, Any], rendered: Rendered) -> list[Object]:
        return manifests.normal(rendered.objects, str(asked["namespace"]), self.provider.namespaced)

    def _tell_hooks(self, resource: Resource, asked: Mapping[str, Any], rendered: Rendered) -> None:
        called = [words.what(hook) for hook in rendered.hooks]
        self.provider.reporter.warn(resource.urn, f"hooks of the chart are not run: {', '.join(called)}")
        if unsimulated.is_recording():
            unsimulated.record(f"hooks of helm release {asked['name']}", {"objects": called, "chart": asked["chart"]})

    def _failed(
        self, cluster: Cluster, inputs: Bag, chart: Chart, *, revision: int, made: list[Object], error: Exception
    ) -> Exception:
        """What to raise: what was made is kept in the state, or taken back where all or nothing is asked."""
        id_ = f"{inputs.values['namespace']}/{inputs.values['name']}"
        reasons = error.reasons if isinstance(error, waiting.NotReady) else []
        if inputs.values.get("atomic") and revision == 1:
            installing.delete(cluster, made)
            return Impossible(f"release {id_} was taken back, as atomic asks: {error}")
        if not made:
            return Impossible(f"release {id_}: {error}")
        state = self._state(inputs, chart, made, revision, "failed")
        return Partial(id_, state, inputs, f"release {id_} was applied, but {error}", reasons)

    def _pretended(self, inputs: Bag, why: str) -> Bag:
        asked = inputs.values
        try:
            templating.pretend(asked, inputs.secrets, why)
        except NotHad as error:
            raise Impossible(f"release {asked['name']}: {error}") from None
        chart = Chart(path=FilePath(), name=str(asked["chart"]), version=str(asked.get("version") or ""))
        return self._state(inputs, chart, [], 1, "not simulated")

    def _state(self, inputs: Bag, chart: Chart, made: list[Object], revision: int, status: str) -> Bag:
        told = {
            "appVersion": chart.app_version,
            "chart": chart.name,
            "name": inputs.values["name"],
            "namespace": inputs.values["namespace"],
            "revision": revision,
            "status": status,
            "version": chart.version,
        }
        listed = [{"apiVersion": o["apiVersion"], "kind": o["kind"], "metadata": installing.place(o)} for o in made]
        return Bag({**inputs.values, "status": told, OBJECTS: listed}, inputs.secrets)

    def read(self, resource: Resource, id_: str, state: Bag, inputs: Bag) -> tuple[str, Bag, Bag] | None:
        """The release with those of its objects that are still there; None when none is."""
        if not state.values:
            raise Impossible(f"release {id_}: the stand-in provider cannot import releases")
        try:
            cluster = self.provider.cluster()
        except Unreached as error:
            return self.provider.unread(resource, id_, state, inputs, error)
        listed = _objects(state)
        there = [obj for obj in listed if installing.is_there(cluster, obj)]
        if listed and not there:
            return None
        names = charts.names(there)
        if not listed or len(there) == len(listed):
            return id_, state, inputs
        return (
            id_,
            Bag({**state.values, NAMES: names, OBJECTS: there}, state.secrets),
            Bag({**inputs.values, NAMES: names}, inputs.secrets),
        )

    def delete(self, resource: Resource, id_: str, state: Bag, timeout: float = 0) -> None:
        """Delete the release's objects; definitions from the chart's `crds` folder stay, as helm leaves them."""
        listed = _objects(state)
        if not listed:
            return
        try:
            cluster = self.provider.cluster()
        except Unreached as error:
            if self.provider.settings.delete_unreachable:
                return
            raise Impossible(f"{error}, so release {id_} cannot be deleted in it") from None
        patience = timeout or float(state.values.get("timeout") or PATIENCE)
        deleted = installing.delete(cluster, listed)
        if state.values.get("skipAwait"):
            return
        try:
            installing.until_gone(cluster, deleted, patience, self._tell(resource))
        except waiting.NotReady as error:
            raise Impossible("\n  * ".join([f"release {id_}: {error}", *error.reasons])) from None


def _objects(state: Bag) -> list[Object]:
    return [dict(obj) for obj in state.values.get(OBJECTS) or []]
