"""Claims that are there and nothing more: as many users as a benchmark wants, without a computer for each.

They are made in the real API server, past its guardrails, while the controller that would fill them is held off: what
is measured is whether anything of the stack looks at them, and ten thousand pods would only be in the way.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from agentenv.cli import Refusal
from model.claims import claim
from model.classes.names import EXTENSIONS, namespace
from rehearsal.controlplane.client import Client, until

CONTROLLER = "/apis/apps/v1/namespaces/agent-sandbox-system/deployments/agent-sandbox-controller"
_AT_ONCE = 16
_PATIENCE_SECONDS = 120.0


def hold_off(client: Client) -> None:
    """Let nobody fill claims in here any more: for as long as the stage stands, which is not used again after that."""
    client.merge(CONTROLLER, {"spec": {"replicas": 0}})

    def gone() -> bool:
        return not client.get(CONTROLLER)["status"].get("replicas")

    if not until(gone, _PATIENCE_SECONDS):
        raise Refusal("the controller of sandboxes does not stop")


def claims(client: Client, class_name: str, numbers: range) -> None:
    """Make a claim for each of these users."""
    [pool] = [one["metadata"]["name"] for one in _listed(client, class_name, "sandboxwarmpools")[:1]]

    def make(number: int) -> None:
        client.create(claim(class_name, pool, f"user-{number}", owner=f"u-{number}", workspace=f"w-{number}"))

    with ThreadPoolExecutor(_AT_ONCE) as hands:
        # Whatever one of them fails with is raised here.
        for _ in hands.map(make, numbers):
            pass


def count(client: Client, class_name: str) -> int:
    """How many claims there are."""
    return len(_listed(client, class_name, "sandboxclaims"))


def _listed(client: Client, class_name: str, plural: str) -> list[dict[str, Any]]:
    return client.get(f"/apis/{EXTENSIONS}/namespaces/{namespace(class_name)}/{plural}")["items"]
