"""Attempts to change the owner of an object."""

from __future__ import annotations

from agentenv.core.classes.names import USER_LABEL
from tests.live.guardrails.attempts.attempt import (
    STRATEGIC,
    Attempt,
    Table,
    apply,
    claim_path,
    merge,
    patch,
    pod_path,
    sandbox_path,
    volume_path,
)
from tests.live.guardrails.guarded import CONTROLLER, DEPLOYER, INSIDER, SERVICE, Guarded, Object, claim

ATTEMPTS: list[Attempt] = []
_POINTER = USER_LABEL.replace("/", "~1")
_OTHER = {"metadata": {"labels": {USER_LABEL: "u-2"}}}
_IN_POD = {"spec": {"podTemplate": {"metadata": {"labels": {USER_LABEL: "u-2"}}}}}


def _other(guarded: Guarded) -> Object:
    return claim(guarded, guarded.claim, user="u-2")


_claims = Table("claim-owners", ATTEMPTS)
_claims.refused(
    "owner-kept",
    "another owner by a merge patch",
    SERVICE,
    merge(claim_path, {**_OTHER, "spec": {"additionalPodMetadata": {"labels": {USER_LABEL: "u-2"}}}}),
)
_claims.refused("owner-kept", "another owner by server-side apply", DEPLOYER, apply(_other))
_claims.refused(
    "owner-kept",
    "a label that is taken away by a JSON patch",
    INSIDER,
    patch(claim_path, {"op": "remove", "path": f"/metadata/labels/{_POINTER}"}),
)
_claims.passes("owner-kept", "the same owner again", INSIDER, apply(lambda guarded: claim(guarded, guarded.claim)))
_claims.passes(
    "owner-kept",
    "an annotation",
    SERVICE,
    merge(claim_path, {"metadata": {"annotations": {"sandbox.users.io/kept": "true"}}}),
)

_sandboxes = Table("sandbox-owners", ATTEMPTS)
_sandboxes.refused("owner-kept", "another owner of its pod by a merge patch", SERVICE, merge(sandbox_path, _IN_POD))
_sandboxes.refused(
    "owner-kept", "another owner of its pod, by the controller", CONTROLLER, merge(sandbox_path, _IN_POD)
)
_sandboxes.refused(
    "owner-kept",
    "no owner of its pod by a JSON patch",
    DEPLOYER,
    patch(sandbox_path, {"op": "remove", "path": f"/spec/podTemplate/metadata/labels/{_POINTER}"}),
)
_sandboxes.passes(
    "owner-kept",
    "the first owner",
    CONTROLLER,
    merge(lambda guarded: guarded.extension("sandboxes", guarded.idle), _IN_POD),
)

_pods = Table("pod-owners", ATTEMPTS)
_pods.refused("owner-kept", "another owner by a merge patch", INSIDER, merge(pod_path, _OTHER))
_pods.refused("owner-kept", "another owner by a strategic patch", DEPLOYER, merge(pod_path, _OTHER, STRATEGIC))
_pods.refused(
    "owner-kept",
    "another owner, with its status",
    INSIDER,
    merge(lambda guarded: pod_path(guarded) + "/status", _OTHER),
)
_pods.refused(
    "owner-kept",
    "no owner by a JSON patch",
    CONTROLLER,
    patch(pod_path, {"op": "remove", "path": f"/metadata/labels/{_POINTER}"}),
)
_pods.passes(
    "owner-kept", "the first owner", CONTROLLER, merge(lambda guarded: guarded.core("pods", guarded.idle), _OTHER)
)
_pods.passes(
    "owner-kept",
    "a status",
    "node",
    merge(lambda guarded: pod_path(guarded) + "/status", {"status": {"message": "well"}}, STRATEGIC),
)


def _owned(guarded: Guarded) -> str:
    """Return a volume that is retained for an owner."""
    return "/api/v1/persistentvolumes/owned"


_volumes = Table("volume-owners", ATTEMPTS)
for _user, _who in ((INSIDER, "somebody"), (SERVICE, "the service"), (DEPLOYER, "a deployer")):
    _volumes.refused("owner-kept", f"another owner by a merge patch, by {_who}", _user, merge(_owned, _OTHER))
    _volumes.refused(
        "owner-kept",
        f"another owner by a JSON patch, by {_who}",
        _user,
        patch(_owned, {"op": "replace", "path": f"/metadata/labels/{_POINTER}", "value": "u-2"}),
    )
_volumes.refused(
    "owner-kept",
    "no owner by a JSON patch",
    INSIDER,
    patch(_owned, {"op": "remove", "path": f"/metadata/labels/{_POINTER}"}),
)
_volumes.refused(
    "owner-kept", "another owner, with its status", SERVICE, merge(lambda guarded: _owned(guarded) + "/status", _OTHER)
)
_volumes.passes("owner-kept", "the first owner", SERVICE, merge(volume_path, _OTHER))
_volumes.passes("owner-kept", "another label", INSIDER, merge(_owned, {"metadata": {"labels": {"x": "y"}}}))
_volumes.passes(
    "owner-kept",
    "a status",
    INSIDER,
    merge(lambda guarded: _owned(guarded) + "/status", {"status": {"message": "well"}}),
)
