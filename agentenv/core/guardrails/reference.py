"""The reference page of the guardrails: every policy, the requests that it matches, and its rules with reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields

from agentenv.core.guardrails import EKS, policies
from agentenv.core.guardrails.guardrail import Policy
from agentenv.core.guardrails.principals import CLOUD, METER, NODES, SCHEDULES

WRITTEN_BY = "Written by `python -m agentenv.generate` from `agentenv/core/guardrails/`; change it there."

_ABOUT = """\
Objects that are created in the cluster at run time do not pass through a deployment. These ValidatingAdmissionPolicies
hold them to the same rules. They match requests in the namespaces of classes (label `sandbox.users.io/class`) unless a
policy says otherwise. A request that violates a rule is refused and recorded in the audit log. If the API server cannot
evaluate a rule, it refuses the request. Rules about a class read the ConfigMap `sandbox-class` in its namespace. While
that is missing, nothing can be created there; existing objects can be updated and deleted."""
_EXEMPT = """\
Each rule names its exemptions. *Deployers* are principals that may create ValidatingAdmissionPolicies, by whatever
permission: the API server's authorizer decides. The rules on pod specs apply to them too.

Controllers are identified by their user names. A principal that may impersonate such a service account, request its
token, or create or exec into its pods can act as it, and no guardrail can detect that. So operators may change
workloads in the namespaces of classes, of metering and of pool schedules only. A principal with more permissions, such
as `edit` in all namespaces, is exempt in effect.

RBAC decides who may create claims. Only deployers may connect to a sandbox (`exec`, `attach`, `port-forward`), because
the usual roles for workloads include these permissions. The owner of a sandbox connects to its ports."""
_PRINCIPALS = {
    "sandbox_controller": "creates pods, Sandboxes and the claims of their homes",
    "service": "the workspace service: retains and restores homes, scales pools, creates templates of tasks",
    "provisioner": "creates the volumes of access points",
    "schedulers": f"bind pods, as the schedulers of EKS do (`{CLOUD}*`)",
    "collectors": "delete the objects of deleted namespaces and owners",
    "binders": "bind volumes to claims",
    "accounts": "create the default service account of a namespace",
    "jobs": "create the Jobs of CronJobs, and their pods",
}


def guardrails_page() -> str:
    """Return the reference page."""
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
        "| principal | user name on EKS | purpose |",
        "|---|---|---|",
        *_principal_rows(),
        f"| nodes | group `{NODES}` | request the tokens of pods that run on them |",
        f"| metering | `{METER}` | records the sizes of homes on their volumes |",
        f"| schedules | group `{SCHEDULES}` | scale pools |",
    ]
    for group in _grouped(policies_):
        lines += ["", *_section(group)]
    return "\n".join(lines) + "\n"


def _principal_rows() -> Iterator[str]:
    for field in fields(EKS):
        users = getattr(EKS, field.name)
        names = ", ".join(f"`{user}`" for user in ([users] if isinstance(users, str) else users))
        yield f"| {field.name.replace('_', ' ')} | {names} | {_PRINCIPALS[field.name]} |"


def _grouped(policies_: Sequence[Policy]) -> list[list[Policy]]:
    """Return the policies in groups with the same rules, by their first rule."""
    groups: dict[str, list[Policy]] = {}
    for policy in policies_:
        groups.setdefault(policy.rules[0].id, []).append(policy)
    return list(groups.values())


def _section(group: Sequence[Policy]) -> Iterator[str]:
    yield f"## {', '.join(policy.name for policy in group)}"
    yield ""
    for policy in group:
        anywhere = not (policy.in_classes or policy.elsewhere or policy.within)
        where = " In all namespaces, and cluster-scoped." if anywhere else ""
        yield f"- `{policy.full_name}`: {policy.about}{where} ({_matched(policy)})"
    yield ""
    yield "| rule | requirement | reason |"
    yield "|---|---|---|"
    for rule in group[0].rules:
        messages = dict.fromkeys(other.message for policy in group for other in policy.rules if other.id == rule.id)
        yield f"| `{rule.id}` | {_cell('; or '.join(messages))} | {_cell(rule.why)} |"


def _matched(policy: Policy) -> str:
    return "; ".join(
        f"{', '.join(watch.operations)} {', '.join(f'`{name}`' for name in watch.resources)}"
        for watch in policy.watches
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
