"""Check that the class's quota allows one more sandbox, before a cold start that would otherwise wait silently."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from agentenv.core.classes.names import SANDBOX
from agentenv.core.classes.pods.resources import GPU, Amounts, pod_resources
from agentenv.core.workspaces.swarms import quota_shortfalls
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import QUOTAS, KubeClient

if TYPE_CHECKING:
    from agentenv.config.sections.classes import SizeName
    from agentenv.core.classes.plan import ClassPlan
    from agentenv.service.catalog import Class


async def check_quota(kube: KubeClient, of_class: Class, size: SizeName) -> None:
    """Raise a `Problem` with the exhausted resources if one more sandbox exceeds the class's quota."""
    quota = await kube.find(QUOTAS, SANDBOX, of_class.namespace)
    shortages = quota_shortfalls(quota or {}, needs(of_class.plan, size))
    if shortages:
        raise Problem(
            "no-room",
            f"class {of_class.name} is full: {'; '.join(shortages)}",
            "delete unused workspaces, or raise `maxSandboxes` of the class",
            retry_after=30,
            **{"class": of_class.name},
        )


def needs(plan: ClassPlan, size: SizeName) -> Amounts:
    """Return the amounts that one sandbox of a size takes of a class's quota, by resource names of the quota."""
    pod = pod_resources(plan, size)
    amounts: Amounts = {"pods": Decimal(1)}
    amounts |= {f"requests.{name}": value for name, value in pod.requests.items()}
    amounts |= {f"limits.{name}": value for name, value in pod.limits.items() if name != GPU}
    if plan.slots:
        amounts |= {"persistentvolumeclaims": Decimal(1), "requests.storage": plan.settings.storage.size.value}
    return amounts
