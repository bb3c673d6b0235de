"""The service's verbs and coroutines for tests without an event loop: all of them run in one loop of a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from typing import Any

from agentenv.service.kube.client import Document, Kind, KubeApi, KubeClient, collect


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="blocking", daemon=True).start()
    return loop


def run(operation: Callable[..., Any], /, *arguments: Any, **options: Any) -> Any:
    """Return what a coroutine or an asynchronous iterator returns; a `Blocking` argument is passed as its client."""

    async def call() -> Any:
        result = operation(
            *(argument.api if isinstance(argument, Blocking) else argument for argument in arguments), **options
        )
        return await (collect(result) if isinstance(result, AsyncIterator) else result)

    return asyncio.run_coroutine_threadsafe(call(), _loop()).result()


def start(operation: Callable[..., Coroutine[Any, Any, Any]], /, *arguments: Any) -> Future[Any]:
    """Start a coroutine in the shared loop."""
    return asyncio.run_coroutine_threadsafe(operation(*arguments), _loop())


class Blocking:
    """A client whose verbs wait for the response."""

    def __init__(self, api: KubeApi) -> None:
        self.api = api

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Blocking:
        return cls(KubeClient.from_kubeconfig(path, attempts=1))

    @classmethod
    def from_kubeconfig_document(cls, document: Mapping[str, Any]) -> Blocking:
        return cls(KubeClient.from_kubeconfig_document(document, attempts=1))

    def close(self) -> None:
        assert isinstance(self.api, KubeClient)
        run(self.api.close)

    def list(
        self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str | None] | None = None
    ) -> list[Document]:
        return run(self.api.list, kind, namespace, labels)

    def find(self, kind: Kind, name: str, namespace: str | None = None) -> Document | None:
        return run(self.api.find, kind, name, namespace)

    def create(self, kind: Kind, document: Document) -> bool:
        return run(self.api.create, kind, document) is not None

    def patch(self, kind: Kind, existing: Document, changes: Document) -> bool:
        return run(self.api.patch, kind, existing, changes) is not None

    def delete(self, kind: Kind, existing: Document) -> bool:
        return run(self.api.delete, kind, existing)
