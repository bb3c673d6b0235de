"""The daily job that looks how large homes are, with the one place where all homes of a class are mounted.

In the order it comes to life: what it is to AWS, its namespace with the policy of what it may reach, its account and
rights, for each folder an access point with a volume and a claim to read only, and the jobs. The workspace service has
no part in it, and nothing of it leads to the service.
"""

from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_aws import efs
from pulumi_kubernetes.core import v1 as core

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components._lib.aws_context import AwsContext, aws_context
from agentenv.components._lib.iam_policies import Document
from agentenv.components._lib.kubernetes_objects import create_object
from agentenv.components._lib.namespace_network_policy import API, DNS, create_network_policy, network_policy_spec
from agentenv.components._lib.namespaces import create_restricted_namespace
from agentenv.components._lib.options import child_options, child_options_without_dependencies, component_outputs
from agentenv.components._lib.planned_documents import OUTPUT, PlannedDocument, Reference, placeholder_file_system_id
from agentenv.components._lib.tags import Labels, Ownership
from agentenv.components.cluster.irsa import Issuer, Roles, ServiceAccount
from agentenv.components.settings_argument import read_settings
from agentenv.config import Settings
from agentenv.core.service import home_metering as plan
from agentenv.core.service.home_metering import NAME, Looked, Pass
from agentenv.core.service.rbac import role as rights_of

SERVICE_ACCOUNT = ServiceAccount(NAME, NAME)


class StorageMeteringArgs(TypedDict):
    """What the job is made from."""

    ownership: Ownership
    """Whose the environment is."""

    settings: dict[str, Any]
    """The settings of its environment, as a stack file has them under `config`."""

    issuer_url: pulumi.Input[str]
    """Who signs the tokens of the cluster's service accounts."""

    issuer_arn: pulumi.Input[str]
    """The same, as an identity provider of IAM."""

    file_system_ids: pulumi.Input[list[str]]
    """The file systems that homes are on, by shard."""

    permissions_boundary: NotRequired[str]
    """The permissions boundary of its role."""


