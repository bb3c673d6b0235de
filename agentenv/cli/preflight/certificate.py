"""Check that the certificate of the load balancer is issued, and names every host of the gateway."""

from __future__ import annotations

from agentenv.cli.preflight.aws_calls import Account, AwsCallError
from agentenv.cli.preflight.check import Answer, Question
from agentenv.config import Settings
from agentenv.core.plan import GatewayPlan, plan


def questions(settings: Settings) -> list[Question]:
    """Return the question about the certificate, where there is a gateway."""
    gateway = plan(settings).gateway
    if gateway is None:
        return []
    names = ", ".join(gateway.hosts)
    return [Question("certificate of the domain", names, lambda account: _check(account, gateway))]


def _check(account: Account, gateway: GatewayPlan) -> Answer:
    try:
        certificate = account.call("acm", "describe_certificate", CertificateArn=gateway.certificate)["Certificate"]
    except AwsCallError as error:
        if error.code != "ResourceNotFoundException":
            raise
        return Answer(None, ok=False, why=f"{error}; request the certificate in this region")
    status, names = certificate["Status"], certificate.get("SubjectAlternativeNames", [])
    if status != "ISSUED":
        return Answer(status, ok=False, why="ACM has not issued it; complete its validation")
    missing = [host for host in gateway.hosts if host not in names]
    why = f"it does not name {', '.join(missing)}; request one that does" if missing else ""
    return Answer(", ".join(names), ok=not missing, why=why)
