"""Clients of one sandbox: its processes, terminals and files, as workspaced serves them.

The HTTP client that they get has the address of the sandbox, and the headers or the `auth` that admit to it: a token of
workspaced, an access token of the gateway, or an API key. Large outputs and files are streamed.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, cast

import httpx2

from agentenv.client.connect_json import STREAM, UNARY, Document, Frames, SandboxError, error_of, frame, result_of

T = TypeVar("T")
Channel = Literal["stdout", "stderr", "pty"]
Kind = Literal["file", "directory", "symlink", "other"]

# Streams are kept open by messages of workspaced; without one for twice that time the connection is lost.
KEEPALIVE_SECONDS = 30
_CONNECT = 10.0
_UNARY = httpx2.Timeout(60.0, connect=_CONNECT)
_STREAM = httpx2.Timeout(60.0, connect=_CONNECT, read=2.0 * KEEPALIVE_SECONDS)
_MAX_BYTES = 64 << 20
_CHANNELS: tuple[Channel, ...] = ("stdout", "stderr", "pty")
_KINDS: Mapping[str, Kind] = {
    "FILE_TYPE_FILE": "file",
    "FILE_TYPE_DIRECTORY": "directory",
    "FILE_TYPE_SYMLINK": "symlink",
}
_SIGNALS = {9: "SIGNAL_SIGKILL", 15: "SIGNAL_SIGTERM"}


@dataclass(frozen=True, slots=True)
class Started:
    """The process has started."""

    pid: int


@dataclass(frozen=True, slots=True)
class Output:
    """The process wrote something."""

    channel: Channel
    data: bytes


@dataclass(frozen=True, slots=True)
class Ended:
    """The process has ended; `exit_code` is -1 after a signal."""

    exit_code: int
    status: str = ""


Event = Started | Output | Ended


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a terminal."""

    columns: int
    rows: int


@dataclass(frozen=True, slots=True)
class Process:
    """A running process."""

    pid: int
    command: tuple[str, ...]
    directory: str
    tag: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder."""

    name: str
    path: str
    kind: Kind
    size: int
    mode: int
    modified: str
    target: str | None = None  # of a symbolic link


@dataclass(frozen=True)
class Command:
    """A process to start; its timeout is in seconds, and ends it."""

    argv: Sequence[str]
    directory: str | None = None
    environment: Mapping[str, str] | None = None
    terminal: Size | None = None
    stdin: bool = False
    tag: str | None = None
    timeout: float | None = None

    @classmethod
    def shell(cls, line: str, **options: Any) -> Command:
        """Return the command that runs a line in a login shell, as the `e2b` client does."""
        return cls(("/bin/bash", "-l", "-c", line), **options)


class Sandbox:
    """A client of one sandbox. The HTTP client stays the caller's to close."""

    def __init__(self, http: httpx2.Client) -> None:
        self._http = http

    def start(self, command: Command) -> Generator[Event]:
        """Start a process and yield its events until it ends; it runs on where the generator is closed before."""
        return self._events(_start(command))

    def attach(self, pid: int) -> Generator[Event]:
        """Yield the recent output of a process, and its events from now on."""
        return self._events(_attach(pid))

    def processes(self) -> list[Process]:
        """Return the running processes."""
        return self._call(_processes())

    def send_input(self, pid: int, data: bytes, *, terminal: bool = False) -> None:
        """Write to the input of a process, once it has taken what was written before."""
        self._call(_send_input(pid, data, terminal=terminal))

    def close_input(self, pid: int) -> None:
        """Close the standard input of a process."""
        self._call(_close_input(pid))

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to a process and what it started."""
        self._call(_signal(pid, number))

    def resize(self, pid: int, size: Size) -> None:
        """Set the size of a terminal."""
        self._call(_resize(pid, size))

    def stat(self, path: str) -> Entry:
        """Return the entry of a path."""
        return self._call(_stat(path))

    def list(self, path: str, depth: int = 1) -> list[Entry]:
        """Return the entries of a folder, so many levels deep."""
        return self._call(_list(path, depth))

    def make_directory(self, path: str) -> None:
        """Create a folder and those above it; an existing one is refused with `already_exists`."""
        self._call(_make_directory(path))

    def move(self, source: str, destination: str) -> Entry:
        """Move a file or folder."""
        return self._call(_move(source, destination))

    def remove(self, path: str) -> None:
        """Delete a file, or a folder with all below it; a path that does not exist is no error."""
        self._call(_remove(path))

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        return b"".join(self.download(path))

    def download(self, path: str, *, start: int | None = None, end: int | None = None) -> Iterator[bytes]:
        """Yield the content of a file in pieces, or of its bytes from `start` to `end`, both included."""
        with _translated(), self._http.stream("GET", "/files", **_download(path, start, end)) as response:
            if not response.is_success:
                raise error_of(response.status_code, _body(response))
            yield from response.iter_bytes()

    def write(self, path: str, content: bytes | Iterable[bytes]) -> None:
        """Write a file at once: readers see the old content or the new one."""
        with _translated(), self._http.stream("POST", "/files", content=content, **_upload(path)) as response:
            body = _body(response)
        if not response.is_success:
            raise error_of(response.status_code, body)

    def metrics(self) -> Document:
        """Return the use of CPU, memory and disk, as envd's `/metrics`."""
        return self._call(_METRICS)

    def _call(self, operation: _Operation[T]) -> T:
        with _translated(), self._http.stream(**operation.request()) as response:
            body = _body(response)
        return operation.result(response.status_code, body)

    def _events(self, stream: _Stream) -> Generator[Event]:
        frames = Frames()
        with _translated(), self._http.stream("POST", **stream.request()) as response:
            if not response.is_success:
                raise error_of(response.status_code, _body(response))
            for data in response.iter_bytes():
                for message in frames.feed(data):
                    if (event := _event(message)) is not None:
                        yield event
        frames.finish()


