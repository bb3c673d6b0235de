"""Samples of network load balancers."""

from typing import Any

from tests.fast.rehearsal.providers.aws.samples.sample import MORE_TAGS, REGION, TAGS, Ground, Sample

CERTIFICATES = "acm"


def _balancer(ground: Ground) -> str:
    vpc = ground.vpc()
    created = ground.client("elbv2").create_load_balancer(
        Name=ground.fresh("balancer"), Type="network", Scheme="internal", Subnets=[ground.subnet(vpc)]
    )
    return created["LoadBalancers"][0]["LoadBalancerArn"]


def _group(ground: Ground) -> str:
    created = ground.client("elbv2").create_target_group(
        Name=ground.fresh("targets"), Protocol="TCP", Port=8080, VpcId=ground.vpc(), TargetType="ip"
    )
    return created["TargetGroups"][0]["TargetGroupArn"]


def _certificate(ground: Ground) -> str:
    return ground.client(CERTIFICATES).request_certificate(DomainName="example.com")["CertificateArn"]


def _in_vpc(ground: Ground) -> dict[str, Any]:
    vpc = ground.vpc()
    return {
        "loadBalancerType": "network",
        "internal": True,
        "subnets": [ground.subnet(vpc)],
        "securityGroups": [ground.group(vpc)],
        "enableCrossZoneLoadBalancing": True,
        "tags": TAGS,
    }


def _all_zones(ground: Ground, arn: str, _: dict[str, Any]) -> object:
    """Cross-zone balancing switched on by hand."""
    on = [{"Key": "load_balancing.cross_zone.enabled", "Value": "true"}]
    return ground.client("elbv2").modify_load_balancer_attributes(LoadBalancerArn=arn, Attributes=on)


def _without_addresses(ground: Ground, arn: str, _: dict[str, Any]) -> object:
    """The PROXY protocol switched off by hand, and another path for health checks."""
    balancing = ground.client("elbv2")
    balancing.modify_target_group(TargetGroupArn=arn, HealthCheckPath="/other")
    off = [{"Key": "proxy_protocol_v2.enabled", "Value": "false"}]
    return balancing.modify_target_group_attributes(TargetGroupArn=arn, Attributes=off)


def _older_tls(ground: Ground, arn: str, _: dict[str, Any]) -> object:
    """An old TLS policy, set by hand."""
    return ground.client("elbv2").modify_listener(ListenerArn=arn, SslPolicy="ELBSecurityPolicy-2016-08")


SAMPLES = {
    "aws:lb/loadBalancer:LoadBalancer": Sample(
        inputs=_in_vpc,
        update={"enableCrossZoneLoadBalancing": False, "tags": MORE_TAGS},
        replace={"internal": False},
        behind=_all_zones,
        drift=("enableCrossZoneLoadBalancing",),
    ),
    "aws:lb/targetGroup:TargetGroup": Sample(
        inputs=lambda g: {
            "port": 8080,
            "protocol": "TCP",
            "targetType": "ip",
            "vpcId": g.vpc(),
            "proxyProtocolV2": True,
            "preserveClientIp": "false",
            "deregistrationDelay": 120,
            "connectionTermination": True,
            "healthCheck": {"protocol": "HTTP", "port": "8081", "path": "/ready", "matcher": "200", "interval": 10},
            "tags": TAGS,
        },
        update={"deregistrationDelay": 60, "tags": MORE_TAGS},
        replace={"port": 9090},
        behind=_without_addresses,
        drift=("healthCheck", "proxyProtocolV2"),
    ),
    "aws:lb/listener:Listener": Sample(
        inputs=lambda g: {
            "loadBalancerArn": _balancer(g),
            "port": 443,
            "protocol": "TLS",
            "sslPolicy": "ELBSecurityPolicy-TLS13-1-2-2021-06",
            "certificateArn": _certificate(g),
            "alpnPolicy": "HTTP2Preferred",
            "defaultActions": [{"type": "forward", "targetGroupArn": _group(g)}],
            "tags": TAGS,
        },
        update={"alpnPolicy": "HTTP1Only", "tags": MORE_TAGS},
        replace={"loadBalancerArn": f"arn:aws:elasticloadbalancing:{REGION}:123456789012:loadbalancer/net/other/1"},
        behind=_older_tls,
        drift=("sslPolicy",),
    ),
}
