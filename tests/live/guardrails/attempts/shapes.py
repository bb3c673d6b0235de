"""Attempts on the pod spec of a sandbox: the same in a template, in a Sandbox and in a pod.

Each attempt is made by a user who may write that kind, so that only the guardrails refuse it.
"""

from __future__ import annotations

from copy import deepcopy

from agentenv.core.guardrails import EKS, policies
from agentenv.core.workspaces import seats
from tests.live.guardrails.attempts.attempt import (
    Attempt,
    Table,
    apply,
    changed,
    create,
    merge,
    patch,
    put,
    sandbox_path,
)
from tests.live.guardrails.attempts.pods import (
    BAD,
    CONTAINER,
    GOOD,
    LABEL,
    NOT_IN,
    OTHER,
    Change,
    identity_token,
)
from tests.live.guardrails.guarded import (
    CONTROLLER,
    DEPLOYER,
    FARGATE_CLASS,
    LOOSE,
    SERVICE,
    SHARED,
    Guarded,
    Object,
    pod,
    sandbox,
    seat,
    swarm,
    template,
)

ATTEMPTS: list[Attempt] = []


def _in_template(change: Change) -> Change:
    return lambda obj: change(obj["spec"]["podTemplate"])


def _seat(guarded: Guarded) -> Object:
    """Return a declared workspace, with its own id and home."""
    return seats.sandbox(seat(), guarded.open_class.seat)


_RULES = {row.name: " ".join(rule.id for rule in row.rules) for row in policies(["fs-1"], EKS)}
_EVERY = _RULES["pods"]
for _name, _thing, _user, _inside in (
    ("templates", template, DEPLOYER, _in_template),
    ("sandboxes", sandbox, SERVICE, _in_template),
    ("pods", pod, CONTROLLER, lambda change: change),
):
    _table = Table(_name, ATTEMPTS)
    for _rule, _what, _change in BAD:
        if _what not in NOT_IN[_name]:
            _table.refused(_rule, _what, _user, create(changed(_thing, _inside(_change))))
    _table.passes(_RULES[_name], "as the class has it", _user, create(_thing))
    for _rule, _what, _change in GOOD:
        _table.passes(_rule, _what, _user, create(changed(_thing, _inside(_change))))
    _table.refused(
        "pod-volumes",
        "an identity token in a class without an exchange",
        _user,
        create(
            changed(
                lambda guarded, obj=_thing: obj(guarded, of=SHARED),
                _inside(put("spec.volumes.-", identity_token())),
            )
        ),
    )

_templates = Table("templates", ATTEMPTS)
_templates.refused(
    "pod-images",
    "an image that is none of the class's",
    DEPLOYER,
    create(changed(template, _in_template(put(CONTAINER + "image", OTHER)))),
)
_templates.refused(
    "pod-labels",
    "labels without who pays",
    DEPLOYER,
    create(changed(template, _in_template(put(LABEL + "cost-center", None)))),
)
_templates.refused(
    "pod-runtime",
    "an existing one, by a JSON patch",
    DEPLOYER,
    patch(
        lambda guarded: guarded.extension("sandboxtemplates", guarded.pool),
        {"op": "remove", "path": "/spec/podTemplate/spec/runtimeClassName"},
    ),
)
_templates.refused(
    "pod-labels",
    "an existing one, by a merge patch",
    DEPLOYER,
    merge(
        lambda guarded: guarded.extension("sandboxtemplates", guarded.pool),
        {"spec": {"podTemplate": {"metadata": {"labels": {"sandbox.users.io/class": "other"}}}}},
    ),
)
_templates.passes(
    _EVERY,
    "an existing one, with a label for the controller",
    CONTROLLER,
    merge(
        lambda guarded: guarded.extension("sandboxtemplates", guarded.pool),
        {"metadata": {"labels": {"agents.x-k8s.io/sandbox-template-ref-hash": "1"}}},
    ),
)

_sandboxes = Table("sandboxes", ATTEMPTS)


