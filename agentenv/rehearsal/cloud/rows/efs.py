"""EFS: what moto lacks (backup, protection, updates, taking a policy away) and what EFS checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.iam import policy_documents as policy_text
from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Answer, Refused
from agentenv.rehearsal.cloud.rows.eks_common import principal_exists

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk

ACCESS_POINTS = 10_000
POLICY_LENGTH = 20_000
OPEN_POLICY_ACTIONS = ("elasticfilesystem:*", "*", "elasticfilesystem:PutFileSystemPolicy")


def _file_system(desk: Desk) -> Any:
    name = desk.asked["FileSystemId"].rpartition("/")[2]
    found = desk.backend("efs").file_systems_by_id.get(name)
    if found is None:
        raise Refused("FileSystemNotFound", f"File system '{name}' does not exist.")
    return found


def _mount_target(desk: Desk) -> Any:
    name = desk.asked["MountTargetId"]
    found = desk.backend("efs").mount_targets_by_id.get(name)
    if found is None:
        raise Refused("MountTargetNotFound", f"Mount target '{name}' does not exist.")
    return found


def _bad(text: str) -> Refused:
    return Refused("BadRequest", text, 400)


def _throughput(mode: str | None, provisioned: float | None) -> None:
    if mode == "provisioned" and not provisioned:
        raise _bad("Provisioned throughput must be specified when the throughput mode is provisioned.")
    if mode != "provisioned" and provisioned:
        raise _bad("Provisioned throughput is for the throughput mode provisioned only.")


def create(desk: Desk) -> dict[str, Any]:
    """A file system as EFS would make it: modes that go together, a key that exists."""
    asked = desk.asked
    _throughput(asked.get("ThroughputMode"), asked.get("ProvisionedThroughputInMibps"))
    if asked.get("PerformanceMode") == "maxIO" and asked.get("ThroughputMode") == "elastic":
        raise _bad("Elastic throughput is not supported for the performance mode maxIO.")
    if key := asked.get("KmsKeyId"):
        if not asked.get("Encrypted"):
            raise _bad("A KMS key is for an encrypted file system only: set Encrypted.")
        found = _key(desk, key)
        if found is None or found.key_state != "Enabled":
            raise Refused("BadRequest", f"The KMS key {key} could not be found or is not usable.", 400)
        asked = {**asked, "KmsKeyId": found.arn}
    made = desk.result(asked)
    return _shown(desk, made["FileSystemId"])


def _key(desk: Desk, key: str) -> Any:
    keys = desk.backend("kms").keys
    if "alias/" in key:
        alias = "alias/" + key.partition("alias/")[2]
        return next((one for one in keys.values() if alias in one.aliases), None)
    return keys.get(key.rpartition("/")[2])


def _shown(desk: Desk, name: str) -> dict[str, Any]:
    found = desk.ask("efs", "DescribeFileSystems", FileSystemId=name)["FileSystems"][0]
    return _with_protection(desk, found)


def _with_protection(desk: Desk, shown: dict[str, Any]) -> dict[str, Any]:
    system = desk.backend("efs").file_systems_by_id[shown["FileSystemId"]]
    protection = getattr(system, "protection", "ENABLED")
    return {**shown, "FileSystemProtection": {"ReplicationOverwriteProtection": protection}}


def described(desk: Desk) -> dict[str, Any]:
    """Moto's file systems, with the protection that they have."""
    found = desk.result()
    return {**found, "FileSystems": [_with_protection(desk, one) for one in found["FileSystems"]]}


def update(desk: Desk) -> dict[str, Any]:
    """Another throughput."""
    system, asked = _file_system(desk), desk.asked
    mode = asked.get("ThroughputMode", system.throughput_mode)
    provisioned = asked.get("ProvisionedThroughputInMibps")
    if mode == "provisioned" and provisioned is None:
        provisioned = system.provisioned_throughput_in_mibps
    _throughput(mode, provisioned)
    system.throughput_mode, system.provisioned_throughput_in_mibps = mode, provisioned
    return _shown(desk, system.file_system_id)


def protect(desk: Desk) -> dict[str, Any]:
    """Whether the file system may become the target of a replication."""
    system = _file_system(desk)
    wanted = desk.asked.get("ReplicationOverwriteProtection", getattr(system, "protection", "ENABLED"))
    if wanted == "REPLICATING":
        raise Refused("ValidationException", "REPLICATING cannot be set; it is what a replication makes of it.", 400)
    system.protection = wanted
    return {"ReplicationOverwriteProtection": wanted}


