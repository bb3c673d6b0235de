"""Athena: workgroups and queries that are kept there, where moto lets pass what Athena does not. Nothing is asked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Answer, Refused

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk

LEAST_SCAN = 10 * 2**20
PLACE = re.compile(r"s3://[a-z0-9.-]{3,63}(/.*)?")
ENGINE = "Athena engine version 3"
ENGINES = ("AUTO", ENGINE, "PySpark engine version 3")


def _invalid(text: str) -> Refused:
    return Refused("InvalidRequestException", text)


def _group(desk: Desk, name: str) -> Any:
    found = desk.backend("athena").work_groups.get(name)
    if found is None:
        raise _invalid(f"WorkGroup {name} is not found.")
    return found


def _check(said: dict[str, Any], results: dict[str, Any]) -> None:
    limit = said.get("BytesScannedCutoffPerQuery")
    if limit is not None and limit < LEAST_SCAN:
        raise _invalid(f"BytesScannedCutoffPerQuery is at least {LEAST_SCAN}, not {limit}.")
    place = results.get("OutputLocation")
    if place and not PLACE.fullmatch(place):
        raise _invalid(f"outputLocation is not a valid S3 path: {place}")
    encrypted = results.get("EncryptionConfiguration")
    if encrypted and (encrypted["EncryptionOption"] != "SSE_S3") != bool(encrypted.get("KmsKey")):
        raise _invalid("A key of KMS is given with SSE_KMS and CSE_KMS, and only there.")
    engine = said.get("EngineVersion", {}).get("SelectedEngineVersion")
    if engine and engine not in ENGINES:
        raise _invalid(f"There is no engine version {engine}.")


def _in_effect(configuration: dict[str, Any]) -> None:
    if engine := configuration.get("EngineVersion"):
        selected = engine.get("SelectedEngineVersion", "AUTO")
        engine["EffectiveEngineVersion"] = ENGINE if selected == "AUTO" else selected


def create(desk: Desk) -> Answer:
    """A workgroup with a configuration that Athena takes."""
    said = desk.asked.get("Configuration", {})
    _check(said, said.get("ResultConfiguration", {}))
    answer = desk.forward()
    if answer.ok:
        _in_effect(_group(desk, desk.asked["Name"]).configuration)
    return answer


def get(desk: Desk) -> Answer:
    """One that is there."""
    _group(desk, desk.asked["WorkGroup"])
    return desk.forward()


def update(desk: Desk) -> dict[str, Any]:
    """What is said changes; the rest stays."""
    group, asked = _group(desk, desk.asked["WorkGroup"]), desk.asked
    changes = dict(asked.get("ConfigurationUpdates", {}))
    results = changes.pop("ResultConfigurationUpdates", {})
    _check(changes, results)
    if changes.pop("RemoveBytesScannedCutoffPerQuery", False):
        group.configuration.pop("BytesScannedCutoffPerQuery", None)
    kept = group.configuration.setdefault("ResultConfiguration", {})
    for name in ("OutputLocation", "EncryptionConfiguration", "ExpectedBucketOwner", "AclConfiguration"):
        if results.pop(f"Remove{name}", False):
            kept.pop(name, None)
    kept.update(results)
    group.configuration.update(changes)
    _in_effect(group.configuration)
    group.description = asked.get("Description", group.description)
    group.state = asked.get("State", group.state)
    return {}


def delete(desk: Desk) -> Answer:
    """A workgroup that is empty, or goes with what is in it."""
    name = desk.asked["WorkGroup"]
    group, backend = _group(desk, name), desk.backend("athena")
    if name == "primary":
        raise _invalid("The primary workgroup cannot be deleted.")
    inside = [key for key, query in backend.named_queries.items() if query.workgroup is group]
    if inside and not desk.asked.get("RecursiveDeleteOption"):
        raise _invalid(f"WorkGroup {name} is not empty")
    for key in inside:
        del backend.named_queries[key]
    return desk.forward()


def _query(desk: Desk) -> str:
    wanted = desk.asked["NamedQueryId"]
    if wanted not in desk.backend("athena").named_queries:
        raise _invalid(f"NamedQuery {wanted} was not found")
    return wanted


def keep_query(desk: Desk) -> Answer:
    """In a workgroup that is there."""
    _group(desk, desk.asked.get("WorkGroup", "primary"))
    return desk.forward()


def get_query(desk: Desk) -> Answer:
    """One that is there."""
    _query(desk)
    return desk.forward()


def delete_query(desk: Desk) -> dict[str, Any]:
    """One less."""
    del desk.backend("athena").named_queries[_query(desk)]
    return {}


ROWS = (
    Row("athena", "CreateWorkGroup", create),
    Row("athena", "GetWorkGroup", get),
    Row("athena", "UpdateWorkGroup", update),
    Row("athena", "DeleteWorkGroup", delete),
    Row("athena", "CreateNamedQuery", keep_query, kept=True),
    Row("athena", "GetNamedQuery", get_query),
    Row("athena", "DeleteNamedQuery", delete_query),
)
