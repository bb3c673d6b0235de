"""Guardrails for Sandboxes, SandboxTemplates and SandboxWarmPools: their other fields, and who writes them."""

from __future__ import annotations

from agentenv.core.guardrails.guardrail import Policy, Rule, Watch, all_of, list_parameter, parameter, quoted, unless
from agentenv.core.guardrails.principals import SCHEDULES, Principals, requested_by

EXTENSIONS = "extensions.agents.x-k8s.io"
_CREATED = "oldObject != null"
# The finalizer with which the API server orphans the dependents of a deleted object.
_ORPHAN = "orphan"


def policies(principals: Principals) -> tuple[Policy, ...]:
    """Return the policies for Sandboxes, templates and pools."""
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
        about="The volume claim templates of Sandboxes and SandboxTemplates.",
        watches=(
            Watch("agents.x-k8s.io", ("sandboxes",)),
            Watch(EXTENSIONS, ("sandboxtemplates",)),
        ),
        by_class=True,
        rules=(
            Rule(
                "sandbox-storage",
                "The storage class decides the file system, the folder and the owner of files.",
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
                "volumeClaimTemplates must use the class's storage classes, and must not name a volume or a data"
                " source",
            ),
        ),
    )


def _templates() -> Policy:
    return Policy(
        name="template-choices",
        about="The fields of a SandboxTemplate besides its pod template.",
        watches=(Watch(EXTENSIONS, ("sandboxtemplates",)),),
        by_class=True,
        rules=(
            Rule(
                "template-network",
                "Otherwise the controller adds its own network policy, and network policies are additive.",
                unless(
                    _unchanged("?networkPolicyManagement"),
                    "object.spec.?networkPolicyManagement.orValue('') == 'Unmanaged'",
                ),
                "networkPolicyManagement must be Unmanaged",
            ),
            Rule(
                "template-injection",
                "A template decides what claims may add to its pods.",
                unless(
                    f"{_CREATED} && object.spec == oldObject.spec",
                    all_of(
                        "object.spec.?envVarsInjectionPolicy.orValue('Disallowed') == 'Disallowed' ||"
                        f" (object.spec.envVarsInjectionPolicy == 'Allowed' && {parameter('claimEnv')} == 'true')",
                        "object.spec.?volumeClaimTemplatesPolicy.orValue('Disallowed') == 'Disallowed'",
                    ),
                ),
                "envVarsInjectionPolicy must be Disallowed unless the class allows variables of claims, and"
                " volumeClaimTemplatesPolicy must be Disallowed",
            ),
        ),
    )


def _pools() -> Policy:
    return Policy(
        name="pools",
        about="SandboxWarmPools.",
        watches=(Watch(EXTENSIONS, ("sandboxwarmpools",)),),
        by_class=True,
        rules=(
            Rule(
                "pool-name",
                "Claims may name every pool of the class, and trust its template.",
                unless(
                    f"{_CREATED} && object.spec.sandboxTemplateRef == oldObject.spec.sandboxTemplateRef",
                    f"{list_parameter('pools')}.exists(pool, object.metadata.name.startsWith(pool + '-') &&"
                    " object.spec.sandboxTemplateRef.name.startsWith(pool + '-'))",
                ),
                "the names of a pool and its template must start with the name of the class",
            ),
        ),
    )


def _writers(principals: Principals) -> Policy:
    same = " && ".join(
        f"object.spec{part} == oldObject.spec{part}" for part in (".podTemplate", ".?volumeClaimTemplates", ".?service")
    )
    return Policy(
        name="sandbox-writers",
        about="Creation and updates of Sandboxes, SandboxTemplates and SandboxWarmPools.",
        watches=(
            Watch("agents.x-k8s.io", ("sandboxes",)),
            Watch(EXTENSIONS, ("sandboxtemplates", "sandboxwarmpools")),
        ),
        rules=(
            Rule(
                "sandbox-by",
                "A Sandbox without a claim has no owner, and no pool counts it. Operators may suspend, resume and"
                " delete Sandboxes.",
                unless(
                    "request.resource.resource != 'sandboxes'",
                    unless(
                        f"{_CREATED} && {same} && object.metadata.?ownerReferences =="
                        " oldObject.metadata.?ownerReferences && object.metadata.?labels =="
                        " oldObject.metadata.?labels",
                        # The garbage collector removes the owner reference when an owner is deleted with orphaning.
                        requested_by(principals.sandbox_controller, principals.service, *principals.collectors),
                    ),
                ),
                "only the sandbox controller, the workspace service and deployers may create and change Sandboxes;"
                " others may change operatingMode and shutdownTime",
            ),
            Rule(
                "template-by",
                "The stack declares templates and pools: others would be a class that nobody reviewed.",
                unless(
                    "request.resource.resource == 'sandboxes'",
                    unless(
                        f"{_CREATED} && object.spec == oldObject.spec",
                        requested_by(principals.service),
                    ),
                ),
                "only deployers and the workspace service may create and change templates and pools",
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
                "Every warm sandbox costs money, and an empty pool makes callers wait.",
                requested_by(principals.service, groups=[SCHEDULES]),
                "only the workspace service, the pools' schedules and deployers may scale pools",
            ),
        ),
    )


def _endings() -> Policy:
    orphaned = f"({quoted(_ORPHAN)} in object.metadata.?finalizers.orValue([]))"
    before = f"(oldObject != null && {quoted(_ORPHAN)} in oldObject.metadata.?finalizers.orValue([]))"
    return Policy(
        name="endings",
        about="Deletion of claims, Sandboxes and pools.",
        watches=(
            Watch("agents.x-k8s.io", ("sandboxes",), ("CREATE", "UPDATE", "DELETE")),
            Watch(EXTENSIONS, ("sandboxclaims", "sandboxwarmpools"), ("CREATE", "UPDATE", "DELETE")),
        ),
        rules=(
            Rule(
                "ending-whole",
                "Orphaned objects have no owner: the next sandbox of the same name mounts the home, whoever claimed"
                " it.",
                "request.operation == 'DELETE' ? ("
                + all_of(
                    "request.?options.?propagationPolicy.orValue('') != 'Orphan'",
                    "!request.?options.?orphanDependents.orValue(false)",
                )
                + f") : ({unless(f'!{orphaned}', before)})",
                "claims, Sandboxes and pools must be deleted with their dependents, not with --cascade=orphan",
            ),
        ),
    )


def _elsewhere(principals: Principals) -> Policy:
    return Policy(
        name="elsewhere",
        about="Claims, Sandboxes, templates and pools in namespaces that are not those of classes.",
        watches=(
            Watch("agents.x-k8s.io", ("sandboxes",)),
            Watch(EXTENSIONS, ("sandboxclaims", "sandboxtemplates", "sandboxwarmpools")),
        ),
        in_classes=False,
        elsewhere=True,
        rules=(
            Rule(
                "sandbox-elsewhere",
                "The controller creates any pod that a Sandbox describes, with its own permissions. Where no guardrail"
                " checks pods, anyone who may create a Sandbox could create any pod.",
                unless(f"{_CREATED} && object.spec == oldObject.spec", requested_by(principals.sandbox_controller)),
                "outside the namespaces of classes, only deployers may create these objects; create a SandboxClaim in"
                " the namespace of a class",
            ),
        ),
    )


def _unchanged(part: str) -> str:
    return f"{_CREATED} && object.spec.{part} == oldObject.spec.{part}"
