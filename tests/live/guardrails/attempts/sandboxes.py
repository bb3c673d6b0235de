"""Attempts to create or change Sandboxes, templates and pools."""

from __future__ import annotations

from tests.live.guardrails.attempts.attempt import (
    Attempt,
    Table,
    apply,
    changed,
    claim_path,
    create,
    delete,
    ended,
    merge,
    patch,
    put,
    sandbox_path,
)
from tests.live.guardrails.guarded import (
    COLLECTOR,
    CONTROLLER,
    DEPLOYER,
    INSIDER,
    OFFICE_HOURS,
    SERVICE,
    Guarded,
    Object,
    claim,
    pool,
    sandbox,
    swarm,
    template,
)

ATTEMPTS: list[Attempt] = []
_VOLUME = "spec.volumeClaimTemplates.0.spec."


def _template(guarded: Guarded) -> str:
    return guarded.extension("sandboxtemplates", guarded.pool)


def _pool(guarded: Guarded) -> str:
    return guarded.extension("sandboxwarmpools", guarded.pool)


_storage = Table("sandbox-storage", ATTEMPTS)
for _name, _thing, _user in (("a Sandbox", sandbox, SERVICE), ("a template", template, DEPLOYER)):
    for _what, _place, _value in (
        ("another class of storage", "storageClassName", "fast"),
        ("the cluster's default storage", "storageClassName", None),
        ("a volume by name", "volumeName", "seat-somebody"),
        ("a volume copied from another", "dataSource", {"kind": "PersistentVolumeClaim", "name": "home-somebody"}),
        ("a volume by its labels", "selector", {"matchLabels": {"sandbox.users.io/user": "somebody"}}),
    ):
        _storage.refused(
            "sandbox-storage", f"{_name} with {_what}", _user, create(changed(_thing, put(_VOLUME + _place, _value)))
        )
    _storage.passes("sandbox-storage", f"{_name} with the class's storage", _user, create(_thing))
_storage.passes(
    "sandbox-storage",
    "an existing one, suspended",
    SERVICE,
    merge(sandbox_path, {"spec": {"operatingMode": "Suspended"}}),
)

_choices = Table("template-choices", ATTEMPTS)
_choices.refused(
    "template-network",
    "the controller's own policy",
    DEPLOYER,
    create(changed(template, put("spec.networkPolicyManagement", "Managed"))),
)
_choices.refused(
    "template-network",
    "nothing said of the policy",
    DEPLOYER,
    create(changed(template, put("spec.networkPolicyManagement", None))),
)
_choices.refused(
    "template-network",
    "the controller's own policy by a merge patch",
    DEPLOYER,
    merge(_template, {"spec": {"networkPolicyManagement": "Managed"}}),
)
_choices.refused(
    "template-injection",
    "variables that claims exchange",
    DEPLOYER,
    create(changed(template, put("spec.envVarsInjectionPolicy", "Overrides"))),
)
_choices.refused(
    "template-injection",
    "variables of claims where the class has none",
    DEPLOYER,
    create(changed(template, put("spec.envVarsInjectionPolicy", "Allowed"))),
)
_choices.refused(
    "template-injection",
    "volumes of claims by a JSON patch",
    DEPLOYER,
    patch(_template, {"op": "replace", "path": "/spec/volumeClaimTemplatesPolicy", "value": "Allowed"}),
)
_choices.passes("template-network template-injection", "as the class has it", DEPLOYER, create(template))
_choices.passes(
    "template-network template-injection",
    "an existing one, with a label",
    CONTROLLER,
    merge(_template, {"metadata": {"labels": {"agents.x-k8s.io/x": "1"}}}),
)

_pools = Table("pools", ATTEMPTS)
_pools.refused("pool-name", "a pool of another name", DEPLOYER, create(changed(pool, put("metadata.name", "other-1"))))
_pools.refused(
    "pool-name",
    "a pool of a template of another name",
    DEPLOYER,
    create(changed(pool, put("spec.sandboxTemplateRef.name", "other-1"))),
)
_pools.refused(
    "pool-name",
    "an existing one, of another template",
    DEPLOYER,
    merge(_pool, {"spec": {"sandboxTemplateRef": {"name": "other-1"}}}),
)
_pools.passes("pool-name", "as the class has it", DEPLOYER, create(pool))
_pools.passes("pool-name", "an existing one, larger", DEPLOYER, merge(_pool, {"spec": {"replicas": 3}}))

