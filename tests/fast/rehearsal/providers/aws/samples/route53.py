"""Samples of records."""

from typing import Any

from tests.fast.rehearsal.providers.aws.samples.sample import Ground, Sample

BALANCER = {"name": "b.elb.us-east-1.amazonaws.com", "zoneId": "Z26RNL4JYFTOTI", "evaluateTargetHealth": False}


def _zone(ground: Ground) -> str:
    created = ground.client("route53").create_hosted_zone(Name="example.com", CallerReference=ground.fresh("zone"))
    return created["HostedZone"]["Id"].rpartition("/")[2]


def _elsewhere(ground: Ground, _: str, outputs: dict[str, Any]) -> object:
    """The record leads to another balancer."""
    target = {"DNSName": "other.example.org", "HostedZoneId": "Z26RNL4JYFTOTI", "EvaluateTargetHealth": False}
    record = {"Name": outputs["name"], "Type": outputs["type"], "AliasTarget": target}
    batch = {"Changes": [{"Action": "UPSERT", "ResourceRecordSet": record}]}
    return ground.client("route53").change_resource_record_sets(HostedZoneId=outputs["zoneId"], ChangeBatch=batch)


SAMPLES = {
    "aws:route53/record:Record": Sample(
        inputs=lambda g: {"zoneId": _zone(g), "name": "*.example.com", "type": "A", "aliases": [BALANCER]},
        update={"aliases": [{**BALANCER, "evaluateTargetHealth": True}]},
        replace={"name": "other.example.com"},
        behind=_elsewhere,
        drift=("aliases",),
        untold=("allowOverwrite",),
    ),
}