class AsyncSandbox:
    """The same as `Sandbox`, for asynchronous programs."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    def start(self, command: Command) -> AsyncGenerator[Event]:
        """Start a process and yield its events until it ends; it runs on where the generator is closed before."""
        return self._events(_start(command))

    def attach(self, pid: int) -> AsyncGenerator[Event]:
        """Yield the recent output of a process, and its events from now on."""
        return self._events(_attach(pid))

    async def processes(self) -> list[Process]:
        """Return the running processes."""
        return await self._call(_processes())

    async def send_input(self, pid: int, data: bytes, *, terminal: bool = False) -> None:
        """Write to the input of a process, once it has taken what was written before."""
        await self._call(_send_input(pid, data, terminal=terminal))

    async def close_input(self, pid: int) -> None:
        """Close the standard input of a process."""
        await self._call(_close_input(pid))

    async def signal(self, pid: int, number: int) -> None:
        """Send a signal to a process and what it started."""
        await self._call(_signal(pid, number))

    async def resize(self, pid: int, size: Size) -> None:
        """Set the size of a terminal."""
        await self._call(_resize(pid, size))

    async def stat(self, path: str) -> Entry:
        """Return the entry of a path."""
        return await self._call(_stat(path))

    async def list(self, path: str, depth: int = 1) -> list[Entry]:
        """Return the entries of a folder, so many levels deep."""
        return await self._call(_list(path, depth))

    async def make_directory(self, path: str) -> None:
        """Create a folder and those above it; an existing one is refused with `already_exists`."""
        await self._call(_make_directory(path))

    async def move(self, source: str, destination: str) -> Entry:
        """Move a file or folder."""
        return await self._call(_move(source, destination))

    async def remove(self, path: str) -> None:
        """Delete a file, or a folder with all below it; a path that does not exist is no error."""
        await self._call(_remove(path))

    async def read(self, path: str) -> bytes:
        """Return the content of a file."""
        return b"".join([data async for data in self.download(path)])

    async def download(self, path: str, *, start: int | None = None, end: int | None = None) -> AsyncIterator[bytes]:
        """Yield the content of a file in pieces, or of its bytes from `start` to `end`, both included."""
        with _translated():
            async with self._http.stream("GET", "/files", **_download(path, start, end)) as response:
                if not response.is_success:
                    raise error_of(response.status_code, await _async_body(response))
                async for data in response.aiter_bytes():
                    yield data

    async def write(self, path: str, content: bytes | AsyncIterable[bytes]) -> None:
        """Write a file at once: readers see the old content or the new one."""
        with _translated():
            async with self._http.stream("POST", "/files", content=content, **_upload(path)) as response:
                body = await _async_body(response)
        if not response.is_success:
            raise error_of(response.status_code, body)

    async def metrics(self) -> Document:
        """Return the use of CPU, memory and disk, as envd's `/metrics`."""
        return await self._call(_METRICS)

    async def _call(self, operation: _Operation[T]) -> T:
        with _translated():
            async with self._http.stream(**operation.request()) as response:
                body = await _async_body(response)
        return operation.result(response.status_code, body)

    async def _events(self, stream: _Stream) -> AsyncGenerator[Event]:
        frames = Frames()
        with _translated():
            async with self._http.stream("POST", **stream.request()) as response:
                if not response.is_success:
                    raise error_of(response.status_code, await _async_body(response))
                async for data in response.aiter_bytes():
                    for message in frames.feed(data):
                        if (event := _event(message)) is not None:
                            yield event
        frames.finish()


