"""An API server that is asked again for as long as it cannot just now: work of many calls is not lost for one of them.

Whoever asks one thing of it is better told to come back. Whoever is half way with hundreds has to go on, or to take
back what was done, and a server that is busy can do neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import TypeVar

from agentenv.service.kube.sync_client import Document, Kind, KubeApi, SyncKubeApiError

Answer = TypeVar("Answer")


class RetryingApi(KubeApi):
    """One that waits so many seconds for each answer."""

    def __init__(
        self, api: KubeApi, seconds: float, *, every: float, pause: Callable[[float], None], clock: Callable[[], float]
    ) -> None:
        self._api, self._seconds, self._every = api, seconds, every
        self._pause, self._clock = pause, clock

    def list(
        self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str | None] | None = None
    ) -> Iterator[Document]:
        """All of a kind, read to the end: half a list is none."""
        return iter(self._retry(lambda: [*self._api.list(kind, namespace, labels)]))

    def find(self, kind: Kind, name: str, namespace: str | None = None) -> Document | None:
        """One of them, if it is there."""
        return self._retry(lambda: self._api.find(kind, name, namespace))

    def create(self, kind: Kind, document: Document) -> bool:
        """Make it; False where one of its name was there already."""
        maybe_created = False

        def create() -> bool:
            nonlocal maybe_created
            try:
                # What is there since nobody answered is what was asked for then.
                return self._api.create(kind, document) or maybe_created
            except SyncKubeApiError as refusal:
                maybe_created |= _may_have_succeeded(refusal)
                raise

        return self._retry(create)

    def patch(self, kind: Kind, existing: Document, changes: Document) -> bool:
        """Merge changes into what was read; False where it is another by now, be it by these, without an answer."""
        return self._retry(lambda: self._api.patch(kind, existing, changes))

    def delete(self, kind: Kind, existing: Document) -> bool:
        """Delete what was read; False where it is another by now, or gone."""
        return self._retry(lambda: self._api.delete(kind, existing))

    def _retry(self, operation: Callable[[], Answer]) -> Answer:
        deadline = self._clock() + self._seconds
        while True:
            try:
                return operation()
            except SyncKubeApiError as refusal:
                if not refusal.transient or self._clock() >= deadline:
                    raise
            self._pause(self._every)


def _may_have_succeeded(refusal: SyncKubeApiError) -> bool:
    return refusal.code >= HTTPStatus.INTERNAL_SERVER_ERROR and refusal.reason != "Conflict"
