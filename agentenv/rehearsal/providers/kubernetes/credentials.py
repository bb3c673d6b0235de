"""Credentials for the API server: tokens, passwords, and exec plugins that issue short-lived credentials."""

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


class CredentialsError(Exception):
    """The exec plugin failed, with its message."""


@dataclass(frozen=True)
class IssuedCredentials:
    """Credentials issued by an exec plugin."""

    token: str | None = field(repr=False)
    certificate: bytes | None = field(repr=False)
    key: bytes | None = field(repr=False)
    expires: datetime.datetime | None

    def fresh(self, now: datetime.datetime) -> bool:
        return self.expires is None or now + EARLY < self.expires


class Credentials:
    """The headers and the client certificate of requests, renewed when they expire or are rejected."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._issued: IssuedCredentials | None = None

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
        """Return the client certificate and its key, in PEM."""
        access = self._access
        if access.exec is not None:
            issued = self._current()
            if issued.certificate and issued.key:
                return issued.certificate, issued.key
        return (access.certificate, access.key) if access.certificate and access.key else None

    def refused(self) -> None:
        """Discard credentials that the server rejected; the next request renews them."""
        with self._lock:
            self._issued = None

    def _current(self) -> IssuedCredentials:
        with self._lock:
            now = datetime.datetime.now(datetime.UTC)
            if self._issued is None or not self._issued.fresh(now):
                self._issued = self._issue(now)
            return self._issued

    def _issue(self, now: datetime.datetime) -> IssuedCredentials:
        access = self._access
        if access.exec is not None:
            return run(access.exec, access)
        if access.token_file is None:
            return IssuedCredentials(access.token, None, None, None)
        try:
            token = access.token_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise CredentialsError(f"the token file {access.token_file} cannot be read ({error.strerror})") from None
        return IssuedCredentials(token, None, None, now + EARLY + TOKEN_FILE_AGE)


def run(program: Exec, access: Access) -> IssuedCredentials:
    """Run an exec plugin and parse its output."""
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
        raise CredentialsError(
            f"{command!r}, which the kubeconfig asks for credentials, is not on PATH.{hint}"
        ) from None
    except subprocess.TimeoutExpired:
        raise CredentialsError(f"{command!r} gave no credentials within {PATIENCE:.0f} s") from None
    except OSError as error:
        raise CredentialsError(f"{command!r} could not be started ({error.strerror})") from None
    if done.returncode != 0:
        output_lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise CredentialsError(
            f"{command!r} ended with {done.returncode}: {output_lines[-1] if output_lines else 'it said nothing'}"
        )
    return parse(done.stdout, command)


def parse(output: bytes, command: str) -> IssuedCredentials:
    """Parse the ExecCredential that a plugin printed."""
    try:
        status = json.loads(output)["status"]
        expires = status.get("expirationTimestamp")
        moment = datetime.datetime.fromisoformat(str(expires)) if expires else None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CredentialsError(f"{command!r} did not print an ExecCredential with a status") from None
    if moment is not None and moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
    if not status.get("token") and not (certificate and key):
        raise CredentialsError(f"{command!r} printed neither a token nor a certificate with its key")
    return IssuedCredentials(
        status.get("token"),
        certificate.encode() if certificate else None,
        key.encode() if key else None,
        moment,
    )
