"""Attempts on SandboxClaims. RBAC lets anyone create them, so an insider does."""

from __future__ import annotations

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import USER_LABEL, VOLUME_RETAINED
from agentenv.core.workspaces.workspace import BUDGET, DEADLINE, IDLE_AFTER, LAST_ACTIVE, LEASES, SHARED
from tests.live.guardrails.attempts.attempt import Attempt, Table, apply, changed, claim_path, create, merge, patch, put
from tests.live.guardrails.guarded import (
    CLASS,
    CONTROLLER,
    DEPLOYER,
    INSIDER,
    LOOSE,
    SERVICE,
    Object,
    claim,
    swarm,
)

ATTEMPTS: list[Attempt] = []
_claims = Table("claims", ATTEMPTS)
_META = "spec|additionalPodMetadata|labels|sandbox.users.io/user"


def _address(obj: Object) -> None:
    put(_META, "jane@example.com")(obj)
    put("metadata.labels", {})(obj)


def _nobody(obj: Object) -> None:
    obj["spec"]["additionalPodMetadata"]["labels"].pop("sandbox.users.io/user")
    obj["metadata"]["labels"] = {}


_claims.refused("claim-owner", "of nobody", INSIDER, create(changed(claim, _nobody)))
_claims.refused("claim-owner", "of an e-mail address", INSIDER, create(changed(claim, _address)))
_claims.refused(
    "claim-owner", "of one in its label and another in its pod's", INSIDER, create(changed(claim, put(_META, "u-2")))
)
_claims.refused(
    "claim-owner",
    "whose own label says another, later",
    INSIDER,
    merge(
        lambda guarded: guarded.extension("sandboxclaims", guarded.unmarked),
        {"metadata": {"labels": {USER_LABEL: "u-2"}}},
    ),
)
_claims.passes(
    "claim-owner",
    "whose own label says the same, later",
    INSIDER,
    merge(
        lambda guarded: guarded.extension("sandboxclaims", guarded.unmarked),
        {"metadata": {"labels": {USER_LABEL: "u-1"}}},
    ),
)
_claims.refused(
    "claim-class",
    "that says it is of another class",
    INSIDER,
    create(changed(claim, put(f"metadata|labels|{CLASS_LABEL}", "x"))),
)
_claims.refused(
    "claim-class",
    "that says later that it is of another class",
    INSIDER,
    merge(claim_path, {"metadata": {"labels": {CLASS_LABEL: LOOSE}}}),
)
_claims.passes(
    "claim-class",
    "that says nothing of its class",
    INSIDER,
    create(changed(claim, put(f"metadata|labels|{CLASS_LABEL}", None))),
)
_claims.refused("claim-owner", "of nobody by server-side apply", INSIDER, apply(changed(claim, _nobody)))
_claims.refused("claim-shutdown", "without an end", INSIDER, create(changed(claim, put("spec.lifecycle", None))))
_claims.refused(
    "claim-shutdown", "whose end is taken away", INSIDER, patch(claim_path, {"op": "remove", "path": "/spec/lifecycle"})
)
_claims.refused(
    "claim-env", "with variables", INSIDER, create(changed(claim, put("spec.env", [{"name": "A", "value": "b"}])))
)
_claims.refused(
    "claim-env",
    "that is given variables by a JSON patch",
    INSIDER,
    patch(claim_path, {"op": "add", "path": "/spec/env", "value": [{"name": "A", "value": "b"}]}),
)
_claims.refused(
    "claim-volumes",
    "with a volume",
    INSIDER,
    create(changed(claim, put("spec.volumeClaimTemplates", [{"metadata": {"name": "mine"}, "spec": {}}]))),
)
_claims.refused(
    "claim-volumes",
    "that is given a volume by a merge patch",
    INSIDER,
    merge(claim_path, {"spec": {"volumeClaimTemplates": [{"metadata": {"name": "mine"}, "spec": {}}]}}),
)
_claims.refused(
    "claim-pool",
    "from a pool that is none of the class's",
    INSIDER,
    create(changed(claim, put("spec.warmPoolRef.name", "other-pool"))),
)
_claims.refused(
    "claim-pool",
    "from a pool whose name only begins alike",
    INSIDER,
    create(changed(claim, put("spec.warmPoolRef.name", f"{CLASS}er-pool"))),
)
_claims.refused(
    "claim-labels",
    "with the label of another class",
    INSIDER,
    create(changed(claim, put("spec|additionalPodMetadata|labels|sandbox.users.io/class", "other"))),
)
_claims.refused(
    "claim-labels",
    "with the label of a release",
    INSIDER,
    create(changed(claim, put("spec|additionalPodMetadata|labels|sandbox.users.io/release", "x"))),
)
_claims.refused(
    "claim-labels",
    "with the ids of another class",
    INSIDER,
    create(changed(claim, put("spec|additionalPodMetadata|labels|sandbox.users.io/home-class", "other"))),
)
_claims.refused(
    "claim-labels",
    "with an annotation that gVisor reads",
    INSIDER,
    create(changed(claim, put("spec|additionalPodMetadata|annotations|dev.gvisor.flag.host-uds", "all"))),
)
_claims.refused(
    "claim-labels",
    "with an annotation that Kata reads, by a merge patch",
    INSIDER,
    merge(claim_path, {"spec": {"additionalPodMetadata": {"annotations": {"io.katacontainers.config.x": "y"}}}}),
)
_claims.refused(
    "claim-stays",
    "that lets its node be given up under it",
    INSIDER,
    create(changed(claim, put("spec|additionalPodMetadata|annotations", {}))),
)
_claims.refused(
    "claim-stays",
    "that lets its node be given up after an hour",
    INSIDER,
    create(changed(claim, put("spec|additionalPodMetadata|annotations|karpenter.sh/do-not-disrupt", "1h"))),
)
_claims.refused(
    "claim-stays",
    "whose wish to stay is taken away by a merge patch",
    INSIDER,
    merge(claim_path, {"spec": {"additionalPodMetadata": {"annotations": {"karpenter.sh/do-not-disrupt": None}}}}),
)
_claims.refused(
    "claim-seat",
    "with the name of a declared workspace",
    INSIDER,
    create(lambda guarded: claim(guarded, f"seat-{CLASS}")),
)

