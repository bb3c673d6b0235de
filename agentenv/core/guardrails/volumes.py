"""Guardrails for volumes: who creates them, and which access points they name, separates homes on a file system.

Nodes mount file systems with one IAM identity for all sandboxes, so the volume handle decides whose files are mounted.
Admission cannot check that an access point is the right one; the service audits that against AWS.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentenv.core.classes.storage_classes import DRIVER
from agentenv.core.guardrails.guardrail import (
    Policy,
    Rule,
    Watch,
    all_of,
    key_below,
    list_parameter,
    quoted,
    quoted_list,
    unchanged_marks,
    unless,
)
from agentenv.core.guardrails.owners import OWNER_UNCHANGED
from agentenv.core.guardrails.principals import METER, Principals, requested_by
from agentenv.core.service.home_metering import MEASURES
from agentenv.core.service.home_metering import NAME as METERING
from agentenv.core.workspaces.workspace import DOMAIN, OWN_LABEL

HANDLE = "^fs-[0-9a-f]{8,40}::fsap-[0-9a-f]{8,40}$"

# The prefix of the names of the classes' StorageClasses.
OF_CLASSES = "efs-"
# Volume attributes with which the driver mounts another folder, or from another address.
_FORBIDDEN_ATTRIBUTES = ("path", "mounttargetip", "crossaccount")
# With this annotation the service distinguishes homes of workspaces from those of declared seats.
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
# Prefixes of the keys with which the controller finds the owner of a volume claim, and whether it may be adopted.
CONTROLLER_KEYS = (DOMAIN, "agents.x-k8s.io/", "extensions.agents.x-k8s.io/")
_NEW = "oldObject == null"


def policies(principals: Principals, file_systems: Sequence[str]) -> tuple[Policy, ...]:
    """Return the policies for volumes and storage classes on the file systems, and for volume claims of classes."""
    return (
        _volumes(principals, file_systems),
        _records(principals),
        _storage_classes(file_systems),
        _claims(),
        _choice(principals),
    )


def _volumes(principals: Principals, file_systems: Sequence[str]) -> Policy:
    handle = "object.spec.?csi.?volumeHandle.orValue('')"
    owned = f"{quoted_list(list(file_systems))}.exists(id, {handle}.startsWith(id) ||"
    owned += " object.spec.?nfs.?server.orValue('').contains(id))"
    attributes = "object.spec.?csi.?volumeAttributes.orValue({})"
    metering = quoted(METERING)
    return Policy(
        name="volumes",
        about="PersistentVolumes on the environment's file systems, those for claims in the namespace of a class, and"
        " unclaimed ones of a class's storage class.",
        watches=(Watch("", ("persistentvolumes",)),),
        in_classes=False,
        when={
            # An unclaimed volume of the storage class would be bound as the home of the next sandbox.
            "ours": f"{owned} || object.spec.?claimRef.?namespace.orValue('').startsWith('sandbox-') ||"
            f" (object.spec.?storageClassName.orValue('').startsWith({quoted(OF_CLASSES)})"
            " && !has(object.spec.claimRef))"
        },
        rules=(
            Rule(
                "volume-handle",
                "A volume without an access point is the whole file system, one without a claimRef binds to the first"
                " claim, and mount options or attributes can bypass both.",
                unless(
                    f"!({_NEW}) && object.spec.?csi == oldObject.spec.?csi && object.spec.?mountOptions =="
                    " oldObject.spec.?mountOptions && object.spec.?storageClassName =="
                    " oldObject.spec.?storageClassName",
                    all_of(
                        f"object.spec.?csi.?driver.orValue('') == {quoted(DRIVER)}",
                        f"{handle}.matches({quoted(HANDLE)})",
                        f"{handle}.split('::')[0] in {quoted_list(list(file_systems))}",
                        "object.spec.?claimRef.?name.orValue('') != ''",
                        "object.spec.?claimRef.?namespace.orValue('') != ''",
                        # The driver ignores the case of attribute names.
                        f"{attributes}.all(key, !(key.lowerAscii() in {quoted_list(_FORBIDDEN_ATTRIBUTES)}))",
                        f"{attributes}.all(key, key.lowerAscii() != 'encryptintransit' || {attributes}[key] == 'true')",
                        "object.spec.?mountOptions.orValue([]).all(option, option in ['tls', 'iam'])",
                    ),
                ),
                "a volume must use the EFS CSI driver, have a claimRef, and have the handle fs-…::fsap-… of a file"
                " system of the environment, mounted with TLS",
            ),
            Rule(
                "volume-by",
                "The creator of a volume chooses whose files it has.",
                unless(f"!({_NEW})", requested_by(principals.provisioner)),
                "only the driver's provisioner and deployers may create volumes",
            ),
            Rule(
                "volume-kept",
                "A volume for another claim gives one owner's home to another; one that is not retained is deleted with"
                " its sandbox.",
                unless(
                    all_of(
                        f"!({_NEW})",
                        "oldObject.spec.?claimRef.?namespace == object.spec.?claimRef.?namespace",
                        "oldObject.spec.?claimRef.?name == object.spec.?claimRef.?name",
                        # Without the uid in its claimRef, the next claim of that name is bound to it.
                        "oldObject.spec.?claimRef.?uid == object.spec.?claimRef.?uid",
                        "oldObject.spec.?persistentVolumeReclaimPolicy == object.spec.?persistentVolumeReclaimPolicy",
                    ),
                    unless(_NEW, requested_by(principals.service, *principals.binders)),
                ),
                "only the workspace service and deployers may change a volume's claimRef and reclaim policy",
            ),
            Rule(
                "volume-looked-at",
                "Such a volume has all homes of a class. A writable one could change all of them, and bound to the"
                " claim of a sandbox it would show all of them to one owner.",
                unless(
                    f"object.spec.?claimRef.?namespace.orValue('') != {metering} &&"
                    f" ({_NEW} || oldObject.spec.?claimRef.?namespace.orValue('') != {metering})",
                    all_of(
                        "object.spec.?csi.?readOnly.orValue(false)",
                        unless(
                            all_of(
                                f"!({_NEW})",
                                "oldObject.spec.?claimRef.?namespace == object.spec.?claimRef.?namespace",
                                "oldObject.spec.?claimRef.?name == object.spec.?claimRef.?name",
                            ),
                            requested_by(),
                        ),
                    ),
                ),
                f"a volume for the namespace {METERING} must be read-only, and only deployers may create it or change"
                " its claimRef",
            ),
        ),
    )


def _records(principals: Principals) -> Policy:
    # Every driver sets the annotation on the volumes that it creates.
    provisioned_by = f"(key == {quoted(PROVISIONED_BY)} && !({_NEW}))"
    owned = f"(({key_below(DOMAIN, OWN_LABEL)} && !{OWNER_UNCHANGED}) || {provisioned_by})"
    return Policy(
        name="volume-records",
        about="The records of a workspace on the PersistentVolume of its home, on updates of its status too.",
        watches=(
            Watch("", ("persistentvolumes",)),
            Watch("", ("persistentvolumes/status",), ("UPDATE",)),
        ),
        in_classes=False,
        rules=(
            Rule(
                "volume-record",
                "These are the only records of a deleted workspace: who may restore its files, and when they are"
                " destroyed.",
                unless(
                    unchanged_marks(owned),
                    unless(
                        f"request.userInfo.username == {quoted(METER)} &&"
                        f" {unchanged_marks(f'({owned} && !{key_below(*MEASURES)})')}",
                        requested_by(principals.service),
                    ),
                ),
                "only the workspace service and deployers may change a volume's labels and annotations below"
                " sandbox.users.io/ and its provisioner, and only the metering job its recorded size",
            ),
        ),
    )


def _storage_classes(file_systems: Sequence[str]) -> Policy:
    return Policy(
        name="storage-classes",
        about=f"StorageClasses on the environment's file systems, and those whose names start with {OF_CLASSES}.",
        watches=(Watch("storage.k8s.io", ("storageclasses",)),),
        in_classes=False,
        when={
            # One of that name without a file system would replace a class's own.
            "ours": f"object.?parameters[?'fileSystemId'].orValue('') in {quoted_list(list(file_systems))} ||"
            f" object.metadata.name.startsWith({quoted(OF_CLASSES)})",
        },
        rules=(
            Rule(
                "storage-class-by",
                "A StorageClass decides the folder and the owner of every home that is created with it.",
                unless(
                    f"!({_NEW}) && object.?parameters == oldObject.?parameters &&"
                    " object.?mountOptions == oldObject.?mountOptions",
                    requested_by(),
                ),
                f"only deployers may change StorageClasses on the environment's file systems or named {OF_CLASSES}…",
            ),
        ),
    )


def _claims() -> Policy:
    return Policy(
        name="volume-claims",
        about="PersistentVolumeClaims in the namespace of a class, on creation.",
        watches=(Watch("", ("persistentvolumeclaims",), ("CREATE",)),),
        by_class=True,
        rules=(
            Rule(
                "volume-claim-class",
                "Another storage class is other storage: the cluster's default would be an EBS volume in one zone.",
                all_of(
                    f"object.spec.?storageClassName.orValue('-') in ({list_parameter('storageClasses')} +"
                    " (object.spec.?volumeName.orValue('') == '' ? [] : ['']))",
                    "!has(object.spec.dataSource) && !has(object.spec.dataSourceRef) && !has(object.spec.selector)",
                ),
                "a volume claim must use the class's storage classes or name the volume that was declared for it, and"
                " must not have a data source or selector",
            ),
        ),
    )


def _choice(principals: Principals) -> Policy:
    return Policy(
        name="volume-claim-writers",
        about="Creation and updates of PersistentVolumeClaims in the namespace of a class.",
        watches=(
            Watch("", ("persistentvolumeclaims",)),
            Watch("", ("persistentvolumeclaims/status",), ("UPDATE",)),
        ),
        rules=(
            Rule(
                "volume-claim-by",
                "The storage of a volume claim without a sandbox is accounted to no owner.",
                unless(f"!({_NEW})", requested_by(principals.sandbox_controller, principals.service)),
                "only the sandbox controller, the workspace service and deployers may create volume claims",
            ),
            Rule(
                "volume-claim-choice",
                "The volume decides whose files are mounted.",
                unless(
                    "object.spec.?volumeName.orValue('') == (oldObject == null ? '' :"
                    " oldObject.spec.?volumeName.orValue(''))",
                    requested_by(principals.service, *principals.binders),
                ),
                "only the volume binder of Kubernetes, the workspace service and deployers may set volumeName",
            ),
            Rule(
                "volume-claim-kept",
                "A volume claim without a Sandbox, or marked as adoptable, becomes the home of the next sandbox of that"
                " name, whoever claims it.",
                unless(
                    f"{_NEW} || (object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences &&"
                    f" {unchanged_marks(key_below(*CONTROLLER_KEYS))})",
                    requested_by(principals.sandbox_controller, principals.service, *principals.collectors),
                ),
                "only the sandbox controller, the workspace service and deployers may change a volume claim's"
                " ownerReferences, and its labels and annotations below sandbox.users.io/ and agents.x-k8s.io/",
            ),
        ),
    )
