"""A relay to the API server that can be cut, so that only its clients lose the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from tests.relay import Relay


@contextmanager
def relayed(kubeconfig: Path, folder: Path) -> Iterator[tuple[Relay, Path]]:
    """Yield a relay to the server of a kubeconfig, and a kubeconfig for it."""
    document = yaml.safe_load(kubeconfig.read_text())
    cluster = document["clusters"][0]["cluster"]
    server = urlsplit(cluster["server"])
    with closing(Relay((server.hostname or "", server.port or 443))) as relay:
        cluster["server"] = f"https://127.0.0.1:{relay.port}"
        through = folder / "through-relay.yaml"
        through.write_text(yaml.safe_dump(document))
        try:
            yield relay, through
        finally:
            relay.cut()
