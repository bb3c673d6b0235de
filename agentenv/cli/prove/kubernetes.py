"""A client of a stack's cluster, from the kubeconfig that the stack exports."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from agentenv.cli.main import CommandError
from agentenv.rehearsal.controlplane.client import Client, Credentials

_MARGIN_SECONDS = 120.0


def client_of(kubeconfig: Mapping[str, Any], folder: Path, environment: Mapping[str, str]) -> Client:
    """Return a client with the credentials that the kubeconfig's command prints; the CA is written into `folder`."""
    cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
    authority = folder / "cluster-ca.pem"
    authority.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    return Client(cluster["server"], authority, Credentials(token=_Token(user["exec"], environment)))


class _Token:
    """The token of an exec credential plugin, which is run again before the token expires."""

    def __init__(self, command: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self._command = [command["command"], *(command.get("args") or ())]
        variables = {row["name"]: row["value"] for row in command.get("env") or ()}
        self._environment = {**environment, **variables}
        self._lock = threading.Lock()
        self._token, self._expires = "", 0.0

    def __call__(self) -> str:
        with self._lock:
            if time.time() > self._expires - _MARGIN_SECONDS:
                self._token, self._expires = self._run()
            return self._token

    def _run(self) -> tuple[str, float]:
        try:
            output = subprocess.run(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as error:
            raise CommandError(f"{self._command[0]} cannot be run: {error}") from None
        if output.returncode:
            raise CommandError(f"{self._command[0]} returned no token of the cluster: {output.stderr.strip()[-500:]}")
        status = json.loads(output.stdout)["status"]
        expires = datetime.fromisoformat(status["expirationTimestamp"]).timestamp()
        return str(status["token"]), expires
