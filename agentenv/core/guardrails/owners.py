"""Owners: whoever a sandbox was given to has it until it ends, and nobody after them."""

from __future__ import annotations

from agentenv.core.classes.names import USER_LABEL
from agentenv.core.guardrails.claims import CLAIMS
from agentenv.core.guardrails.guardrail import Policy, Rule, Watch, all_of, quoted

_REASON = (
    "With another owner's label a sandbox is accounted to them, and with their name on it their files, or somebody"
    " else's, look like theirs."
)

# For rules on all that is said of an owner: which label of theirs is held here already, whoever asks.
OWNER_UNCHANGED = (
    f"(key == {quoted(USER_LABEL)} && oldObject != null && oldObject.metadata.?labels[?key].orValue('') != '')"
)


def policies() -> tuple[Policy, ...]:
    """One a kind: where the label is differs."""
    return (
        _owner_policy(
            "claim-owners",
            "Owners of claims.",
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
            "Owners of pods, also where a status is written.",
            Watch("", ("pods", "pods/status"), ("UPDATE",)),
            "metadata.?labels",
        ),
        _owner_policy(
            "volume-owners",
            "Owners of PersistentVolumes, also where a status is written: whose a kept home is, is read there.",
            Watch("", ("persistentvolumes", "persistentvolumes/status"), ("UPDATE",)),
            "metadata.?labels",
            in_classes=False,
        ),
    )


def _owner_policy(name: str, about: str, watch: Watch, *places: str, in_classes: bool = True) -> Policy:
    conditions = (
        f"oldObject.{location}[?{quoted(USER_LABEL)}].orValue('')"
        f" in ['', object.{location}[?{quoted(USER_LABEL)}].orValue('')]"
        for location in places
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
                f"the label {USER_LABEL} stays as it was first set; for somebody else make another claim",
            ),
        ),
    )
