"""Previews: the server's dry run where it can be asked, else the inputs with what is unknown in them."""

from __future__ import annotations

from agentenv.rehearsal.providers.kubernetes import checkpoint, naming, objects, words
from agentenv.rehearsal.providers.kubernetes.client import ApiError, Unreachable
from agentenv.rehearsal.providers.kubernetes.cluster import FORERUNNERS, Cluster
from agentenv.rehearsal.providers.kubernetes.discovery import UnknownKind
from agentenv.rehearsal.providers.kubernetes.objects import Object
from agentenv.rehearsal.providers.kubernetes.values import Bag, to_api
from agentenv.rehearsal.providers.kubernetes.writing import respecting


def create(cluster: Cluster, inputs: Bag) -> Bag:
    """What a create would answer; what the server would refuse is refused now."""
    obj = to_api(inputs.values)
    try:
        answer = cluster.create(obj, naming.MANAGER_PREFIX + "preview", dry=True)
    except (ApiError, UnknownKind, Unreachable) as error:
        if tells_nothing(error) or (isinstance(error, ApiError) and error.exists):
            return inputs  # it may exist because it is about to be replaced
        raise words.Impossible(words.refused(obj, "", error, "created")) from None
    return checkpoint.outputs(inputs, checkpoint.foreseen(answer, obj, new=True), "", objects.api_version(obj))


def update(cluster: Cluster, state: Bag, news: Bag, manager: str, *, force: bool, ignored: tuple[str, ...] = ()) -> Bag:
    """What an update would answer."""
    obj = to_api(news.values)
    try:
        if ignored:
            live = cluster.get(cluster.kind(obj), objects.namespace(obj) or "default", objects.name(obj))
            obj = respecting(obj, live, manager, ignored)
        answer = _applied(cluster, obj, manager, force=force)
    except (ApiError, UnknownKind, Unreachable) as error:
        if tells_nothing(error):
            return news
        raise words.Impossible(words.refused(obj, manager, error, "updated")) from None
    initial = checkpoint.initial_of(state.values)
    return checkpoint.outputs(news, checkpoint.foreseen(answer, obj, new=False), manager, initial)


def _applied(cluster: Cluster, obj: Object, manager: str, *, force: bool) -> Object:
    try:
        return cluster.apply(obj, manager, force=force, dry=True)
    except ApiError as error:
        if not only_with_ourselves(error, manager):
            raise
        return cluster.apply(obj, manager, force=True, dry=True)


def tells_nothing(error: ApiError | UnknownKind | Unreachable) -> bool:
    """Whether a dry run's failure says nothing about the real run: what it needs may come first."""
    if not isinstance(error, ApiError):
        return True
    no_dry_run = error.status == 400 and "dry run" in error.message
    return error.gone or no_dry_run or error.status in {401, 403, 405} or error.status >= 500


def only_with_ourselves(error: ApiError, manager: str) -> bool:
    """Whether the fields in conflict were written by us, before the real run makes them ours by server-side apply."""
    owners = [str(cause.get("message", "")) for cause in error.causes]
    ours = {manager, *FORERUNNERS}
    return error.conflict and bool(owners) and all(any(f'"{name}"' in text for name in ours) for text in owners)
