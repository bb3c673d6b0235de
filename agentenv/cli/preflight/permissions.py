"""Whether the caller may do what `pulumi up` does, by IAM's own simulation of its policies."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentenv.cli.preflight.actions import Actions, actions_of
from agentenv.cli.preflight.aws_calls import Account, Unanswered
from agentenv.cli.preflight.check import Answer, Question
from agentenv.config import Settings
from agentenv.core.iam.principals import session_role

# Placeholders until the caller is known: how many operations there are does not depend on who it is.
_NOBODY, _NOWHERE = "000000000000", "aws"
MOST_AT_ONCE = 50
LONGEST = 6


def questions(settings: Settings) -> list[Question]:
    """A question a service, so that what is missing stands together."""
    services = dict.fromkeys(row.service for row in actions_of(settings, _NOBODY, _NOWHERE))
    return [
        Question(f"permissions: {service}", count, _asker(settings, service))
        for service in services
        if (count := sum(len(row.words) for row in actions_of(settings, _NOBODY, _NOWHERE) if row.service == service))
    ]


def principal(account: Account) -> str:
    """The caller as IAM simulates it: a session's role with its path, which the session's ARN leaves out."""
    arn = account.identity["Arn"]
    role = session_role(arn)
    if role is None:
        return arn
    found = account.once("role", lambda: account.ask("iam", "get_role", RoleName=role))
    return str(found["Role"]["Arn"])


def _asker(settings: Settings, service: str) -> Callable[[Account], Answer]:
    def ask(account: Account) -> Answer:
        caller = account.identity
        if re.fullmatch(r"arn:[a-z-]+:iam::\d{12}:root", caller["Arn"]):
            return Answer("all", ok=True, why="the account's root may do everything; use a role instead")
        rows = [
            row
            for row in actions_of(settings, caller["Account"], caller["Arn"].split(":")[1])
            if row.service == service
        ]
        try:
            found = [simulated(account, principal(account), row) for row in rows]
        except Unanswered as silence:
            if silence.code in {"AccessDenied", "AccessDeniedException"}:
                raise Unanswered(f"{silence}; to be told, the caller needs iam:SimulatePrincipalPolicy") from None
            raise
        refused = [(row, name) for row, names in zip(rows, found, strict=True) for name in names.refused]
        return judged(sum(len(row.words) for row in rows), refused, [name for names in found for name in names.unsure])

    return ask


def judged(count: int, refused: Sequence[tuple[Actions, str]], unsure: Sequence[str]) -> Answer:
    """Whether all is allowed; the first of what is not, by name."""
    if refused:
        where = ", ".join(dict.fromkeys(row.resource for row, _ in refused))
        why = f"not allowed: {_some([name for _, name in refused])}; allow them on {where}"
        return Answer(count - len(refused) - len(unsure), ok=False, why=why)
    if unsure:
        why = f"allowed under conditions only, which a simulation does not meet: {_some(unsure)}"
        return Answer(count - len(unsure), ok=None, why=why)
    return Answer(count, ok=True, why="")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - LONGEST} more" if len(names) > LONGEST else ""
    return ", ".join(names[:LONGEST]) + more


@dataclass(frozen=True)
class Simulated:
    """What a simulation did not let through: for good, or because conditions speak of what it cannot know."""

    refused: list[str]
    unsure: list[str]


def simulated(account: Account, caller: str, row: Actions) -> Simulated:
    """The operations of a row that the caller's policies, its boundary and its organization do not let through."""
    refused: list[str] = []
    unsure: list[str] = []
    for start in range(0, len(row.names), MOST_AT_ONCE):
        results = account.all(
            "iam",
            "simulate_principal_policy",
            "EvaluationResults",
            PolicySourceArn=caller,
            ActionNames=row.names[start : start + MOST_AT_ONCE],
            ResourceArns=[row.resource],
        )
        for one in results:
            if one["EvalDecision"] == "implicitDeny" and one.get("MissingContextValues"):
                unsure.append(str(one["EvalActionName"]))
            elif one["EvalDecision"] != "allowed":
                refused.append(str(one["EvalActionName"]))
    return Simulated(refused, unsure)