_EVERY = "claim-owner claim-shutdown claim-env claim-volumes claim-pool claim-labels claim-stays claim-seat"
_claims.passes(_EVERY, "as it should be", INSIDER, create(claim))
_claims.passes(_EVERY, "as it should be, by server-side apply", INSIDER, apply(claim))
_claims.passes(
    "claim-shutdown",
    "with a time of its own to end",
    INSIDER,
    create(changed(claim, put("spec.lifecycle", {"shutdownPolicy": "Retain", "shutdownTime": "2040-01-01T00:00:00Z"}))),
)
_claims.passes(
    "claim-labels",
    "with its task",
    INSIDER,
    create(changed(claim, put("spec|additionalPodMetadata|labels|sandbox.users.io/task", "t-1"))),
)
_claims.passes(
    _EVERY, "that is given a finalizer", INSIDER, merge(claim_path, {"metadata": {"finalizers": ["example.com/kept"]}})
)
_claims.passes(
    _EVERY,
    "whose status is written",
    INSIDER,
    merge(lambda guarded: claim_path(guarded) + "/status", {"status": {"conditions": []}}),
)
_claims.passes(_EVERY, "of a task's swarm", SERVICE, create(lambda guarded: swarm(guarded).claims[0]))


_records = Table("claim-records", ATTEMPTS)
_SHARES = '{"u-2":"rw"}'
for _key, _value in (
    (SHARED, _SHARES),
    (BUDGET, "1000"),
    (IDLE_AFTER, "999999"),
    (DEADLINE, "2040-01-01T00:00:00Z"),
    (LAST_ACTIVE, "2040-01-01T00:00:00Z"),
    (LEASES, "[]"),
    (VOLUME_RETAINED, "true"),
):
    _word = _key.rpartition("/")[2]
    _note = {"metadata": {"annotations": {_key: _value}}}
    _records.refused("claim-record", f"{_word} by a merge patch", INSIDER, merge(claim_path, _note))
    _records.refused(
        "claim-record",
        f"{_word} from the first",
        INSIDER,
        create(changed(claim, put(f"metadata|annotations|{_key}", _value))),
    )
    _records.passes("claim-record", f"{_word} by the service", SERVICE, merge(claim_path, _note))
_records.refused(
    "claim-record",
    "shared by server-side apply",
    CONTROLLER,
    apply(changed(claim, put(f"metadata|annotations|{SHARED}", _SHARES))),
)
_records.refused(
    "claim-record",
    "a label of its owner's",
    INSIDER,
    merge(claim_path, {"metadata": {"labels": {"label.sandbox.users.io/team": "red"}}}),
)
_records.passes(
    "claim-record", "a budget by a deployer", DEPLOYER, merge(claim_path, {"metadata": {"annotations": {BUDGET: "1"}}})
)
_records.passes("claim-record", "as it should be", INSIDER, create(claim))
_records.passes(
    "claim-record",
    "other annotations and labels",
    INSIDER,
    merge(claim_path, {"metadata": {"annotations": {"x": "y"}, "labels": {"x": "y"}}}),
)
