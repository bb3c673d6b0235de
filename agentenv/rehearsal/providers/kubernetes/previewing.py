"""Previews: the server's dry run if it is reachable, else the inputs."""

from __future__ import annotations

from agentenv.rehearsal.providers.kubernetes import checkpoint, naming, objects, words
from agentenv.rehearsal.providers.kubernetes.client import ApiError, Unreachable
from agentenv.rehearsal.providers.kubernetes.cluster import LEGACY_MANAGERS, Cluster
from agentenv.rehearsal.providers.kubernetes.discovery import UnknownKind
from agentenv.rehearsal.providers.kubernetes.objects import Object
from agentenv.rehearsal.providers.kubernetes.values import PropertyMap, to_api
from agentenv.rehearsal.providers.kubernetes.writing import with_ignored_fields


def create(cluster: Cluster, inputs: PropertyMap) -> PropertyMap:
    """Return the state after a create. What the server would refuse is an error now."""
    obj = to_api(inputs.values)
    try:
        response = cluster.create(obj, naming.MANAGER_PREFIX + "preview", dry=True)
    except (ApiError, UnknownKind, Unreachable) as error:
        if is_inconclusive(error) or (isinstance(error, ApiError) and error.already_exists):
            return inputs  # it may exist because it is about to be replaced
        raise words.InvalidRequest(words.write_error_message(obj, "", error, "created")) from None
    return checkpoint.outputs(inputs, checkpoint.with_unknowns(response, obj, new=True), "", objects.api_version(obj))


def update(
    cluster: Cluster, state: PropertyMap, news: PropertyMap, manager: str, *, force: bool, ignored: tuple[str, ...] = ()
) -> PropertyMap:
    """Return the state after an update."""
    obj = to_api(news.values)
    try:
        if ignored:
            live = cluster.get(cluster.kind(obj), objects.namespace(obj) or "default", objects.name(obj))
            obj = with_ignored_fields(obj, live, manager, ignored)
        response = _applied(cluster, obj, manager, force=force)
    except (ApiError, UnknownKind, Unreachable) as error:
        if is_inconclusive(error):
            return news
        raise words.InvalidRequest(words.write_error_message(obj, manager, error, "updated")) from None
    initial = checkpoint.initial_version(state.values)
    return checkpoint.outputs(news, checkpoint.with_unknowns(response, obj, new=False), manager, initial)


def _applied(cluster: Cluster, obj: Object, manager: str, *, force: bool) -> Object:
    try:
        return cluster.apply(obj, manager, force=force, dry=True)
    except ApiError as error:
        if not conflicts_only_with_own_managers(error, manager):
            raise
        return cluster.apply(obj, manager, force=True, dry=True)


def is_inconclusive(error: ApiError | UnknownKind | Unreachable) -> bool:
    """Return whether the error of a dry run is inconclusive: the real run may create what it needs first."""
    if not isinstance(error, ApiError):
        return True
    no_dry_run = error.status == 400 and "dry run" in error.message
    return error.not_found or no_dry_run or error.status in {401, 403, 405} or error.status >= 500


def conflicts_only_with_own_managers(error: ApiError, manager: str) -> bool:
    """Return whether only our own managers own the conflicting fields, which the real run adopts."""
    owners = [str(cause.get("message", "")) for cause in error.causes]
    ours = {manager, *LEGACY_MANAGERS}
    return error.conflict and bool(owners) and all(any(f'"{name}"' in text for name in ours) for text in owners)
