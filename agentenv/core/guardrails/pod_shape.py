"""Guardrails for the pod spec of sandboxes: in SandboxTemplates, in Sandboxes and in pods.

All three have the same rules, so the objects of the controller must satisfy them too. If a class changes its tier, its
older sandboxes stay suspended: their pods would have the runtime class of the old tier.
"""

from __future__ import annotations

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.constraints_configmap import HOME_IDS
from agentenv.core.classes.names import HOME_CLASS_LABEL
from agentenv.core.classes.pods.daemon import KEYS
from agentenv.core.guardrails.guardrail import (
    Policy,
    Rule,
    all_of,
    list_parameter,
    parameter,
    quoted,
    quoted_list,
    unless,
)
from agentenv.core.guardrails.pod_locations import PodLocation, pod_locations
from agentenv.core.guardrails.principals import Principals
from agentenv.core.nodes.fargate_profiles import SCHEDULER
from agentenv.core.nodes.tiers import GPU_TAINT, TIER_LABEL

# Prefixes of annotations that configure container runtimes.
RUNTIMES = ("dev.gvisor.", "io.katacontainers.", "io.kubernetes.cri", "container.apparmor.security.beta")
SCHEDULERS = ("default-scheduler", SCHEDULER)


def policies(principals: Principals) -> tuple[Policy, ...]:
    """Return a policy per kind of object with a pod spec."""
    return tuple(
        Policy(
            name=location.name,
            about=location.about,
            watches=(location.watch,),
            by_class=True,
            variables=_variables(location),
            rules=tuple(_excused(rule, location) for rule in _rules(location)),
        )
        for location in pod_locations(principals)
    )


def _variables(location: PodLocation) -> dict[str, str]:
    seat = f"{list_parameter('seats')}.filter(seat, seat.startsWith(object.metadata.name + ':'))"
    return {
        "spec": location.spec,
        "labels": f"{location.metadata}.?labels.orValue({{}})",
        "containers": "variables.spec.containers + variables.spec.?initContainers.orValue([])",
        "seat": seat,
        # A home that was created in another class is mounted with the uid and gid of that class, which EFS enforces.
        "lender": f"variables.labels[?{quoted(HOME_CLASS_LABEL)}].orValue('')",
        "lent": f"{list_parameter(HOME_IDS)}.filter(pair, pair.startsWith(variables.lender + ':'))",
        # A declared workspace has its own uid.
        "uid": "variables.seat.size() == 1 ? variables.seat[0].split(':')[1] : (variables.lender == ''"
        f" ? {parameter('uid')} : (variables.lent.size() == 1 ? variables.lent[0].split(':')[1] : 'none'))",
    }


def _excused(rule: Rule, location: PodLocation) -> Rule:
    """Return the rule, with an excuse for updates that leave the fields that it checks unchanged."""
    if not location.same:
        return rule
    same = location.same_metadata if rule.id in {"pod-labels", "pod-annotations"} else location.same
    return Rule(rule.id, rule.why, unless(same, rule.holds), rule.message)


def _rules(location: PodLocation) -> tuple[Rule, ...]:
    # The API server refuses new pods with ephemeral containers, and adding one is another request.
    return _of_all(location) if location.name == "pods" else (*_of_all(location), _NO_DEBUG)


_NO_DEBUG = Rule(
    "pod-no-debug",
    "An ephemeral container is added later, is not checked, and shares the pod with the others.",
    "variables.spec.?ephemeralContainers.orValue([]).size() == 0",
    "ephemeralContainers must be empty",
)


_ENVIRONMENT = Rule(
    "pod-env",
    "Every process of the sandbox can read a secret in an environment variable, and may print it.",
    "variables.containers.all(one, one.?envFrom.orValue([]).size() == 0 && one.?env.orValue([]).all(item,"
    " !has(item.valueFrom) || has(item.valueFrom.fieldRef) || has(item.valueFrom.resourceFieldRef)))",
    "environment variables must not come from Secrets or ConfigMaps",
)


