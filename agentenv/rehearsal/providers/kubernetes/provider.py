"""The provider without its wire: check, diff, create, read, update and delete on plain values."""

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
from agentenv.rehearsal.providers.kubernetes.reach import Reach, Unreached
from agentenv.rehearsal.providers.kubernetes.urns import Resource
from agentenv.rehearsal.providers.kubernetes.values import Bag, has_unknown, to_api, to_sdk
from agentenv.rehearsal.providers.kubernetes.words import Impossible, Partial, Reporter, Silent
from agentenv.rehearsal.providers.kubernetes.writing import (
    Written,
    imported,
    known,
    manager_for,
    propagation,
    respecting,
)

HELM_HOOK: Final = "helm.sh/hook"


@dataclass
class Provider:
    """One configured provider; its methods are called from many threads."""

    reporter: Reporter = field(default_factory=Silent)
    settings: configuration.Settings = field(default_factory=configuration.Settings)
    reach: Reach | None = None

    def configure(self, values: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> None:
        problems = configuration.check(values, environment)
        if problems:
            raise Impossible("; ".join(f"{name}: {reason}" for name, reason in problems))
        self.settings = configuration.settings(values, environment)
        self.reach = Reach(self.settings, dict(environment), threading.Event())

    def cluster(self) -> Cluster:
        if self.reach is None:
            raise Unreached("the kubernetes provider was not configured")
        return self.reach.cluster()

    def cancel(self) -> None:
        if self.reach is not None:
            self.reach.stop()

    @property
    def namespace(self) -> str:
        return self.reach.namespace if self.reach else "default"

    # -- at preview ---------------------------------------------------------------------------------------------------

    def check(
        self, resource: Resource, news: Bag, olds: Bag, rules: checking.Naming
    ) -> tuple[Bag, list[configuration.Problem]]:
        """The inputs to keep, with name and namespace put in, and what is wrong with them."""
        cluster = self._if_there()
        if cluster is None and self.settings.skip_update_unreachable and olds.values:
            self.reporter.warn(resource.urn, "the cluster is unreachable: its resources are left as they are")
            return olds, []
        if cluster is not None and objects.is_definition(news.values):
            cluster.discovery.announce(to_api(news.values))
        if self.settings.hook_warnings and objects.annotation(news.values, HELM_HOOK):
            self.reporter.warn(resource.urn, f"the annotation {HELM_HOOK} is kept, but its hook is not run")
        return checking.check(resource, news, olds, rules, scope=self.namespaced, default=self.namespace)

    def diff(
        self, resource: Resource, state: Bag, old: Bag, news: Bag, ignored: tuple[str, ...] = ()
    ) -> comparing.Compared:
        return comparing.compare(
            resource,
            state,
            old,
            news,
            scope=self.namespaced,
            mutability=self.settings.mutability,
            ignored=ignored,
            unready=objects.flagged(news.values, objects.REPLACE_UNREADY) and self._unready_job(state),
        )

    def preview_create(self, resource: Resource, inputs: Bag) -> Bag:
        cluster = self._for_preview(inputs)
        if cluster is None or resource.patches(objects.kind(inputs.values)):
            return inputs
        return previewing.create(cluster, inputs)

    def preview_update(self, state: Bag, news: Bag, ignored: tuple[str, ...] = ()) -> Bag:
        cluster = self._for_preview(news)
        if cluster is None:
            return news
        manager = manager_for(state.values, news.values)
        return previewing.update(cluster, state, news, manager, force=self._forces(news.values), ignored=ignored)

    def _for_preview(self, inputs: Bag) -> Cluster | None:
        if has_unknown(inputs.values):
            return None
        try:
            return self.cluster()
        except Unreached as error:
            self.reporter.warn_once(f"{error}; the preview goes on without it")
            return None

    def _if_there(self) -> Cluster | None:
        try:
            return self.cluster()
        except Unreached:
            return None

    def namespaced(self, obj: Mapping[str, Any]) -> bool | None:
        version, kind = objects.api_version(obj), objects.kind(obj)
        cluster = self._if_there()
        if cluster is None:
            return discovery.scope(version, kind)
        try:
            return cluster.discovery.namespaced(version, kind)
        except (ApiError, Unreachable):
            return cluster.discovery.namespaced(version, kind, ask=False)

    def _unready_job(self, state: Bag) -> bool:
        live, cluster = checkpoint.live_of(state.values), self._if_there()
        if readiness.key(live) != ("batch", "Job") or cluster is None:
            return False
        try:
            now = cluster.get(cluster.kind(live), objects.namespace(live), objects.name(live))
        except (ApiError, UnknownKind, Unreachable):
            return False
        return not readiness.job(now).done

    # -- for real -----------------------------------------------------------------------------------------------------

    def create(self, resource: Resource, inputs: Bag, timeout: float = 0) -> tuple[str, Bag]:
        """Make it and wait until it is ready; what exists but is not ready comes as `Partial`."""
        cluster = self.cluster()
        obj = known(to_api(inputs.values))
        manager = manager_for({}, obj)
        over = resource.patches(objects.kind(obj)) or self.settings.upsert

        def work() -> Object:
            return cluster.apply(obj, manager, force=self._forces(obj)) if over else cluster.create(obj, manager)

        try:
            live = cluster.patiently(work, lambda text: self.reporter.status(resource.urn, text))
        except (ApiError, UnknownKind, Cancelled) as error:
            raise Impossible(words.refused(obj, manager, error, "created")) from None
        seen = Written(cluster, inputs, obj, manager, objects.api_version(obj), "created")
        return self._waited(resource, seen, live, timeout)

    def update(
        self, resource: Resource, state: Bag, news: Bag, timeout: float = 0, *, ignored: tuple[str, ...] = ()
    ) -> tuple[str, Bag]:
        """Apply the new inputs; the fields that were ours and are no longer asked for go away."""
        cluster = self.cluster()
        obj = known(to_api(news.values))
        manager, before = manager_for(state.values, obj), checkpoint.manager_of(state.values)
        try:
            live = cluster.get(cluster.kind(obj), objects.namespace(obj) or "default", objects.name(obj))
            if not resource.patches(objects.kind(obj)):
                live = cluster.adopt(live, manager)
            live = cluster.apply(respecting(obj, live, manager, ignored), manager, force=self._forces(obj))
            if before and before != manager:
                cluster.relinquish(live, before)
        except (ApiError, UnknownKind) as error:
            raise Impossible(words.refused(obj, manager, error, "updated")) from None
        seen = Written(cluster, news, obj, manager, checkpoint.initial_of(state.values), "updated")
        return self._waited(resource, seen, live, timeout)

    def _waited(self, resource: Resource, seen: Written, live: Object, timeout: float) -> tuple[str, Bag]:
        def tell(text: str) -> None:
            self.reporter.status(resource.urn, text)

        try:
            live = waiting.until_ready(seen.cluster, live, seen.asked, timeout, tell)
        except waiting.NotReady as error:
            raise seen.partial(error.obj or live, str(error), error.reasons) from None
        except (ApiError, Unreachable) as error:
            raise seen.partial(live, f"it could not be waited for: {error}", []) from None
        if objects.is_definition(live):
            seen.cluster.discovery.forget()
        tell("")
        return objects.identity(live), seen.outputs(live)

    def read(self, resource: Resource, id_: str, state: Bag, inputs: Bag) -> tuple[str, Bag, Bag] | None:
        """Id, state and inputs as the cluster has them now; None when it is gone. Without inputs it is an import."""
        try:
            cluster = self.cluster()
        except Unreached as error:
            return self.unread(resource, id_, state, inputs, error)
        importing, asked = not inputs.values, to_api(inputs.values)
        kind = self._kind_of(cluster, resource, asked)
        if kind is None:
            return None
        place, name = objects.split_identity(id_)
        try:
            live = cluster.get(kind, place or self.namespace, name)
        except ApiError as error:
            if error.gone:
                return None
            raise Impossible(f"{kind.kind} {id_} could not be read: {error}") from None
        found = imported(live) if importing else _drifted(asked, checkpoint.live_of(state.values), live)
        values = to_sdk(found)
        told = Bag(values, checkpoint.hidden(inputs.secrets, values))
        manager = checkpoint.manager_of(state.values) or manager_for({}, asked)
        now = checkpoint.outputs(told, live, manager, checkpoint.initial_of(state.values))
        if importing or resource.patches(kind.kind):
            return objects.identity(live) if importing else id_, now, told
        try:
            waiting.ready_now(cluster, live, asked)
        except waiting.NotReady as error:
            raise Partial(id_, now, told, str(error), error.reasons) from None
        return id_, now, told

    def unread(
        self, resource: Resource, id_: str, state: Bag, inputs: Bag, error: Unreached
    ) -> tuple[str, Bag, Bag] | None:
        """What a refresh says of a resource in a cluster that cannot be reached."""
        if self.settings.delete_unreachable:
            self.reporter.warn(resource.urn, f"{error}; it is taken out of the state, as deleteUnreachable asks")
            return None
        if self.settings.skip_update_unreachable:
            self.reporter.warn(resource.urn, f"{error}; the state is left as it is, as skipUpdateUnreachable asks")
            return id_, state, inputs
        raise Impossible(
            f"{error}. If the cluster no longer exists, set PULUMI_K8S_DELETE_UNREACHABLE=true "
            "to take its resources out of the state"
        )

    def _kind_of(self, cluster: Cluster, resource: Resource, asked: Object) -> Kind | None:
        """The kind as the server has it; None when its definition is gone, and with it every object of it."""
        version, kind = objects.api_version(asked) or resource.api_version, objects.kind(asked) or resource.kind
        for name in (kind, kind.removesuffix("Patch")):
            try:
                return cluster.discovery.find(version, name)
            except UnknownKind:
                continue
        return None

    def delete(self, resource: Resource, id_: str, state: Bag, timeout: float = 0) -> None:
        """Delete it and wait until it is gone; a patch only gives its fields back."""
        live, asked = checkpoint.live_of(state.values), to_api(checkpoint.inputs_of(state.values))
        try:
            cluster = self.cluster()
        except Unreached as error:
            if self.settings.delete_unreachable and self.unread(resource, id_, state, Bag(), error) is None:
                return
            raise Impossible(
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
                cluster.relinquish(live, checkpoint.manager_of(state.values))
                return
            cluster.delete(kind, place, name, propagation(asked))
        except ApiError as error:
            if error.gone:
                return
            raise Impossible(words.undeleted(kind.kind, id_, error)) from None
        if objects.is_definition(live):
            cluster.discovery.forget()
        if objects.flagged(asked, objects.SKIP_AWAIT) and readiness.key(live) in readiness.DELETED_UNSEEN:
            return
        patience = waiting.patience_of(asked, timeout)
        try:
            waiting.until_gone(
                cluster, kind, (place, name), patience, lambda text: self.reporter.status(resource.urn, text)
            )
        except waiting.NotReady as error:
            raise Impossible("\n  * ".join([str(error), *error.reasons])) from None

    def _forces(self, obj: Mapping[str, Any]) -> bool:
        return self.settings.patch_force or objects.flagged(obj, objects.PATCH_FORCE)


def _drifted(asked: Object, before: Object, now: Object) -> Object:
    if not objects.is_secret(now):
        return diff.drifted(asked, before, now)
    return diff.drifted(asked, diff.in_plain_text(before, asked), diff.in_plain_text(now, asked))
