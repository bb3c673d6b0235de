"""Attempts to get another owner's files through volume claims."""

from __future__ import annotations

from tests.live.guardrails.attempts.attempt import Attempt, Table, changed, create, merge, patch, put
from tests.live.guardrails.guarded import (
    BINDER,
    COLLECTOR,
    CONTROLLER,
    DEPLOYER,
    INSIDER,
    SERVICE,
    Guarded,
    swarm,
    volume_claim,
)

ATTEMPTS: list[Attempt] = []
_claims = Table("volume-claims", ATTEMPTS)
_claims.refused(
    "volume-claim-class",
    "another class of storage",
    CONTROLLER,
    create(lambda guarded: volume_claim(guarded, storageClassName="fast")),
)
_claims.refused(
    "volume-claim-class",
    "the cluster's default",
    DEPLOYER,
    create(changed(volume_claim, put("spec.storageClassName", None))),
)
_claims.refused(
    "volume-claim-class",
    "no class and no volume, which takes any",
    DEPLOYER,
    create(lambda guarded: volume_claim(guarded, storageClassName="")),
)
_claims.refused(
    "volume-claim-class",
    "a volume by its labels",
    DEPLOYER,
    create(lambda guarded: volume_claim(guarded, selector={"matchLabels": {"x": "y"}})),
)
_claims.refused(
    "volume-claim-class",
    "a copy of another",
    CONTROLLER,
    create(
        lambda guarded: volume_claim(
            guarded, dataSource={"kind": "PersistentVolumeClaim", "name": f"home-{guarded.sandbox}"}
        )
    ),
)
_claims.passes("volume-claim-class", "the class's", CONTROLLER, create(volume_claim))
_claims.passes(
    "volume-claim-class",
    "a declared workspace's",
    DEPLOYER,
    create(lambda guarded: volume_claim(guarded, storageClassName="", volumeName="seat-x")),
)

_claims.passes("volume-claim-class", "what a task shares", SERVICE, create(lambda guarded: swarm(guarded).volume))

_writers = Table("volume-claim-writers", ATTEMPTS)
_writers.refused("volume-claim-by", "one by somebody", INSIDER, create(volume_claim))
_writers.passes("volume-claim-by volume-claim-choice", "one by the controller", CONTROLLER, create(volume_claim))
_writers.passes("volume-claim-by volume-claim-choice", "one by the service", SERVICE, create(volume_claim))
_writers.refused(
    "volume-claim-choice",
    "a volume by name, by the controller",
    CONTROLLER,
    create(lambda guarded: volume_claim(guarded, volumeName=guarded.volume)),
)
_writers.refused(
    "volume-claim-choice",
    "a volume by name for one that waits",
    INSIDER,
    merge(
        lambda guarded: guarded.core("persistentvolumeclaims", "waiting", guarded.open_namespace),
        {"spec": {"volumeName": "seat-somebody"}},
    ),
)
_writers.passes(
    "volume-claim-choice",
    "a volume by name for one that waits, by the binder",
    "system:serviceaccount:kube-system:persistent-volume-binder",
    merge(
        lambda guarded: guarded.core("persistentvolumeclaims", "waiting", guarded.open_namespace),
        {"spec": {"volumeName": "seat-somebody"}},
    ),
)
_writers.passes(
    "volume-claim-by volume-claim-choice",
    "a declared workspace's by a deployment",
    DEPLOYER,
    create(lambda guarded: volume_claim(guarded, storageClassName="", volumeName="seat-x")),
)
_writers.passes(
    "volume-claim-choice",
    "an annotation",
    INSIDER,
    merge(
        lambda guarded: guarded.core("persistentvolumeclaims", f"home-{guarded.sandbox}"),
        {"metadata": {"annotations": {"x": "y"}}},
    ),
)


def _existing(guarded: Guarded) -> str:
    return guarded.core("persistentvolumeclaims", f"home-{guarded.sandbox}")


_ADOPTABLE = {"metadata": {"labels": {"agents.x-k8s.io/adoptable": "true"}}}
_FREE = patch(_existing, {"op": "remove", "path": "/metadata/ownerReferences"})
for _user, _who in ((INSIDER, "somebody"), (BINDER, "the binder")):
    _writers.refused("volume-claim-kept", f"no Sandbox, by {_who}", _user, _FREE)
_writers.refused("volume-claim-kept", "free for the next of that name", INSIDER, merge(_existing, _ADOPTABLE))
_writers.refused(
    "volume-claim-kept",
    "free for the next of that name, with its status",
    INSIDER,
    merge(lambda guarded: _existing(guarded) + "/status", _ADOPTABLE),
)
_writers.refused(
    "volume-claim-kept",
    "another class's",
    INSIDER,
    merge(_existing, {"metadata": {"labels": {"sandbox.users.io/class": "other"}}}),
)
for _user, _who in ((CONTROLLER, "the controller"), (COLLECTOR, "the collector"), (DEPLOYER, "a deployer")):
    _writers.passes("volume-claim-kept", f"no Sandbox, by {_who}", _user, _FREE)
_writers.passes("volume-claim-kept", "free, by the controller", CONTROLLER, merge(_existing, _ADOPTABLE))
_writers.passes("volume-claim-kept", "a label", INSIDER, merge(_existing, {"metadata": {"labels": {"x": "y"}}}))
_writers.passes(
    "volume-claim-kept",
    "a status",
    BINDER,
    merge(lambda guarded: _existing(guarded) + "/status", {"status": {"phase": "Bound"}}),
)
