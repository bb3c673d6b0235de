"""A question about an account, its answer, and the check that the two make."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from agentenv.cli.preflight.aws_calls import Account, Unanswered

Amount = int | str | None


@dataclass(frozen=True)
class Answer:
    """What AWS allows or has, whether that is enough, and why; `ok` is None where nobody can tell."""

    limit: Amount
    ok: bool | None
    why: str


@dataclass(frozen=True)
class Question:
    """What is needed, and how to find out whether it can be had."""

    name: str
    needed: Amount
    ask: Callable[[Account], Answer]


@dataclass(frozen=True)
class Check:
    """A question with its answer, in the words of the command's contract."""

    name: str
    needed: Amount
    limit: Amount
    ok: bool | None
    why: str

    def as_json(self) -> dict[str, Any]:
        """The check as the command prints it."""
        return asdict(self)


def checked(questions: Iterable[Question], account: Account) -> list[Check]:
    """Every question with its answer; one that is not answered takes no other with it."""
    return [_checked(question, account) for question in questions]


def unchecked(questions: Iterable[Question], why: str) -> list[Check]:
    """The questions where nobody can be asked."""
    return [Check(question.name, question.needed, None, None, why) for question in questions]


def _checked(question: Question, account: Account) -> Check:
    try:
        answer = question.ask(account)
    except Unanswered as silence:
        answer = Answer(None, None, str(silence))
    return Check(question.name, question.needed, answer.limit, answer.ok, answer.why)
