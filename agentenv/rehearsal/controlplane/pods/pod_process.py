"""The process of one pod: its token, arguments and lifetime, and the status reported to the API server."""

from __future__ import annotations

import logging
import os
import threading
import time
import urllib.error
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentenv.local import processes
from agentenv.local.sandboxes.bundle import CannotStart, replace_paths
from agentenv.rehearsal.controlplane import kubeconfig
from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.auth.pod_credentials import ROLE, STS
from agentenv.rehearsal.controlplane.client import ApiError, Client
from agentenv.rehearsal.controlplane.pods import container, listen_addresses, status, volumes
from agentenv.rehearsal.controlplane.ports import DIRECTLY, HOST, Ports

if TYPE_CHECKING:
    from agentenv.rehearsal.controlplane.pods.real_pods import ProcessImage

Object = dict[str, Any]

_LOG = logging.getLogger(__name__)
_PROBE_SECONDS = 0.1
_FAILURE_THRESHOLD = 3  # consecutive failed probes until a pod is not ready
_BACKOFF_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
_GRACE_SECONDS = 10.0
_SHORT_GRACE_SECONDS = 2.0  # a short grace period while the whole plane stops


class PodProcess:
    """Runs a pod's program in a thread of its own, from `start` to the end of the process."""

    def __init__(
        self,
        client: Client,
        row: ProcessImage,
        pod: Object,
        *,
        program: Path,
        folder: Path,
        ca: Path,
        account: Account | None = None,
    ) -> None:
        self._client = client
        self._image = row
        self._pod = pod
        self._program = program
        self._ca = ca
        self._account = account
        metadata = pod["metadata"]
        self._path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        self._folder = folder / "residents" / metadata["uid"]
        self._log = folder / "logs" / f"{metadata['name']}.log"
        self._stopping = threading.Event()
        self._silent = False
        self._grace = _GRACE_SECONDS
        self._restarts = 0
        self._thread = threading.Thread(target=self._run_until_stopped, name=metadata["name"], daemon=True)

    def start(self) -> None:
        """Start in the background."""
        self._thread.start()

    def stop(self, *, silently: bool = False, grace: float | None = None) -> None:
        """Stop the process within its grace period; unless silently, the pod is then deleted."""
        self._silent = silently
        self._grace = _SHORT_GRACE_SECONDS if silently else _GRACE_SECONDS if grace is None else grace
        self._stopping.set()

    def update(self, pod: Object) -> None:
        """Change nothing: a process has no resource limits."""

    def wait(self) -> None:
        """Wait until the process has ended."""
        self._thread.join()

    def _run_until_stopped(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while not self._stopping.is_set():
            try:
                self._run()
            except CannotStart as error:
                self._report_status(ready=False, waiting=("CreateContainerConfigError", str(error)))
            except (ApiError, OSError) as error:
                _LOG.warning("%s: %s", self._path, error)
                self._report_status(ready=False, waiting=("CreateContainerError", str(error)))
            self._stopping.wait(_BACKOFF_SECONDS[min(self._restarts, len(_BACKOFF_SECONDS) - 1)])
            self._restarts += 1
        if not self._silent:
            status.delete(self._client, self._path, self._pod)

    def _run(self) -> None:
        """Run one process from start to end."""
        flags = self._image.flags_of(self._pod)
        with Ports(flags) as ports:
            renew_at = self._renew_token()
            mounted = volumes.write_files(self._client, self._pod, self._folder / "volumes")
            environment = {**container.environment(self._pod, self._address()), **self._aws_variables()}
            host_prefix = "" if self._image.ports_only else f"{HOST}:"
            listens = {flag: f"{host_prefix}{ports[flag]}" for flag in flags}
            arguments = container.arguments(self._pod, environment, listens, self._image.in_cluster_flags)
            command = self._command(arguments, mounted)
            listen_addresses.write_ports(self._folder, {flag: ports[flag] for flag in flags})
            process = processes.start(
                command,
                environment=process_environment(environment, self._folder / "kubeconfig"),
                log=self._log,
                folder=self._folder,
            )
            _LOG.info("%s runs as process %d", self._path, process.pid)
            address = f"http://{HOST}:{ports[self._image.ready_flag]}{self._image.ready_path}"
            reported: bool | None = None
            failures = 0
            try:
                while process.poll() is None and not self._stopping.wait(_PROBE_SECONDS if not reported else 1.0):
                    ready = is_ready(address)
                    failures = 0 if ready else failures + 1
                    settled = ready or not reported or failures >= _FAILURE_THRESHOLD
                    if ready != reported and settled and self._report_status(ready=ready):
                        reported = ready
                    if time.monotonic() > renew_at:
                        renew_at = self._renew_token()
            finally:
                code = processes.stop(process, self._grace)
        if not self._stopping.is_set():
            _LOG.warning("%s ended with %d; see %s", self._path, code, self._log)
            self._report_status(
                ready=False, waiting=("CrashLoopBackOff", f"the process ended with {code}"), ended_with=code
            )

    def _command(self, arguments: list[str], mounted: dict[Path, Path]) -> list[str]:
        """Return the command line; file paths in arguments are replaced, other mounts are overlaid."""
        command = self._image.command(self._program)
        if self._image.module is None:
            return volumes.command_with_mounts([*command, *arguments], mounted, self._folder)
        return [*command, *(replace_paths(text, mounted) for text in arguments)]

    def _aws_variables(self) -> dict[str, str]:
        """Return the variables that EKS injects for the service account's role, and the AWS endpoint."""
        if self._account is None or self._image.module is None:
            return {}
        variables = {"AWS_ENDPOINT_URL": self._account.endpoint, "AWS_REGION": self._account.region}
        role = self._role()
        if role is None:
            return variables
        return {
            **variables,
            "AWS_ROLE_ARN": role,
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(self._folder / "aws-token"),
            "AWS_STS_REGIONAL_ENDPOINTS": "regional",
        }

    def _role(self) -> str | None:
        metadata = self._pod["metadata"]
        name = self._pod["spec"].get("serviceAccountName") or "default"
        service_account = self._client.find(f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{name}") or {}
        return (service_account.get("metadata", {}).get("annotations") or {}).get(ROLE)

    def _renew_token(self) -> float:
        """Write the pod's service account tokens, and return the time to renew them."""
        spec, metadata = self._pod["spec"], self._pod["metadata"]
        account = spec.get("serviceAccountName") or "default"
        file = self._write_token("token")
        if self._image.module is not None:
            self._write_token("aws-token", STS)
        kubeconfig.write(
            self._folder / "kubeconfig",
            server=self._client.server,
            ca=self._ca,
            user=account,
            token_file=file,
            namespace=metadata["namespace"],
        )
        return time.monotonic() + volumes.TOKEN_SECONDS * 0.8

    def _write_token(self, name: str, *audiences: str) -> Path:
        """Write a new token of the service account to a file of that name."""
        token = volumes.request_token(self._client, self._pod, *audiences)
        file = self._folder / name
        temporary = self._folder / f"{name}.new"
        temporary.touch(mode=0o600)
        temporary.write_text(token, encoding="ascii")
        temporary.replace(file)
        return file

    def _address(self) -> str:
        """Return an address of the pod's own: endpoints may not name loopback."""
        uid = bytes.fromhex(self._pod["metadata"]["uid"].replace("-", ""))
        return f"10.127.{uid[0]}.{uid[1] or 1}"

    def _report_status(
        self, *, ready: bool, waiting: tuple[str, str] | None = None, ended_with: int | None = None
    ) -> bool:
        """Report the status as a kubelet would; return whether the server took it or the pod no longer exists."""
        state = status.running() if waiting is None else status.waiting(*waiting)
        last = None if ended_with is None else status.terminated(ended_with)
        main = status.container(
            self._pod["spec"]["containers"][0], state, ready=ready, restarts=self._restarts, last=last
        )
        phase = "Running" if ready or self._restarts or waiting is None else "Pending"
        document = status.pod(phase, self._address(), [main], ready=ready)
        try:
            return status.report(self._client, self._path, document)
        except ApiError as error:
            _LOG.warning("%s: its status could not be reported: %s", self._path, error)
            return False


def process_environment(variables: dict[str, str], kubeconfig: Path | None = None) -> dict[str, str]:
    """Return the environment of a pod's process: its variables, and of our own only what a program needs here."""
    inherited = {name: os.environ[name] for name in ("PATH", "TMPDIR", processes.MARK) if name in os.environ}
    return {**inherited, **variables, **({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {})}


def is_ready(address: str) -> bool:
    """Return whether a probe of this address succeeds."""
    try:
        with DIRECTLY.open(address, timeout=1) as response:
            return response.status == 200
    except (urllib.error.URLError, OSError):
        return False
