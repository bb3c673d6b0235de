"""Network load balancers: listeners with TLS, and the health of targets as the balancer itself finds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError, Response

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext

ALPN = ("HTTP1Only", "HTTP2Only", "HTTP2Optional", "HTTP2Preferred", "None")


def create_listener(context: RequestContext) -> Response:
    """Create a listener; one with TLS needs an existing certificate."""
    _check(context, context.parameters.get("Protocol"))
    return context.forward()


def modify_listener(context: RequestContext) -> dict[str, Any]:
    """Change a listener, also one with TLS, which moto refuses."""
    parameters = context.parameters
    arn = parameters["ListenerArn"]
    listeners = (
        balancer.listeners[arn]
        for balancer in context.backend("elbv2").load_balancers.values()
        if arn in balancer.listeners
    )
    listener = next(listeners, None)
    if listener is None:
        raise AwsError("ListenerNotFound", "One or more listeners not found", 400)
    _check(context, parameters.get("Protocol") or listener.protocol)
    # Moto knows everything but this protocol.
    others = {name: value for name, value in parameters.items() if name not in {"Protocol", "Certificates"}}
    context.result(others)
    listener.protocol = parameters.get("Protocol") or listener.protocol
    listener.alpn_policy = parameters.get("AlpnPolicy", listener.alpn_policy)
    if parameters.get("Certificates"):
        listener.certificate = parameters["Certificates"][0]["CertificateArn"]
        listener.certificates = [listener.certificate]
    return context.invoke("elbv2", "DescribeListeners", ListenerArns=[arn])


def describe_target_health(context: RequestContext) -> dict[str, Any]:
    """Return the state of targets; `unused` where no served listener leads to the group."""
    group = context.backend("elbv2").target_groups.get(context.parameters["TargetGroupArn"])
    if group is None:
        raise AwsError("TargetGroupNotFound", "One or more target groups not found", 400)
    targets = [target["Id"] for target in context.parameters.get("Targets") or ()] or list(group.targets)
    found = context.store.balancers.health(group.arn)
    return {
        "TargetHealthDescriptions": [
            {
                "Target": {"Id": target, "Port": int(group.port)},
                "HealthCheckPort": str(group.health_check_port),
                "TargetHealth": {"State": found.get(target, "unused")},
            }
            for target in targets
        ]
    }


def _check(context: RequestContext, protocol: str | None) -> None:
    certificates = context.parameters.get("Certificates") or []
    policy = context.parameters.get("AlpnPolicy") or []
    if policy and (protocol != "TLS" or policy[0] not in ALPN):
        raise AwsError("ALPNPolicyNotSupported", f"The ALPN policy {policy[0]} is not supported for {protocol}", 400)
    known = context.backend("acm")._certificates
    for certificate in certificates:
        arn = certificate["CertificateArn"]
        if protocol == "TLS" and ":acm:" in arn and arn not in known:
            raise AwsError("CertificateNotFound", f"Certificate '{arn}' not found", 400)


ROWS = (
    OperationHandler("elbv2", "CreateListener", create_listener),
    OperationHandler("elbv2", "DescribeTargetHealth", describe_target_health),
    OperationHandler("elbv2", "ModifyListener", modify_listener),
)
