"""What a sandbox has to be somebody to AWS by the exchange: a token for it in a file, and where to take it.

All of it is what SDKs of AWS read from a pod's surroundings, and none of it is a secret or differs between owners: the
token is the pod's own, and who it is for is looked up when it is exchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.core.iam.identity_exchange import AUDIENCE, TOKEN_SECONDS

if TYPE_CHECKING:
    from agentenv.core.classes.plan import ClassPlan

Plain = dict[str, Any]

VOLUME = "identity"
FOLDER, FILE = "/var/run/secrets/sandbox.users.io/identity", "token"
HOST = "workspace-service.workspace-service.svc"


def exchanges(plan: ClassPlan) -> bool:
    """Whether the sandboxes of a class exchange tokens. Without a service that does it there is nothing to mount."""
    return plan.settings.identity.kind == "exchange" and plan.cluster.exchange is not None


def volumes(plan: ClassPlan) -> list[Plain]:
    """The volume with the token: made for the exchange and for nothing else, and replaced before it ends."""
    if not exchanges(plan):
        return []
    token = {"audience": AUDIENCE, "expirationSeconds": TOKEN_SECONDS, "path": FILE}
    return [{"name": VOLUME, "projected": {"sources": [{"serviceAccountToken": token}]}}]


def mounts(plan: ClassPlan) -> list[Plain]:
    """Where it is mounted."""
    return [{"name": VOLUME, "mountPath": FOLDER, "readOnly": True}] if exchanges(plan) else []


def variables(plan: ClassPlan) -> dict[str, str]:
    """What SDKs go by: that there is a token, whose role it is for, and who exchanges it."""
    if not exchanges(plan):
        return {}
    address = f"http://{HOST}:{_port(plan)}/v1/identity"
    return {
        "AWS_WEB_IDENTITY_TOKEN_FILE": f"{FOLDER}/{FILE}",
        # SDKs want one. The exchange decides the role by the class, and knows the account, which nobody does here.
        "AWS_ROLE_ARN": f"arn:aws:iam::000000000000:role/{plan.name}",
        # A token goes to the exchange and never to AWS itself, which would not know it.
        "AWS_ENDPOINT_URL_STS": f"{address}/sts",
        "SANDBOX_IDENTITY_URL": address,
        # There is no instance whose credentials a sandbox could have; asking for them takes seconds.
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def audiences(plan: ClassPlan) -> str:
    """For whom tokens may be put into sandboxes of the class, beside AWS."""
    return AUDIENCE if exchanges(plan) else ""


def _port(plan: ClassPlan) -> int:
    assert plan.cluster.exchange is not None  # noqa: S101 - by `exchanges`
    return plan.cluster.exchange.ports.first
