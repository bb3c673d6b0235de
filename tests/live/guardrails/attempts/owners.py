"""Attempts at the owner of what somebody has."""

from __future__ import annotations

from agentenv.core.classes.names import USER_LABEL
from tests.live.guardrails.attempts.attempt import STRATEGIC, Attempt, Table, apply, merge, patch
from tests.live.guardrails.stage import CONTROLLER, DEPLOYER, INSIDER, SERVICE, Guarded, Object, claim

ATTEMPTS: list[Attempt] = []
_POINTER = USER_LABEL.replace("/", "~1")
_OTHER = {"metadata": {"labels": {USER_LABEL: "u-2"}}}
_IN_POD = {"spec": {"podTemplate": {"metadata": {"labels": {USER_LABEL: "u-2"}}}}}


def _claim(made: Guarded) -> str:
    return made.extension("sandboxclaims", made.claim)


def _sandbox(made: Guarded) -> str:
    return made.extension("sandboxes", made.sandbox)


def _pod(made: Guarded) -> str:
    return made.core("pods", made.sandbox)


def _other(made: Guarded) -> Object:
    return claim(made, made.claim, user="u-2")


_claims = Table("claim-owners", ATTEMPTS)
_claims.refused(
    "owner-kept",
    "another owner by a merge patch",
    SERVICE,
    merge(_claim, {**_OTHER, "spec": {"additionalPodMetadata": {"labels": {USER_LABEL: "u-2"}}}}),
)
_claims.refused("owner-kept", "another owner by server-side apply", DEPLOYER, apply(_other))
_claims.refused(
    "owner-kept",
    "a label that is taken away by a JSON patch",
    INSIDER,
    patch(_claim, {"op": "remove", "path": f"/metadata/labels/{_POINTER}"}),
)
_claims.passes("owner-kept", "the same owner again", INSIDER, apply(lambda made: claim(made, made.claim)))
_claims.passes(
    "owner-kept",
    "an annotation",
    SERVICE,
    merge(_claim, {"metadata": {"annotations": {"sandbox.users.io/kept": "true"}}}),
)

_sandboxes = Table("sandbox-owners", ATTEMPTS)
_sandboxes.refused("owner-kept", "another owner of its pod by a merge patch", SERVICE, merge(_sandbox, _IN_POD))
_sandboxes.refused("owner-kept", "another owner of its pod, by the controller", CONTROLLER, merge(_sandbox, _IN_POD))
_sandboxes.refused(
    "owner-kept",
    "no owner of its pod by a JSON patch",
    DEPLOYER,
    patch(_sandbox, {"op": "remove", "path": f"/spec/podTemplate/metadata/labels/{_POINTER}"}),
)
_sandboxes.passes(
    "owner-kept", "the first owner", CONTROLLER, merge(lambda made: made.extension("sandboxes", made.idle), _IN_POD)
)

_pods = Table("pod-owners", ATTEMPTS)
_pods.refused("owner-kept", "another owner by a merge patch", INSIDER, merge(_pod, _OTHER))
_pods.refused("owner-kept", "another owner by a strategic patch", DEPLOYER, merge(_pod, _OTHER, STRATEGIC))
_pods.refused(
    "owner-kept", "another owner, with its status", INSIDER, merge(lambda made: _pod(made) + "/status", _OTHER)
)
_pods.refused(
    "owner-kept",
    "no owner by a JSON patch",
    CONTROLLER,
    patch(_pod, {"op": "remove", "path": f"/metadata/labels/{_POINTER}"}),
)
_pods.passes("owner-kept", "the first owner", CONTROLLER, merge(lambda made: made.core("pods", made.idle), _OTHER))
_pods.passes(
    "owner-kept",
    "a status",
    "node",
    merge(lambda made: _pod(made) + "/status", {"status": {"message": "well"}}, STRATEGIC),
)


def _volume(made: Guarded) -> str:
    return f"/api/v1/persistentvolumes/{made.volume}"


def _owned(made: Guarded) -> str:
    """One that was kept for somebody."""
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
    "owner-kept", "another owner, with its status", SERVICE, merge(lambda made: _owned(made) + "/status", _OTHER)
)
_volumes.passes("owner-kept", "the first owner", SERVICE, merge(_volume, _OTHER))
_volumes.passes("owner-kept", "another label", INSIDER, merge(_owned, {"metadata": {"labels": {"x": "y"}}}))
_volumes.passes(
    "owner-kept", "a status", INSIDER, merge(lambda made: _owned(made) + "/status", {"status": {"message": "well"}})
)
