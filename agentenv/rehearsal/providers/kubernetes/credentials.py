"""Who we are to the API server: tokens, passwords, and programs that hand out short-lived credentials."""

from __future__ import annotations

import base64
import datetime
import json
import os
import subprocess
import threading
from dataclasses import dataclass, field
from typing import Any, Final

from urllib3 import HTTPHeaderDict

from agentenv.rehearsal.providers.kubernetes.kubeconfig import Access, Exec

EARLY: Final = datetime.timedelta(seconds=30)  # renew before it expires: a request may be on its way
PATIENCE: Final = 60.0  # seconds a credentials program may take
TOKEN_FILE_AGE: Final = datetime.timedelta(minutes=1)  # projected tokens are rewritten in place


class NoCredentials(Exception):
    """The credentials program failed, in its own words."""


@dataclass(frozen=True)
class Issued:
    """What a credentials program handed out."""

    token: str | None = field(repr=False)
    certificate: bytes | None = field(repr=False)
    key: bytes | None = field(repr=False)
    until: datetime.datetime | None

    def fresh(self, now: datetime.datetime) -> bool:
        return self.until is None or now + EARLY < self.until


class Credentials:
    """The headers and the client certificate for requests; renewed when they expire or are refused."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._issued: Issued | None = None

    @property
    def renewable(self) -> bool:
        return self._access.exec is not None or self._access.token_file is not None

    def headers(self) -> HTTPHeaderDict:
        access = self._access
        headers = HTTPHeaderDict()
        token = access.token
        if access.exec is not None or access.token_file is not None:
            token = self._current().token or token
        if token:
            headers["Authorization"] = f"Bearer {token}"
        elif access.username is not None:
            pair = f"{access.username}:{access.password or ''}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        if access.impersonate:
            headers["Impersonate-User"] = access.impersonate
            for group in access.impersonate_groups:
                headers.add("Impersonate-Group", group)
        return headers

    def certificate(self) -> tuple[bytes, bytes] | None:
        """The client certificate and its key, PEM."""
        access = self._access
        if access.exec is not None:
            issued = self._current()
            if issued.certificate and issued.key:
                return issued.certificate, issued.key
        return (access.certificate, access.key) if access.certificate and access.key else None

    def refused(self) -> None:
        """The server no longer takes what we have: ask again at the next request."""
        with self._lock:
            self._issued = None

    def _current(self) -> Issued:
        with self._lock:
            now = datetime.datetime.now(datetime.UTC)
            if self._issued is None or not self._issued.fresh(now):
                self._issued = self._ask(now)
            return self._issued

    def _ask(self, now: datetime.datetime) -> Issued:
        access = self._access
        if access.exec is not None:
            return run(access.exec, access)
        if access.token_file is None:
            return Issued(access.token, None, None, None)
        try:
            token = access.token_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise NoCredentials(f"the token file {access.token_file} cannot be read ({error.strerror})") from None
        return Issued(token, None, None, now + EARLY + TOKEN_FILE_AGE)


def run(program: Exec, access: Access) -> Issued:
    """Run a credentials program and read what it says."""
    spec: dict[str, Any] = {"interactive": False}
    if program.cluster_info:
        ca = base64.b64encode(access.ca).decode() if access.ca else None
        spec["cluster"] = {"server": access.server, "certificate-authority-data": ca}
    info = {"apiVersion": program.api_version, "kind": "ExecCredential", "spec": spec}
    environment = {**os.environ, **program.env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    command = program.command
    try:
        done = subprocess.run(
            [command, *program.args],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except FileNotFoundError:
        hint = f" {program.hint}" if program.hint else ""
        raise NoCredentials(f"{command!r}, which the kubeconfig asks for credentials, is not on PATH.{hint}") from None
    except subprocess.TimeoutExpired:
        raise NoCredentials(f"{command!r} gave no credentials within {PATIENCE:.0f} s") from None
    except OSError as error:
        raise NoCredentials(f"{command!r} could not be started ({error.strerror})") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise NoCredentials(f"{command!r} ended with {done.returncode}: {said[-1] if said else 'it said nothing'}")
    return parse(done.stdout, command)


def parse(output: bytes, command: str) -> Issued:
    """The ExecCredential that a program printed."""
    try:
        status = json.loads(output)["status"]
        until = status.get("expirationTimestamp")
        moment = datetime.datetime.fromisoformat(str(until)) if until else None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise NoCredentials(f"{command!r} did not print an ExecCredential with a status") from None
    if moment is not None and moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
    if not status.get("token") and not (certificate and key):
        raise NoCredentials(f"{command!r} printed neither a token nor a certificate with its key")
    return Issued(
        status.get("token"),
        certificate.encode() if certificate else None,
        key.encode() if key else None,
        moment,
    )
