"""EFS: what moto lacks (backup, protection, updates, deleting a policy) and EFS's validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.core.iam import documents
from agentenv.rehearsal.cloud.iam import policy_documents
from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError, Response
from agentenv.rehearsal.cloud.rows.eks_common import principal_exists
from agentenv.rehearsal.cloud.rows.kms import find_key

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext

ACCESS_POINTS = 10_000
POLICY_LENGTH = 20_000
OPEN_POLICY_ACTIONS = ("elasticfilesystem:*", "*", "elasticfilesystem:PutFileSystemPolicy")


def _file_system(context: RequestContext) -> Any:
    name = context.parameters["FileSystemId"].rpartition("/")[2]
    system = context.backend("efs").file_systems_by_id.get(name)
    if system is None:
        raise AwsError("FileSystemNotFound", f"File system '{name}' does not exist.")
    return system


def _mount_target(context: RequestContext) -> Any:
    name = context.parameters["MountTargetId"]
    target = context.backend("efs").mount_targets_by_id.get(name)
    if target is None:
        raise AwsError("MountTargetNotFound", f"Mount target '{name}' does not exist.")
    return target


def _bad_request(text: str) -> AwsError:
    return AwsError("BadRequest", text, 400)


def _check_throughput(mode: str | None, provisioned: float | None) -> None:
    if mode == "provisioned" and not provisioned:
        raise _bad_request("Provisioned throughput must be specified when the throughput mode is provisioned.")
    if mode != "provisioned" and provisioned:
        raise _bad_request("Provisioned throughput is for the throughput mode provisioned only.")


def create(context: RequestContext) -> dict[str, Any]:
    """Create a file system with compatible modes and an existing key."""
    parameters = context.parameters
    _check_throughput(parameters.get("ThroughputMode"), parameters.get("ProvisionedThroughputInMibps"))
    if parameters.get("PerformanceMode") == "maxIO" and parameters.get("ThroughputMode") == "elastic":
        raise _bad_request("Elastic throughput is not supported for the performance mode maxIO.")
    if key := parameters.get("KmsKeyId"):
        if not parameters.get("Encrypted"):
            raise _bad_request("A KMS key is for an encrypted file system only: set Encrypted.")
        key_record = find_key(context, key)
        if key_record is None or key_record.key_state != "Enabled":
            raise AwsError("BadRequest", f"The KMS key {key} could not be found or is not usable.", 400)
        parameters = {**parameters, "KmsKeyId": key_record.arn}
    created = context.result(parameters)
    return _described_file_system(context, created["FileSystemId"])


def _described_file_system(context: RequestContext, name: str) -> dict[str, Any]:
    system = context.invoke("efs", "DescribeFileSystems", FileSystemId=name)["FileSystems"][0]
    return _with_protection(context, system)


def _with_protection(context: RequestContext, shown: dict[str, Any]) -> dict[str, Any]:
    system = context.backend("efs").file_systems_by_id[shown["FileSystemId"]]
    protection = getattr(system, "protection", "ENABLED")
    return {**shown, "FileSystemProtection": {"ReplicationOverwriteProtection": protection}}


def describe_file_systems(context: RequestContext) -> dict[str, Any]:
    """Return moto's file systems with their protection."""
    result = context.result()
    return {**result, "FileSystems": [_with_protection(context, system) for system in result["FileSystems"]]}


def update(context: RequestContext) -> dict[str, Any]:
    """Change the throughput."""
    system, parameters = _file_system(context), context.parameters
    mode = parameters.get("ThroughputMode", system.throughput_mode)
    provisioned = parameters.get("ProvisionedThroughputInMibps")
    if mode == "provisioned" and provisioned is None:
        provisioned = system.provisioned_throughput_in_mibps
    _check_throughput(mode, provisioned)
    system.throughput_mode, system.provisioned_throughput_in_mibps = mode, provisioned
    return _described_file_system(context, system.file_system_id)


def update_protection(context: RequestContext) -> dict[str, Any]:
    """Set whether the file system may become the target of a replication."""
    system = _file_system(context)
    protection = context.parameters.get("ReplicationOverwriteProtection", getattr(system, "protection", "ENABLED"))
    if protection == "REPLICATING":
        raise AwsError("ValidationException", "REPLICATING cannot be set; it is what a replication makes of it.", 400)
    system.protection = protection
    return {"ReplicationOverwriteProtection": protection}


