"""Network load balancers: the balancer, its target groups and its listeners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.name_mapping import attribute_text
from agentenv.rehearsal.providers.aws.row import AutoName, CustomCreate, CustomStep, ReadCall, ResourceType, Tagging
from agentenv.rehearsal.providers.aws.value_kinds import between, exactly_one, one_of

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

NO_APPLICATION: Final = "application load balancers are not simulated"
NO_DUAL_STACK: Final = "load balancers with IPv6 or addresses of one's own choice are not simulated"
NO_LOGS: Final = "logs of load balancers are not simulated"
TAGS: Final = Tagging("Tags", "", "AddTags", "RemoveTags", {"ResourceArns": ["$id"]})

# -- attributes, which are texts under names of their own -------------------------------------------------------------

Attributes = Mapping[str, str]
BALANCER_ATTRIBUTES: Final[Attributes] = {
    "enableCrossZoneLoadBalancing": "load_balancing.cross_zone.enabled",
    "enableDeletionProtection": "deletion_protection.enabled",
}
TARGET_ATTRIBUTES: Final[Attributes] = {
    "connectionTermination": "deregistration_delay.connection_termination.enabled",
    "deregistrationDelay": "deregistration_delay.timeout_seconds",
    "preserveClientIp": "preserve_client_ip.enabled",
    "proxyProtocolV2": "proxy_protocol_v2.enabled",
}


def _attributes(op: Operation, names: Attributes) -> list[dict[str, str]]:
    parameters = {key: op.inputs.get(name) for name, key in names.items()}
    return [{"Key": key, "Value": attribute_text(value)} for key, value in parameters.items() if value is not None]


def _values(rows: list[Mapping[str, str]], names: Attributes) -> dict[str, Any]:
    by_key = {row["Key"]: row["Value"] for row in rows}
    words: Mapping[str, Any] = {"true": True, "false": False}
    return {name: words.get(by_key[key], by_key[key]) for name, key in names.items() if key in by_key}


def _tags(op: Operation, _: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"Tags": op.call("DescribeTags", ResourceArns=[op.id])["TagDescriptions"][0]["Tags"]}


def _tag_list(op: Operation) -> dict[str, Any]:
    tags = op.inputs.get("tags") or {}
    return {"Tags": [{"Key": key, "Value": value} for key, value in sorted(tags.items())]} if tags else {}


def _arn_suffix(start: str) -> Any:
    return lambda op, _: op.id.partition(f":{start}")[2] if start == "loadbalancer/" else op.id.rpartition(":")[2]


# -- load balancers ---------------------------------------------------------------------------------------------------


def _create_balancer(op: Operation) -> Mapping[str, Any]:
    groups = {"SecurityGroups": op.inputs["securityGroups"]} if op.inputs.get("securityGroups") else {}
    response = op.call(
        "CreateLoadBalancer",
        Name=op.inputs["name"],
        Type=op.inputs.get("loadBalancerType"),
        Scheme="internal" if op.inputs.get("internal") else "internet-facing",
        Subnets=op.inputs.get("subnets") or [],
        **groups,
        **_tag_list(op),
    )
    attributes = _attributes(op, BALANCER_ATTRIBUTES)
    if attributes:
        arn = response["LoadBalancers"][0]["LoadBalancerArn"]
        op.call("ModifyLoadBalancerAttributes", LoadBalancerArn=arn, Attributes=attributes)
    return response


def _read_balancer_attributes(op: Operation, _: Mapping[str, Any]) -> Mapping[str, Any]:
    return _values(op.call("DescribeLoadBalancerAttributes", LoadBalancerArn=op.id)["Attributes"], BALANCER_ATTRIBUTES)


def _update_balancer(op: Operation) -> None:
    if op.creating:
        return
    if "securityGroups" in op.changed:
        op.call("SetSecurityGroups", LoadBalancerArn=op.id, SecurityGroups=op.inputs.get("securityGroups") or [])
    if "subnets" in op.changed:
        op.call("SetSubnets", LoadBalancerArn=op.id, Subnets=op.inputs.get("subnets") or [])
    if BALANCER_ATTRIBUTES.keys() & op.changed:
        attributes = _attributes(op, BALANCER_ATTRIBUTES)
        op.call("ModifyLoadBalancerAttributes", LoadBalancerArn=op.id, Attributes=attributes)


def _delete_balancer(op: Operation) -> None:
    op.call("DeleteLoadBalancer", LoadBalancerArn=op.id)


LOAD_BALANCER = ResourceType(
    type="aws:lb/loadBalancer:LoadBalancer",
    service="elbv2",
    create=CustomCreate(
        _create_balancer, ("internal", "loadBalancerType", "securityGroups", "subnets", *BALANCER_ATTRIBUTES)
    ),
    id="LoadBalancers[0].LoadBalancerArn",
    read=ReadCall(
        "DescribeLoadBalancers",
        {"LoadBalancerArns": ["$id"]},
        "LoadBalancers[0]",
        not_found_errors=("LoadBalancerNotFound", "LoadBalancerNotFoundException"),
    ),
    more_reads=(_read_balancer_attributes, _tags),
    updates=(CustomStep(_update_balancer, ("securityGroups", "subnets", *BALANCER_ATTRIBUTES)),),
    delete=(CustomStep(_delete_balancer),),
    output_sources={
        **{name: name for name in BALANCER_ATTRIBUTES},
        "arn": "LoadBalancerArn",
        "arnSuffix": _arn_suffix("loadbalancer/"),
        "dnsName": "DNSName",
        "internal": lambda _, document: document.get("Scheme") == "internal",
        "loadBalancerType": "Type",
        "name": "LoadBalancerName",
        "subnets": "AvailabilityZones[].SubnetId",
        "zoneId": "CanonicalHostedZoneId",
    },
    auto_name=AutoName(max_length=32),
    tags=TAGS,
    write_only=frozenset({"namePrefix"}),
    value_kinds={"loadBalancerType": one_of("network")},
    defaults={"enableCrossZoneLoadBalancing": False, "enableDeletionProtection": False},
    unsupported={
        "accessLogs": NO_LOGS,
        "clientKeepAlive": NO_APPLICATION,
        "connectionLogs": NO_LOGS,
        "customerOwnedIpv4Pool": NO_DUAL_STACK,
        "desyncMitigationMode": NO_APPLICATION,
        "dnsRecordClientRoutingPolicy": "the routing of clients by zone is not simulated",
        "dropInvalidHeaderFields": NO_APPLICATION,
        "enableHttp2": NO_APPLICATION,
        "enablePrefixForIpv6SourceNat": NO_DUAL_STACK,
        "enableTlsVersionAndCipherSuiteHeaders": NO_APPLICATION,
        "enableWafFailOpen": NO_APPLICATION,
        "enableXffClientPort": NO_APPLICATION,
        "enableZonalShift": "zonal shifts are not simulated",
        "enforceSecurityGroupInboundRulesOnPrivateLinkTraffic": "PrivateLink is not simulated",
        "healthCheckLogs": NO_LOGS,
        "idleTimeout": NO_APPLICATION,
        "ipAddressType": NO_DUAL_STACK,
        "ipamPools": NO_DUAL_STACK,
        "minimumLoadBalancerCapacity": "reserved capacity is not simulated",
        "preserveHostHeader": NO_APPLICATION,
        "secondaryIpsAutoAssignedPerSubnet": NO_DUAL_STACK,
        "subnetMappings": NO_DUAL_STACK,
        "xffHeaderProcessingMode": NO_APPLICATION,
    },
    validators=(exactly_one("loadBalancerType"),),
)

# -- target groups ----------------------------------------------------------------------------------------------------

HEALTH_CHECK: Final = {
    "enabled": "HealthCheckEnabled",
    "healthyThreshold": "HealthyThresholdCount",
    "interval": "HealthCheckIntervalSeconds",
    "path": "HealthCheckPath",
    "port": "HealthCheckPort",
    "protocol": "HealthCheckProtocol",
    "timeout": "HealthCheckTimeoutSeconds",
    "unhealthyThreshold": "UnhealthyThresholdCount",
}


def _health_check(op: Operation) -> dict[str, Any]:
    check = op.inputs.get("healthCheck") or {}
    matcher = {"Matcher": {"HttpCode": check["matcher"]}} if check.get("matcher") else {}
    parameters = {member: check[name] for name, member in HEALTH_CHECK.items() if check.get(name) is not None}
    return {**parameters, **matcher}


def _create_group(op: Operation) -> Mapping[str, Any]:
    members = {"port": "Port", "protocol": "Protocol", "targetType": "TargetType", "vpcId": "VpcId"}
    parameters = {member: op.inputs[name] for name, member in members.items() if op.inputs.get(name) is not None}
    response = op.call("CreateTargetGroup", Name=op.inputs["name"], **parameters, **_health_check(op), **_tag_list(op))
    attributes = _attributes(op, TARGET_ATTRIBUTES)
    if attributes:
        arn = response["TargetGroups"][0]["TargetGroupArn"]
        op.call("ModifyTargetGroupAttributes", TargetGroupArn=arn, Attributes=attributes)
    return response


def _read_group_attributes(op: Operation, _: Mapping[str, Any]) -> Mapping[str, Any]:
    return _values(op.call("DescribeTargetGroupAttributes", TargetGroupArn=op.id)["Attributes"], TARGET_ATTRIBUTES)


def _update_group(op: Operation) -> None:
    if op.creating:
        return
    if "healthCheck" in op.changed:
        op.call("ModifyTargetGroup", TargetGroupArn=op.id, **_health_check(op))
    if TARGET_ATTRIBUTES.keys() & op.changed:
        op.call("ModifyTargetGroupAttributes", TargetGroupArn=op.id, Attributes=_attributes(op, TARGET_ATTRIBUTES))


def _show_health_check(_: Operation, document: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: document.get(member) for name, member in HEALTH_CHECK.items()}
    return {**shown, "matcher": (document.get("Matcher") or {}).get("HttpCode")}


def _number(name: str) -> Any:
    return lambda _, document: int(document[name]) if document.get(name) is not None else None


def _word(name: str) -> Any:
    return lambda _, document: attribute_text(document[name]) if document.get(name) is not None else None


TARGET_GROUP = ResourceType(
    type="aws:lb/targetGroup:TargetGroup",
    service="elbv2",
    create=CustomCreate(_create_group, ("healthCheck", "port", "protocol", "targetType", "vpcId", *TARGET_ATTRIBUTES)),
    id="TargetGroups[0].TargetGroupArn",
    read=ReadCall(
        "DescribeTargetGroups",
        {"TargetGroupArns": ["$id"]},
        "TargetGroups[0]",
        not_found_errors=("TargetGroupNotFound", "TargetGroupNotFoundException"),
    ),
    more_reads=(_read_group_attributes, _tags),
    updates=(CustomStep(_update_group, ("healthCheck", *TARGET_ATTRIBUTES)),),
    delete=(CustomStep(lambda op: op.call("DeleteTargetGroup", TargetGroupArn=op.id)),),
    output_sources={
        "arn": "TargetGroupArn",
        "arnSuffix": _arn_suffix("targetgroup/"),
        "connectionTermination": "connectionTermination",
        "deregistrationDelay": _number("deregistrationDelay"),
        "healthCheck": _show_health_check,
        "name": "TargetGroupName",
        "preserveClientIp": _word("preserveClientIp"),
        "proxyProtocolV2": "proxyProtocolV2",
    },
    auto_name=AutoName(max_length=32),
    tags=TAGS,
    write_only=frozenset({"namePrefix"}),
    retry_delete_on=("ResourceInUse", "ResourceInUseException"),
    value_kinds={
        "deregistrationDelay": between(0, 3600),
        "protocol": one_of("TCP", "TLS", "UDP", "TCP_UDP"),
        "targetType": one_of("ip", "instance"),
        "healthCheck.protocol": one_of("HTTP", "HTTPS", "TCP"),
        "healthCheck.interval": between(5, 300),
        "healthCheck.timeout": between(2, 120),
    },
    defaults={"deregistrationDelay": 300, "proxyProtocolV2": False, "targetType": "instance"},
    computed=frozenset(
        f"healthCheck.{name}" for name in ("enabled", "healthyThreshold", "timeout", "unhealthyThreshold")
    ),
    unsupported={
        "ipAddressType": NO_DUAL_STACK,
        "lambdaMultiValueHeadersEnabled": NO_APPLICATION,
        "loadBalancingAlgorithmType": NO_APPLICATION,
        "loadBalancingAnomalyMitigation": NO_APPLICATION,
        "loadBalancingCrossZoneEnabled": "the balancer's own setting decides",
        "protocolVersion": NO_APPLICATION,
        "slowStart": NO_APPLICATION,
        "stickiness": "stickiness of targets is not simulated",
        "targetControlPort": NO_APPLICATION,
        "targetFailovers": "gateway load balancers are not simulated",
        "targetGroupHealth": "thresholds of the health of a group are not simulated",
        "targetHealthStates": "connections to unhealthy targets are not simulated",
    },
    validators=(exactly_one("port"), exactly_one("protocol"), exactly_one("vpcId")),
)

# -- listeners --------------------------------------------------------------------------------------------------------

LISTENER_INPUTS: Final = ("alpnPolicy", "certificateArn", "defaultActions", "port", "protocol", "sslPolicy")


def _listener(op: Operation) -> dict[str, Any]:
    certificate = op.inputs.get("certificateArn")
    members: dict[str, Any] = {
        "AlpnPolicy": [op.inputs["alpnPolicy"]] if op.inputs.get("alpnPolicy") else None,
        "Certificates": [{"CertificateArn": certificate}] if certificate else None,
        "DefaultActions": [
            {"Type": action["type"], "TargetGroupArn": action.get("targetGroupArn")}
            for action in op.inputs.get("defaultActions") or []
        ],
        "Port": op.inputs.get("port"),
        "Protocol": op.inputs.get("protocol"),
        "SslPolicy": op.inputs.get("sslPolicy"),
    }
    return {member: value for member, value in members.items() if value is not None}


def _create_listener(op: Operation) -> Mapping[str, Any]:
    return op.call("CreateListener", LoadBalancerArn=op.inputs["loadBalancerArn"], **_listener(op), **_tag_list(op))


def _update_listener(op: Operation) -> None:
    if not op.creating:
        op.call("ModifyListener", ListenerArn=op.id, **_listener(op))


LISTENER = ResourceType(
    type="aws:lb/listener:Listener",
    service="elbv2",
    create=CustomCreate(_create_listener, (*LISTENER_INPUTS, "loadBalancerArn")),
    id="Listeners[0].ListenerArn",
    read=ReadCall(
        "DescribeListeners",
        {"ListenerArns": ["$id"]},
        "Listeners[0]",
        not_found_errors=("ListenerNotFound", "ListenerNotFoundException"),
    ),
    more_reads=(_tags,),
    updates=(CustomStep(_update_listener, LISTENER_INPUTS),),
    delete=(CustomStep(lambda op: op.call("DeleteListener", ListenerArn=op.id)),),
    output_sources={
        "alpnPolicy": "AlpnPolicy[0]",
        "arn": "ListenerArn",
        "certificateArn": "Certificates[0].CertificateArn",
        "defaultActions": lambda _, document: [
            {"Type": action["Type"], "TargetGroupArn": action.get("TargetGroupArn")}
            for action in document.get("DefaultActions") or ()
        ],
    },
    tags=TAGS,
    ordered_lists=frozenset({"defaultActions"}),
    value_kinds={
        "alpnPolicy": one_of("HTTP1Only", "HTTP2Only", "HTTP2Optional", "HTTP2Preferred", "None"),
        "port": between(1, 65535),
        "protocol": one_of("TCP", "TLS", "UDP", "TCP_UDP"),
    },
    unsupported={
        "mutualAuthentication": NO_APPLICATION,
        "tcpIdleTimeoutSeconds": "a listener with TLS has a fixed idle timeout",
        **{
            f"routingHttp{name}": NO_APPLICATION
            for name in (
                *(f"RequestXAmznMtlsClientcert{part}HeaderName" for part in ("", "Issuer", "Leaf", "SerialNumber")),
                *(f"RequestXAmznMtlsClientcert{part}HeaderName" for part in ("Subject", "Validity")),
                *(f"RequestXAmznTls{part}HeaderName" for part in ("CipherSuite", "Version")),
                *(
                    f"ResponseAccessControl{part}HeaderValue"
                    for part in ("AllowCredentials", "AllowHeaders", "AllowMethods", "AllowOrigin", "ExposeHeaders")
                ),
                *("ResponseAccessControlMaxAgeHeaderValue", "ResponseContentSecurityPolicyHeaderValue"),
                *("ResponseServerEnabled", "ResponseStrictTransportSecurityHeaderValue"),
                *("ResponseXContentTypeOptionsHeaderValue", "ResponseXFrameOptionsHeaderValue"),
            )
        },
    },
    validators=(exactly_one("port"), exactly_one("protocol")),
)

ROWS: Final = (LOAD_BALANCER, TARGET_GROUP, LISTENER)
