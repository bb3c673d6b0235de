"""Sandboxes, templates and pools beside the shape of their pods: who writes them, and what else they say."""

from __future__ import annotations

from agentenv.core.guardrails.class_parameters import list_parameter, parameter
from agentenv.core.guardrails.guardrail import Policy, Rule, Watch, all_of, quoted, unless
from agentenv.core.guardrails.principals import SCHEDULES, Principals, requested_by

EXTENSIONS = "extensions.agents.x-k8s.io"
_CREATED = "oldObject != null"
# The finalizer by which the API server leaves behind what belonged to a thing.
_LEFT = "orphan"


def policies(principals: Principals) -> tuple[Policy, ...]:
    """What is said of them, class by class, and who may."""
    return (
        _storage(),
        _templates(),
        _pools(),
        _writers(principals),
        _scale(principals),
        _endings(),
        _elsewhere(principals),
    )


def _storage() -> Policy:
    return Policy(
        name="sandbox-storage",
        about="The volumes that a Sandbox or a SandboxTemplate asks for.",
        watches=(
            Watch("agents.x-k8s.io", ("sandboxes",)),
            Watch(EXTENSIONS, ("sandboxtemplates",)),
        ),
        by_class=True,
        rules=(
            Rule(
                "sandbox-storage",
                "A class of storage decides the file system, the folder and the owner of what is written.",
                unless(
                    _unchanged("?volumeClaimTemplates"),
                    "object.spec.?volumeClaimTemplates.orValue([]).all(one, "
                    + all_of(
                        f"one.spec.?storageClassName.orValue('') in {list_parameter('storageClasses')}",
                        "one.spec.?volumeName.orValue('') == ''",
                        "!has(one.spec.dataSource) && !has(one.spec.dataSourceRef) && !has(one.spec.selector)",
                    )
                    + ")",
                ),
                "volumeClaimTemplates are of the class's own storage classes, and choose neither volume nor source",
            ),
        ),
    )


def _templates() -> Policy:
    return Policy(
        name="template-choices",
        about="What a SandboxTemplate says beside its pod.",
        watches=(Watch(EXTENSIONS, ("sandboxtemplates",)),),
        by_class=True,
        rules=(
            Rule(
                "template-network",
                "Otherwise the controller adds a network policy of its own, and policies only ever add.",
                unless(
                    _unchanged("?networkPolicyManagement"),
                    "object.spec.?networkPolicyManagement.orValue('') == 'Unmanaged'",
                ),
                "networkPolicyManagement is Unmanaged",
            ),
            Rule(
                "template-injection",
                "What a template lets in decides what a claim may bring.",
                unless(
                    f"{_CREATED} && object.spec == oldObject.spec",
                    all_of(
                        "object.spec.?envVarsInjectionPolicy.orValue('Disallowed') == 'Disallowed' ||"
                        f" (object.spec.envVarsInjectionPolicy == 'Allowed' && {parameter('claimEnv')} == 'true')",
                        "object.spec.?volumeClaimTemplatesPolicy.orValue('Disallowed') == 'Disallowed'",
                    ),
                ),
                "variables of claims are Disallowed, or Allowed where the class says so, and their volumes Disallowed",
            ),
        ),
    )


def _pools() -> Policy:
    return Policy(
        name="pools",
        about="Warm pools.",
        watches=(Watch(EXTENSIONS, ("sandboxwarmpools",)),),
        by_class=True,
        rules=(
            Rule(
                "pool-name",
                "Claims may name every pool of the class, and rely on what is in it.",
                unless(
                    f"{_CREATED} && object.spec.sandboxTemplateRef == oldObject.spec.sandboxTemplateRef",
                    f"{list_parameter('pools')}.exists(pool, object.metadata.name.startsWith(pool + '-') &&"
                    " object.spec.sandboxTemplateRef.name.startsWith(pool + '-'))",
                ),
                "a pool and its template have names that begin with their class's",
            ),
        ),
    )


