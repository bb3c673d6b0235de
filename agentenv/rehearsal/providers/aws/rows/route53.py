"""Route 53: records of a hosted zone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.row import CustomCreate, CustomStep, ResourceType
from agentenv.rehearsal.providers.aws.value_kinds import one_of

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

NO_ROUTING: Final = "routing policies are not simulated"
RECORD_INPUTS: Final = ("aliases", "records", "ttl")


def _record_set(source: Mapping[str, Any]) -> dict[str, Any]:
    record: dict[str, Any] = {"Name": source["name"], "Type": source["type"]}
    for alias in source.get("aliases") or ():
        record["AliasTarget"] = {
            "DNSName": alias["name"],
            "HostedZoneId": alias["zoneId"],
            "EvaluateTargetHealth": bool(alias.get("evaluateTargetHealth")),
        }
    if source.get("records"):
        record |= {"TTL": source.get("ttl"), "ResourceRecords": [{"Value": value} for value in source["records"]]}
    return record


def _change(op: Operation, action: str, source: Mapping[str, Any]) -> None:
    change = {"Action": action, "ResourceRecordSet": _record_set(source)}
    op.call("ChangeResourceRecordSets", HostedZoneId=source["zoneId"], ChangeBatch={"Changes": [change]})


def _create(op: Operation) -> Mapping[str, Any]:
    _change(op, "UPSERT" if op.inputs.get("allowOverwrite") else "CREATE", op.inputs)
    return {}


def _update(op: Operation) -> None:
    if not op.creating:
        _change(op, "UPSERT", {**op.state, **op.inputs})


def _delete(op: Operation) -> None:
    current = _read(op)
    if current is not None:
        change = {"Action": "DELETE", "ResourceRecordSet": {k: v for k, v in current.items() if k != "ZoneId"}}
        op.call("ChangeResourceRecordSets", HostedZoneId=current["ZoneId"], ChangeBatch={"Changes": [change]})


def _read(op: Operation) -> dict[str, Any] | None:
    """Return the record. The API can only list from a name on, and spells `*` in octal."""
    zone, name, kind = op.value("zoneId"), op.value("name"), op.value("type")
    response = op.call(
        "ListResourceRecordSets",
        HostedZoneId=zone,
        StartRecordName=name,
        StartRecordType=kind,
        ignored_errors=("NoSuchHostedZone",),
    )
    for record in response.get("ResourceRecordSets") or ():
        if _host(record["Name"]) == _host(name) and record["Type"] == kind:
            return {**record, "ZoneId": zone}
    return None


def _host(name: str) -> str:
    return name.replace("\\052", "*").removesuffix(".").lower()


def _aliases(_: Operation, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    target = document.get("AliasTarget")
    if not target:
        return []
    return [
        {
            "Name": target["DNSName"].removesuffix("."),
            "ZoneId": target["HostedZoneId"],
            "EvaluateTargetHealth": target["EvaluateTargetHealth"],
        }
    ]


def _parse(text: str) -> tuple[str, dict[str, Any]]:
    zone, name, kind = text.split("_")[:3]
    return text, {"zoneId": zone, "name": name, "type": kind}


RECORD = ResourceType(
    type="aws:route53/record:Record",
    service="route53",
    create=CustomCreate(_create, (*RECORD_INPUTS, "allowOverwrite", "name", "type", "zoneId")),
    id=lambda op, _: f"{op.inputs['zoneId']}_{op.inputs['name']}_{op.inputs['type']}",
    read=_read,
    updates=(CustomStep(_update, (*RECORD_INPUTS, "allowOverwrite")),),
    delete=(CustomStep(_delete),),
    output_sources={
        "aliases": _aliases,
        "fqdn": lambda _, document: _host(document["Name"]),
        "name": lambda _, document: _host(document["Name"]),
        "records": lambda _, document: [row["Value"] for row in document.get("ResourceRecords") or ()],
        "ttl": "TTL",
    },
    write_only=frozenset({"allowOverwrite"}),
    replace_on_changes=frozenset({"type"}),
    value_kinds={"type": one_of("A", "AAAA", "CAA", "CNAME", "MX", "NS", "SRV", "TXT")},
    defaults={"allowOverwrite": False},
    unsupported={
        "cidrRoutingPolicy": NO_ROUTING,
        "failoverRoutingPolicies": NO_ROUTING,
        "geolocationRoutingPolicies": NO_ROUTING,
        "geoproximityRoutingPolicy": NO_ROUTING,
        "healthCheckId": "health checks of Route 53 are not simulated",
        "latencyRoutingPolicies": NO_ROUTING,
        "multivalueAnswerRoutingPolicy": NO_ROUTING,
        "setIdentifier": NO_ROUTING,
        "weightedRoutingPolicies": NO_ROUTING,
    },
    parse_import_id=_parse,
    regional=False,
)

ROWS: Final = (RECORD,)
