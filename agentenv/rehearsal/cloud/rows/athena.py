"""Athena: workgroups and named queries, with the checks that moto lacks. No query is run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError, Response

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext

LEAST_SCAN = 10 * 2**20
PLACE = re.compile(r"s3://[a-z0-9.-]{3,63}(/.*)?")
ENGINE = "Athena engine version 3"
ENGINES = ("AUTO", ENGINE, "PySpark engine version 3")


def _invalid(text: str) -> AwsError:
    return AwsError("InvalidRequestException", text)


def _group(context: RequestContext, name: str) -> Any:
    group = context.backend("athena").work_groups.get(name)
    if group is None:
        raise _invalid(f"WorkGroup {name} is not found.")
    return group


def _check(configuration: dict[str, Any], results: dict[str, Any]) -> None:
    limit = configuration.get("BytesScannedCutoffPerQuery")
    if limit is not None and limit < LEAST_SCAN:
        raise _invalid(f"BytesScannedCutoffPerQuery is at least {LEAST_SCAN}, not {limit}.")
    place = results.get("OutputLocation")
    if place and not PLACE.fullmatch(place):
        raise _invalid(f"outputLocation is not a valid S3 path: {place}")
    encrypted = results.get("EncryptionConfiguration")
    if encrypted and (encrypted["EncryptionOption"] != "SSE_S3") != bool(encrypted.get("KmsKey")):
        raise _invalid("A key of KMS is given with SSE_KMS and CSE_KMS, and only there.")
    engine = configuration.get("EngineVersion", {}).get("SelectedEngineVersion")
    if engine and engine not in ENGINES:
        raise _invalid(f"There is no engine version {engine}.")


def _in_effect(configuration: dict[str, Any]) -> None:
    if engine := configuration.get("EngineVersion"):
        selected = engine.get("SelectedEngineVersion", "AUTO")
        engine["EffectiveEngineVersion"] = ENGINE if selected == "AUTO" else selected


def create(context: RequestContext) -> Response:
    """Create a workgroup with a valid configuration."""
    configuration = context.parameters.get("Configuration", {})
    _check(configuration, configuration.get("ResultConfiguration", {}))
    response = context.forward()
    if response.ok:
        _in_effect(_group(context, context.parameters["Name"]).configuration)
    return response


def read(context: RequestContext) -> Response:
    """Return an existing workgroup."""
    _group(context, context.parameters["WorkGroup"])
    return context.forward()


def update(context: RequestContext) -> dict[str, Any]:
    """Update the given members of a workgroup."""
    group, parameters = _group(context, context.parameters["WorkGroup"]), context.parameters
    changes = dict(parameters.get("ConfigurationUpdates", {}))
    results = changes.pop("ResultConfigurationUpdates", {})
    _check(changes, results)
    if changes.pop("RemoveBytesScannedCutoffPerQuery", False):
        group.configuration.pop("BytesScannedCutoffPerQuery", None)
    result_configuration = group.configuration.setdefault("ResultConfiguration", {})
    for name in ("OutputLocation", "EncryptionConfiguration", "ExpectedBucketOwner", "AclConfiguration"):
        if results.pop(f"Remove{name}", False):
            result_configuration.pop(name, None)
    result_configuration.update(results)
    group.configuration.update(changes)
    _in_effect(group.configuration)
    group.description = parameters.get("Description", group.description)
    group.state = parameters.get("State", group.state)
    return {}


def delete(context: RequestContext) -> Response:
    """Delete a workgroup that is empty, or recursively."""
    name = context.parameters["WorkGroup"]
    group, backend = _group(context, name), context.backend("athena")
    if name == "primary":
        raise _invalid("The primary workgroup cannot be deleted.")
    inside = [key for key, query in backend.named_queries.items() if query.workgroup is group]
    if inside and not context.parameters.get("RecursiveDeleteOption"):
        raise _invalid(f"WorkGroup {name} is not empty")
    for key in inside:
        del backend.named_queries[key]
    return context.forward()


def _query(context: RequestContext) -> str:
    query_id = context.parameters["NamedQueryId"]
    if query_id not in context.backend("athena").named_queries:
        raise _invalid(f"NamedQuery {query_id} was not found")
    return query_id


def create_query(context: RequestContext) -> Response:
    """Create a named query in an existing workgroup."""
    _group(context, context.parameters.get("WorkGroup", "primary"))
    return context.forward()


def read_query(context: RequestContext) -> Response:
    """Return an existing named query."""
    _query(context)
    return context.forward()


def delete_query(context: RequestContext) -> dict[str, Any]:
    """Delete a named query."""
    del context.backend("athena").named_queries[_query(context)]
    return {}


ROWS = (
    OperationHandler("athena", "CreateWorkGroup", create),
    OperationHandler("athena", "GetWorkGroup", read),
    OperationHandler("athena", "UpdateWorkGroup", update),
    OperationHandler("athena", "DeleteWorkGroup", delete),
    OperationHandler("athena", "CreateNamedQuery", create_query, stored_only=True),
    OperationHandler("athena", "GetNamedQuery", read_query),
    OperationHandler("athena", "DeleteNamedQuery", delete_query),
)