def _of_all(location: PodLocation) -> tuple[Rule, ...]:
    return (*_processes(), *_content(location), *_scheduling(location), _ENVIRONMENT)


def _processes() -> tuple[Rule, ...]:
    """Return the rules about the privileges of processes."""
    return (
        Rule(
            "pod-runtime",
            "The runtime class isolates a sandbox: without it, it shares the kernel of its node, whatever its class"
            " says.",
            f"variables.spec.?runtimeClassName.orValue('') == {parameter('runtimeClassName')}",
            "runtimeClassName must be that of the class's tier",
        ),
        Rule(
            "pod-account",
            "A service account token in a sandbox gives it access to the API server.",
            all_of(
                f"variables.spec.?serviceAccountName.orValue('') == {parameter('serviceAccount')}",
                "variables.spec.?automountServiceAccountToken.orValue(true) == false",
            ),
            "serviceAccountName must be that of the class, and automountServiceAccountToken must be false",
        ),
        Rule(
            "pod-user",
            "The uid and gid of files separate the homes of one class from another's, and gVisor checks them itself.",
            _user(),
            "runAsNonRoot must be true; runAsUser and runAsGroup must be the id of the class, of the declared workspace"
            f" or of the class in {HOME_CLASS_LABEL}, in all containers",
        ),
        Rule(
            "pod-privileges",
            "Each of these lets a process escape its container.",
            "variables.containers.all(one, "
            + all_of(
                "!one.?securityContext.?privileged.orValue(false)",
                "!one.?securityContext.?allowPrivilegeEscalation.orValue(true)",
                "one.?securityContext.?capabilities.?drop.orValue([]).exists(word, word == 'ALL')",
                "one.?securityContext.?capabilities.?add.orValue([]).size() == 0",
                "one.?securityContext.?procMount.orValue('Default') == 'Default'",
                "one.?volumeDevices.orValue([]).size() == 0",
            )
            + ")",
            "every container must drop ALL capabilities, add none and forbid privilege escalation, and must not be"
            " privileged or have volumeDevices or an unmasked /proc",
        ),
        Rule(
            "pod-root",
            "Files outside the sized volumes fill the node's disk, and are lost on resume.",
            "variables.containers.all(one, one.?securityContext.?readOnlyRootFilesystem.orValue(false))",
            "readOnlyRootFilesystem must be true in every container",
        ),
        Rule(
            "pod-seccomp",
            "Without a seccomp filter a process may use every system call of the kernel.",
            all_of(
                "variables.spec.?securityContext.?seccompProfile.?type.orValue('') == 'RuntimeDefault'",
                "variables.containers.all(one,"
                " one.?securityContext.?seccompProfile.?type.orValue('RuntimeDefault') == 'RuntimeDefault' &&"
                " one.?securityContext.?appArmorProfile.?type.orValue('RuntimeDefault') == 'RuntimeDefault')",
            ),
            "the seccomp profile must be RuntimeDefault for the pod and all containers",
        ),
        Rule(
            "pod-host",
            "All pods on a node share its network, processes and ports.",
            all_of(
                "!variables.spec.?hostNetwork.orValue(false)",
                "!variables.spec.?hostPID.orValue(false)",
                "!variables.spec.?hostIPC.orValue(false)",
                "!variables.spec.?shareProcessNamespace.orValue(false)",
                "variables.spec.?securityContext.?sysctls.orValue([]).size() == 0",
                "!has(variables.spec.securityContext.windowsOptions)",
                "variables.containers.all(one, one.?ports.orValue([]).all(port, port.?hostPort.orValue(0) == 0))",
            ),
            "hostNetwork, hostPID, hostIPC, hostPort, shareProcessNamespace, sysctls and windowsOptions must not be"
            " set",
        ),
    )


