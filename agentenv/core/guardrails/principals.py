"""The users that guardrails exempt, and the CEL that checks whether a request comes from one of them.

A principal that may impersonate a service account, request its token, or create or exec into its pods can act as it. So
only deployers get such permissions in the namespaces of these accounts; operators get them in the namespaces of
classes. A deployer is a principal that may change the guardrails themselves. The API server's authorizer decides that,
so it holds for the deploying role on created and adopted clusters and in a rehearsal, without a list of names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentenv.core.guardrails.guardrail import quoted, quoted_list
from agentenv.core.service.home_metering import NAME as METERING

DEPLOYER = (
    "authorizer.group('admissionregistration.k8s.io').resource('validatingadmissionpolicies').check('create').allowed()"
)
NODES = "system:nodes"
SCHEDULES = "system:serviceaccounts:sandbox-schedules"
API_SERVER = "system:apiserver"
# EKS refuses access entries whose user name starts with this, so such users are controllers of EKS.
CLOUD = "eks:"


def account(namespace: str, name: str) -> str:
    """Return the user name of a service account."""
    return f"system:serviceaccount:{namespace}:{name}"


# The job that measures homes, and records their sizes on their volumes.
METER = account(METERING, METERING)


def _controllers(*names: str) -> tuple[str, ...]:
    # The last is the user of all controllers if the controller manager does not use a service account for each.
    return (*(account("kube-system", name) for name in names), "system:kube-controller-manager")


@dataclass(frozen=True)
class Principals:
    """The user names of the controllers that some rules exempt; the defaults are those of EKS."""

    sandbox_controller: str = account("agent-sandbox-system", "agent-sandbox-controller")
    service: str = account("workspace-service", "workspace-service")
    provisioner: str = account("kube-system", "efs-csi-controller-sa")
    schedulers: tuple[str, ...] = ("system:kube-scheduler",)
    collectors: tuple[str, ...] = _controllers("namespace-controller", "generic-garbage-collector")
    binders: tuple[str, ...] = _controllers("persistent-volume-binder")
    accounts: tuple[str, ...] = _controllers("service-account-controller")
    jobs: tuple[str, ...] = _controllers("cronjob-controller", "job-controller")


EKS = Principals()


def requested_by(*users: str, groups: Sequence[str] = (), prefixes: Sequence[str] = (), deployers: bool = True) -> str:
    """Return a CEL expression: whether a request comes from one of these users, groups or deployers.

    The authorizer comes last, because it costs the most.
    """
    conditions: list[str] = []
    if users:
        conditions.append(f"request.userInfo.username in {quoted_list(list(dict.fromkeys(users)))}")
    conditions += [f"request.userInfo.username.startsWith({quoted(prefix)})" for prefix in prefixes]
    if groups:
        conditions.append(f"request.userInfo.?groups.orValue([]).exists(group, group in {quoted_list(list(groups))})")
    if deployers:
        conditions.append(DEPLOYER)
    return f"({' || '.join(conditions)})"
