"""The page of mounts: whether EFS lets an NFS client mount a file system.

Of a client's mount, EFS enforces four condition keys only, whatever the policies name ("Using IAM to control access to
file systems" in the EFS user guide). A condition on another key therefore sees a missing key: positive operators fail,
negated ones are met.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agentenv.core.iam import evaluation
from agentenv.core.iam.evaluation import Principal, request_keys
from agentenv.rehearsal.cloud.iam import role_sessions
from agentenv.rehearsal.cloud.iam.access_keys import account_of
from agentenv.rehearsal.cloud.iam.authorization import boundary_texts, role_texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentenv.core.iam.conditions import RequestKeys
    from agentenv.rehearsal.cloud.moto_backend import MotoBackend
    from agentenv.rehearsal.cloud.store import Store

MOUNT, WRITE = "elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"
_DENIED: Final = "mount.nfs4: access denied by server while mounting 127.0.0.1:/"


class InvalidMount(Exception):
    """The description of the mount is invalid; the message says why."""


@dataclass(frozen=True)
class Mount:
    """A client's mount. Without a key the client is anonymous: it mounts without the option `iam`."""

    account_key: str  # any key of the account whose network the client is in
    region: str
    file_system: str
    access_point: str | None
    tls: bool
    access_key: str | None

    @classmethod
    def read(cls, body: bytes) -> Mount:
        """Read the body of a request."""
        try:
            return cls(**json.loads(body))
        except (ValueError, TypeError) as error:
            raise InvalidMount(f"A mount is an object of what `Mount` lists: {error}.") from None


def handle(moto: MotoBackend, store: Store, body: bytes) -> dict[str, Any]:
    """Handle the page: POST a mount, and learn whether it is allowed and why not."""
    mount = Mount.read(body)
    backend = moto.backend("efs", account_of(mount.account_key), mount.region)
    system = backend.file_systems_by_id.get(mount.file_system)
    targets = backend.mount_targets_by_id.values()
    if system is None or not any(target.file_system_id == mount.file_system for target in targets):
        return _answer(f'Failed to resolve "{mount.file_system}.efs.{mount.region}.amazonaws.com"')
    point = backend.access_points.get(mount.access_point)
    if mount.access_point and (point is None or point.file_system_id != mount.file_system):
        return _answer(f"{_DENIED} (there is no access point {mount.access_point})")
    keys = {"aws:SecureTransport": str(mount.tls).lower(), "elasticfilesystem:AccessedViaMountTarget": "true"}
    if point is not None:
        keys["elasticfilesystem:AccessPointArn"] = point.access_point_arn
    session = role_sessions.session_of_key(store, mount.access_key or "")
    for action in (MOUNT, WRITE):
        if not _allowed(moto, system, session, action, request_keys(**keys)):
            return _answer(f"{_DENIED} ({action} is not allowed)")
    return _answer("")


def _answer(reason: str) -> dict[str, Any]:
    return {"allowed": not reason, "reason": reason}


def _allowed(moto: MotoBackend, system: Any, session: Mapping[str, Any] | None, action: str, keys: RequestKeys) -> bool:
    """Return whether the policies of the file system and the client's role allow an action.

    Either of them may allow it, none may deny it, and a permissions boundary must allow it too: it limits what a
    policy on a resource grants to a role by the role's ARN.
    """
    arn, policy = system.file_system_arn, system.file_system_policy
    role = None if session is None else role_sessions.role_by_arn(moto, session["role"])
    if role is None:
        names = frozenset[str]()
    else:
        names = frozenset({role.arn, f"arn:aws:iam::{role.account_id}:root", role.account_id})
    # The default policy admits every client
    on_system = evaluation.effect([policy], action, arn, keys, Principal("AWS", names)) if policy else "Allow"
    of_role = evaluation.effect(role_texts(role), action, arn, keys)
    bounds = [evaluation.effect(texts, action, arn, keys) for texts in boundary_texts(moto, role)]
    return (
        "Deny" not in (on_system, of_role)
        and "Allow" in (on_system, of_role)
        and all(bound == "Allow" for bound in bounds)
    )
