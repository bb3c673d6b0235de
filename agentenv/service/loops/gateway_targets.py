"""The pass over the pods of the gateway: they are the targets of the load balancer, and ready when it knows them."""

from __future__ import annotations

import asyncio
from datetime import datetime

from agentenv.core.gateway.documents import LABELS, NAMESPACE, REGISTERED
from agentenv.core.gateway.targets import changes, pod_of
from agentenv.core.values.timestamps import format_whole_seconds
from agentenv.service.aws.targets import Targets
from agentenv.service.kube.client import POD_STATUS, PODS, Document, KubeApi, collect
from agentenv.service.loops.context import Context
from agentenv.service.loops.scheduler import PassResult, ShouldContinue


async def register_targets(context: Context, targets: Targets, _: ShouldContinue) -> PassResult:
    """Register and deregister pods, and set the readiness gate of those that the load balancer regards as healthy."""
    documents = await collect(context.api.list(PODS, NAMESPACE, LABELS))
    by_name: dict[str, Document] = {document["metadata"]["name"]: document for document in documents}
    health = await asyncio.to_thread(targets.health)
    todo = changes([pod_of(document) for document in documents], health)
    if todo.register:
        await asyncio.to_thread(targets.register, todo.register)
    if todo.deregister:
        await asyncio.to_thread(targets.deregister, todo.deregister)
    for name in todo.ready:
        await _set_ready(context.api, by_name[name], context.clock.now())
    return PassResult(len(todo.register) + len(todo.deregister) + len(todo.ready))


async def _set_ready(api: KubeApi, pod: Document, now: datetime) -> None:
    others = [each for each in pod["status"].get("conditions") or () if each["type"] != REGISTERED]
    gate = {"type": REGISTERED, "status": "True", "lastTransitionTime": format_whole_seconds(now)}
    await api.patch(POD_STATUS, pod, {"status": {"conditions": [*others, gate]}})