class _Operation(Generic[T]):
    """A request with one response, and how to read that."""

    def __init__(self, path: str, body: Document | None, read: Any) -> None:
        self._path, self._body, self._read = path, body, read

    def request(self) -> dict[str, Any]:
        if self._body is None:
            return {"method": "GET", "url": self._path, "timeout": _UNARY}
        return {"method": "POST", "url": self._path, "json": self._body, "headers": UNARY, "timeout": _UNARY}

    def result(self, status: int, body: bytes) -> T:
        if not httpx2.codes.is_success(status):
            raise error_of(status, body)
        with _understood():
            return cast("T", self._read(result_of(body)))


@dataclass(frozen=True)
class _Stream:
    """A request whose response is a stream of events."""

    path: str
    body: Document
    timeout: float | None = None

    def request(self) -> dict[str, Any]:
        headers = {**STREAM, "Keepalive-Ping-Interval": str(KEEPALIVE_SECONDS)}
        if self.timeout is not None:
            headers["Connect-Timeout-Ms"] = str(max(1, round(self.timeout * 1000)))
        return {"url": self.path, "content": frame(self.body), "headers": headers, "timeout": _STREAM}


def _start(command: Command) -> _Stream:
    process: Document = {"cmd": command.argv[0], "args": list(command.argv[1:])}
    process |= {"envs": dict(command.environment)} if command.environment else {}
    process |= {"cwd": command.directory} if command.directory else {}
    body: Document = {"process": process, "stdin": command.stdin}
    body |= {"pty": _pty(command.terminal)} if command.terminal else {}
    body |= {"tag": command.tag} if command.tag else {}
    return _Stream("/process.Process/Start", body, command.timeout)


def _attach(pid: int) -> _Stream:
    return _Stream("/process.Process/Connect", _selector(pid))


def _processes() -> _Operation[list[Process]]:
    def read(document: Document) -> list[Process]:
        return [_process(row) for row in document.get("processes", ())]

    return _Operation("/process.Process/List", {}, read)


def _send_input(pid: int, data: bytes, *, terminal: bool) -> _Operation[None]:
    text = base64.b64encode(data).decode()
    body = {**_selector(pid), "input": {"pty" if terminal else "stdin": text}}
    return _Operation("/process.Process/SendInput", body, _nothing)


def _close_input(pid: int) -> _Operation[None]:
    return _Operation("/process.Process/CloseStdin", _selector(pid), _nothing)


def _signal(pid: int, number: int) -> _Operation[None]:
    body = {**_selector(pid), "signal": _SIGNALS.get(number, number)}
    return _Operation("/process.Process/SendSignal", body, _nothing)


def _resize(pid: int, size: Size) -> _Operation[None]:
    return _Operation("/process.Process/Update", {**_selector(pid), "pty": _pty(size)}, _nothing)


def _stat(path: str) -> _Operation[Entry]:
    return _Operation("/filesystem.Filesystem/Stat", {"path": path}, _entry_of)


