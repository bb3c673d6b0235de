"""Owners: whoever a sandbox was given to has it until it ends, and nobody after them."""

from __future__ import annotations

from agentenv.core.classes.names import USER_LABEL
from agentenv.core.guardrails.claims import CLAIMS
from agentenv.core.guardrails.guardrail import Policy, Rule, Watch, every, text

_WHY = (
    "With another owner's label a sandbox is accounted to them, and with their name on it their files, or somebody"
    " else's, look like theirs."
)

# For rules on all that is said of an owner: which label of theirs is held here already, whoever asks.
HELD = f"(key == {text(USER_LABEL)} && oldObject != null && oldObject.metadata.?labels[?key].orValue('') != '')"


def policies() -> tuple[Policy, ...]:
    """One a kind: where the label is differs."""
    return (
        _kept(
            "claim-owners",
            "Owners of claims.",
            Watch(CLAIMS.group, CLAIMS.resources, ("UPDATE",)),
            "metadata.?labels",
            "spec.?additionalPodMetadata.?labels",
        ),
        _kept(
            "sandbox-owners",
            "Owners of Sandboxes.",
            Watch("agents.x-k8s.io", ("sandboxes",), ("UPDATE",)),
            "metadata.?labels",
            "spec.podTemplate.?metadata.?labels",
        ),
        _kept(
            "pod-owners",
            "Owners of pods, also where a status is written.",
            Watch("", ("pods", "pods/status"), ("UPDATE",)),
            "metadata.?labels",
        ),
        _kept(
            "volume-owners",
            "Owners of PersistentVolumes, also where a status is written: whose a kept home is, is read there.",
            Watch("", ("persistentvolumes", "persistentvolumes/status"), ("UPDATE",)),
            "metadata.?labels",
            in_classes=False,
        ),
    )


def _kept(name: str, about: str, watch: Watch, *places: str, in_classes: bool = True) -> Policy:
    kept = (
        f"oldObject.{place}[?{text(USER_LABEL)}].orValue('') in ['', object.{place}[?{text(USER_LABEL)}].orValue('')]"
        for place in places
    )
    return Policy(
        name=name,
        about=about,
        watches=(watch,),
        in_classes=in_classes,
        rules=(
            Rule(
                "owner-kept",
                _WHY,
                every(*kept),
                f"the label {USER_LABEL} stays as it was first set; for somebody else make another claim",
            ),
        ),
    )