def _writers(principals: Principals) -> Policy:
    same = " && ".join(
        f"object.spec{part} == oldObject.spec{part}" for part in (".podTemplate", ".?volumeClaimTemplates", ".?service")
    )
    return Policy(
        name="sandbox-writers",
        about="Who makes Sandboxes, templates and pools.",
        watches=(
            Watch("agents.x-k8s.io", ("sandboxes",)),
            Watch(EXTENSIONS, ("sandboxtemplates", "sandboxwarmpools")),
        ),
        rules=(
            Rule(
                "sandbox-by",
                "A Sandbox that no claim stands behind has no owner, and no pool counts it. Whoever operates the"
                " cluster may put one to sleep, wake it and end it.",
                unless(
                    "request.resource.resource != 'sandboxes'",
                    unless(
                        f"{_CREATED} && {same} && object.metadata.?ownerReferences =="
                        " oldObject.metadata.?ownerReferences && object.metadata.?labels =="
                        " oldObject.metadata.?labels",
                        # The collectors take a reference off where an owner goes and leaves what it owned.
                        requested_by(principals.sandbox_controller, principals.service, *principals.collectors),
                    ),
                ),
                "Sandboxes are made and rewritten by the sandbox controller, the workspace service and deployers;"
                " others may change operatingMode and the time of shutdown",
            ),
            Rule(
                "template-by",
                "Templates and pools are what the stack declares: one beside them would be a class that nobody"
                " reviewed.",
                unless(
                    "request.resource.resource == 'sandboxes'",
                    unless(
                        f"{_CREATED} && object.spec == oldObject.spec",
                        requested_by(principals.service),
                    ),
                ),
                "templates and pools are made and changed by deployers and the workspace service",
            ),
        ),
    )


def _scale(principals: Principals) -> Policy:
    return Policy(
        name="pool-scale",
        about="The size of a warm pool through its scale subresource.",
        watches=(Watch(EXTENSIONS, ("sandboxwarmpools/scale",), ("UPDATE",)),),
        rules=(
            Rule(
                "pool-scale-by",
                "Every warm sandbox is paid for, and an empty pool makes everybody wait.",
                requested_by(principals.service, groups=[SCHEDULES]),
                "pools are scaled by the workspace service, their schedules and deployers",
            ),
        ),
    )


def _endings() -> Policy:
    left = f"({quoted(_LEFT)} in object.metadata.?finalizers.orValue([]))"
    before = f"(oldObject != null && {quoted(_LEFT)} in oldObject.metadata.?finalizers.orValue([]))"
    return Policy(
        name="endings",
        about="How claims, Sandboxes and pools are deleted.",
        watches=(
            Watch("agents.x-k8s.io", ("sandboxes",), ("CREATE", "UPDATE", "DELETE")),
            Watch(EXTENSIONS, ("sandboxclaims", "sandboxwarmpools"), ("CREATE", "UPDATE", "DELETE")),
        ),
        rules=(
            Rule(
                "ending-whole",
                "What they leave behind belongs to nobody: the next sandbox of that name takes its home, whoever"
                " claimed it.",
                "request.operation == 'DELETE' ? ("
                + all_of(
                    "request.?options.?propagationPolicy.orValue('') != 'Orphan'",
                    "!request.?options.?orphanDependents.orValue(false)",
                )
                + f") : ({unless(f'!{left}', before)})",
                "claims, Sandboxes and pools are deleted with all that belongs to them, never with --cascade=orphan",
            ),
        ),
    )


def _elsewhere(principals: Principals) -> Policy:
    return Policy(
        name="elsewhere",
        about="Claims, Sandboxes, templates and pools in namespaces that are no class's.",
        watches=(
            Watch("agents.x-k8s.io", ("sandboxes",)),
            Watch(EXTENSIONS, ("sandboxclaims", "sandboxtemplates", "sandboxwarmpools")),
        ),
        in_classes=False,
        elsewhere=True,
        rules=(
            Rule(
                "sandbox-elsewhere",
                "The controller makes whatever pod it is told to, with its own rights: where no guardrail looks at the"
                " pod, whoever may write a Sandbox may have any pod.",
                unless(f"{_CREATED} && object.spec == oldObject.spec", requested_by(principals.sandbox_controller)),
                "sandboxes are claimed in the namespace of a class; elsewhere deployers alone make them",
            ),
        ),
    )


def _unchanged(part: str) -> str:
    return f"{_CREATED} && object.spec.{part} == oldObject.spec.{part}"