def delete(context: RequestContext) -> Response:
    """Delete a file system without mount targets, with its access points."""
    system, backend = _file_system(context), context.backend("efs")
    response = context.forward()
    if response.ok:
        for name in [
            name for name, point in backend.access_points.items() if point.file_system_id == system.file_system_id
        ]:
            del backend.access_points[name]
    return response


def put_backup(context: RequestContext) -> dict[str, Any]:
    """Set whether AWS Backup backs up the file system daily."""
    system, status = _file_system(context), context.parameters["BackupPolicy"]["Status"]
    if status not in {"ENABLED", "DISABLED"}:
        raise AwsError("ValidationException", f"The backup policy can be ENABLED or DISABLED, not {status}.", 400)
    system.backup_status = status
    return {"BackupPolicy": {"Status": status}}


def describe_backup(context: RequestContext) -> dict[str, Any]:
    """Return the backup policy, if one was set."""
    system = _file_system(context)
    status = getattr(system, "backup_status", None) or (system.backup_policy or {}).get("Status")
    if not status:
        raise AwsError("PolicyNotFound", f"File system {system.file_system_id} has no backup policy.")
    return {"BackupPolicy": {"Status": status}}


def put_policy(context: RequestContext) -> dict[str, Any]:
    """Set a valid policy for this file system that does not lock out the account."""
    system, text = _file_system(context), context.parameters["Policy"]
    violations = policy_documents.violations(text, policy_documents.ON_RESOURCE)
    if not violations and len(text) > POLICY_LENGTH:
        violations = [f"The policy is longer than {POLICY_LENGTH} characters."]
    if not violations and policy_documents.missing_principals(
        text, context.account, lambda arn: principal_exists(context, arn)
    ):
        violations = ["Policy contains a statement with one or more invalid principals."]
    if violations:
        raise AwsError("InvalidPolicyException", violations[0])
    document, _ = documents.read(text)
    for statement in documents.statements(document):
        for resource in statement.texts("Resource"):
            if resource not in {"*", system.file_system_arn}:
                raise AwsError("InvalidPolicyException", f"The policy is not about this file system: {resource}.")
        if not context.parameters.get("BypassPolicyLockoutSafetyCheck") and _locks_out(statement):
            raise AwsError("InvalidPolicyException", "The policy would keep the account from changing the policy.")
    system.file_system_policy = text
    return {"FileSystemId": system.file_system_id, "Policy": text}


def _locks_out(statement: documents.Statement) -> bool:
    everyone = statement.get("Principal") == "*" or "*" in statement.principals("AWS")
    denies = any(action in OPEN_POLICY_ACTIONS for action in statement.texts("Action"))
    return bool(statement.denies and everyone and denies and not statement.is_conditional)


def describe_policy(context: RequestContext) -> dict[str, Any]:
    """Return the policy, if there is one."""
    system = _file_system(context)
    if not system.file_system_policy:
        raise AwsError("PolicyNotFound", f"File system {system.file_system_id} has no policy.")
    return {"FileSystemId": system.file_system_id, "Policy": system.file_system_policy}


def delete_policy(context: RequestContext) -> dict[str, Any]:
    """Restore the default policy: every client in the VPC."""
    _file_system(context).file_system_policy = None
    return {}


def put_lifecycle(context: RequestContext) -> dict[str, Any]:
    """Set the lifecycle policies: each with one transition, each transition once."""
    system, policies = _file_system(context), context.parameters["LifecyclePolicies"]
    moves = [move for policy in policies for move in policy]
    if any(len(policy) != 1 for policy in policies) or len(moves) != len(set(moves)):
        text = "Each lifecycle policy has exactly one transition, and each transition is said once."
        raise _bad_request(text)
    system.lifecycle_policies = policies
    return {"LifecyclePolicies": policies}


def create_access_point(context: RequestContext) -> Response | dict[str, Any]:
    """Create an access point within the quota; the same client token returns the same one."""
    system, backend = _file_system(context), context.backend("efs")
    own = [point for point in backend.access_points.values() if point.file_system_id == system.file_system_id]
    for point in own:
        if point.client_token == context.parameters["ClientToken"]:
            return context.invoke("efs", "DescribeAccessPoints", AccessPointId=point.access_point_id)["AccessPoints"][0]
    if len(own) >= ACCESS_POINTS:
        text = f"You have reached the maximum number of access points for {system.file_system_id}: {ACCESS_POINTS}."
        raise AwsError("AccessPointLimitExceeded", text)
    root = context.parameters.get("RootDirectory", {})
    if root.get("CreationInfo") and root.get("Path", "/") == "/":
        raise _bad_request("CreationInfo is for a root directory other than /, which always exists.")
    return context.forward()


