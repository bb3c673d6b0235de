"""Check the caller's permissions for `pulumi up`, with IAM's policy simulation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentenv.cli.preflight.actions import Actions, actions_of
from agentenv.cli.preflight.aws_calls import Account, AwsCallError
from agentenv.cli.preflight.check import Answer, Question
from agentenv.config import Settings
from agentenv.core.iam.principals import session_role
from agentenv.core.values.errors import first_of

# Placeholders until the caller is known: the number of operations does not depend on them.
_ACCOUNT, _PARTITION = "000000000000", "aws"
MAX_ACTIONS_PER_CALL = 50


def questions(settings: Settings) -> list[Question]:
    """Return one question for each service, so that its missing permissions are listed together."""
    counts = Counter[str]()
    for row in actions_of(settings, _ACCOUNT, _PARTITION):
        counts[row.service] += len(row.operations)
    return [
        Question(f"permissions: {service}", count, _simulate_service(settings, service))
        for service, count in counts.items()
    ]


def caller_arn(account: Account) -> str:
    """Return the ARN that IAM simulates: for a session, its role with the path, which the session's ARN lacks."""
    arn = account.identity["Arn"]
    role = session_role(arn)
    if role is None:
        return arn
    description = account.cached("role", lambda: account.call("iam", "get_role", RoleName=role))
    return str(description["Role"]["Arn"])


def _simulate_service(settings: Settings, service: str) -> Callable[[Account], Answer]:
    def answer(account: Account) -> Answer:
        caller = account.identity
        if re.fullmatch(r"arn:[a-z-]+:iam::\d{12}:root", caller["Arn"]):
            return Answer("all", ok=True, why="the root user has all permissions; use a role instead")
        rows = [
            row
            for row in actions_of(settings, caller["Account"], caller["Arn"].split(":")[1])
            if row.service == service
        ]
        try:
            results = [simulate(account, caller_arn(account), row) for row in rows]
        except AwsCallError as error:
            if error.code in {"AccessDenied", "AccessDeniedException"}:
                raise AwsCallError(f"{error}; for this check the caller needs iam:SimulatePrincipalPolicy") from None
            raise
        denied = [(row, name) for row, result in zip(rows, results, strict=True) for name in result.denied]
        conditional = [name for result in results for name in result.conditional]
        return simulation_answer(sum(len(row.operations) for row in rows), denied, conditional)

    return answer


def simulation_answer(count: int, denied: Sequence[tuple[Actions, str]], conditional: Sequence[str]) -> Answer:
    """Return whether all actions are allowed, with the names of the first that are not."""
    if denied:
        resources = ", ".join(dict.fromkeys(row.resource for row, _ in denied))
        why = f"not allowed: {first_of([name for _, name in denied], ', ')}; allow them on {resources}"
        return Answer(count - len(denied) - len(conditional), ok=False, why=why)
    if conditional:
        why = f"allowed only under conditions that a simulation cannot meet: {first_of(conditional, ', ')}"
        return Answer(count - len(conditional), ok=None, why=why)
    return Answer(count, ok=True, why="")


@dataclass(frozen=True)
class SimulationResult:
    """The actions that a simulation did not allow: denied, or dependent on unknown condition values."""

    denied: list[str]
    conditional: list[str]


def simulate(account: Account, caller: str, row: Actions) -> SimulationResult:
    """Simulate the operations of a row with the caller's policies, boundary and organization policies."""
    denied: list[str] = []
    conditional: list[str] = []
    for start in range(0, len(row.names), MAX_ACTIONS_PER_CALL):
        results = account.list_all(
            "iam",
            "simulate_principal_policy",
            "EvaluationResults",
            PolicySourceArn=caller,
            ActionNames=row.names[start : start + MAX_ACTIONS_PER_CALL],
            ResourceArns=[row.resource],
        )
        for result in results:
            if result["EvalDecision"] == "implicitDeny" and result.get("MissingContextValues"):
                conditional.append(str(result["EvalActionName"]))
            elif result["EvalDecision"] != "allowed":
                denied.append(str(result["EvalActionName"]))
    return SimulationResult(denied, conditional)
