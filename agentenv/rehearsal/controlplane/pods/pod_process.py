"""One resident pod's life: its token, its arguments, its process, and what the API server is told of it."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
import urllib.error
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.controlplane import kubeconfig
from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.auth.pod_credentials import ROLE, STS
from agentenv.rehearsal.controlplane.client import ApiError, Client, until
from agentenv.rehearsal.controlplane.pods import container, volumes
from agentenv.rehearsal.controlplane.pods import listen_addresses as listening
from agentenv.rehearsal.controlplane.pods.container import CannotStart
from agentenv.rehearsal.controlplane.ports import DIRECTLY, HOST, Ports
from agentenv.rehearsal.stage import processes

if TYPE_CHECKING:
    from agentenv.rehearsal.controlplane.pods.real_pods import Resident

Object = dict[str, Any]

_LOG = logging.getLogger(__name__)
_PROBE_SECONDS = 0.1
_MISSES = 3  # in a row, and a kubelet believes that a pod is not ready any more
_TOKEN_SECONDS = 3600
_BACKOFF_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
_GRACE_SECONDS = 10.0
_LET_GO_SECONDS = 30.0
_HASTY_SECONDS = 2.0  # when everything ends, nobody waits for a controller that says goodbye to its server


class Tenancy:
    """A pod of a resident, in a thread of its own from `move_in` to the end of its process."""

    def __init__(
        self,
        client: Client,
        row: Resident,
        pod: Object,
        *,
        program: Path,
        folder: Path,
        ca: Path,
        account: Account | None = None,
    ) -> None:
        self._client = client
        self._row = row
        self._pod = pod
        self._program = program
        self._ca = ca
        self._account = account
        about = pod["metadata"]
        self._path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}"
        self._folder = folder / "residents" / about["uid"]
        self._log = folder / "logs" / f"{about['name']}.log"
        self._leaving = threading.Event()
        self._silent = False
        self._restarts = 0
        self._thread = threading.Thread(target=self._live, name=about["name"], daemon=True)

    def move_in(self) -> None:
        """Start it in the background."""
        self._thread.start()

    def leave(self, *, silently: bool = False) -> None:
        """End its process; unless silently, the pod is then let go."""
        self._silent = silently
        self._leaving.set()

    def wait(self) -> None:
        """Until its process is gone."""
        self._thread.join()

    def _live(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while not self._leaving.is_set():
            try:
                self._run()
            except CannotStart as error:
                self._tell(ready=False, waiting=("CreateContainerConfigError", str(error)))
            except (ApiError, OSError) as error:
                _LOG.warning("%s: %s", self._path, error)
                self._tell(ready=False, waiting=("CreateContainerError", str(error)))
            self._leaving.wait(_BACKOFF_SECONDS[min(self._restarts, len(_BACKOFF_SECONDS) - 1)])
            self._restarts += 1
        if not self._silent and not until(self._let_go, _LET_GO_SECONDS):
            _LOG.error("%s could not be let go", self._path)

    def _let_go(self) -> bool:
        """Nobody but us does: a pod that stays would hold up whatever it belongs to."""
        try:
            self._client.delete(self._path, gracePeriodSeconds=0, preconditions={"uid": self._pod["metadata"]["uid"]})
        except ApiError as error:
            return error.status == 409  # another pod of that name is there by now
        return True

    def _run(self) -> None:
        """One process, from its start to its end."""
        with Ports(self._row.address_flags) as ports:
            renew_at = self._renew_token()
            mounted = volumes.gather(self._client, self._pod, self._folder / "volumes")
            own = {**container.environment(self._pod, self._address()), **self._to_aws()}
            before = "" if self._row.ports_only else f"{HOST}:"
            listens = {flag: f"{before}{ports[flag]}" for flag in self._row.address_flags}
            given = container.arguments(self._pod, own, listens, self._row.in_cluster_flags)
            command = self._command(given, mounted)
            listening.tell(self._folder, {flag: ports[flag] for flag in self._row.address_flags})
            process = processes.start(command, environment=self._around(own), log=self._log, folder=self._folder)
            _LOG.info("%s runs as process %d", self._path, process.pid)
            address = f"http://{HOST}:{ports[self._row.ready_flag]}{self._row.ready_path}"
            told: bool | None = None
            missed = 0
            try:
                while process.poll() is None and not self._leaving.wait(_PROBE_SECONDS if not told else 1.0):
                    ready = _answers(address)
                    missed = 0 if ready else missed + 1
                    sure = ready or not told or missed >= _MISSES
                    if ready != told and sure and self._tell(ready=ready):
                        told = ready
                    if time.monotonic() > renew_at:
                        renew_at = self._renew_token()
            finally:
                code = _end(process, _HASTY_SECONDS if self._silent else _GRACE_SECONDS)
        if not self._leaving.is_set():
            _LOG.warning("%s ended with %d; see %s", self._path, code, self._log)
            self._tell(ready=False, waiting=("CrashLoopBackOff", f"the process ended with {code}"), ended_with=code)

    def _command(self, given: list[str], mounted: dict[Path, Path]) -> list[str]:
        """The command line; what is named in it can be somewhere else, what is not has to be laid in its place."""
        command = self._row.command(self._program)
        if self._row.module is None:
            return volumes.mounted([*command, *given], mounted, self._folder)
        return [*command, *(volumes.moved(text, mounted) for text in given)]

    def _to_aws(self) -> dict[str, str]:
        """What EKS adds to the pods of an account that is somebody to AWS, and where AWS is."""
        if self._account is None or self._row.module is None:
            return {}
        around = {"AWS_ENDPOINT_URL": self._account.endpoint, "AWS_REGION": self._account.region}
        role = self._role()
        if role is None:
            return around
        return {
            **around,
            "AWS_ROLE_ARN": role,
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(self._folder / "aws-token"),
            "AWS_STS_REGIONAL_ENDPOINTS": "regional",
        }

    def _role(self) -> str | None:
        about = self._pod["metadata"]
        name = self._pod["spec"].get("serviceAccountName") or "default"
        found = self._client.find(f"/api/v1/namespaces/{about['namespace']}/serviceaccounts/{name}") or {}
        return (found.get("metadata", {}).get("annotations") or {}).get(ROLE)

    def _around(self, own: dict[str, str]) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", processes.MARK) if name in os.environ}
        return {**kept, **own, "KUBECONFIG": str(self._folder / "kubeconfig")}

    def _renew_token(self) -> float:
        """Write the pod's service account tokens, and say when the next ones are due."""
        spec, about = self._pod["spec"], self._pod["metadata"]
        account = spec.get("serviceAccountName") or "default"
        file = self._token("token", account)
        if self._row.module is not None:
            self._token("aws-token", account, STS)
        kubeconfig.write(
            self._folder / "kubeconfig",
            server=self._client.server,
            ca=self._ca,
            user=account,
            token_file=file,
            namespace=about["namespace"],
        )
        return time.monotonic() + _TOKEN_SECONDS * 0.8

    def _token(self, name: str, account: str, *audiences: str) -> Path:
        """A fresh token of the account, bound to the pod, in a file of that name."""
        about = self._pod["metadata"]
        bound = {"kind": "Pod", "apiVersion": "v1", "name": about["name"], "uid": about["uid"]}
        spec = {"expirationSeconds": _TOKEN_SECONDS, "boundObjectRef": bound}
        wanted = {**spec, "audiences": list(audiences)} if audiences else spec
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": wanted}
        path = f"/api/v1/namespaces/{about['namespace']}/serviceaccounts/{account}/token"
        token = self._client.request("POST", path, body)["status"]["token"]
        file = self._folder / name
        fresh = self._folder / f"{name}.new"
        fresh.touch(mode=0o600)
        fresh.write_text(token, encoding="ascii")
        fresh.replace(file)
        return file

    def _address(self) -> str:
        """An address of its own: endpoints may not name loopback."""
        uid = bytes.fromhex(self._pod["metadata"]["uid"].replace("-", ""))
        return f"10.127.{uid[0]}.{uid[1] or 1}"

    def _tell(self, *, ready: bool, waiting: tuple[str, str] | None = None, ended_with: int | None = None) -> bool:
        """What a kubelet would report; whether it was heard, or there is nobody any more of whom to report."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        main = self._pod["spec"]["containers"][0]
        truth = {True: "True", False: "False"}[ready]
        state: Object = {"running": {"startedAt": now}}
        if waiting is not None:
            state = {"waiting": {"reason": waiting[0], "message": waiting[1]}}
        told: Object = {
            "name": main["name"],
            "image": main["image"],
            "imageID": "",
            "restartCount": self._restarts,
            "ready": ready,
            "started": waiting is None,
            "state": state,
        }
        if ended_with is not None:
            told["lastState"] = {"terminated": {"exitCode": ended_with % 256, "reason": "Error", "finishedAt": now}}
        conditions = [
            {"type": kind, "status": value, "lastTransitionTime": now}
            for kind, value in (("Initialized", "True"), ("ContainersReady", truth), ("Ready", truth))
        ]
        status: Object = {
            "phase": "Running" if ready or self._restarts or waiting is None else "Pending",
            "podIP": self._address(),
            "podIPs": [{"ip": self._address()}],
            "conditions": conditions,
            "containerStatuses": [told],
        }
        try:
            # Strategic, so that the scheduler's own condition stays
            kind = "application/strategic-merge-patch+json"
            self._client.request("PATCH", f"{self._path}/status", {"status": status}, content=kind)
        except ApiError as error:
            if error.status == 404:
                return True
            _LOG.warning("%s: its status could not be told: %s", self._path, error)
            return False
        return True


def _answers(address: str) -> bool:
    try:
        with DIRECTLY.open(address, timeout=1) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def _end(process: subprocess.Popen[bytes], grace: float) -> int:
    if process.poll() is None:
        process.terminate()
    try:
        return process.wait(grace)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
