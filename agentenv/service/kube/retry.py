"""Retry requests for as long as a task of many requests may take, where the API server is unavailable.

A single request should rather fail, so that its caller retries. A task with hundreds of requests has to complete or to
undo what it did, and a busy server allows neither.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, TypeVar

from agentenv.service.kube.client import Document, Kind, KubeApi, KubeApiError, Labels, collect

Response = TypeVar("Response")


class RetryingApi(KubeApi):
    """An API whose requests are retried for so many seconds. The API below must not retry by itself."""

    def __init__(
        self,
        api: KubeApi,
        seconds: float,
        *,
        every: float,
        pause: Callable[[float], Awaitable[None]],
        clock: Callable[[], float],
    ) -> None:
        self._api, self._seconds, self._every = api, seconds, every
        self._pause, self._clock = pause, clock

    async def list(
        self, kind: Kind, namespace: str | None = None, labels: Labels | None = None
    ) -> AsyncIterator[Document]:
        """Yield all objects of a kind, once the list is complete."""
        for document in await self._retry(lambda: collect(self._api.list(kind, namespace, labels))):
            yield document

    async def find(self, kind: Kind, name: str, namespace: str | None = None) -> Document | None:
        """Return an object, or None if it does not exist."""
        return await self._retry(lambda: self._api.find(kind, name, namespace))

    async def create(self, kind: Kind, document: Mapping[str, Any]) -> Document | None:
        """Create an object and return it; None if one of its name existed before the first attempt."""
        maybe_created = False

        async def create() -> Document | None:
            nonlocal maybe_created
            try:
                created = await self._api.create(kind, document)
            except KubeApiError as error:
                maybe_created |= _may_have_succeeded(error)
                raise
            if created is None and maybe_created:
                # An attempt without a response succeeded.
                return dict(document)
            return created

        return await self._retry(create)

    async def patch(self, kind: Kind, existing: Mapping[str, Any], changes: Mapping[str, Any]) -> Document | None:
        """Merge changes into an object; None if it was changed since it was read, perhaps by an earlier attempt."""
        return await self._retry(lambda: self._api.patch(kind, existing, changes))

    async def delete(
        self, kind: Kind, existing: Mapping[str, Any], *, any_version: bool = False, policy: str = "Background"
    ) -> bool:
        """Delete an object; return False if it was changed since it was read, or is gone."""
        return await self._retry(lambda: self._api.delete(kind, existing, any_version=any_version, policy=policy))

    async def _retry(self, operation: Callable[[], Awaitable[Response]]) -> Response:
        deadline = self._clock() + self._seconds
        while True:
            try:
                return await operation()
            except KubeApiError as error:
                if not error.transient or self._clock() >= deadline:
                    raise
            await self._pause(self._every)


def _may_have_succeeded(error: KubeApiError) -> bool:
    return error.code >= HTTPStatus.INTERNAL_SERVER_ERROR and error.reason != "Conflict"
