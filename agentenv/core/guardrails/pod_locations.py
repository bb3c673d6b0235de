"""Where the shape of a sandbox's pod is written, and what differs there: templates, Sandboxes, pods."""

from __future__ import annotations

from dataclasses import dataclass

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.pods.aws_identity import FILE
from agentenv.core.classes.pods.daemon import KEYS
from agentenv.core.guardrails.class_parameters import list_parameter, parameter
from agentenv.core.guardrails.guardrail import Operation, Watch, all_of, quoted, quoted_list, unless
from agentenv.core.guardrails.principals import Principals
from agentenv.core.iam.identity_exchange import TOKEN_SECONDS
from agentenv.core.nodes.tiers import TIER_LABEL

# Whose tokens EKS's own webhooks put into pods, for the two ways to a role.
AUDIENCES = ("sts.amazonaws.com", "pods.eks.amazonaws.com")


@dataclass(frozen=True)
class PodLocation:
    """Where the shape of a pod is written."""

    name: str
    about: str
    watch: Watch
    spec: str
    metadata: str
    same: str  # CEL: whether a change leaves the specification as it was
    same_metadata: str  # CEL: whether it leaves labels and annotations
    images: str  # CEL: whether its images are right
    images_message: str
    labels: str  # CEL: whether its labels are right
    own_volumes: str  # CEL: which volumes it may have beside scratch space, as a condition on `volume`
    other_priority: str = ""


def pod_locations(principals: Principals) -> tuple[PodLocation, ...]:
    """The three of them."""
    written: tuple[Operation, ...] = ("CREATE", "UPDATE")
    inside, about = "object.spec.podTemplate.spec", "object.spec.podTemplate.?metadata"
    same = f"oldObject != null && {inside} == oldObject.spec.podTemplate.spec"
    same_metadata = "oldObject != null && object.spec.podTemplate.?metadata == oldObject.spec.podTemplate.?metadata"
    named = _labels(CLASS_LABEL, "class"), _labels(TIER_LABEL, "tier")
    labelled = all_of(
        *named,
        f"{list_parameter('podLabels')}.all(pair,"
        " variables.labels[?pair.split('=')[0]].orValue('') == pair.split('=')[1])",
    )
    known = f"variables.containers.all(one, one.image in {list_parameter('images')})"
    # Its own home, by the name that the controller gives it; a swarm's, by the name of its task.
    home = "volume.?persistentVolumeClaim.?claimName.orValue('') == 'home-' + object.metadata.name"
    shared = (
        f"{parameter('storage')} == 'shared' && variables.labels[?'sandbox.users.io/task'].orValue('') != '' &&"
        " volume.?persistentVolumeClaim.?claimName.orValue('') =="
        " 'shared-' + variables.labels[?'sandbox.users.io/task'].orValue('')"
    )
    projected = "source.?serviceAccountToken"
    sources = "volume.?projected.?sources.orValue([])"
    # The token of the class's identity as its template mounts it, and nothing beside it.
    identity = all_of(
        "volume.all(key, key in ['name', 'projected'])",
        f"{sources}.size() == 1",
        f"{sources}.all(source, "
        + all_of(
            "source.all(key, key == 'serviceAccountToken')",
            f"{projected}.?audience.orValue('') in {list_parameter('tokenAudiences')}",
            f"{projected}.?expirationSeconds.orValue(0) == {TOKEN_SECONDS}",
            f"{projected}.?path.orValue('') == {quoted(FILE)}",
        )
        + ")",
    )
    # What workspaced reads: the service's public keys, and the pod's own uid.
    keys = all_of(
        "volume.all(key, key in ['name', 'configMap'])",
        "volume.?configMap.orValue({}).all(key, key in ['name', 'defaultMode'])",
        f"volume.?configMap.?name.orValue('') == {quoted(KEYS)}",
    )
    items = "volume.?downwardAPI.?items.orValue([])"
    pod_uid = all_of(
        "volume.all(key, key in ['name', 'downwardAPI'])",
        f"{items}.size() > 0",
        f"{items}.all(item, item.?fieldRef.?fieldPath.orValue('') == 'metadata.uid')",
    )
    read = f"({identity}) || ({keys}) || ({pod_uid})"
    webhook = all_of(
        f"{sources}.size() > 0",
        f"{sources}.all(source, {projected}.?audience.orValue('') in {quoted_list(AUDIENCES)})",
    )
    controllers = f"request.userInfo.username == {quoted(principals.sandbox_controller)}"
    listing = "every image is one of the class's, by its digest"
    return (
        PodLocation(
            "templates",
            "The pod in a SandboxTemplate, when one is made and when its pod changes.",
            Watch("extensions.agents.x-k8s.io", ("sandboxtemplates",), written),
            inside,
            about,
            same,
            same_metadata,
            known,
            listing,
            labelled,
            f"({shared}) || {read}",
        ),
        PodLocation(
            "sandboxes",
            "The pod in a Sandbox, when one is made and when its pod changes.",
            Watch("agents.x-k8s.io", ("sandboxes",), written),
            inside,
            about,
            same,
            same_metadata,
            # The controller's are of a template that was looked at when it was written; a release that the class has
            # left behind still fills its pool until the new one is full.
            unless(controllers, known),
            listing,
            all_of(*named, unless(controllers, labelled)),
            f"({home}) || ({shared}) || {read}",
        ),
        PodLocation(
            "pods",
            "Pods, when they are made.",
            Watch("", ("pods",), ("CREATE",)),
            "object.spec",
            "object.metadata",
            "",
            "",
            # A workspace wakes with the image that it was made with, long after its class has gone on to another.
            "variables.containers.all(one, one.image.contains('@sha256:'))",
            "every image is named by its digest",
            # The same holds for what its owner was called then, and who paid.
            all_of(*named),
            f"({home}) || ({shared}) || {read} || ({webhook})",
            f" || ({parameter('compute')} == 'fargate' && variables.spec.?priorityClassName.orValue('') =="
            " 'system-node-critical')",
        ),
    )


def _labels(key: str, rule_text: str) -> str:
    return f"variables.labels[?{quoted(key)}].orValue('') == {parameter(rule_text)}"