class StorageMetering(pulumi.ComponentResource):
    """A CronJob a file system, with its namespace, rights, role and what it has mounted."""

    namespace: pulumi.Output[str]
    """The namespace it runs in, once it is there."""

    role_arn: pulumi.Output[str]
    """What it is to AWS."""

    access_point_ids: pulumi.Output[list[str]]
    """The access points by which it looks: each leads to all homes of a class, or to a seat's."""

    jobs: pulumi.Output[list[str]]
    """The CronJobs, by name."""

    def __init__(self, name: str, args: StorageMeteringArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Make it; a wrong plain argument raises before anything is made."""
        reader = ArgumentReader.of("storage_metering", args, StorageMeteringArgs)
        self._labels = Labels.of(reader, NAME, name)
        settings = read_settings(reader)
        passes = plan.passes(settings)
        if not passes:
            wanted = "settings with homes, a service with an image, and cost.storageMetering.enabled"
            raise ArgumentError("storage_metering.settings", "nothing to look at", wanted)
        boundary = reader.text("permissions_boundary") if reader.has("permissions_boundary") else None

        super().__init__("agent-environment:index:StorageMetering", name, {}, opts)
        self._name, self._systems = name, pulumi.Output.from_input(args["file_system_ids"])
        outer, self._child = child_options(self, opts), child_options_without_dependencies(self)
        aws = aws_context(self)
        roles = Roles(self._labels, outer, boundary)
        issuer = Issuer(pulumi.Output.from_input(args["issuer_arn"]), pulumi.Output.from_input(args["issuer_url"]))
        role = roles.irsa_role("role", "Looks how large homes are", issuer, SERVICE_ACCOUNT)
        may = roles.add_policy(
            role,
            "look",
            PlannedDocument(
                aws, _rights, (Reference(self._systems, lambda context: [placeholder_file_system_id(context)]),)
            ),
        )

        space = create_restricted_namespace(f"{name}-namespace", NAME, outer)
        inside = pulumi.ResourceOptions(depends_on=[space])
        passage = create_network_policy(
            name, space.metadata.name, network_policy_spec((), (*API, *DNS)), lambda: self._child(inside)
        )
        allowed = self._allowed({"eks.amazonaws.com/role-arn": role.arn}, inside)
        points: list[efs.AccessPoint] = []
        for one in passes:
            mounted: list[pulumi.Resource] = []
            for looked in one.looked:
                points.append(point := self._point(looked))
                mounted.append(self._mounted(looked, point, inside))
            self._job(one, settings, aws, [passage, may, *allowed, *mounted])

        self.namespace = space.metadata.name
        self.role_arn = role.arn
        self.access_point_ids = pulumi.Output.all(*(point.id for point in points))
        self.jobs = pulumi.Output.from_input([one.name for one in passes])
        self.register_outputs({**component_outputs(self), OUTPUT: roles.planned_documents.entries})

    def _allowed(self, annotations: dict[str, Any], inside: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        """Its account, and what it may do in the cluster."""
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "automountServiceAccountToken": False}
        about = {"name": NAME, "namespace": NAME, "annotations": annotations}
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": NAME},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAME}],
        }
        made: list[pulumi.Resource] = [
            create_object(f"{self._name}-account", {**account, "metadata": about}, self._child, inside),
            create_object(f"{self._name}-look", rights_of("ClusterRole", NAME, plan.rights()), self._child, inside),
        ]
        bound = pulumi.ResourceOptions(depends_on=made)
        return [*made, create_object(f"{self._name}-look", binding, self._child, bound)]

    def _point(self, looked: Looked) -> efs.AccessPoint:
        """The access point of a folder. It holds no data, and goes with the stack; the folder stays."""
        return efs.AccessPoint(
            f"{self._name}-{looked.shard}-{looked.name}",
            file_system_id=self._systems.apply(lambda ids: ids[looked.shard]),
            posix_user={"uid": looked.uid, "gid": looked.uid},
            root_directory={
                "path": looked.path,
                "creation_info": {"owner_uid": looked.uid, "owner_gid": looked.uid, "permissions": "0700"},
            },
            tags=self._labels.tags(f"{looked.shard}-{looked.name}", **looked.tags),
            opts=self._child(),
        )

    def _mounted(
        self, looked: Looked, point: efs.AccessPoint, inside: pulumi.ResourceOptions
    ) -> core.PersistentVolumeClaim:
        """The volume of an access point and the claim of it; neither can be led elsewhere, and both are made anew."""
        anew = pulumi.ResourceOptions(delete_before_replace=True, replace_on_changes=["spec"])
        elsewhere = pulumi.ResourceOptions(delete_before_replace=True, replace_on_changes=["spec.csi"])
        document = plan.volume(looked, pulumi.Output.format("{0}::{1}", point.file_system_id, point.id))
        volume = core.PersistentVolume(
            f"{self._name}-{looked.shard}-{looked.name}",
            metadata=document["metadata"],
            spec=document["spec"],
            opts=self._child(elsewhere),
        )
        document = plan.claim(looked)
        # By reference, so that the engine takes the claim away before it takes away its volume.
        document["spec"]["volumeName"] = volume.metadata.name
        return core.PersistentVolumeClaim(
            f"{self._name}-{looked.shard}-{looked.name}",
            metadata=document["metadata"],
            spec=document["spec"],
            opts=self._child(pulumi.ResourceOptions.merge(inside, anew)),
        )

    def _job(
        self, one: Pass, settings: Settings, aws: pulumi.Output[AwsContext], after: Sequence[pulumi.Resource]
    ) -> None:
        system = self._systems.apply(lambda ids: ids[one.shard])
        document = plan.job(one, settings, system, aws.apply(lambda context: context.region))
        create_object(f"{self._name}-{one.name}", document, self._child, pulumi.ResourceOptions(depends_on=list(after)))


def _rights(aws: AwsContext, systems: Sequence[str]) -> Document:
    """The policy of its role."""
    arns = [aws.arn("elasticfilesystem", f"file-system/{one}") for one in systems]
    return plan.aws_rights(arns, aws.arn("elasticfilesystem", "access-point/*"))