def describe_access_points(context: RequestContext) -> Response:
    """Return moto's access points, of an existing file system."""
    if context.parameters.get("FileSystemId"):
        _file_system(context)
    return context.forward()


def delete_access_point(context: RequestContext) -> Response:
    """Delete an existing access point."""
    name = context.parameters["AccessPointId"]
    if name not in context.backend("efs").access_points:
        raise AwsError("AccessPointNotFound", f"Access Point {name} does not exist.")
    return context.forward()


def create_mount_target(context: RequestContext) -> Response:
    """Create a mount target with groups of its subnet's VPC, by default the VPC's default one."""
    parameters, ec2 = context.parameters, context.backend("ec2")
    _file_system(context)
    subnet = next(
        (zone[parameters["SubnetId"]] for zone in ec2.subnets.values() if parameters["SubnetId"] in zone), None
    )
    if subnet is None:
        raise AwsError("SubnetNotFound", f"The subnet ID '{parameters['SubnetId']}' does not exist")
    groups = parameters.get("SecurityGroups") or [ec2.get_default_security_group(subnet.vpc_id).id]
    _check_security_groups(context, groups, subnet.vpc_id)
    return context.forward({**parameters, "SecurityGroups": groups})


def _check_security_groups(context: RequestContext, groups: list[str], vpc: str) -> None:
    for name in groups:
        if name not in context.backend("ec2").groups.get(vpc, {}):
            raise AwsError("SecurityGroupNotFound", f"The SecurityGroup ID '{name}' does not exist in {vpc}")


def modify_security_groups(context: RequestContext) -> dict[str, Any]:
    """Replace the groups of a mount target, at least one."""
    target, ec2 = _mount_target(context), context.backend("ec2")
    groups = context.parameters.get("SecurityGroups") or [ec2.get_default_security_group(target.vpc_id).id]
    _check_security_groups(context, groups, target.vpc_id)
    context.backend("efs").modify_mount_target_security_groups(target.mount_target_id, groups)
    return {}


def check_resource(context: RequestContext) -> Response:
    """Forward tag operations of existing resources to moto."""
    name = context.parameters["ResourceId"].rpartition("/")[2]
    backend = context.backend("efs")
    if name not in backend.file_systems_by_id and name not in backend.access_points:
        code = "AccessPointNotFound" if name.startswith("fsap-") else "FileSystemNotFound"
        raise AwsError(code, f"{name} does not exist.")
    return context.forward()


ROWS = (
    OperationHandler("efs", "CreateFileSystem", create),
    OperationHandler("efs", "DescribeFileSystems", describe_file_systems),
    OperationHandler("efs", "UpdateFileSystem", update),
    OperationHandler("efs", "UpdateFileSystemProtection", update_protection, stored_only=True),
    OperationHandler("efs", "DeleteFileSystem", delete),
    OperationHandler("efs", "PutBackupPolicy", put_backup, stored_only=True),
    OperationHandler("efs", "DescribeBackupPolicy", describe_backup),
    OperationHandler("efs", "PutFileSystemPolicy", put_policy),
    OperationHandler("efs", "DescribeFileSystemPolicy", describe_policy),
    OperationHandler("efs", "DeleteFileSystemPolicy", delete_policy),
    OperationHandler("efs", "PutLifecycleConfiguration", put_lifecycle),
    OperationHandler("efs", "CreateAccessPoint", create_access_point),
    OperationHandler("efs", "DescribeAccessPoints", describe_access_points),
    OperationHandler("efs", "DeleteAccessPoint", delete_access_point),
    OperationHandler("efs", "CreateMountTarget", create_mount_target),
    OperationHandler("efs", "ModifyMountTargetSecurityGroups", modify_security_groups),
    OperationHandler("efs", "TagResource", check_resource),
    OperationHandler("efs", "UntagResource", check_resource),
    OperationHandler("efs", "ListTagsForResource", check_resource),
)
