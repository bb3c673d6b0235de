"""The reference of the guardrails for readers: every policy, what it looks at, and its rules with their reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields

from agentenv.core.guardrails import EKS, policies
from agentenv.core.guardrails.guardrail import Policy
from agentenv.core.guardrails.principals import CLOUD, METER, NODES, SCHEDULES

WRITTEN_BY = "Written by `python -m agentenv.generate` from `agentenv/core/guardrails/`; change it there."

_ABOUT = """\
What is made in the cluster at run time never passes through a deployment. These ValidatingAdmissionPolicies hold it to
the same rules. They look at the namespaces of classes (label `sandbox.users.io/class`) unless said otherwise, refuse
what does not keep a rule, and write it to the audit log. While the API server cannot evaluate one, what it looks at is
refused. Rules about a class read the ConfigMap `sandbox-class` in its namespace; while that is missing nothing can be
made there, and what is there may still be changed and taken away."""
_EXEMPT = """\
Each rule says who may. *Deployers* are those who may make ValidatingAdmissionPolicies, however they were given that:
the API server's authorizer is asked. They are held to the shape of a sandbox like everybody.

Controllers are known by the names of their accounts. Whoever may impersonate such an account, ask for its token, or run
or enter a pod of it, is it, and no guardrail can tell: so operators may change workloads in the namespaces of classes,
of metering and of pools' schedules alone. Whoever is given more by other means, such as `edit` everywhere, is as good
as exempt.

A claim may be made by whoever RBAC lets. Getting into a sandbox (`exec`, `attach`, `port-forward`) is kept to
deployers, because the usual roles that may edit workloads include it: its owner reaches what it serves."""
_PRINCIPALS = {
    "sandbox_controller": "makes pods, Sandboxes and the claims of their homes",
    "service": "the workspace service: keeps homes, brings owners back to them, scales pools, makes templates of tasks",
    "provisioner": "makes volumes of access points",
    "schedulers": f"bind pods, as EKS's own do (`{CLOUD}*`)",
    "collectors": "take away what is in a namespace that goes, and what belongs to nothing any more",
    "binders": "bring volumes and their claims together",
    "accounts": "give a namespace its first account",
    "jobs": "make the jobs of CronJobs, and their pods",
}


def guardrails_page() -> str:
    """The reference page."""
    policies_ = policies(["fs-0123456789abcdef0"])
    rules = sum(len(policy.rules) for policy in policies_)
    lines = [
        "# Guardrails",
        "",
        f"<!-- {WRITTEN_BY} -->",
        "",
        *_ABOUT.splitlines(),
        "",
        f"{len(policies_)} policies, {rules} rules. A refusal names its rule in brackets.",
        "",
        "## Who is exempt",
        "",
        *_EXEMPT.splitlines(),
        "",
        "| who | user name on EKS | what it does |",
        "|---|---|---|",
        *_who(),
        f"| nodes | group `{NODES}` | ask for the tokens of pods that run on them |",
        f"| metering | `{METER}` | writes what homes hold on their volumes |",
        f"| schedules | group `{SCHEDULES}` | scale pools |",
    ]
    for group in _grouped(policies_):
        lines += ["", *_section(group)]
    return "\n".join(lines) + "\n"


def _who() -> Iterator[str]:
    for one in fields(EKS):
        users = getattr(EKS, one.name)
        told = ", ".join(f"`{user}`" for user in ([users] if isinstance(users, str) else users))
        yield f"| {one.name.replace('_', ' ')} | {told} | {_PRINCIPALS[one.name]} |"


def _grouped(policies_: Sequence[Policy]) -> list[list[Policy]]:
    """Policies that have rules in common are told together; they begin with the same one."""
    groups: dict[str, list[Policy]] = {}
    for policy in policies_:
        groups.setdefault(policy.rules[0].id, []).append(policy)
    return list(groups.values())


def _section(group: Sequence[Policy]) -> Iterator[str]:
    yield f"## {', '.join(policy.name for policy in group)}"
    yield ""
    for policy in group:
        anywhere = not (policy.in_classes or policy.elsewhere or policy.within)
        where = " Not in the namespaces of classes alone." if anywhere else ""
        yield f"- `{policy.full_name}`: {policy.about}{where} ({_matched(policy)})"
    yield ""
    yield "| rule | how it has to be | why |"
    yield "|---|---|---|"
    for rule in group[0].rules:
        messages = dict.fromkeys(one.message for policy in group for one in policy.rules if one.id == rule.id)
        yield f"| `{rule.id}` | {_cell('; or '.join(messages))} | {_cell(rule.why)} |"


def _matched(policy: Policy) -> str:
    return "; ".join(
        f"{', '.join(watch.operations)} {', '.join(f'`{name}`' for name in watch.resources)}"
        for watch in policy.watches
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
