"""The pass that keeps the signing keys: in a Secret of the service's namespace, their public parts in every class.

The Secret is written first. A pass that ends before all classes have a new key leaves it without a date, and the next
one goes on; until then it signs nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.pods.daemon import KEYS, KEYS_FILE
from agentenv.core.service.rbac import GATEWAY_SECRETS, SIGNING_KEYS
from agentenv.core.values.object_fields import required, section, text
from agentenv.service.gateway.sealing import ENTRY_KEY, new_secrets, secrets_of
from agentenv.service.gateway.sealing import rotated as rotated_secrets
from agentenv.service.gateway.sealing import to_text as secrets_to_text
from agentenv.service.kube.client import CONFIGURATIONS, NAMESPACES, SECRETS, Document, KubeApi, KubeApiError
from agentenv.service.loops.scheduler import PassResult, ShouldContinue
from agentenv.service.workspaced.keys import SigningKey, UnreadableKeysError, from_text, jwks, rotated, to_text

if TYPE_CHECKING:
    from agentenv.service.loops.context import Context


async def maintain_keys(context: Context, should_continue: ShouldContinue) -> PassResult:
    """Rotate the keys where it is time, and publish them in every class with workspaced."""
    api, now = context.api, context.clock.now()
    await _maintain_gateway_secrets(api, context.namespace, now)
    secret = await api.find(SECRETS, SIGNING_KEYS, context.namespace)
    keys = keys_of(secret)
    rotated_keys = rotated(keys, now)
    if rotated_keys != keys:
        secret = await _store(api, context.namespace, SIGNING_KEYS, secret, {KEYS_FILE: to_text(rotated_keys)})
    if secret is None:
        # Another replica was quicker, and this one no longer leads.
        return PassResult()
    steps, failures = await _publish(api, jwks(rotated_keys), should_continue)
    unpublished = [key for key in rotated_keys if key.published is None]
    if unpublished and should_continue() and not failures:
        dated = {KEYS_FILE: to_text(_with_date(rotated_keys, now))}
        await _store(api, context.namespace, SIGNING_KEYS, secret, dated)
        steps += 1
    return PassResult(steps, failures=tuple(failures))


async def _maintain_gateway_secrets(api: KubeApi, namespace: str, now: datetime) -> None:
    """Create the secrets of the gateway, and rotate the keys of its cookies where it is time."""
    secret = await api.find(SECRETS, GATEWAY_SECRETS, namespace)
    secrets = secrets_of(secret)
    if secret is not None and secrets is None:
        # They are not replaced: every access token would change.
        return
    current = new_secrets(now) if secrets is None else rotated_secrets(secrets, now)
    if current != secrets:
        await _store(api, namespace, GATEWAY_SECRETS, secret, {ENTRY_KEY: secrets_to_text(current)})


def keys_of(secret: Document | None) -> tuple[SigningKey, ...]:
    """Return the keys of the Secret; none where it does not exist."""
    if secret is None:
        return ()
    try:
        return from_text(base64.b64decode(text(section(secret, "data"), KEYS_FILE)).decode())
    except ValueError:
        raise UnreadableKeysError("the signing keys cannot be decoded") from None


def _with_date(keys: Sequence[SigningKey], now: datetime) -> list[SigningKey]:
    return [key if key.published else replace(key, published=now) for key in keys]


async def _store(
    api: KubeApi, namespace: str, name: str, secret: Document | None, content: Mapping[str, str]
) -> Document | None:
    """Write a Secret; None where another replica was quicker."""
    data = {key: base64.b64encode(text_.encode()).decode() for key, text_ in content.items()}
    if secret is not None:
        return await api.patch(SECRETS, secret, {"data": data})
    metadata = {"name": name, "namespace": namespace}
    return await api.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


async def _publish(api: KubeApi, document: str, should_continue: ShouldContinue) -> tuple[int, list[str]]:
    """Write the public keys where a class has others; return how many, and the classes where it failed."""
    steps, failures = 0, list[str]()
    async for listed in api.list(NAMESPACES, labels={CLASS_LABEL: None}):
        namespace = required(listed, "metadata", "name")
        if not should_continue():
            return steps, [*failures, f"{namespace}: this replica no longer leads"]
        try:
            configmap = await api.find(CONFIGURATIONS, KEYS, namespace)
            if configmap is None or text(section(configmap, "data"), KEYS_FILE) == document:
                continue
            if await api.patch(CONFIGURATIONS, configmap, {"data": {KEYS_FILE: document}}) is None:
                failures.append(f"{namespace}: {KEYS} changed meanwhile")
            else:
                steps += 1
        except KubeApiError as refusal:
            if refusal.transient:
                raise
            failures.append(f"{namespace}: {refusal}")
    return steps, failures