def delete(desk: Desk) -> Answer:
    """A file system without mount targets, with the access points that lead to it."""
    system, backend = _file_system(desk), desk.backend("efs")
    answer = desk.forward()
    if answer.ok:
        for name in [
            name for name, one in backend.access_points.items() if one.file_system_id == system.file_system_id
        ]:
            del backend.access_points[name]
    return answer


def put_backup(desk: Desk) -> dict[str, Any]:
    """Whether AWS Backup takes the file system daily."""
    system, status = _file_system(desk), desk.asked["BackupPolicy"]["Status"]
    if status not in {"ENABLED", "DISABLED"}:
        raise Refused("ValidationException", f"The backup policy can be ENABLED or DISABLED, not {status}.", 400)
    system.backup_status = status
    return {"BackupPolicy": {"Status": status}}


def backup(desk: Desk) -> dict[str, Any]:
    """The backup policy, if one was ever set."""
    system = _file_system(desk)
    status = getattr(system, "backup_status", None) or (system.backup_policy or {}).get("Status")
    if not status:
        raise Refused("PolicyNotFound", f"File system {system.file_system_id} has no backup policy.")
    return {"BackupPolicy": {"Status": status}}


def put_policy(desk: Desk) -> dict[str, Any]:
    """A policy that EFS can read, about this file system, that leaves someone able to change it."""
    system, text = _file_system(desk), desk.asked["Policy"]
    found = policy_text.faults(text, policy_text.ON_RESOURCE)
    if not found and len(text) > POLICY_LENGTH:
        found = [f"The policy is longer than {POLICY_LENGTH} characters."]
    if not found and policy_text.missing_principals(text, desk.account, lambda arn: principal_exists(desk, arn)):
        found = ["Policy contains a statement with one or more invalid principals."]
    if found:
        raise Refused("InvalidPolicyException", found[0])
    document, _ = policy_text.read(text)
    for one in policy_text.statements(document):
        for resource in policy_text.listed(one.get("Resource", "*")):
            if resource not in {"*", system.file_system_arn}:
                raise Refused("InvalidPolicyException", f"The policy is not about this file system: {resource}.")
        if not desk.asked.get("BypassPolicyLockoutSafetyCheck") and _locks_out(one):
            raise Refused("InvalidPolicyException", "The policy would keep the account from changing the policy.")
    system.file_system_policy = text
    return {"FileSystemId": system.file_system_id, "Policy": text}


def _locks_out(one: dict[str, Any]) -> bool:
    principal = one.get("Principal")
    everyone = principal == "*" or (isinstance(principal, dict) and "*" in policy_text.listed(principal.get("AWS")))
    denies = any(action in OPEN_POLICY_ACTIONS for action in policy_text.listed(one.get("Action", [])))
    return one.get("Effect") == "Deny" and everyone and denies and not one.get("Condition")


def policy(desk: Desk) -> dict[str, Any]:
    """The policy, if there is one."""
    system = _file_system(desk)
    if not system.file_system_policy:
        raise Refused("PolicyNotFound", f"File system {system.file_system_id} has no policy.")
    return {"FileSystemId": system.file_system_id, "Policy": system.file_system_policy}


def delete_policy(desk: Desk) -> dict[str, Any]:
    """Back to the default: every client in the VPC."""
    _file_system(desk).file_system_policy = None
    return {}


def put_lifecycle(desk: Desk) -> dict[str, Any]:
    """At most one move of each kind, each in a policy of its own."""
    system, policies = _file_system(desk), desk.asked["LifecyclePolicies"]
    moves = [move for one in policies for move in one]
    if any(len(one) != 1 for one in policies) or len(moves) != len(set(moves)):
        text = "Each lifecycle policy has exactly one transition, and each transition is said once."
        raise _bad(text)
    system.lifecycle_policies = policies
    return {"LifecyclePolicies": policies}


