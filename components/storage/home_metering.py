"""The daily job that measures the size of homes; only its pods mount all homes of a class at once.

Creates, in this order: its IAM role, its namespace with a network policy, its service account and RBAC, for each folder
an access point with a read-only volume and claim, and the CronJobs. It is separate from the workspace service, in both
directions.
"""

from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi_aws import efs
from pulumi_kubernetes.core import v1 as core

from agentenv.components._lib.aws_context import AwsContext, aws_context
from agentenv.components._lib.iam_policies import Document
from agentenv.components._lib.kubernetes_objects import create_object
from agentenv.components._lib.namespace_network_policy import API, DNS, create_network_policy, network_policy_spec
from agentenv.components._lib.namespaces import create_restricted_namespace
from agentenv.components._lib.options import child_options, child_options_without_dependencies, component_outputs
from agentenv.components._lib.planned_documents import OUTPUT, PlannedDocument, Reference, placeholder_file_system_id
from agentenv.components._lib.tags import Labels
from agentenv.components.cluster.context import ClusterContext
from agentenv.components.cluster.irsa import Roles, ServiceAccount
from agentenv.config import Settings
from agentenv.core.plan import HomeMeteringPlan
from agentenv.core.service import home_metering
from agentenv.core.service.home_metering import NAME, HomeFolder, ScanJob
from agentenv.core.service.rbac import role as rights_of

SERVICE_ACCOUNT = ServiceAccount(NAME, NAME)


class StorageMetering(pulumi.ComponentResource):
    """A CronJob per file system, with its namespace, RBAC, IAM role and mounted volumes."""

    namespace: pulumi.Output[str]
    """Its namespace, known once it is created."""

    role_arn: pulumi.Output[str]
    """Its IAM role."""

    access_point_ids: pulumi.Output[list[str]]
    """Its access points: each is for all homes of a class, or for those of a declared workspace."""

    jobs: pulumi.Output[list[str]]
    """The names of the CronJobs."""

    def __init__(
        self, name: str, plan: HomeMeteringPlan, cluster: ClusterContext, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Create it in a cluster with the file systems of homes."""
        self._labels = Labels.of(plan.environment, NAME, name)

        super().__init__("agent-environment:index:StorageMetering", name, {}, opts)
        self._name, self._file_system_ids = name, cluster.file_system_ids
        child_with_dependencies, self._child = child_options(self, opts), child_options_without_dependencies(self)
        aws = aws_context(self)
        roles = Roles(self._labels, child_with_dependencies, plan.environment.permissions_boundary)
        role = roles.irsa_role("role", "Looks how large homes are", cluster.issuer, SERVICE_ACCOUNT)
        policy = roles.add_policy(
            role,
            "look",
            PlannedDocument(
                aws, _rights, (Reference(self._file_system_ids, lambda context: [placeholder_file_system_id(context)]),)
            ),
        )

        namespace_object = create_restricted_namespace(f"{name}-namespace", NAME, child_with_dependencies)
        in_namespace = pulumi.ResourceOptions(depends_on=[namespace_object])
        network_policy = create_network_policy(
            name,
            namespace_object.metadata.name,
            network_policy_spec((), (*API, *DNS)),
            lambda: self._child(in_namespace),
        )
        rbac = self._create_rbac({"eks.amazonaws.com/role-arn": role.arn}, in_namespace)
        access_points: list[efs.AccessPoint] = []
        for measure_pass in plan.jobs:
            claims: list[pulumi.Resource] = []
            for folder in measure_pass.folders:
                access_points.append(access_point := self._create_access_point(folder))
                claims.append(self._create_claim(folder, access_point, in_namespace))
            self._create_job(measure_pass, plan.settings, aws, [network_policy, policy, *rbac, *claims])

        self.namespace = namespace_object.metadata.name
        self.role_arn = role.arn
        self.access_point_ids = pulumi.Output.all(*(access_point.id for access_point in access_points))
        self.jobs = pulumi.Output.from_input([measure_pass.name for measure_pass in plan.jobs])
        self.register_outputs({**component_outputs(self), OUTPUT: roles.planned_documents.entries})

    def _create_rbac(self, annotations: dict[str, Any], in_namespace: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        """Create its service account and RBAC."""
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "automountServiceAccountToken": False}
        metadata = {"name": NAME, "namespace": NAME, "annotations": annotations}
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": NAME},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAME}],
        }
        created: list[pulumi.Resource] = [
            create_object(f"{self._name}-account", {**account, "metadata": metadata}, self._child, in_namespace),
            create_object(
                f"{self._name}-look",
                rights_of("ClusterRole", NAME, home_metering.rbac_rules()),
                self._child,
                in_namespace,
            ),
        ]
        after_roles = pulumi.ResourceOptions(depends_on=created)
        return [*created, create_object(f"{self._name}-look", binding, self._child, after_roles)]

    def _create_access_point(self, folder: HomeFolder) -> efs.AccessPoint:
        """Create the access point of a folder. It is deleted with the stack; the folder and its data stay."""
        return efs.AccessPoint(
            f"{self._name}-{folder.shard}-{folder.name}",
            file_system_id=self._file_system_ids.apply(lambda ids: ids[folder.shard]),
            posix_user={"uid": folder.uid, "gid": folder.uid},
            root_directory={
                "path": folder.path,
                "creation_info": {"owner_uid": folder.uid, "owner_gid": folder.uid, "permissions": "0700"},
            },
            tags=self._labels.tags(f"{folder.shard}-{folder.name}", **folder.tags),
            opts=self._child(),
        )

    def _create_claim(
        self, folder: HomeFolder, access_point: efs.AccessPoint, in_namespace: pulumi.ResourceOptions
    ) -> core.PersistentVolumeClaim:
        """Create the volume of an access point and its claim; both are immutable, so a change replaces them."""
        replaced = pulumi.ResourceOptions(delete_before_replace=True, replace_on_changes=["spec"])
        replaced_volume = pulumi.ResourceOptions(delete_before_replace=True, replace_on_changes=["spec.csi"])
        document = home_metering.volume(
            folder, pulumi.Output.format("{0}::{1}", access_point.file_system_id, access_point.id)
        )
        volume = core.PersistentVolume(
            f"{self._name}-{folder.shard}-{folder.name}",
            metadata=document["metadata"],
            spec=document["spec"],
            opts=self._child(replaced_volume),
        )
        document = home_metering.claim(folder)
        # An output of the volume, so that the claim is deleted before it.
        document["spec"]["volumeName"] = volume.metadata.name
        return core.PersistentVolumeClaim(
            f"{self._name}-{folder.shard}-{folder.name}",
            metadata=document["metadata"],
            spec=document["spec"],
            opts=self._child(pulumi.ResourceOptions.merge(in_namespace, replaced)),
        )

    def _create_job(
        self,
        measure_pass: ScanJob,
        settings: Settings,
        aws: pulumi.Output[AwsContext],
        after: Sequence[pulumi.Resource],
    ) -> None:
        system = self._file_system_ids.apply(lambda ids: ids[measure_pass.shard])
        document = home_metering.job(measure_pass, settings, system, aws.apply(lambda context: context.region))
        create_object(
            f"{self._name}-{measure_pass.name}", document, self._child, pulumi.ResourceOptions(depends_on=list(after))
        )


def _rights(aws: AwsContext, file_system_ids: Sequence[str]) -> Document:
    """Return the policy of its IAM role."""
    arns = [aws.arn("elasticfilesystem", f"file-system/{measure_pass}") for measure_pass in file_system_ids]
    return home_metering.iam_statements(arns, aws.arn("elasticfilesystem", "access-point/*"))
