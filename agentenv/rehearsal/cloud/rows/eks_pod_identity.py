"""EKS Pod Identity associations for pods, and the OIDC identity provider for users."""

from __future__ import annotations

import secrets
import string
import uuid
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.pagination import page
from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError
from agentenv.rehearsal.cloud.rows.eks_common import arn, check_role, cluster_of, cluster_records, now, record_update

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext
    from agentenv.rehearsal.cloud.store import Record

ASSOCIATIONS, PROVIDERS = "eks.pod_identity_associations", "eks.identity_provider_configs"


def identifier(prefix: str) -> str:
    """Return a new identifier in EKS's format: letters and digits."""
    return prefix + "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(17))


def _association(context: RequestContext) -> Record:
    cluster, association_id = cluster_of(context), context.parameters["associationId"]
    association = context.records(ASSOCIATIONS).get(f"{cluster.name}/{association_id}")
    if association is None:
        text = f"Failed to find resource with id '{association_id}' in cluster '{cluster.name}'"
        raise AwsError("ResourceNotFoundException", text, clusterName=cluster.name)
    return association


def associate(context: RequestContext, cluster: str, namespace: str, account: str, role: str, **options: Any) -> Record:
    """Associate a service account with a role; it has one at most."""
    check_role(context, role, "The role of a pod identity association is not valid")
    for other in cluster_records(context, ASSOCIATIONS, cluster).values():
        if (other["namespace"], other["serviceAccount"]) == (namespace, account):
            text = f"Association already exists: {other['associationId']}"
            raise AwsError("ResourceInUseException", text, clusterName=cluster)
    own = identifier("a-")
    association = {
        "clusterName": cluster,
        "namespace": namespace,
        "serviceAccount": account,
        "roleArn": role,
        "associationArn": arn(context, f"podidentityassociation/{cluster}/{own}"),
        "associationId": own,
        "tags": options.get("tags", {}),
        "createdAt": now(),
        "modifiedAt": now(),
        "ownerArn": options.get("owner"),
        "disableSessionTags": options.get("disableSessionTags", False),
        "targetRoleArn": options.get("targetRoleArn"),
        "externalId": f"{context.region}/{context.account}/{cluster}/{namespace}/{account}"
        if options.get("targetRoleArn")
        else None,
        "policy": options.get("policy"),
    }
    context.records(ASSOCIATIONS)[f"{cluster}/{own}"] = association
    return association


def delete_owned(context: RequestContext, owner: str) -> None:
    """Delete the associations that an add-on owns."""
    records = context.records(ASSOCIATIONS)
    for name in [name for name, association in records.items() if association.get("ownerArn") == owner]:
        del records[name]


def create(context: RequestContext) -> dict[str, Any]:
    """Create an association for a service account, which need not exist yet."""
    parameters, cluster = context.parameters, cluster_of(context)
    options = {
        name: parameters[name]
        for name in ("tags", "disableSessionTags", "targetRoleArn", "policy")
        if name in parameters
    }
    association = associate(
        context, cluster.name, parameters["namespace"], parameters["serviceAccount"], parameters["roleArn"], **options
    )
    return {"association": association}


def update(context: RequestContext) -> dict[str, Any]:
    """Change the role; namespace and service account stay."""
    association, parameters = _association(context), context.parameters
    if role := parameters.get("roleArn"):
        check_role(context, role, "The role of a pod identity association is not valid")
    for name in ("roleArn", "disableSessionTags", "targetRoleArn", "policy"):
        if name in parameters:
            association[name] = parameters[name]
    association["modifiedAt"] = now()
    return {"association": association}


def delete(context: RequestContext) -> dict[str, Any]:
    """Delete an association and return it."""
    association = _association(context)
    del context.records(ASSOCIATIONS)[f"{association['clusterName']}/{association['associationId']}"]
    return {"association": association}


