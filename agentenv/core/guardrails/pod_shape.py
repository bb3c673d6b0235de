"""The shape of a sandbox's pod, wherever it is written: in a template, in a Sandbox, and in the pod that comes of it.

The same rules for all three, so that what the controller makes is held to them as well. A class that changes its tier
leaves older sandboxes asleep: their pods would have the wall that the class no longer has.
"""

from __future__ import annotations

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.constraints_configmap import HOME_IDS
from agentenv.core.classes.names import HOME_CLASS_LABEL
from agentenv.core.classes.pods.daemon import KEYS
from agentenv.core.guardrails.class_parameters import list_parameter, parameter
from agentenv.core.guardrails.guardrail import Policy, Rule, all_of, quoted, quoted_list, unless
from agentenv.core.guardrails.pod_locations import PodLocation, pod_locations
from agentenv.core.guardrails.principals import Principals
from agentenv.core.nodes.tiers import GPU_TAINT, TIER_LABEL

# What runtimes read from annotations, to another effect than the class's.
RUNTIMES = ("dev.gvisor.", "io.katacontainers.", "io.kubernetes.cri", "container.apparmor.security.beta")
SCHEDULERS = ("default-scheduler", "fargate-scheduler")


def policies(principals: Principals) -> tuple[Policy, ...]:
    """The shape, in the three places."""
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
        # A home that was made in another class is mounted with the ids of that one, which EFS enforces.
        "lender": f"variables.labels[?{quoted(HOME_CLASS_LABEL)}].orValue('')",
        "lent": f"{list_parameter(HOME_IDS)}.filter(pair, pair.startsWith(variables.lender + ':'))",
        # A declared workspace has an id of its own.
        "uid": "variables.seat.size() == 1 ? variables.seat[0].split(':')[1] : (variables.lender == ''"
        f" ? {parameter('uid')} : (variables.lent.size() == 1 ? variables.lent[0].split(':')[1] : 'none'))",
    }


def _excused(rule: Rule, location: PodLocation) -> Rule:
    """The rule, but for changes that leave alone what it looks at."""
    if not location.same:
        return rule
    same = location.same_metadata if rule.id in {"pod-labels", "pod-annotations"} else location.same
    return Rule(rule.id, rule.why, unless(same, rule.holds), rule.message)


def _rules(location: PodLocation) -> tuple[Rule, ...]:
    # The server itself makes no pod that has one from the start, and adding one is another request.
    return _of_all(location) if location.name == "pods" else (*_of_all(location), _NO_DEBUG)


_NO_DEBUG = Rule(
    "pod-no-debug",
    "A container that is added later was not looked at, and sees what the others see.",
    "variables.spec.?ephemeralContainers.orValue([]).size() == 0",
    "no ephemeral containers",
)


