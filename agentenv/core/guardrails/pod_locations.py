"""The three kinds of objects with a sandbox's pod spec: SandboxTemplates, Sandboxes and pods."""

from __future__ import annotations

from dataclasses import dataclass

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.pods.aws_identity import FILE
from agentenv.core.classes.pods.daemon import KEYS
from agentenv.core.guardrails.guardrail import (
    Operation,
    Watch,
    all_of,
    list_parameter,
    parameter,
    quoted,
    quoted_list,
    unless,
)
from agentenv.core.guardrails.principals import Principals
from agentenv.core.iam.identity_exchange import TOKEN_SECONDS
from agentenv.core.nodes.fargate_profiles import SCHEDULER
from agentenv.core.nodes.tiers import TIER_LABEL

# The audiences of the tokens that EKS's webhooks mount: for IRSA and for Pod Identity.
AUDIENCES = ("sts.amazonaws.com", "pods.eks.amazonaws.com")


@dataclass(frozen=True)
class PodLocation:
    """A kind of object with a pod spec, and how its rules differ."""

    name: str
    about: str
    watch: Watch
    spec: str
    metadata: str
    same: str  # CEL: whether an update leaves the pod spec unchanged
    same_metadata: str  # CEL: whether it leaves labels and annotations unchanged
    images: str  # CEL: whether its images are allowed
    images_message: str
    labels: str  # CEL: whether its labels are allowed
    own_volumes: str  # CEL: which volumes it may have besides sized emptyDirs, as a condition on `volume`
    other_priority: str = ""
    scheduler: str = "true"  # CEL: whether its scheduler is that of its class


def pod_locations(principals: Principals) -> tuple[PodLocation, ...]:
    """Return the locations: templates, Sandboxes and pods."""
    writes: tuple[Operation, ...] = ("CREATE", "UPDATE")
    spec, metadata = "object.spec.podTemplate.spec", "object.spec.podTemplate.?metadata"
    same = f"oldObject != null && {spec} == oldObject.spec.podTemplate.spec"
    same_metadata = "oldObject != null && object.spec.podTemplate.?metadata == oldObject.spec.podTemplate.?metadata"
    class_labels = _labels(CLASS_LABEL, "class"), _labels(TIER_LABEL, "tier")
    all_labels = all_of(
        *class_labels,
        f"{list_parameter('podLabels')}.all(pair,"
        " variables.labels[?pair.split('=')[0]].orValue('') == pair.split('=')[1])",
    )
    class_images = f"variables.containers.all(one, one.image in {list_parameter('images')})"
    same_images = (
        "oldObject != null && variables.containers.map(one, one.image) =="
        " (oldObject.spec.podTemplate.spec.containers +"
        " oldObject.spec.podTemplate.spec.?initContainers.orValue([])).map(one, one.image)"
    )
    home, shared = _home_claims()
    daemon_or_identity, webhook = _daemon_or_identity(), _webhook_tokens()
    by_controller = f"request.userInfo.username == {quoted(principals.sandbox_controller)}"
    compute = parameter("compute")
    images_message = "every image must be one of the class's images, by digest"
    return (
        PodLocation(
            name="templates",
            about="The pod template of a SandboxTemplate, on creation and when it changes.",
            watch=Watch("extensions.agents.x-k8s.io", ("sandboxtemplates",), writes),
            spec=spec,
            metadata=metadata,
            same=same,
            same_metadata=same_metadata,
            images=class_images,
            images_message=images_message,
            labels=all_labels,
            own_volumes=f"({shared}) || {daemon_or_identity}",
        ),
        PodLocation(
            name="sandboxes",
            about="The pod template of a Sandbox, on creation and when it changes.",
            watch=Watch("agents.x-k8s.io", ("sandboxes",), writes),
            spec=spec,
            metadata=metadata,
            same=same,
            same_metadata=same_metadata,
            # The controller copies templates, which were checked on creation; an old release still fills its pool
            # until the new one is full. A workspace of an old release is resized with its images.
            images=unless(f"({by_controller}) || ({same_images})", class_images),
            images_message=images_message,
            labels=all_of(*class_labels, unless(by_controller, all_labels)),
            own_volumes=f"({home}) || ({shared}) || {daemon_or_identity}",
        ),
        PodLocation(
            name="pods",
            about="Pods, on creation.",
            watch=Watch("", ("pods",), ("CREATE",)),
            spec="object.spec",
            metadata="object.metadata",
            same="",
            same_metadata="",
            # A workspace resumes with the image that it was created with, even if its class has another one now.
            images="variables.containers.all(one, one.image.contains('@sha256:'))",
            images_message="every image must be named by its digest",
            # The same holds for its labels of owner and cost center.
            labels=all_of(*class_labels),
            own_volumes=f"({home}) || ({shared}) || {daemon_or_identity} || ({webhook})",
            other_priority=f" || ({compute} == 'fargate' && variables.spec.?priorityClassName.orValue('') =="
            " 'system-node-critical')",
            # A pod that the webhook of its Fargate profile missed would run on any node without a taint.
            scheduler=f"{compute} != 'fargate' || variables.spec.?schedulerName.orValue('') == {quoted(SCHEDULER)}",
        ),
    )


def _home_claims() -> tuple[str, str]:
    """Return the claim of its home, which the controller names, and that of a swarm, named after its task."""
    home = "volume.?persistentVolumeClaim.?claimName.orValue('') == 'home-' + object.metadata.name"
    shared = (
        f"{parameter('storage')} == 'shared' && variables.labels[?'sandbox.users.io/task'].orValue('') != '' &&"
        " volume.?persistentVolumeClaim.?claimName.orValue('') =="
        " 'shared-' + variables.labels[?'sandbox.users.io/task'].orValue('')"
    )
    return home, shared


def _daemon_or_identity() -> str:
    """Return the volumes of workspaced, or exactly the token of the class's identity that its template mounts."""
    projected = "source.?serviceAccountToken"
    sources = "volume.?projected.?sources.orValue([])"
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
    # The volumes of workspaced: the public keys of the service, and the uid of the pod.
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
    return f"({identity}) || ({keys}) || ({pod_uid})"


def _webhook_tokens() -> str:
    """Return the tokens that EKS's webhooks mount."""
    sources = "volume.?projected.?sources.orValue([])"
    return all_of(
        f"{sources}.size() > 0",
        f"{sources}.all(source, source.?serviceAccountToken.?audience.orValue('') in {quoted_list(AUDIENCES)})",
    )


def _labels(key: str, parameter_key: str) -> str:
    return f"variables.labels[?{quoted(key)}].orValue('') == {parameter(parameter_key)}"
