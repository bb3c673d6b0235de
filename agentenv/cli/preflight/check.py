"""A question about an account, its answer, and the check that combines both."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from agentenv.cli.preflight.aws_calls import Account, AwsCallError

Amount = int | str | None


@dataclass(frozen=True)
class Answer:
    """The limit or value in AWS, whether it is enough, and why. `ok` is None if that is unknown."""

    limit: Amount
    ok: bool | None
    why: str


@dataclass(frozen=True)
class Question:
    """A requirement, and a function that checks whether the account meets it."""

    name: str
    needed: Amount
    answer: Callable[[Account], Answer]


@dataclass(frozen=True)
class Check:
    """A question with its answer, as the command's JSON has it."""

    name: str
    needed: Amount
    limit: Amount
    ok: bool | None
    why: str

    def as_json(self) -> dict[str, Any]:
        """Return the check as the command prints it."""
        return asdict(self)


def run_checks(questions: Iterable[Question], account: Account) -> list[Check]:
    """Answer every question. A failed call makes its own check unknown, and no other."""
    return [_run_check(question, account) for question in questions]


def unanswered_checks(questions: Iterable[Question], why: str) -> list[Check]:
    """Return the checks without a result, if no call can be made."""
    return [Check(question.name, question.needed, None, None, why) for question in questions]


def _run_check(question: Question, account: Account) -> Check:
    try:
        answer = question.answer(account)
    except AwsCallError as error:
        answer = Answer(None, None, str(error))
    return Check(question.name, question.needed, answer.limit, answer.ok, answer.why)
