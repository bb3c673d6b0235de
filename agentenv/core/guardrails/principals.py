"""Who does what at run time, and how a rule asks whether a request came from one of them.

A name of a service account proves as much as its places do: whoever may impersonate it, ask for its token, or run or
enter a pod of it, is it. So nobody but deployers is given such rights in the namespaces where these accounts are;
operators work in those of classes. Whoever may change the guardrails themselves is a deployer; that is asked of the API
server's own authorizer, so that it holds for Pulumi's role on a cluster of ours, on one that stood already and in a
rehearsal, with no list to keep.
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
# EKS lets no access entry have a name that begins with this: who has is a controller of EKS.
CLOUD = "eks:"


def account(namespace: str, name: str) -> str:
    """The user name of a service account."""
    return f"system:serviceaccount:{namespace}:{name}"


# What looks how large homes are, and writes it on their volumes.
METER = account(METERING, METERING)


def _controllers(*names: str) -> tuple[str, ...]:
    # The last is who they all are where the controller manager does not give each an account of its own.
    return (*(account("kube-system", name) for name in names), "system:kube-controller-manager")


@dataclass(frozen=True)
class Principals:
    """The user names of the controllers that are exempt from one rule or another, as EKS has them."""

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
    """Whether a request came from one of these.

    The authorizer comes last: it costs the most, and is asked only about those whom nobody knows by name.
    """
    who: list[str] = []
    if users:
        who.append(f"request.userInfo.username in {quoted_list(list(dict.fromkeys(users)))}")
    who += [f"request.userInfo.username.startsWith({quoted(prefix)})" for prefix in prefixes]
    if groups:
        who.append(f"request.userInfo.?groups.orValue([]).exists(group, group in {quoted_list(list(groups))})")
    if deployers:
        who.append(DEPLOYER)
    return f"({' || '.join(who)})"
