"""The provider's operations on plain values: check, diff, create, read, update and delete."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agentenv.rehearsal.providers.kubernetes import (
    checking,
    checkpoint,
    comparing,
    diff,
    discovery,
    objects,
    previewing,
    readiness,
    waiting,
    words,
)
from agentenv.rehearsal.providers.kubernetes import settings as configuration
from agentenv.rehearsal.providers.kubernetes.client import ApiError, Unreachable
from agentenv.rehearsal.providers.kubernetes.cluster import Cancelled, Cluster
from agentenv.rehearsal.providers.kubernetes.discovery import Kind, UnknownKind
from agentenv.rehearsal.providers.kubernetes.objects import Object
from agentenv.rehearsal.providers.kubernetes.reach import ClusterConnection, ClusterUnreachable
from agentenv.rehearsal.providers.kubernetes.urns import Resource
from agentenv.rehearsal.providers.kubernetes.values import PropertyMap, has_unknown, to_api, to_sdk
from agentenv.rehearsal.providers.kubernetes.words import InitFailed, InvalidRequest, NullReporter, Reporter
from agentenv.rehearsal.providers.kubernetes.writing import (
    AppliedObject,
    importable_inputs,
    manager_for,
    propagation_policy,
    require_known,
    with_ignored_fields,
)

HELM_HOOK: Final = "helm.sh/hook"


@dataclass
class Provider:
    """One configured provider, used by many threads."""

    reporter: Reporter = field(default_factory=NullReporter)
    settings: configuration.Settings = field(default_factory=configuration.Settings)
    reach: ClusterConnection | None = None

    def configure(self, values: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> None:
        problems = configuration.check(values, environment)
        if problems:
            raise InvalidRequest("; ".join(f"{name}: {reason}" for name, reason in problems))
        self.settings = configuration.settings(values, environment)
        self.reach = ClusterConnection(self.settings, dict(environment), threading.Event())

    def cluster(self) -> Cluster:
        if self.reach is None:
            raise ClusterUnreachable("the kubernetes provider was not configured")
        return self.reach.cluster()

    def cancel(self) -> None:
        if self.reach is not None:
            self.reach.stop()

    @property
    def namespace(self) -> str:
        return self.reach.namespace if self.reach else "default"

    # -- at preview ---------------------------------------------------------------------------------------------------

    def check(
        self, resource: Resource, news: PropertyMap, olds: PropertyMap, rules: checking.Naming
    ) -> tuple[PropertyMap, list[configuration.Problem]]:
        """Return the inputs with name and namespace, and their problems."""
        cluster = self._reachable_cluster()
        if cluster is None and self.settings.skip_update_unreachable and olds.values:
            self.reporter.warn(resource.urn, "the cluster is unreachable: its resources are left as they are")
            return olds, []
        if cluster is not None and objects.is_definition(news.values):
            cluster.discovery.register_definition(to_api(news.values))
        if self.settings.hook_warnings and objects.annotation(news.values, HELM_HOOK):
            self.reporter.warn(resource.urn, f"the annotation {HELM_HOOK} is kept, but its hook is not run")
        return checking.check(resource, news, olds, rules, scope=self.namespaced, default=self.namespace)

    def diff(
        self, resource: Resource, state: PropertyMap, old: PropertyMap, news: PropertyMap, ignored: tuple[str, ...] = ()
    ) -> comparing.DiffResult:
        return comparing.compare(
            resource,
            state,
            old,
            news,
            scope=self.namespaced,
            mutability=self.settings.mutability,
            ignored=ignored,
            unready=objects.has_flag(news.values, objects.REPLACE_UNREADY) and self._unready_job(state),
        )

    def preview_create(self, resource: Resource, inputs: PropertyMap) -> PropertyMap:
        cluster = self._for_preview(inputs)
        if cluster is None or resource.patches(objects.kind(inputs.values)):
            return inputs
        return previewing.create(cluster, inputs)

    def preview_update(self, state: PropertyMap, news: PropertyMap, ignored: tuple[str, ...] = ()) -> PropertyMap:
        cluster = self._for_preview(news)
        if cluster is None:
            return news
        manager = manager_for(state.values, news.values)
        return previewing.update(cluster, state, news, manager, force=self._force(news.values), ignored=ignored)

    def _for_preview(self, inputs: PropertyMap) -> Cluster | None:
        if has_unknown(inputs.values):
            return None
        try:
            return self.cluster()
        except ClusterUnreachable as error:
            self.reporter.warn_once(f"{error}; the preview goes on without it")
            return None

    def _reachable_cluster(self) -> Cluster | None:
        try:
            return self.cluster()
        except ClusterUnreachable:
            return None

    def namespaced(self, obj: Mapping[str, Any]) -> bool | None:
        version, kind = objects.api_version(obj), objects.kind(obj)
        cluster = self._reachable_cluster()
        if cluster is None:
            return discovery.scope(version, kind)
        try:
            return cluster.discovery.namespaced(version, kind)
        except (ApiError, Unreachable):
            return cluster.discovery.namespaced(version, kind, fetch=False)

    def _unready_job(self, state: PropertyMap) -> bool:
        live, cluster = checkpoint.live_object(state.values), self._reachable_cluster()
        if readiness.key(live) != ("batch", "Job") or cluster is None:
            return False
        try:
            current = cluster.get(cluster.kind(live), objects.namespace(live), objects.name(live))
        except (ApiError, UnknownKind, Unreachable):
            return False
        return not readiness.job(current).done

    # -- for real -----------------------------------------------------------------------------------------------------

    def create(self, resource: Resource, inputs: PropertyMap, timeout: float = 0) -> tuple[str, PropertyMap]:
        """Create the object and wait until it is ready. One that does not become ready is raised as `InitFailed`."""
        cluster = self.cluster()
        obj = require_known(to_api(inputs.values))
        manager = manager_for({}, obj)
        force_apply = resource.patches(objects.kind(obj)) or self.settings.upsert

        def work() -> Object:
            return cluster.apply(obj, manager, force=self._force(obj)) if force_apply else cluster.create(obj, manager)

        try:
            live = cluster.retry(work, lambda text: self.reporter.status(resource.urn, text))
        except (ApiError, UnknownKind, Cancelled) as error:
            raise InvalidRequest(words.write_error_message(obj, manager, error, "created")) from None
        applied = AppliedObject(cluster, inputs, obj, manager, objects.api_version(obj), "created")
        return self._wait_until_ready(resource, applied, live, timeout)

    def update(
        self,
        resource: Resource,
        state: PropertyMap,
        news: PropertyMap,
        timeout: float = 0,
        *,
        ignored: tuple[str, ...] = (),
    ) -> tuple[str, PropertyMap]:
        """Apply the new inputs. Fields that we own and no longer set are removed."""
        cluster = self.cluster()
        obj = require_known(to_api(news.values))
        manager, before = manager_for(state.values, obj), checkpoint.field_manager(state.values)
        try:
            live = cluster.get(cluster.kind(obj), objects.namespace(obj) or "default", objects.name(obj))
            if not resource.patches(objects.kind(obj)):
                live = cluster.adopt(live, manager)
            live = cluster.apply(with_ignored_fields(obj, live, manager, ignored), manager, force=self._force(obj))
            if before and before != manager:
                cluster.release_fields(live, before)
        except (ApiError, UnknownKind) as error:
            raise InvalidRequest(words.write_error_message(obj, manager, error, "updated")) from None
        applied = AppliedObject(cluster, news, obj, manager, checkpoint.initial_version(state.values), "updated")
        return self._wait_until_ready(resource, applied, live, timeout)

    def _wait_until_ready(
        self, resource: Resource, applied: AppliedObject, live: Object, timeout: float
    ) -> tuple[str, PropertyMap]:
        def report(text: str) -> None:
            self.reporter.status(resource.urn, text)

        try:
            live = waiting.until_ready(applied.cluster, live, applied.desired, timeout, report)
        except waiting.NotReady as error:
            raise applied.partial(error.obj or live, str(error), error.reasons) from None
        except (ApiError, Unreachable) as error:
            raise applied.partial(live, f"it could not be waited for: {error}", []) from None
        if objects.is_definition(live):
            applied.cluster.discovery.forget()
        report("")
        return objects.identity(live), applied.outputs(live)

    def read(
        self, resource: Resource, id_: str, state: PropertyMap, inputs: PropertyMap
    ) -> tuple[str, PropertyMap, PropertyMap] | None:
        """Return the current id, state and inputs, or None if the object does not exist. No inputs: an import."""
        try:
            cluster = self.cluster()
        except ClusterUnreachable as error:
            return self.unreachable_state(resource, id_, state, inputs, error)
        importing, desired = not inputs.values, to_api(inputs.values)
        kind = self._kind_of(cluster, resource, desired)
        if kind is None:
            return None
        place, name = objects.split_identity(id_)
        try:
            live = cluster.get(kind, place or self.namespace, name)
        except ApiError as error:
            if error.not_found:
                return None
            raise InvalidRequest(f"{kind.kind} {id_} could not be read: {error}") from None
        desired_values = (
            importable_inputs(live) if importing else _drifted(desired, checkpoint.live_object(state.values), live)
        )
        values = to_sdk(desired_values)
        properties = PropertyMap(values, checkpoint.secret_paths(inputs.secrets, values))
        manager = checkpoint.field_manager(state.values) or manager_for({}, desired)
        current = checkpoint.outputs(properties, live, manager, checkpoint.initial_version(state.values))
        if importing or resource.patches(kind.kind):
            return objects.identity(live) if importing else id_, current, properties
        try:
            waiting.ready_now(cluster, live, desired)
        except waiting.NotReady as error:
            raise InitFailed(id_, current, properties, str(error), error.reasons) from None
        return id_, current, properties

    def unreachable_state(
        self, resource: Resource, id_: str, state: PropertyMap, inputs: PropertyMap, error: ClusterUnreachable
    ) -> tuple[str, PropertyMap, PropertyMap] | None:
        """Return the result of a refresh while the cluster is unreachable."""
        if self.settings.delete_unreachable:
            self.reporter.warn(resource.urn, f"{error}; it is taken out of the state, as deleteUnreachable asks")
            return None
        if self.settings.skip_update_unreachable:
            self.reporter.warn(resource.urn, f"{error}; the state is left as it is, as skipUpdateUnreachable asks")
            return id_, state, inputs
        raise InvalidRequest(
            f"{error}. If the cluster no longer exists, set PULUMI_K8S_DELETE_UNREACHABLE=true "
            "to take its resources out of the state"
        )

    def _kind_of(self, cluster: Cluster, resource: Resource, desired: Object) -> Kind | None:
        """Return the kind, or None if its definition was deleted, and with it all its objects."""
        version, kind = objects.api_version(desired) or resource.api_version, objects.kind(desired) or resource.kind
        for name in (kind, kind.removesuffix("Patch")):
            try:
                return cluster.discovery.find(version, name)
            except UnknownKind:
                continue
        return None

    def delete(self, resource: Resource, id_: str, state: PropertyMap, timeout: float = 0) -> None:
        """Delete the object and wait until it no longer exists. A patch only releases its fields."""
        live, desired = checkpoint.live_object(state.values), to_api(checkpoint.state_inputs(state.values))
        try:
            cluster = self.cluster()
        except ClusterUnreachable as error:
            if (
                self.settings.delete_unreachable
                and self.unreachable_state(resource, id_, state, PropertyMap(), error) is None
            ):
                return
            raise InvalidRequest(
                f"{error}, so {id_} cannot be deleted in it. If the cluster no longer exists, set "
                "PULUMI_K8S_DELETE_UNREACHABLE=true to take its resources out of the state"
            ) from None
        kind = self._kind_of(cluster, resource, live)
        if kind is None:
            return
        place, name = objects.split_identity(id_)
        place = place or self.namespace
        try:
            if resource.patches(kind.kind):
                cluster.release_fields(live, checkpoint.field_manager(state.values))
                return
            cluster.delete(kind, place, name, propagation_policy(desired))
        except ApiError as error:
            if error.not_found:
                return
            raise InvalidRequest(words.delete_error_message(kind.kind, id_, error)) from None
        if objects.is_definition(live):
            cluster.discovery.forget()
        if objects.has_flag(desired, objects.SKIP_AWAIT) and readiness.key(live) in readiness.DELETED_WITHOUT_WAIT:
            return
        wait_seconds = waiting.timeout_of(desired, timeout)
        try:
            waiting.until_deleted(
                cluster, kind, (place, name), wait_seconds, lambda text: self.reporter.status(resource.urn, text)
            )
        except waiting.NotReady as error:
            raise InvalidRequest("\n  * ".join([str(error), *error.reasons])) from None

    def _force(self, obj: Mapping[str, Any]) -> bool:
        return self.settings.patch_force or objects.has_flag(obj, objects.PATCH_FORCE)


def _drifted(desired: Object, before: Object, current: Object) -> Object:
    if not objects.is_secret(current):
        return diff.drifted_inputs(desired, before, current)
    return diff.drifted_inputs(desired, diff.with_string_data(before, desired), diff.with_string_data(current, desired))