_sandboxes.refused(
    "pod-images",
    "an image that is none of the class's",
    SERVICE,
    create(changed(sandbox, _in_template(put(CONTAINER + "image", OTHER)))),
)
_sandboxes.refused(
    "pod-images",
    "another image by a JSON patch",
    SERVICE,
    patch(sandbox_path, {"op": "replace", "path": "/spec/podTemplate/spec/containers/0/image", "value": OTHER}),
)
_sandboxes.refused(
    "pod-host",
    "the node's network by a merge patch",
    DEPLOYER,
    merge(sandbox_path, {"spec": {"podTemplate": {"spec": {"hostNetwork": True}}}}),
)
_sandboxes.refused(
    "pod-runtime",
    "no runtime class by a JSON patch, by the controller",
    CONTROLLER,
    patch(sandbox_path, {"op": "remove", "path": "/spec/podTemplate/spec/runtimeClassName"}),
)
_sandboxes.refused(
    "pod-user",
    "a declared workspace with the class's id",
    DEPLOYER,
    create(lambda guarded: sandbox(guarded, f"seat-{LOOSE}")),
)
_sandboxes.refused(
    "pod-host",
    "the node's network by server-side apply",
    DEPLOYER,
    apply(changed(sandbox, _in_template(put("spec.hostNetwork", value=True)))),
)
_sandboxes.passes(_EVERY, "a declared workspace", DEPLOYER, create(_seat))
_sandboxes.passes(
    "pod-images pod-labels",
    "an image that the class has left behind, by the controller",
    CONTROLLER,
    create(changed(sandbox, _in_template(put(CONTAINER + "image", OTHER)))),
)
_sandboxes.passes(
    _EVERY, "an existing one, suspended", SERVICE, merge(sandbox_path, {"spec": {"operatingMode": "Suspended"}})
)
_sandboxes.passes(
    _EVERY,
    "an existing one, with another size for its next pod",
    SERVICE,
    patch(
        sandbox_path,
        {
            "op": "replace",
            "path": "/spec/podTemplate/spec/containers/0/resources/requests/cpu",
            "value": "50m",
        },
    ),
)
_sandboxes.passes(
    _EVERY,
    "an existing one, with its status",
    CONTROLLER,
    merge(lambda guarded: sandbox_path(guarded) + "/status", {"status": {"nodeName": "walled"}}),
)
_sandboxes.passes(
    "pod-host",
    "an existing one, with a specification beside its status, which the server leaves out",
    CONTROLLER,
    merge(
        lambda guarded: sandbox_path(guarded) + "/status",
        {"status": {"nodeName": "walled"}, "spec": {"podTemplate": {"spec": {"hostNetwork": True}}}},
    ),
)

_pods = Table("pods", ATTEMPTS)
_pods.passes(
    "pod-images",
    "an image that the class has left behind",
    CONTROLLER,
    create(changed(pod, put(CONTAINER + "image", OTHER))),
)
_pods.passes(
    "pod-volumes",
    "a token that EKS's webhook brings",
    CONTROLLER,
    create(
        changed(
            pod,
            put(
                "spec.volumes.-",
                {
                    "name": "aws-iam-token",
                    "projected": {
                        "sources": [
                            {
                                "serviceAccountToken": {
                                    "path": "token",
                                    "audience": "sts.amazonaws.com",
                                    "expirationSeconds": 3600,
                                }
                            }
                        ]
                    },
                },
            ),
        )
    ),
)


def _pod_of_seat(guarded: Guarded) -> Object:
    found, inside = pod(guarded, f"seat-{LOOSE}"), _seat(guarded)["spec"]["podTemplate"]["spec"]
    return {**found, "spec": inside}


_pods.passes("pod-user pod-volumes", "that of a declared workspace", CONTROLLER, create(_pod_of_seat))
_pods.refused(
    "pod-user",
    "that of a declared workspace with the class's id",
    CONTROLLER,
    create(lambda guarded: pod(guarded, f"seat-{LOOSE}")),
)


def _on_fargate(guarded: Guarded) -> Object:
    """Return a pod of the class on Fargate, as the webhook of EKS changes it."""
    objects = guarded.classes[FARGATE_CLASS]
    inside = deepcopy(objects.templates[0]["spec"]["podTemplate"])
    profile = {"eks.amazonaws.com/fargate-profile": "batch"}
    found = pod(guarded)
    found["metadata"] |= {
        "namespace": objects.namespace["metadata"]["name"],
        "labels": {**inside["metadata"]["labels"], **profile},
    }
    # The server sets the number of that priority class
    inside["spec"] |= {"schedulerName": "fargate-scheduler", "priorityClassName": "system-node-critical"}
    return {**found, "spec": inside["spec"]}


_pods.passes(_EVERY, "one on Fargate", CONTROLLER, create(_on_fargate))
_pods.refused(
    "pod-priority",
    "one on Fargate with more priority than Fargate gives",
    CONTROLLER,
    create(changed(_on_fargate, put("spec.priorityClassName", "system-cluster-critical"))),
)
_pods.refused(
    "pod-node",
    "one on Fargate that the webhook missed",
    CONTROLLER,
    create(changed(_on_fargate, put("spec.schedulerName", "default-scheduler"))),
)
_pods.refused(
    "pod-runtime",
    "one on Fargate with a runtime class",
    CONTROLLER,
    create(changed(_on_fargate, put("spec.runtimeClassName", "gvisor"))),
)
_pods.refused(
    "pod-volumes",
    "what another task shares",
    CONTROLLER,
    create(changed(pod, put("spec.volumes.-", {"name": "x", "persistentVolumeClaim": {"claimName": "shared-t-1"}}))),
)
_templates.passes(_EVERY, "that of a task", SERVICE, create(lambda guarded: swarm(guarded).template))
_templates.refused(
    "pod-volumes",
    "that of a task with what another shares",
    SERVICE,
    create(
        lambda guarded: changed(
            lambda _: swarm(guarded).template, _in_template(put("metadata|labels|sandbox.users.io/task", "t-2"))
        )(guarded)
    ),
)
