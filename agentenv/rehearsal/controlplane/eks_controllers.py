"""`python -m agentenv.rehearsal.controlplane.eks_controllers FILE`: the simulation of EKS beside the control plane.

It is one process, so that it outlives the process that started the plane: a stage may be kept up. It serves the token
webhook and Fargate's webhook, and publishes the issuer's keys. It creates nodes for Fargate pods and Karpenter's
pools and volumes for EFS claims, and runs the pods that have real programs. It starts the programs of the control plane
again when they have ended.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentenv.rehearsal.controlplane import restarts, webhooks
from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.auth.token_webhook import Reviewer
from agentenv.rehearsal.controlplane.client import Client, Credentials, until
from agentenv.rehearsal.controlplane.nodes import fargate, fargate_nodes, karpenter_nodes
from agentenv.rehearsal.controlplane.pods import real_pods
from agentenv.rehearsal.controlplane.ports import HOST
from agentenv.rehearsal.controlplane.sandboxes.launcher import SandboxLauncher
from agentenv.rehearsal.controlplane.storage import efs_driver

Object = dict[str, Any]

READY_FILE = "attending"  # the file in the plane's folder that shows that the controllers run
REVIEW, FARGATE = "/review", "/fargate"
_LOG = logging.getLogger("agentenv.rehearsal.controlplane.eks_controllers")
_SERVER_SECONDS = 120.0
_RETRY_SECONDS = 0.5


@dataclass(frozen=True)
class ControllerSettings:
    """The settings of this process, as its file contains them: addresses and file paths."""

    server: str
    port: int
    folder: str
    ca: str
    certificate: str
    key: str
    client_certificate: str
    client_key: str
    cluster: str
    programs: dict[str, str]
    home_latency: float = 0.0  # of sandboxes, in milliseconds

    def write(self, file: Path) -> Path:
        """Write the settings where the process reads them."""
        file.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n", encoding="utf-8")
        return file


def main(file: Path) -> int:
    """Run until SIGTERM or SIGINT."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    settings = ControllerSettings(**json.loads(file.read_text(encoding="utf-8")))
    folder, ca = Path(settings.folder), Path(settings.ca)
    keys = Credentials(Path(settings.client_certificate), Path(settings.client_key))
    client = Client(settings.server, ca, keys)
    driver = Client(settings.server, ca, dataclasses.replace(keys, acting_as=efs_driver.USER))
    account = Account.of(os.environ, settings.cluster)
    reviewer = None if account is None else Reviewer(account, client)
    handlers: dict[str, Callable[[Object], Object]] = {}
    if account is not None and reviewer is not None:
        handlers = {REVIEW: reviewer.review, FARGATE: lambda review: _admit(account, review)}
    server = webhooks.serve(settings.port, Path(settings.certificate), Path(settings.key), handlers)
    programs = {name: Path(path) for name, path in settings.programs.items()}
    sandboxes = SandboxLauncher(client, folder, programs, account, home_latency=settings.home_latency)
    keeper = real_pods.ProcessManager(client, folder, programs, ca, account, sandbox=sandboxes.pod)
    if _server_is_up(client, ended):
        if account is not None and reviewer is not None:
            threading.Thread(target=account.warm, daemon=True).start()
            reviewer.prepare()
            _publish_keys(client, account)
            client.apply(_webhook(settings, ca))
            _in_background("fargate", lambda: fargate_nodes.run(client, f"{account.region}a", ended))
            _in_background("karpenter", lambda: karpenter_nodes.Launcher(client, account).run(ended))
            _in_background("efs", lambda: efs_driver.EfsDriver(client, driver, account).run(ended))
        _in_background("restarts", lambda: restarts.run(folder, ended))
        _in_background("residents", lambda: keeper.run(ended))
        (folder / READY_FILE).touch()
        ended.wait()
    server.shutdown()
    keeper.close()
    return 0


def _publish_keys(client: Client, account: Account) -> None:
    """Publish the issuer's name and keys to the simulated account."""
    try:
        issuer = client.get("/.well-known/openid-configuration")["issuer"]
        account.publish(issuer, client.get("/openid/v1/jwks")["keys"])
    except OSError as error:
        # Another simulated account; only service account tokens are useless there
        _LOG.warning("The keys of the issuer could not be published: %s", error)


def _server_is_up(client: Client, ended: threading.Event) -> bool:
    return bool(
        until(lambda: client.get("/readyz"), _SERVER_SECONDS, failed=lambda: "ended" if ended.is_set() else None)
    )


def _in_background(name: str, run: Callable[[], None]) -> None:
    def retry_forever() -> None:
        while True:
            try:
                run()
            except Exception:  # noqa: BLE001 - one bad object must not leave every later one waiting
                _LOG.exception("%s failed and is retried", name)
                time.sleep(_RETRY_SECONDS)
            else:
                return

    threading.Thread(target=retry_forever, name=name, daemon=True).start()


def _admit(account: Account, review: Object) -> Object:
    """Mutate pods that a Fargate profile selects; every pod is allowed."""
    request = review["request"]
    pod = request["object"]
    response: Object = {"uid": request["uid"], "allowed": True}
    profile = fargate.select_profile(account.profiles(), request["namespace"], pod["metadata"].get("labels") or {})
    if profile is not None:
        changes = json.dumps(fargate.patch(pod, profile)).encode()
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(changes).decode()}
    return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


def _webhook(settings: ControllerSettings, ca: Path) -> Object:
    """Return the webhook configuration under EKS's own name.

    Here it fails closed: an unmarked pod would wait for a node without any error.
    """
    name = "0500-amazon-eks-fargate-mutation.amazonaws.com"
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": name,
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "url": f"https://{HOST}:{settings.port}{FARGATE}",
                    "caBundle": base64.b64encode(ca.read_bytes()).decode(),
                },
                "failurePolicy": "Fail",
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
                "sideEffects": "None",
                "timeoutSeconds": 10,
            }
        ],
    }


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
