"""Run every preflight check of a stack, in the order of a report."""

from __future__ import annotations

from dataclasses import dataclass

from agentenv.cli.preflight import (
    access,
    account_state,
    addon_configuration,
    api_access,
    certificate,
    existing,
    image_architectures,
    permissions,
    quotas,
    runtime_mirror,
    service_image,
    session,
    subnet_capacity,
    versions,
    zones,
)
from agentenv.cli.preflight.aws_calls import Account, AwsCallError
from agentenv.cli.preflight.check import Check, Question, run_checks, unanswered_checks
from agentenv.config import Settings


@dataclass(frozen=True)
class PreflightResult:
    """The checks, the caller, and the error if AWS answered no call."""

    checks: list[Check]
    caller: str
    error: str = ""

    @property
    def failed(self) -> bool:
        """Return whether a check has failed."""
        return any(check.ok is False for check in self.checks)


def questions(settings: Settings) -> list[Question]:
    """Return all questions, which depend on the settings alone."""
    return [
        question
        for module in (
            zones,
            versions,
            addon_configuration,
            quotas,
            subnet_capacity,
            existing,
            service_image,
            image_architectures,
            runtime_mirror,
            certificate,
            access,
            session,
            api_access,
            account_state,
            permissions,
        )
        for question in module.questions(settings)
    ]


def preflight(settings: Settings, account: Account) -> PreflightResult:
    """Run all checks, unless AWS does not even answer who the caller is."""
    try:
        caller = account.identity["Arn"]
    except AwsCallError as error:
        return PreflightResult(unanswered_checks(questions(settings), str(error)), "", str(error))
    return PreflightResult(run_checks(questions(settings), account), caller)
