"""A TCP proxy to the API server that can be closed: only its clients lose the server."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import yaml


class ClosableProxy:
    """Forwards connections while it is open; closing it ends them."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target, self._open = target, True
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._passing: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._serve, name="closable-proxy", daemon=True).start()

    @property
    def port(self) -> int:
        return self._listener.getsockname()[1]

    def shut(self) -> None:
        with self._lock:
            self._open = False
            for connection in self._passing:
                _end(connection)
            self._passing.clear()

    def open(self) -> None:
        with self._lock:
            self._open = True

    def close(self) -> None:
        self.shut()
        _end(self._listener)

    def _serve(self) -> None:
        while True:
            try:
                inner, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if not self._open:
                    _end(inner)
                    continue
                outer = socket.create_connection(self._target)
                self._passing |= {inner, outer}
            for source, target in ((inner, outer), (outer, inner)):
                threading.Thread(target=_pass, args=(source, target), daemon=True).start()


def _pass(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    _end(source)
    _end(target)


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@contextlib.contextmanager
def closable_proxy(kubeconfig: Path, folder: Path) -> Iterator[tuple[ClosableProxy, Path]]:
    """Yield a proxy in front of the server of a kubeconfig, and a kubeconfig for it."""
    document = yaml.safe_load(kubeconfig.read_text())
    server = urlsplit(document["clusters"][0]["cluster"]["server"])
    closable_proxy_ = ClosableProxy((server.hostname or "", server.port or 443))
    document["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{closable_proxy_.port}"
    proxied_kubeconfig = folder / "through-proxy.yaml"
    proxied_kubeconfig.write_text(yaml.safe_dump(document))
    try:
        yield closable_proxy_, proxied_kubeconfig
    finally:
        closable_proxy_.close()
