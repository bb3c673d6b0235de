"""Report objects that cannot be read: by name and type of failure, never by content, and at a bounded rate."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import TypeVar

from agentenv.core.values.object_fields import Document, section, text

_LOG = logging.getLogger(__name__)
# The same object is reported again after so many seconds while it stays unreadable.
AGAIN_AFTER = 600.0
# The limit of reports per minute. The next report has the number of omitted ones.
MOST_A_MINUTE = 20
_REMEMBERED = 10_000

# Errors that a malformed object raises. They concern that object only: a pass continues with the others.
ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)

Row = TypeVar("Row")
Key = tuple[str, str]


class Reports:
    """Rate-limited reports of unreadable objects, for one process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._reported: dict[tuple[str, Key], float] = {}
        self._minute, self._lines, self._omitted = clock(), 0, 0

    def report(self, kind: str, key: Key, failure: BaseException) -> None:
        """Log that an object cannot be read, unless it was reported recently or the rate limit is reached."""
        now = self._clock()
        last = self._reported.pop((kind, key), None)
        if last is not None and now - last < AGAIN_AFTER:
            self._reported[kind, key] = last
            return
        if now - self._minute >= 60:
            self._minute, self._lines = now, 0
        if self._lines >= MOST_A_MINUTE:
            self._omitted += 1
            return
        self._lines += 1
        self._reported[kind, key] = now
        while len(self._reported) > _REMEMBERED:
            del self._reported[next(iter(self._reported))]
        facts = {"kind": kind, "namespace": key[0], "name": key[1], "failure": type(failure).__name__}
        facts |= {"where": _where(failure), "omitted": self._omitted}
        self._omitted = 0
        _LOG.error("an object cannot be read and is omitted", extra={"facts": facts})


REPORTS = Reports()


def key_of(document: object) -> Key:
    """Return the namespace and name of an object; empty strings where it has none."""
    metadata = section(document, "metadata")
    return text(metadata, "namespace"), text(metadata, "name")


async def readable(
    kind: str,
    documents: AsyncIterable[Document] | Iterable[Document],
    read: Callable[[Document], Row],
    failures: list[str] | None = None,
    reports: Reports = REPORTS,
) -> AsyncIterator[tuple[Document, Row]]:
    """Yield each document with its row; report a document that cannot be read, add it to `failures`, and omit it."""
    async for document in _each(documents):
        try:
            row = read(document)
        except Exception as failure:  # noqa: BLE001 - one unreadable object does not stop the others
            key = key_of(document)
            reports.report(kind, key, failure)
            if failures is not None:
                failures.append(f"{kind} {'/'.join(filter(None, key))} cannot be read: {type(failure).__name__}")
        else:
            yield document, row


async def _each(documents: AsyncIterable[Document] | Iterable[Document]) -> AsyncIterator[Document]:
    if isinstance(documents, AsyncIterable):
        async for document in documents:
            yield document
    else:
        for document in documents:
            yield document


def _where(failure: BaseException) -> str:
    """Return the line of code that failed."""
    frame = failure.__traceback__
    if frame is None:
        return ""
    while frame.tb_next is not None:
        frame = frame.tb_next
    return f"{frame.tb_frame.f_globals.get('__name__', '')}:{frame.tb_lineno}"
