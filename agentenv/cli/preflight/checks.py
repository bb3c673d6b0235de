"""Every question that a stack asks of an account, in the order in which a person would ask them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agentenv.cli.preflight import access, permissions, quotas, service_image
from agentenv.cli.preflight import existing as standing
from agentenv.cli.preflight import subnet_capacity as room
from agentenv.cli.preflight import versions as builds
from agentenv.cli.preflight import zones as places
from agentenv.cli.preflight.aws_calls import Account, Unanswered
from agentenv.cli.preflight.check import Check, Question, checked, unchecked
from agentenv.config import Settings


@dataclass(frozen=True)
class Findings:
    """The checks, and why nobody could be asked at all where that was so."""

    checks: list[Check]
    caller: str
    silence: str = ""

    @property
    def failed(self) -> bool:
        """Whether something is surely not as it has to be."""
        return any(check.ok is False for check in self.checks)


def questions(settings: Settings) -> list[Question]:
    """All of them; which there are follows from the settings alone."""
    return [
        question
        for module in (places, builds, quotas, room, standing, service_image, access, permissions)
        for question in module.questions(settings)
    ]


def preflight(settings: Settings, account: Account) -> Findings:
    """Ask everything, if there is anybody who answers."""
    asked: Iterable[Question] = questions(settings)
    try:
        caller = account.identity["Arn"]
    except Unanswered as silence:
        return Findings(unchecked(asked, str(silence)), "", str(silence))
    return Findings(checked(asked, account), caller)
