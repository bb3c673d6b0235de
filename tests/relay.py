"""A relay before a server, over which a test or a benchmark reaches it, and which can hang or lose the server."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager

from agentenv.rehearsal.controlplane.ports import HOST

_BLOCK = 1 << 16


class Relay:
    """Passes connections on to a server.

    While it hangs, it accepts connections and answers nothing. While it is cut, it ends them.
    """

    def __init__(
        self,
        target: tuple[str, int],
        tls: ssl.SSLContext | None = None,
        greet: Callable[[socket.socket], None] = lambda _: None,
    ) -> None:
        self._target, self._tls, self._greet = target, tls, greet
        self._listener = socket.create_server((HOST, 0))
        self._answering = threading.Event()
        self._answering.set()
        self._held = 0
        self._is_cut = False
        self._passing: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._serve, name="relay", daemon=True).start()

    @property
    def port(self) -> int:
        """Return the port on which it listens."""
        return self._listener.getsockname()[1]

    @property
    def address(self) -> str:
        """Return the URL that leads through the relay."""
        return f"{'https' if self._tls else 'http'}://{HOST}:{self.port}"

    @property
    def held(self) -> int:
        """Return how many requests and connections were left without an answer."""
        return self._held

    @contextmanager
    def hanging(self) -> Generator[None]:
        """Answer nothing while the context is open. What came meanwhile is closed at its end, unanswered."""
        self._answering.clear()
        try:
            yield
        finally:
            self._answering.set()

    def cut(self) -> None:
        """End all connections, and new ones until it is restored."""
        with self._lock:
            self._is_cut = True
            for end in self._passing:
                _shut(end)

    def restore(self) -> None:
        """Pass connections on again."""
        with self._lock:
            self._is_cut = False

    def close(self) -> None:
        """Accept no more connections."""
        _shut(self._listener)
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._pass, args=(connection,), daemon=True).start()

    def _pass(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            if self._hung():
                return
            with ExitStack() as opened:
                near = self._tls.wrap_socket(connection, server_side=True) if self._tls else connection
                opened.enter_context(near)
                far = opened.enter_context(socket.create_connection(self._target))
                self._greet(near)
                with self._lock:
                    if self._is_cut:
                        return
                    self._passing |= {near, far}
                try:
                    exchange(near, far, lambda: not self._hung())
                finally:
                    with self._lock:
                        self._passing -= {near, far}

    def _hung(self) -> bool:
        """Wait for the end of a hang; return whether there was one."""
        if self._answering.is_set():
            return False
        with self._lock:
            self._held += 1
        self._answering.wait()
        return True


def connect_every_host(near: socket.socket) -> None:
    """Greet a client that expects a proxy: whichever host it names, it is connected."""
    with near.makefile("rb") as lines:
        while lines.readline().strip():
            pass
    near.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")


def exchange(near: socket.socket, far: socket.socket, may_pass: Callable[[], bool] = lambda: True) -> None:
    """Send to each of two sockets what the other receives, until both have ended.

    Data of `near` for which `may_pass` returns False ends both instead.
    """
    for end in (near, far):
        # The second of two small writes would wait for an acknowledgement, for 40 ms
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    back = threading.Thread(target=_copy, args=(far, near), daemon=True)
    back.start()
    with contextlib.suppress(OSError):
        while data := near.recv(_BLOCK):
            if not may_pass():
                return
            far.sendall(data)
        far.shutdown(socket.SHUT_WR)
        back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_BLOCK):
            target.sendall(data)
    _shut(target)


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
