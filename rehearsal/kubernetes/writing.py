"""Around a write: who we are to the server, what may be sent, and what is kept of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rehearsal.kubernetes import checkpoint, naming, objects, words
from rehearsal.kubernetes.cluster import Cluster
from rehearsal.kubernetes.objects import Object
from rehearsal.kubernetes.values import Bag, has_unknown
from rehearsal.kubernetes.words import Impossible, Partial


@dataclass(frozen=True)
class Written:
    """An object that was just written: what was asked of it, by whom, and what to keep of it."""

    cluster: Cluster
    inputs: Bag
    asked: Object
    manager: str
    initial: str
    done: str

    def outputs(self, live: Object) -> Bag:
        return checkpoint.outputs(self.inputs, live, self.manager, self.initial)

    def partial(self, live: Object, message: str, reasons: list[str]) -> Partial:
        text = f"{words.what(self.asked)} was {self.done}, but {message}"
        return Partial(objects.identity(live), self.outputs(live), self.inputs, text, reasons)


def manager_for(state: Mapping[str, Any], obj: Mapping[str, Any]) -> str:
    """Who we are to server-side apply: one manager a resource, so that each owns its own fields."""
    chosen = objects.annotation(obj, objects.FIELD_MANAGER)
    return chosen or checkpoint.manager_of(state) or naming.random_name(naming.MANAGER_PREFIX)


def known(obj: Object) -> Object:
    unknown = [key for key, value in obj.items() if has_unknown(value)]
    if unknown:
        raise Impossible(f"{words.what(obj)}: still unknown when it was to be carried out: {', '.join(unknown)}")
    return obj


def imported(live: Object) -> Object:
    """The inputs that would make an object what it is: everything but what the server writes."""
    bare = objects.without_read_only({k: v for k, v in live.items() if k != "status"})
    kept = dict(objects.metadata(bare).get("annotations") or {})
    for written in ("deployment.kubernetes.io/revision", "kubectl.kubernetes.io/last-applied-configuration"):
        kept.pop(written, None)
    return objects.with_metadata(bare, annotations=kept or None)


def propagation(asked: Mapping[str, Any]) -> str:
    chosen = objects.annotation(asked, objects.PROPAGATION).lower()
    return {"orphan": "Orphan", "background": "Background"}.get(chosen, "Foreground")