def _of_all(location: PodLocation) -> tuple[Rule, ...]:
    return (
        Rule(
            "pod-runtime",
            "The runtime class is the wall: without it a sandbox shares its node's kernel, whatever its class says.",
            f"variables.spec.?runtimeClassName.orValue('') == {parameter('runtimeClassName')}",
            "runtimeClassName is that of the class's tier",
        ),
        Rule(
            "pod-account",
            "A token of Kubernetes inside a sandbox is a way to its API server.",
            all_of(
                f"variables.spec.?serviceAccountName.orValue('') == {parameter('serviceAccount')}",
                "variables.spec.?automountServiceAccountToken.orValue(true) == false",
            ),
            "serviceAccountName is the class's, and automountServiceAccountToken is false",
        ),
        Rule(
            "pod-user",
            "Homes of one class are told apart from another's by their owner, which gVisor checks by itself.",
            _user(),
            "runAsNonRoot is true, runAsUser and runAsGroup are the class's id, the declared workspace's or that of the"
            f" class in {HOME_CLASS_LABEL}, and no container has another",
        ),
        Rule(
            "pod-privileges",
            "Each of these is a way out of a container.",
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
            "every container drops ALL capabilities and adds none, forbids privilege escalation, and has neither"
            " privileges, devices nor an unmasked /proc",
        ),
        Rule(
            "pod-root",
            "What is written beside the sized volumes fills the node's disk, and is lost on resume.",
            "variables.containers.all(one, one.?securityContext.?readOnlyRootFilesystem.orValue(false))",
            "every container has a read-only root",
        ),
        Rule(
            "pod-seccomp",
            "Without a filter every system call of the kernel is there to be tried.",
            all_of(
                "variables.spec.?securityContext.?seccompProfile.?type.orValue('') == 'RuntimeDefault'",
                "variables.containers.all(one,"
                " one.?securityContext.?seccompProfile.?type.orValue('RuntimeDefault') == 'RuntimeDefault' &&"
                " one.?securityContext.?appArmorProfile.?type.orValue('RuntimeDefault') == 'RuntimeDefault')",
            ),
            "the seccomp profile is RuntimeDefault for the pod, and no container has another",
        ),
        Rule(
            "pod-host",
            "The node's network, processes and ports are everybody's on it.",
            all_of(
                "!variables.spec.?hostNetwork.orValue(false)",
                "!variables.spec.?hostPID.orValue(false)",
                "!variables.spec.?hostIPC.orValue(false)",
                "!variables.spec.?shareProcessNamespace.orValue(false)",
                "variables.spec.?securityContext.?sysctls.orValue([]).size() == 0",
                "!has(variables.spec.securityContext.windowsOptions)",
                "variables.containers.all(one, one.?ports.orValue([]).all(port, port.?hostPort.orValue(0) == 0))",
            ),
            "nothing of the host: no host network, PID, IPC or port, no shared processes, no sysctls",
        ),
        Rule(
            "pod-volumes",
            "A volume of another kind brings in what the class did not choose: the node's files, secrets, somebody"
            " else's home.",
            "variables.spec.?volumes.orValue([]).all(volume,"
            f" (has(volume.emptyDir) && has(volume.emptyDir.sizeLimit)) || ({location.own_volumes}))",
            "volumes are scratch space with a size limit, the sandbox's own home, the token of its class's identity,"
            f" and what workspaced reads: the ConfigMap {KEYS} and the pod's uid",
        ),
        Rule(
            "pod-labels",
            "The network policy of a class selects by its label: a pod without it is a pod without the policy.",
            location.labels,
            f"the pod has the labels {CLASS_LABEL} and {TIER_LABEL} of its class, and a template the class's others"
            " too",
        ),
        Rule(
            "pod-annotations",
            "Runtimes read annotations, and some of them open the wall.",
            f"{location.metadata}.?annotations.orValue({{}}).all(key,"
            f" !{quoted_list(RUNTIMES)}.exists(prefix, key.startsWith(prefix)))",
            f"no annotation begins with {', '.join(RUNTIMES)}",
        ),
        Rule(
            "pod-images",
            "An image is what runs: a tag may be another one tomorrow.",
            location.images,
            location.images_message,
        ),
        Rule(
            "pod-placement",
            "Another tier's nodes have another wall, and nodes of the platform none.",
            all_of(
                f"{parameter('compute')} != 'karpenter' ||"
                f" variables.spec.?nodeSelector[?{quoted(TIER_LABEL)}].orValue('') =="
                f" {parameter('tier')}",
                "variables.spec.?tolerations.orValue([]).all(one,"
                " one.?key.orValue('').startsWith('node.kubernetes.io/') ||"
                f" (one.?key.orValue('') == {quoted(TIER_LABEL)} && one.?value.orValue('') == {parameter('tier')}) ||"
                f" one.?key.orValue('') in [{quoted(GPU_TAINT)}, 'eks.amazonaws.com/compute-type'])",
            ),
            "the node selector names the class's tier, and nothing is tolerated but that tier's taints",
        ),
        Rule(
            "pod-node",
            "Whoever names the node goes past the scheduler, and with it past taints and room.",
            all_of(
                "variables.spec.?nodeName.orValue('') == ''",
                f"variables.spec.?schedulerName.orValue('default-scheduler') in {quoted_list(SCHEDULERS)}",
            ),
            "the scheduler chooses the node: no nodeName, no scheduler of its own",
        ),
        Rule(
            "pod-priority",
            "A sandbox with more priority ends other people's. On Fargate, where nothing else is on its node, AWS gives"
            " every pod the same.",
            f"variables.spec.?priorityClassName.orValue('') == {parameter('priorityClassName')}"
            f"{location.other_priority}",
            "priorityClassName is that of all sandboxes",
        ),
        Rule(
            "pod-env",
            "A secret in a variable stands in every process of the sandbox, and in what it prints.",
            "variables.containers.all(one, one.?envFrom.orValue([]).size() == 0 && one.?env.orValue([]).all(item,"
            " !has(item.valueFrom) || has(item.valueFrom.fieldRef) || has(item.valueFrom.resourceFieldRef)))",
            "no variable comes from a Secret or a ConfigMap",
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
