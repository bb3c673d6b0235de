"""Guardrails for owners: the owner of a sandbox never changes, and no one else gets it after them."""

from __future__ import annotations

from agentenv.core.classes.names import USER_LABEL
from agentenv.core.guardrails.claims import CLAIMS
from agentenv.core.guardrails.guardrail import Policy, Rule, Watch, all_of, quoted

_REASON = "The label decides to whom a sandbox is accounted, and whose its files are."

# For rules on all labels of an owner: true for the label that the policies here already check.
OWNER_UNCHANGED = (
    f"(key == {quoted(USER_LABEL)} && oldObject != null && oldObject.metadata.?labels[?key].orValue('') != '')"
)


def policies() -> tuple[Policy, ...]:
    """Return a policy per kind, because the label is in different fields."""
    return (
        _owner_policy(
            "claim-owners",
            "Owners of SandboxClaims.",
            Watch(CLAIMS.group, CLAIMS.resources, ("UPDATE",)),
            "metadata.?labels",
            "spec.?additionalPodMetadata.?labels",
        ),
        _owner_policy(
            "sandbox-owners",
            "Owners of Sandboxes.",
            Watch("agents.x-k8s.io", ("sandboxes",), ("UPDATE",)),
            "metadata.?labels",
            "spec.podTemplate.?metadata.?labels",
        ),
        _owner_policy(
            "pod-owners",
            "Owners of pods, on updates of their status too.",
            Watch("", ("pods", "pods/status"), ("UPDATE",)),
            "metadata.?labels",
        ),
        _owner_policy(
            "volume-owners",
            "Owners of PersistentVolumes, on updates of their status too: the service reads there whose a retained"
            " home is.",
            Watch("", ("persistentvolumes", "persistentvolumes/status"), ("UPDATE",)),
            "metadata.?labels",
            in_classes=False,
        ),
    )


def _owner_policy(name: str, about: str, watch: Watch, *fields: str, in_classes: bool = True) -> Policy:
    conditions = (
        f"oldObject.{field}[?{quoted(USER_LABEL)}].orValue('')"
        f" in ['', object.{field}[?{quoted(USER_LABEL)}].orValue('')]"
        for field in fields
    )
    return Policy(
        name=name,
        about=about,
        watches=(watch,),
        in_classes=in_classes,
        rules=(
            Rule(
                "owner-kept",
                _REASON,
                all_of(*conditions),
                f"the label {USER_LABEL} must not change once it is set; create another claim for another owner",
            ),
        ),
    )