def _content(location: PodLocation) -> tuple[Rule, ...]:
    """Return the rules about volumes, metadata and images."""
    return (
        Rule(
            "pod-volumes",
            "Other volumes may hold files of the node, secrets or the home of another owner.",
            "variables.spec.?volumes.orValue([]).all(volume,"
            f" (has(volume.emptyDir) && has(volume.emptyDir.sizeLimit)) || ({location.own_volumes}))",
            "volumes must be emptyDirs with a sizeLimit, the sandbox's own home, the token of its class's identity, or"
            f" those of workspaced: the ConfigMap {KEYS} and the pod's uid",
        ),
        Rule(
            "pod-labels",
            "The network policy of a class selects pods by these labels.",
            location.labels,
            f"the pod must have the labels {CLASS_LABEL} and {TIER_LABEL} of its class, and a template all labels of"
            " the class",
        ),
        Rule(
            "pod-annotations",
            "Container runtimes read annotations, some of which weaken the isolation.",
            f"{location.metadata}.?annotations.orValue({{}}).all(key,"
            f" !{quoted_list(RUNTIMES)}.exists(prefix, key.startsWith(prefix)))",
            f"no annotation may start with {', '.join(RUNTIMES)}",
        ),
        Rule(
            "pod-images",
            "A tag may name another image tomorrow.",
            location.images,
            location.images_message,
        ),
    )


def _scheduling(location: PodLocation) -> tuple[Rule, ...]:
    """Return the rules about nodes and priority."""
    return (
        Rule(
            "pod-placement",
            "The nodes of other tiers have another isolation, and nodes of the platform have none.",
            all_of(
                f"{parameter('compute')} != 'karpenter' ||"
                f" variables.spec.?nodeSelector[?{quoted(TIER_LABEL)}].orValue('') =="
                f" {parameter('tier')}",
                "variables.spec.?tolerations.orValue([]).all(one,"
                " one.?key.orValue('').startsWith('node.kubernetes.io/') ||"
                f" (one.?key.orValue('') == {quoted(TIER_LABEL)} && one.?value.orValue('') == {parameter('tier')}) ||"
                f" one.?key.orValue('') in [{quoted(GPU_TAINT)}, 'eks.amazonaws.com/compute-type'])",
            ),
            "nodeSelector must name the class's tier, and tolerations only the taints of that tier",
        ),
        Rule(
            "pod-node",
            "A pod with a nodeName bypasses the scheduler, and with it taints and capacity. A pod of a class on Fargate"
            " that another scheduler places shares the kernel of a node.",
            all_of(
                "variables.spec.?nodeName.orValue('') == ''",
                f"variables.spec.?schedulerName.orValue('default-scheduler') in {quoted_list(SCHEDULERS)}",
                location.scheduler,
            ),
            "nodeName must be empty, and schedulerName that of the class: the default scheduler, or that of Fargate",
        ),
        Rule(
            "pod-priority",
            "A sandbox with a higher priority preempts others. On Fargate, AWS sets the same priority for every pod.",
            f"variables.spec.?priorityClassName.orValue('') == {parameter('priorityClassName')}"
            f"{location.other_priority}",
            "priorityClassName must be that of sandboxes",
        ),
    )


def _user() -> str:
    return all_of(
        "variables.spec.?securityContext.?runAsNonRoot.orValue(false)",
        "string(variables.spec.?securityContext.?runAsUser.orValue(0)) == variables.uid",
        "string(variables.spec.?securityContext.?runAsGroup.orValue(0)) == variables.uid",
        "string(variables.spec.?securityContext.?fsGroup.orValue(int(variables.uid))) == variables.uid",
        "variables.spec.?securityContext.?supplementalGroups.orValue([]).all(group, string(group) == variables.uid)",
        "variables.containers.all(one, one.?securityContext.?runAsNonRoot.orValue(true) &&"
        " string(one.?securityContext.?runAsUser.orValue(int(variables.uid))) == variables.uid &&"
        " string(one.?securityContext.?runAsGroup.orValue(int(variables.uid))) == variables.uid)",
    )
