"""`python -m agentenv.rehearsal.controlplane.eks_controllers FILE`: what EKS has beside the control plane, for one run.

One process, so that it outlives whoever opened the plane: a stage may be kept up. It serves the token webhook and
Fargate's webhook, publishes the keys that tokens are signed with, gives Fargate pods and Karpenter's pools their nodes
and claims of EFS their volumes, and runs the residents.
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

from agentenv.rehearsal.controlplane import load_balancers as balancers
from agentenv.rehearsal.controlplane import webhooks
from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.auth.token_webhook import Reviewer
from agentenv.rehearsal.controlplane.client import Client, Credentials, until
from agentenv.rehearsal.controlplane.nodes import fargate, fargate_nodes, karpenter_nodes
from agentenv.rehearsal.controlplane.pods import real_pods as residents
from agentenv.rehearsal.controlplane.ports import HOST
from agentenv.rehearsal.controlplane.storage import efs_driver

Object = dict[str, Any]

ATTENDING = "attending"  # the file that says so, in the plane's folder
REVIEW, FARGATE = "/review", "/fargate"
_LOG = logging.getLogger("agentenv.rehearsal.controlplane.eks_controllers")
_SERVER_SECONDS = 120.0
_STUMBLE_SECONDS = 0.5


@dataclass(frozen=True)
class Duty:
    """What an attendant is told, as it lies in its file: addresses, and paths of files."""

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

    def write(self, file: Path) -> Path:
        """Put it where the attendant reads it."""
        file.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n", encoding="utf-8")
        return file


def main(file: Path) -> int:
    """Attend until SIGTERM or SIGINT."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    duty = Duty(**json.loads(file.read_text(encoding="utf-8")))
    folder, ca = Path(duty.folder), Path(duty.ca)
    keys = Credentials(Path(duty.client_certificate), Path(duty.client_key))
    client = Client(duty.server, ca, keys)
    driver = Client(duty.server, ca, dataclasses.replace(keys, acting_as=efs_driver.USER))
    account = Account.of(os.environ, duty.cluster)
    reviewer = None if account is None else Reviewer(account, client)
    answers: dict[str, Callable[[Object], Object]] = {}
    if account is not None and reviewer is not None:
        answers = {REVIEW: reviewer.review, FARGATE: lambda review: _admit(account, review)}
    server = webhooks.serve(duty.port, Path(duty.certificate), Path(duty.key), answers)
    programs = {name: Path(path) for name, path in duty.programs.items()}
    keeper = residents.Keeper(client, folder, programs, ca, account)
    if _server_is_up(client, ended):
        if account is not None and reviewer is not None:
            threading.Thread(target=account.warm, daemon=True).start()
            reviewer.prepare()
            _publish_keys(client, account)
            client.apply(_webhook(duty, ca))
            _in_background("fargate", lambda: fargate_nodes.attend(client, f"{account.region}a", ended))
            _in_background("karpenter", lambda: karpenter_nodes.Launcher(client, account).attend(ended))
            _in_background("balancers", lambda: balancers.Balancers(client, account).attend(ended))
            _in_background("efs", lambda: efs_driver.EfsDriver(client, driver, account).attend(ended))
        _in_background("residents", lambda: keeper.attend(ended))
        (folder / ATTENDING).touch()
        ended.wait()
    server.shutdown()
    keeper.close()
    return 0


def _publish_keys(client: Client, account: Account) -> None:
    """Tell the account who signs tokens here, and with which keys."""
    try:
        issuer = client.get("/.well-known/openid-configuration")["issuer"]
        account.publish(issuer, client.get("/openid/v1/jwks")["keys"])
    except OSError as error:
        # An account simulated by somebody else; only tokens of service accounts are worth nothing there
        _LOG.warning("The keys of the issuer could not be published: %s", error)


def _server_is_up(client: Client, ended: threading.Event) -> bool:
    return bool(
        until(lambda: client.get("/readyz"), _SERVER_SECONDS, failed=lambda: "ended" if ended.is_set() else None)
    )


def _in_background(name: str, work: Callable[[], None]) -> None:
    def guarded() -> None:
        while True:
            try:
                work()
            except Exception:  # noqa: BLE001 - one bad object must not leave every later one waiting
                _LOG.exception("%s stumbled and goes on", name)
                time.sleep(_STUMBLE_SECONDS)
            else:
                return

    threading.Thread(target=guarded, name=name, daemon=True).start()


def _admit(account: Account, review: Object) -> Object:
    """Fargate's admission: every pod may pass, those of a profile are marked."""
    request = review["request"]
    pod = request["object"]
    answer: Object = {"uid": request["uid"], "allowed": True}
    taken_by = fargate.chosen(account.profiles(), request["namespace"], pod["metadata"].get("labels") or {})
    if taken_by is not None:
        changes = json.dumps(fargate.patch(pod, taken_by)).encode()
        answer |= {"patchType": "JSONPatch", "patch": base64.b64encode(changes).decode()}
    return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer}


def _webhook(duty: Duty, ca: Path) -> Object:
    """EKS's own name for it. Here it fails closed: a pod that slipped past would wait for a node without a word."""
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
                    "url": f"https://{HOST}:{duty.port}{FARGATE}",
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