def create_access_point(desk: Desk) -> Answer | dict[str, Any]:
    """A way into a file system that exists and has room; the same token again gives the same one."""
    system, backend = _file_system(desk), desk.backend("efs")
    own = [one for one in backend.access_points.values() if one.file_system_id == system.file_system_id]
    for one in own:
        if one.client_token == desk.asked["ClientToken"]:
            return desk.ask("efs", "DescribeAccessPoints", AccessPointId=one.access_point_id)["AccessPoints"][0]
    if len(own) >= ACCESS_POINTS:
        text = f"You have reached the maximum number of access points for {system.file_system_id}: {ACCESS_POINTS}."
        raise Refused("AccessPointLimitExceeded", text)
    root = desk.asked.get("RootDirectory", {})
    if root.get("CreationInfo") and root.get("Path", "/") == "/":
        raise _bad("CreationInfo is for a root directory other than /, which always exists.")
    return desk.forward()


def access_points(desk: Desk) -> Answer:
    """Moto's access points, of a file system that is there."""
    if desk.asked.get("FileSystemId"):
        _file_system(desk)
    return desk.forward()


def delete_access_point(desk: Desk) -> Answer:
    """An access point that is there."""
    name = desk.asked["AccessPointId"]
    if name not in desk.backend("efs").access_points:
        raise Refused("AccessPointNotFound", f"Access Point {name} does not exist.")
    return desk.forward()


def create_mount_target(desk: Desk) -> Answer:
    """A mount target whose groups are of its subnet's VPC; without any, the VPC's default one."""
    asked, ec2 = desk.asked, desk.backend("ec2")
    _file_system(desk)
    subnet = next((zone[asked["SubnetId"]] for zone in ec2.subnets.values() if asked["SubnetId"] in zone), None)
    if subnet is None:
        raise Refused("SubnetNotFound", f"The subnet ID '{asked['SubnetId']}' does not exist")
    groups = asked.get("SecurityGroups") or [ec2.get_default_security_group(subnet.vpc_id).id]
    _groups(desk, groups, subnet.vpc_id)
    return desk.forward({**asked, "SecurityGroups": groups})


def _groups(desk: Desk, groups: list[str], vpc: str) -> None:
    for name in groups:
        if name not in desk.backend("ec2").groups.get(vpc, {}):
            raise Refused("SecurityGroupNotFound", f"The SecurityGroup ID '{name}' does not exist in {vpc}")


def change_groups(desk: Desk) -> dict[str, Any]:
    """Other groups for a mount target, at least one of them."""
    target, ec2 = _mount_target(desk), desk.backend("ec2")
    groups = desk.asked.get("SecurityGroups") or [ec2.get_default_security_group(target.vpc_id).id]
    _groups(desk, groups, target.vpc_id)
    desk.backend("efs").modify_mount_target_security_groups(target.mount_target_id, groups)
    return {}


def tagged(desk: Desk) -> Answer:
    """Moto's tags, of things that are there."""
    name = desk.asked["ResourceId"].rpartition("/")[2]
    backend = desk.backend("efs")
    if name not in backend.file_systems_by_id and name not in backend.access_points:
        code = "AccessPointNotFound" if name.startswith("fsap-") else "FileSystemNotFound"
        raise Refused(code, f"{name} does not exist.")
    return desk.forward()


ROWS = (
    Row("efs", "CreateFileSystem", create),
    Row("efs", "DescribeFileSystems", described),
    Row("efs", "UpdateFileSystem", update),
    Row("efs", "UpdateFileSystemProtection", protect, kept=True),
    Row("efs", "DeleteFileSystem", delete),
    Row("efs", "PutBackupPolicy", put_backup, kept=True),
    Row("efs", "DescribeBackupPolicy", backup),
    Row("efs", "PutFileSystemPolicy", put_policy),
    Row("efs", "DescribeFileSystemPolicy", policy),
    Row("efs", "DeleteFileSystemPolicy", delete_policy),
    Row("efs", "PutLifecycleConfiguration", put_lifecycle),
    Row("efs", "CreateAccessPoint", create_access_point),
    Row("efs", "DescribeAccessPoints", access_points),
    Row("efs", "DeleteAccessPoint", delete_access_point),
    Row("efs", "CreateMountTarget", create_mount_target),
    Row("efs", "ModifyMountTargetSecurityGroups", change_groups),
    Row("efs", "TagResource", tagged),
    Row("efs", "UntagResource", tagged),
    Row("efs", "ListTagsForResource", tagged),
)