def _list(path: str, depth: int) -> _Operation[list[Entry]]:
    def read(document: Document) -> list[Entry]:
        return [_entry(row) for row in document.get("entries", ())]

    return _Operation("/filesystem.Filesystem/ListDir", {"path": path, "depth": depth}, read)


def _make_directory(path: str) -> _Operation[None]:
    return _Operation("/filesystem.Filesystem/MakeDir", {"path": path}, _nothing)


def _move(source: str, destination: str) -> _Operation[Entry]:
    return _Operation("/filesystem.Filesystem/Move", {"source": source, "destination": destination}, _entry_of)


def _remove(path: str) -> _Operation[None]:
    return _Operation("/filesystem.Filesystem/Remove", {"path": path}, _nothing)


def _document(document: Document) -> Document:
    return document


def _nothing(_: Document) -> None:
    return None


_METRICS: _Operation[Document] = _Operation("/metrics", None, _document)


def _download(path: str, start: int | None, end: int | None) -> dict[str, Any]:
    request: dict[str, Any] = {"params": {"path": path}, "timeout": _UNARY}
    if start is not None or end is not None:
        request["headers"] = {"Range": f"bytes={start or 0}-{'' if end is None else end}"}
    return request


def _upload(path: str) -> dict[str, Any]:
    headers = {"Content-Type": "application/octet-stream"}
    return {"params": {"path": path}, "headers": headers, "timeout": _UNARY}


def _selector(pid: int) -> Document:
    return {"process": {"pid": pid}}


def _pty(size: Size) -> Document:
    return {"size": {"cols": size.columns, "rows": size.rows}}


def _process(row: Document) -> Process:
    config = row.get("config", {})
    return Process(
        int(row["pid"]), (config.get("cmd", ""), *config.get("args", ())), config.get("cwd", ""), row.get("tag", "")
    )


def _entry_of(document: Document) -> Entry:
    return _entry(document["entry"])


def _entry(row: Document) -> Entry:
    return Entry(
        name=row.get("name", ""),
        path=row.get("path", ""),
        kind=_KINDS.get(row.get("type", ""), "other"),
        size=int(row.get("size", 0)),  # an int64 is a text in the JSON of Protobuf
        mode=int(row.get("mode", 0)),
        modified=row.get("modifiedTime", ""),
        target=row.get("symlinkTarget"),
    )


def _event(message: Document) -> Event | None:
    """Return the event of a message; None for one that only keeps the stream open."""
    with _understood():
        event: Document = message.get("event", {})
        if "start" in event:
            return Started(int(event["start"]["pid"]))
        if "end" in event:
            return Ended(int(event["end"].get("exitCode", 0)), event["end"].get("status", ""))
        data: Document = event.get("data", {})
        for channel in _CHANNELS:
            if channel in data:
                return Output(channel, base64.b64decode(data[channel]))
    return None


def _body(response: httpx2.Response) -> bytes:
    """Read a response; what runs in a sandbox may have taken over its port, so not without bounds."""
    body = bytearray()
    for data in response.iter_bytes():
        body += data
        _refuse_too_long(body)
    return bytes(body)


async def _async_body(response: httpx2.Response) -> bytes:
    body = bytearray()
    async for data in response.aiter_bytes():
        body += data
        _refuse_too_long(body)
    return bytes(body)


def _refuse_too_long(body: bytearray) -> None:
    if len(body) > _MAX_BYTES:
        raise SandboxError("resource_exhausted", "the response of the sandbox is too long")


@contextlib.contextmanager
def _understood() -> Generator[None]:
    """Raise a response of another form as a `SandboxError`."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as failure:
        raise SandboxError("unknown", "the response is not from a sandbox") from failure


@contextlib.contextmanager
def _translated() -> Generator[None]:
    """Raise failures of the connection as a `SandboxError`."""
    try:
        yield
    except httpx2.TimeoutException as failure:
        raise SandboxError("deadline_exceeded", f"the sandbox did not answer: {type(failure).__name__}") from failure
    except (httpx2.ReadError, httpx2.RemoteProtocolError) as failure:
        raise SandboxError("unavailable", "the connection to the sandbox was lost: it may be stopping") from failure
    except httpx2.TransportError as failure:
        raise SandboxError("unavailable", f"the sandbox does not answer: {type(failure).__name__}") from failure
