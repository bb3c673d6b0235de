"""Service roles: IAM roles that an AWS service assumes, with managed policies of AWS."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pulumi

from agentenv.core.iam.documents import policy_document
from agentenv.rehearsal.providers.eks.children import Child, ChildFactory
from agentenv.rehearsal.providers.eks.kubeconfig import to_json


class ServiceRole(pulumi.ComponentResource):
    """The component `eks:index:ServiceRole`, which only other components use."""

    role: Child
    attached: list[Child]

    def __init__(
        self,
        name: str,
        factory: ChildFactory,
        *,
        service: str,
        policies: Sequence[str],
        partition: pulumi.Output[str],
        tags: Any,
        actions: Sequence[str] = ("sts:AssumeRole",),
        description: str | None = None,
    ) -> None:
        super().__init__("eks:index:ServiceRole", name, {}, pulumi.ResourceOptions(parent=factory.parent))
        with_parent = factory.with_parent(self)
        trust = {"Action": list(actions), "Effect": "Allow", "Principal": {"Service": [service]}}
        self.role = with_parent.child(
            "aws:iam/role:Role",
            f"{name}-role",
            {
                "description": description,
                "assumeRolePolicy": to_json(policy_document(trust)),
                "tags": tags,
            },
            ("arn",),
        )
        self.attached = [
            with_parent.child(
                "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
                f"{name}-{_name_hash(policy)}",
                {"policyArn": partition.apply(lambda name, policy=policy: _arn(name, policy)), "role": self.role.id},
            )
            for policy in policies
        ]
        self.register_outputs({"resolvedRole": self.role, "directRole": self.role})

    @property
    def resources(self) -> list[pulumi.Resource]:
        """Return the role and its policy attachments, as dependencies."""
        return [self.role, *self.attached]

    @property
    def resolved_arn(self) -> pulumi.Output[str]:
        """Return the ARN, once the policies are attached."""
        return pulumi.Output.all(self.role.output("arn"), *(attachment.id for attachment in self.attached)).apply(
            lambda known: known[0]
        )


def _arn(partition: str, policy: str) -> str:
    return f"arn:{partition}:iam::aws:policy/{policy}"


def _name_hash(policy: str) -> str:
    """Return the suffix of an attachment's name, the same in all partitions."""
    return hashlib.sha1(_arn("aws", policy).encode(), usedforsecurity=False).hexdigest()[:8]
