"""Replace pods that the webhook of their Fargate profile missed: they are deleted, and their controllers create others.

The service itself runs on nodes, and needs no name service to reach the API server. So it replaces the pods of CoreDNS,
of the sandbox controller and of classes. Karpenter's pods name the Fargate scheduler themselves, and are never missed.
"""

from __future__ import annotations

import logging
from typing import Final

from agentenv.core.nodes.fargate_profiles import is_missed
from agentenv.core.values.object_fields import section
from agentenv.service.kube.client import PODS, Document
from agentenv.service.kube.record_event import record_event
from agentenv.service.loops.context import Context
from agentenv.service.loops.scheduler import PassResult, ShouldContinue, isolated

_LOG = logging.getLogger(__name__)
_MOST: Final = 10


async def replace_missed_pods(context: Context, should_continue: ShouldContinue) -> PassResult:
    """Delete the pods of Fargate profiles that no scheduler has placed within five minutes."""
    steps = 0
    failures: list[str] = []
    for selector in context.fargate:
        async for pod in context.api.list(PODS, selector.namespace, dict(selector.labels)):
            if not is_missed(pod, context.clock.now()):
                continue
            if steps + len(failures) >= _MOST or not should_continue():
                return PassResult(steps, failures=tuple(failures))
            with isolated(failures, f"{selector.namespace}/{section(pod, 'metadata')['name']}"):
                steps += await _replace(context, pod)
    return PassResult(steps, failures=tuple(failures))


async def _replace(context: Context, pod: Document) -> bool:
    """Delete a pod as it was read: one that was placed meanwhile stays."""
    metadata = section(pod, "metadata")
    if not await context.api.delete(PODS, pod):
        return False
    context.metrics.missed_pod(metadata["namespace"])
    facts = {"pod": metadata["name"], "namespace": metadata["namespace"]}
    _LOG.warning("a pod that the webhook of its Fargate profile missed is replaced", extra={"facts": facts})
    about = {"apiVersion": "v1", "kind": "Pod", **{key: metadata[key] for key in ("name", "namespace", "uid")}}
    message = "its Fargate profile's webhook missed it, so no scheduler placed it; its controller creates another one"
    await record_event(context.api, about, "FargateMissed", message, context.clock.now(), warning=True)
    return True
