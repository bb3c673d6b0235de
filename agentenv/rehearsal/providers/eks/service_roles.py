"""Service roles: a role that a service of AWS assumes, with policies of AWS attached."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pulumi

from agentenv.rehearsal.providers.eks.children import Child, Maker
from agentenv.rehearsal.providers.eks.kubeconfig import text


class ServiceRole(pulumi.ComponentResource):
    """The component `eks:index:ServiceRole`, which only other components make."""

    role: Child
    attached: list[Child]

    def __init__(
        self,
        name: str,
        maker: Maker,
        *,
        service: str,
        policies: Sequence[str],
        partition: pulumi.Output[str],
        tags: Any,
        actions: Sequence[str] = ("sts:AssumeRole",),
        description: str | None = None,
    ) -> None:
        super().__init__("eks:index:ServiceRole", name, {}, pulumi.ResourceOptions(parent=maker.parent))
        under = maker.under(self)
        trust = {"Action": list(actions), "Effect": "Allow", "Principal": {"Service": [service]}}
        self.role = under.child(
            "aws:iam/role:Role",
            f"{name}-role",
            {
                "description": description,
                "assumeRolePolicy": text({"Version": "2012-10-17", "Statement": [trust]}),
                "tags": tags,
            },
            ("arn",),
        )
        self.attached = [
            under.child(
                "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
                f"{name}-{_mark(policy)}",
                {"policyArn": partition.apply(lambda at, policy=policy: _arn(at, policy)), "role": self.role.id},
            )
            for policy in policies
        ]
        self.register_outputs({"resolvedRole": self.role, "directRole": self.role})

    @property
    def whole(self) -> list[pulumi.Resource]:
        """The role and what it may do, for what must not come before it can do it."""
        return [self.role, *self.attached]

    @property
    def resolved_arn(self) -> pulumi.Output[str]:
        """Its ARN, once the policies are attached."""
        return pulumi.Output.all(self.role.out("arn"), *(one.id for one in self.attached)).apply(lambda known: known[0])


def _arn(partition: str, policy: str) -> str:
    return f"arn:{partition}:iam::aws:policy/{policy}"


def _mark(policy: str) -> str:
    """Part of the name of an attachment, the same in all partitions."""
    return hashlib.sha1(_arn("aws", policy).encode(), usedforsecurity=False).hexdigest()[:8]
