"""The pod settings of classes with `identity: exchange`: a token in a file, and the address that exchanges it.

AWS SDKs read all of it from the pod's environment. None of it is a secret or differs between owners: the token is that
of the pod, and the exchange looks its owner up.
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
    """Return whether the sandboxes of a class exchange tokens, which needs the workspace service."""
    return plan.settings.identity.kind == "exchange" and plan.cluster.exchange is not None


def volumes(plan: ClassPlan) -> list[Plain]:
    """Return the projected volume with the token, whose audience is the exchange alone."""
    if not exchanges(plan):
        return []
    token = {"audience": AUDIENCE, "expirationSeconds": TOKEN_SECONDS, "path": FILE}
    return [{"name": VOLUME, "projected": {"sources": [{"serviceAccountToken": token}]}}]


def mounts(plan: ClassPlan) -> list[Plain]:
    """Return the mount of the token's volume."""
    return [{"name": VOLUME, "mountPath": FOLDER, "readOnly": True}] if exchanges(plan) else []


def variables(plan: ClassPlan) -> dict[str, str]:
    """Return the environment variables that make AWS SDKs exchange the token."""
    if not exchanges(plan):
        return {}
    address = f"http://{HOST}:{_port(plan)}/v1/identity"
    return {
        "AWS_WEB_IDENTITY_TOKEN_FILE": f"{FOLDER}/{FILE}",
        # SDKs require a role. The exchange ignores it and chooses the class's role, whose account is not known here.
        "AWS_ROLE_ARN": f"arn:aws:iam::000000000000:role/{plan.name}",
        # SDKs send the token to the exchange; AWS does not trust its issuer for this audience.
        "AWS_ENDPOINT_URL_STS": f"{address}/sts",
        "SANDBOX_IDENTITY_URL": address,
        # Sandboxes have no access to instance metadata; SDKs would wait seconds for it.
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def audiences(plan: ClassPlan) -> str:
    """Return the audience of tokens in sandboxes of the class, besides those of AWS; empty if there is none."""
    return AUDIENCE if exchanges(plan) else ""


def _port(plan: ClassPlan) -> int:
    assert plan.cluster.exchange is not None  # noqa: S101 - by `exchanges`
    return plan.cluster.exchange.ports.first
