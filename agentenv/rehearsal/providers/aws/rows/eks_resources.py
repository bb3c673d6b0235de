"""EKS: Fargate profiles, add-ons, access entries and pod identity associations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.row import AutoName, Call, CustomStep, Problem, ReadCall, ResourceType
from agentenv.rehearsal.providers.aws.rows.eks_clusters import (
    ACTIVE,
    CLUSTER_NAME,
    NOT_FOUND,
    eks_tags,
    import_id_parser,
    joined_id,
)
from agentenv.rehearsal.providers.aws.value_kinds import JSON, one_of

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

# -- on Fargate -------------------------------------------------------------------------------------------------------

PROFILE: Final = {"clusterName": "$in.clusterName", "fargateProfileName": "$in.fargateProfileName"}


def _selector_problems(inputs: Mapping[str, Any]) -> list[Problem]:
    return [("selectors", "is empty: a profile needs one to five selectors")] if inputs.get("selectors") == [] else []


FARGATE_PROFILE = ResourceType(
    type="aws:eks/fargateProfile:FargateProfile",
    service="eks",
    create=Call("CreateFargateProfile", None, member_names={"subnetIds": "subnets"}),
    id=joined_id(":", "clusterName", "fargateProfileName"),
    read=ReadCall("DescribeFargateProfile", PROFILE, "fargateProfile", not_found_errors=NOT_FOUND),
    delete=(Call("DeleteFargateProfile", constants=PROFILE, ignored_errors=NOT_FOUND),),
    output_sources={"arn": "fargateProfileArn", "subnetIds": "subnets"},
    auto_name=AutoName(input="fargateProfileName", max_length=100, prefix_input=""),
    tags=eks_tags("arn"),
    ready=ACTIVE,
    wait_until_deleted=True,
    retry_delete_on=("ResourceInUseException",),
    value_kinds={"clusterName": CLUSTER_NAME},
    validators=(_selector_problems,),
    parse_import_id=import_id_parser(":", "clusterName", "fargateProfileName"),
)

# -- add-ons ----------------------------------------------------------------------------------------------------------

ADDON_ID: Final = {"clusterName": "$in.clusterName", "addonName": "$in.addonName"}
CONFLICTS: Final = ("NONE", "OVERWRITE", "PRESERVE")
ADDON = ResourceType(
    type="aws:eks/addon:Addon",
    service="eks",
    create=Call("CreateAddon", None, member_names={"resolveConflictsOnCreate": "resolveConflicts"}),
    id=joined_id(":", "clusterName", "addonName"),
    read=ReadCall("DescribeAddon", ADDON_ID, "addon", not_found_errors=NOT_FOUND),
    updates=(
        Call(
            "UpdateAddon",
            (
                *("addonVersion", "configurationValues", "podIdentityAssociations", "resolveConflictsOnUpdate"),
                "serviceAccountRoleArn",
            ),
            member_names={"resolveConflictsOnUpdate": "resolveConflicts"},
            constants=ADDON_ID,
            condition=lambda op: not op.creating,
        ),
        CustomStep(lambda _: None, ("resolveConflictsOnCreate",)),  # it mattered at the create
    ),
    delete=(Call("DeleteAddon", ("preserve",), constants=ADDON_ID, ignored_errors=NOT_FOUND),),
    output_sources={"arn": "addonArn"},
    tags=eks_tags("arn"),
    ready=ACTIVE,
    wait_until_deleted=True,
    retry_delete_on=("ResourceInUseException",),
    write_only=frozenset(
        {"podIdentityAssociations", "preserve", "resolveConflictsOnCreate", "resolveConflictsOnUpdate"}
    ),
    value_kinds={
        "clusterName": CLUSTER_NAME,
        "configurationValues": JSON,
        "resolveConflictsOnCreate": one_of(*CONFLICTS[:2]),
        "resolveConflictsOnUpdate": one_of(*CONFLICTS),
    },
    parse_import_id=import_id_parser(":", "clusterName", "addonName"),
)

# -- who may enter ----------------------------------------------------------------------------------------------------

ENTRY_TYPES: Final = (
    *("STANDARD", "EC2_LINUX", "EC2_WINDOWS", "FARGATE_LINUX", "EC2", "HYBRID_LINUX", "HYPERPOD_LINUX"),
)
ENTRY_ID: Final = {"clusterName": "$in.clusterName", "principalArn": "$in.principalArn"}
ACCESS_ENTRY = ResourceType(
    type="aws:eks/accessEntry:AccessEntry",
    service="eks",
    create=Call("CreateAccessEntry", None),
    id=joined_id(":", "clusterName", "principalArn"),
    read=ReadCall("DescribeAccessEntry", ENTRY_ID, "accessEntry", not_found_errors=NOT_FOUND),
    updates=(
        Call(
            "UpdateAccessEntry",
            ("kubernetesGroups", "userName"),
            constants=ENTRY_ID,
            condition=lambda op: not op.creating,
        ),
    ),
    delete=(Call("DeleteAccessEntry", constants=ENTRY_ID, ignored_errors=NOT_FOUND),),
    tags=eks_tags("accessEntryArn"),
    value_kinds={"clusterName": CLUSTER_NAME, "type": one_of(*ENTRY_TYPES)},
    defaults={"type": "STANDARD"},
    parse_import_id=import_id_parser(":", "clusterName", "principalArn"),
    updated_outputs=frozenset({"modifiedAt"}),
)


def _read_policy(op: Operation) -> Mapping[str, Any] | None:
    entry = {"clusterName": op.value("clusterName"), "principalArn": op.value("principalArn")}
    token: dict[str, str] = {}
    while True:
        response = op.call("ListAssociatedAccessPolicies", ignored_errors=NOT_FOUND, **entry, **token)
        for policy in response.get("associatedAccessPolicies", []):
            if policy["policyArn"] == op.value("policyArn"):
                return {**policy, **entry}
        if not response.get("nextToken"):
            return None
        token = {"nextToken": response["nextToken"]}


ACCESS_POLICY_ASSOCIATION = ResourceType(
    type="aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
    service="eks",
    create=Call("AssociateAccessPolicy", None),
    id=joined_id("#", "clusterName", "principalArn", "policyArn"),
    read=_read_policy,
    delete=(
        Call(
            "DisassociateAccessPolicy", constants={**ENTRY_ID, "policyArn": "$in.policyArn"}, ignored_errors=NOT_FOUND
        ),
    ),
    value_kinds={"clusterName": CLUSTER_NAME, "accessScope.type": one_of("cluster", "namespace")},
    retry_create_on=NOT_FOUND,  # the entry may be a moment old
    parse_import_id=import_id_parser("#", "clusterName", "principalArn", "policyArn"),
)

ASSOCIATION: Final = {"clusterName": "$in.clusterName", "associationId": "$id"}


def _parse_association(text: str) -> tuple[str, dict[str, Any]]:
    cluster, _, association = text.partition(",")
    if not association:
        raise ValueError("write CLUSTERNAME,ASSOCIATIONID")
    return association, {"clusterName": cluster}


POD_IDENTITY_ASSOCIATION = ResourceType(
    type="aws:eks/podIdentityAssociation:PodIdentityAssociation",
    service="eks",
    create=Call("CreatePodIdentityAssociation", None),
    id="association.associationId",
    read=ReadCall("DescribePodIdentityAssociation", ASSOCIATION, "association", not_found_errors=NOT_FOUND),
    updates=(
        Call(
            "UpdatePodIdentityAssociation",
            ("disableSessionTags", "roleArn", "targetRoleArn"),
            constants=ASSOCIATION,
            condition=lambda op: not op.creating,
        ),
    ),
    delete=(Call("DeletePodIdentityAssociation", constants=ASSOCIATION, ignored_errors=NOT_FOUND),),
    tags=eks_tags("associationArn"),
    value_kinds={"clusterName": CLUSTER_NAME},
    replace_on_changes=frozenset({"clusterName", "namespace", "serviceAccount"}),
    parse_import_id=_parse_association,
)

ROWS: Final = (FARGATE_PROFILE, ADDON, ACCESS_ENTRY, ACCESS_POLICY_ASSOCIATION, POD_IDENTITY_ASSOCIATION)