def list_associations(context: RequestContext) -> dict[str, Any]:
    """Return the associations of a cluster, a namespace or a service account."""
    parameters = context.parameters
    rows = [
        row
        for row in cluster_records(context, ASSOCIATIONS, cluster_of(context).name).values()
        if parameters.get("namespace", row["namespace"]) == row["namespace"]
        and parameters.get("serviceAccount", row["serviceAccount"]) == row["serviceAccount"]
    ]
    shown, token = page(rows, parameters.get("maxResults"), parameters.get("nextToken"))
    return {"associations": shown, "nextToken": token}


def associate_provider(context: RequestContext) -> dict[str, Any]:
    """Set the only OIDC provider of a cluster."""
    cluster, oidc = cluster_of(context), context.parameters["oidc"]
    if cluster_records(context, PROVIDERS, cluster.name):
        text = "The cluster already has an identity provider configuration; there is one at most."
        raise AwsError("ResourceInUseException", text, clusterName=cluster.name)
    if not oidc["issuerUrl"].startswith("https://"):
        raise AwsError("InvalidParameterException", f"issuerUrl must start with https://: {oidc['issuerUrl']}")
    name, tags = oidc["identityProviderConfigName"], context.parameters.get("tags", {})
    provider = {
        **oidc,
        "identityProviderConfigArn": arn(context, f"identityproviderconfig/{cluster.name}/oidc/{name}/{uuid.uuid4()}"),
        "clusterName": cluster.name,
        "tags": tags,
        "status": "ACTIVE",
    }
    context.records(PROVIDERS)[f"{cluster.name}/{name}"] = provider
    changes = {"IdentityProviderConfig": [{"type": "oidc", "name": name}]}
    return {"update": record_update(context, cluster.name, "AssociateIdentityProviderConfig", changes), "tags": tags}


def _provider(context: RequestContext) -> Record:
    cluster, provider_name = cluster_of(context), context.parameters["identityProviderConfig"]["name"]
    provider = context.records(PROVIDERS).get(f"{cluster.name}/{provider_name}")
    if provider is None:
        text = f"The identity provider config {provider_name} is not associated with cluster {cluster.name}."
        raise AwsError("ResourceNotFoundException", text, clusterName=cluster.name)
    return provider


def disassociate_provider(context: RequestContext) -> dict[str, Any]:
    """Remove the provider."""
    provider = _provider(context)
    name, cluster = provider["identityProviderConfigName"], provider["clusterName"]
    del context.records(PROVIDERS)[f"{cluster}/{name}"]
    changes = {"IdentityProviderConfig": [{"type": "oidc", "name": name}]}
    return {"update": record_update(context, cluster, "DisassociateIdentityProviderConfig", changes)}


def list_providers(context: RequestContext) -> dict[str, Any]:
    """Return the provider of a cluster, if it has one."""
    rows = cluster_records(context, PROVIDERS, cluster_of(context).name).values()
    return {"identityProviderConfigs": [{"type": "oidc", "name": row["identityProviderConfigName"]} for row in rows]}


ROWS = (
    OperationHandler("eks", "CreatePodIdentityAssociation", create, stored_only=True),
    OperationHandler("eks", "DescribePodIdentityAssociation", lambda context: {"association": _association(context)}),
    OperationHandler("eks", "ListPodIdentityAssociations", list_associations),
    OperationHandler("eks", "UpdatePodIdentityAssociation", update, stored_only=True),
    OperationHandler("eks", "DeletePodIdentityAssociation", delete),
    OperationHandler("eks", "AssociateIdentityProviderConfig", associate_provider, stored_only=True),
    OperationHandler(
        "eks",
        "DescribeIdentityProviderConfig",
        lambda context: {"identityProviderConfig": {"oidc": _provider(context)}},
    ),
    OperationHandler("eks", "DisassociateIdentityProviderConfig", disassociate_provider),
    OperationHandler("eks", "ListIdentityProviderConfigs", list_providers),
)