_writers = Table("sandbox-writers", ATTEMPTS)
_writers.refused("sandbox-by", "one of no claim", INSIDER, create(sandbox))
_writers.refused("sandbox-by", "one of no claim by server-side apply", INSIDER, apply(sandbox))
_writers.refused(
    "sandbox-by",
    "an annotation of its pod",
    INSIDER,
    merge(sandbox_path, {"spec": {"podTemplate": {"metadata": {"annotations": {"x": "y"}}}}}),
)
_writers.refused(
    "sandbox-by",
    "another's by its owner reference",
    INSIDER,
    patch(sandbox_path, {"op": "remove", "path": "/metadata/ownerReferences"}),
)
_writers.refused(
    "sandbox-by",
    "a label that the pool looks for",
    INSIDER,
    merge(sandbox_path, {"metadata": {"labels": {"agents.x-k8s.io/warm-pool-sandbox": "x"}}}),
)
_writers.refused("sandbox-by", "a Service for it", INSIDER, merge(sandbox_path, {"spec": {"service": True}}))
_writers.passes(
    "sandbox-by",
    "an existing one, suspended by an operator",
    INSIDER,
    merge(sandbox_path, {"spec": {"operatingMode": "Suspended"}}),
)
_writers.passes("sandbox-by", "an existing one, ended by an operator", INSIDER, delete(sandbox_path))
_writers.passes(
    "sandbox-by",
    "no owner reference, by the collector of what a claim leaves behind",
    COLLECTOR,
    patch(sandbox_path, {"op": "remove", "path": "/metadata/ownerReferences"}),
)
_writers.passes("sandbox-by", "by the service", SERVICE, create(sandbox))
_writers.passes("sandbox-by", "by the controller", CONTROLLER, create(sandbox))
_writers.passes("sandbox-by", "by a deployment, with server-side apply", DEPLOYER, apply(sandbox))
_writers.refused("template-by", "a template", INSIDER, create(template))
_writers.refused("template-by", "a template by server-side apply", INSIDER, apply(template))
_writers.refused("template-by", "a pool", INSIDER, create(pool))
_writers.refused("template-by", "a larger pool by a merge patch", INSIDER, merge(_pool, {"spec": {"replicas": 50}}))
for _thing, _word in ((template, "a template"), (pool, "a pool")):
    _writers.refused("template-by", f"{_word} by the schedules of pools", OFFICE_HOURS, create(_thing))
_writers.passes("template-by", "a template of a task by the service", SERVICE, create(template))
_writers.passes("template-by", "a pool by a deployment", DEPLOYER, create(pool))
_writers.passes(
    "template-by",
    "a label by the controller",
    CONTROLLER,
    merge(_template, {"metadata": {"labels": {"agents.x-k8s.io/x": "1"}}}),
)
_writers.passes(
    "template-by",
    "a pool's status",
    CONTROLLER,
    merge(lambda guarded: _pool(guarded) + "/status", {"status": {"readyReplicas": 1}}),
)

_pools.passes("pool-name", "that of a task", SERVICE, create(lambda guarded: swarm(guarded).pool))

_scale = Table("pool-scale", ATTEMPTS)


def _size(guarded: Guarded) -> str:
    return _pool(guarded) + "/scale"


_scale.refused("pool-scale-by", "more", INSIDER, merge(_size, {"spec": {"replicas": 50}}))
_scale.refused("pool-scale-by", "none", INSIDER, merge(_size, {"spec": {"replicas": 0}}))
_scale.passes("pool-scale-by", "by the service", SERVICE, merge(_size, {"spec": {"replicas": 3}}))
_scale.passes("pool-scale-by", "by a schedule", OFFICE_HOURS, merge(_size, {"spec": {"replicas": 3}}))
_scale.passes("pool-scale-by", "by a deployment", DEPLOYER, merge(_size, {"spec": {"replicas": 3}}))

_elsewhere = Table("elsewhere", ATTEMPTS)
for _name, _thing in (("a Sandbox", sandbox), ("a template", template), ("a pool", pool), ("a claim", claim)):
    _delete_guardrails = changed(_thing, put("metadata.namespace", "default"))
    _elsewhere.refused("sandbox-elsewhere", f"{_name} by somebody", INSIDER, create(_delete_guardrails))
    _elsewhere.refused("sandbox-elsewhere", f"{_name} by server-side apply", INSIDER, apply(_delete_guardrails))
    _elsewhere.refused("sandbox-elsewhere", f"{_name} by the service", SERVICE, create(_delete_guardrails))
    _elsewhere.passes("sandbox-elsewhere", f"{_name} by a deployment", DEPLOYER, create(_delete_guardrails))
    _elsewhere.passes("sandbox-elsewhere", f"{_name} by the controller", CONTROLLER, create(_delete_guardrails))

_endings = Table("endings", ATTEMPTS)
_ORPHAN: Object = {"propagationPolicy": "Orphan"}
_HELD = {"metadata": {"finalizers": ["orphan"]}}
for _thing, _word in ((claim_path, "a claim"), (sandbox_path, "a Sandbox"), (_pool, "a pool")):
    for _user, _who in ((INSIDER, "an operator"), (SERVICE, "the service"), (DEPLOYER, "a deployer")):
        _endings.refused("ending-whole", f"{_word} without what is its own, by {_who}", _user, ended(_thing, _ORPHAN))
    _endings.refused(
        "ending-whole",
        f"{_word} without what is its own, the old way",
        INSIDER,
        ended(_thing, {"orphanDependents": True}),
    )
    _endings.refused("ending-whole", f"{_word} that will leave its own behind", INSIDER, merge(_thing, _HELD))
    _endings.passes("ending-whole", f"{_word} with all that is its own", INSIDER, delete(_thing))
    _endings.passes(
        "ending-whole", f"{_word} after its own", INSIDER, ended(_thing, {"propagationPolicy": "Foreground"})
    )
    _endings.passes(
        "ending-whole",
        f"another finalizer of {_word}",
        INSIDER,
        merge(_thing, {"metadata": {"finalizers": ["a.com/b"]}}),
    )
_endings.refused(
    "ending-whole",
    "a claim that is made to leave its own behind",
    INSIDER,
    create(changed(claim, put("metadata.finalizers", ["orphan"]))),
)
_endings.refused(
    "ending-whole",
    "all Sandboxes at once",
    INSIDER,
    ended(lambda guarded: sandbox_path(guarded).rpartition("/")[0], _ORPHAN),
)
