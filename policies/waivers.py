"""Waivers: findings that somebody answers for, for a while. Read from `waivers.yaml`, never from the program reviewed.

A waiver is for one rule, in one environment, on one resource or on few that are named alike, for 90 days at most. One
that has expired waives nothing and is a finding itself; so is one that is written wrongly; one that nothing needs any
more is an advice. A waived finding is still shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final, cast

import yaml

from agentenv.policies.verdicts import OWN, Finding, Severity, Verdict

FILE: Final = Path(__file__).parent / "waivers.yaml"
MOST_DAYS: Final = 90
KEYS: Final = ("id", "rule", "urn", "environment", "reason", "owners", "ticket", "created", "expires")
EXPIRED, WRONG, UNUSED = "WVR-01", "WVR-02", "WVR-03"
_ID = re.compile(r"[a-z0-9][a-z0-9-]{2,62}")
# What must stand before a `*`: a pattern that is bounded by nothing waives what nobody has seen
_LEAST_PREFIX = 3


@dataclass(frozen=True)
class Waiver:
    """One waiver, as it was written."""

    id: str
    rule: str
    urn: str
    environment: str
    reason: str
    owners: tuple[str, ...]
    ticket: str
    created: date
    expires: date

    def expired(self, today: date) -> bool:
        """Whether its last day is over."""
        return today > self.expires

    def covers(self, finding: Finding) -> bool:
        """Whether it is for that finding; that of the whole stack has the URN of the stack."""
        return finding.rule == self.rule and _pattern(self.urn).fullmatch(finding.urn) is not None

    @property
    def place(self) -> str:
        """Where it stands in the file, by its name."""
        return f"waivers.{self.id}"

    @property
    def line(self) -> str:
        """Who answers for it, in a line."""
        return f"waived by {self.id} until {self.expires}: {self.reason} ({', '.join(self.owners)}, {self.ticket})"


@dataclass(frozen=True)
class Waived:
    """A finding that somebody answers for."""

    finding: Finding
    waiver: Waiver


@dataclass(frozen=True)
class Waivers:
    """A file of waivers: those that were read, and what is wrong with the others."""

    all: tuple[Waiver, ...] = ()
    wrong: tuple[str, ...] = ()

    def of(self, environment: str) -> tuple[Waiver, ...]:
        """Those of one environment."""
        return tuple(waiver for waiver in self.all if waiver.environment == environment)

    def waiver_for(self, finding: Finding, environment: str, today: date) -> Waiver | None:
        """The waiver that holds for a finding; a pass and what does not apply need none."""
        if finding.verdict not in {Verdict.FAIL, Verdict.INDETERMINATE}:
            return None
        return next((one for one in self.of(environment) if not one.expired(today) and one.covers(finding)), None)

    def split(
        self, findings: Iterable[Finding], environment: str, today: date
    ) -> tuple[tuple[Finding, ...], tuple[Waived, ...]]:
        """The findings that nobody answers for, and those that somebody does."""
        left: list[Finding] = []
        waived: list[Waived] = []
        for finding in findings:
            waiver = self.waiver_for(finding, environment, today)
            if waiver is None:
                left.append(finding)
            else:
                waived.append(Waived(finding, waiver))
        return tuple(left), tuple(waived)

    def own_findings(self, environment: str, used: Iterable[str], today: date, stack: str = "") -> tuple[Finding, ...]:
        """What is to be said of the waivers themselves; `used` are the ids of those that waived something.

        Said of the stack, with the waiver's place in the file for its path.
        """
        found = [_finding(WRONG, stack, _titled(words), words) for words in self.wrong]
        known = set(used)
        for waiver in self.of(environment):
            if waiver.expired(today):
                words = f"the waiver {waiver.id} of {waiver.rule} expired on {waiver.expires}: mend what it was for"
                found.append(_finding(EXPIRED, stack, waiver.place, words))
            elif waiver.id not in known:
                words = f"the waiver {waiver.id} of {waiver.rule} waives nothing any more: remove it"
                found.append(_finding(UNUSED, stack, waiver.place, words))
        return tuple(found)


def read_waivers(path: Path, severities: Mapping[str, Severity], today: date | None = None) -> Waivers:
    """The waivers of a file; `severities` are those of the rules there are. A file that is not there has none."""
    if not path.is_file():
        return Waivers(wrong=() if path == FILE else (f"there is no file of waivers {path}",))
    return waivers_of(path.read_text(encoding="utf-8"), severities, today or datetime.now(UTC).date())


def waivers_of(text: str, severities: Mapping[str, Severity], today: date) -> Waivers:
    """The waivers of a text, and each mistake in it with the waiver it is in."""
    try:
        said: object = yaml.safe_load(text)
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        return Waivers(wrong=(f"the waivers cannot be read as YAML{f', line {place.line + 1}' if place else ''}",))
    whole = cast("Mapping[object, object]", said) if isinstance(said, Mapping) else {"waivers": said}
    if strange := [key for key in whole if key != "waivers"]:
        return Waivers(
            wrong=tuple(f"'{key}' is no key of the file: it holds one, waivers, with a list" for key in strange)
        )
    rows = whole.get("waivers")
    if rows is None:
        return Waivers()
    if not isinstance(rows, list):
        return Waivers(wrong=("`waivers` has to be a list",))
    good: list[Waiver] = []
    wrong: list[str] = []
    for index, row in enumerate(cast("list[object]", rows)):
        title, mistakes, waiver = _read(index, row, severities, today)
        if waiver is not None and any(other.id == waiver.id for other in good):
            mistakes = ["its id is another's too"]
        wrong += [f"{title}: {mistake}" for mistake in mistakes]
        if waiver is not None and not mistakes:
            good.append(waiver)
    return Waivers(tuple(good), tuple(wrong))


def _read(
    index: int, row: object, severities: Mapping[str, Severity], today: date
) -> tuple[str, list[str], Waiver | None]:
    title = f"waiver {index + 1}"
    if not isinstance(row, Mapping):
        return title, [f"it has to be a mapping of {', '.join(KEYS)}"], None
    raw = cast("Mapping[str, object]", row)
    if isinstance(raw.get("id"), str):
        title = f"waiver {raw['id']}"
    mistakes = [f"'{key}' is missing" for key in KEYS if not raw.get(key) or not str(raw[key]).strip()]
    mistakes += [f"'{key}' is no key of a waiver: {', '.join(KEYS)}" for key in raw if key not in KEYS]
    mistakes += [
        f"'{key}' has to be a text"
        for key in ("id", "rule", "urn", "environment", "reason", "ticket")
        if raw.get(key) and not isinstance(raw[key], str)
    ]
    mistakes += [
        f"'{key}' has to be a day, such as 2030-01-31"
        for key in ("created", "expires")
        if raw.get(key) and (not isinstance(raw[key], date) or isinstance(raw[key], datetime))
    ]
    owners = raw.get("owners")
    people = cast("list[object]", owners) if isinstance(owners, list) else [owners]
    if not all(isinstance(owner, str) and _person(owner) for owner in people):
        mistakes.append("'owners' has to be a list of people or teams")
    if mistakes:
        return title, mistakes, None
    values = {**raw, "owners": tuple(str(owner) for owner in people)}
    waiver = Waiver(**values)  # pyright: ignore[reportArgumentType] every key was looked at above
    return title, list(_mistakes(waiver, severities, today)), waiver


def _mistakes(waiver: Waiver, severities: Mapping[str, Severity], today: date) -> Iterable[str]:
    checks: tuple[tuple[Callable[[], bool], str], ...] = (
        (lambda: _ID.fullmatch(waiver.id) is None, "its id has to be of a-z, 0-9 and '-', three at least"),
        (lambda: waiver.rule not in severities, f"there is no rule {waiver.rule}"),
        (lambda: not bounded(waiver.urn), "its urn has to be a whole URN, or one with a '*' in its name"),
        (lambda: waiver.created > today, "it was made in the future"),
        (lambda: waiver.expires < waiver.created, "it expires before it was made"),
        (
            lambda: waiver.expires - waiver.created > timedelta(days=MOST_DAYS),
            f"it holds for more than {MOST_DAYS} days",
        ),
        (
            lambda: severities.get(waiver.rule) == "Critical" and len({_person(owner) for owner in waiver.owners}) < 2,
            "a Critical rule needs two owners",
        ),
    )
    return [words for broken, words in checks if broken()]


def _person(owner: str) -> str:
    """Whom an owner's name means, however it is written."""
    return owner.strip().removeprefix("@").strip().casefold()


def bounded(urn: str) -> bool:
    """Whether a URN or pattern says its stack, project and type, and its name, or the beginning of its name."""
    parts = urn.split("::", 3)
    if len(parts) < 4 or not parts[0].startswith("urn:pulumi:") or not all(parts):
        return False
    literal, star, _ = parts[3].partition("*")
    if any(mark in "".join(parts[:3]) for mark in "*?[") or "?" in parts[3]:
        return False
    return not star or len(literal) >= _LEAST_PREFIX


def _pattern(urn: str) -> re.Pattern[str]:
    """A `*` stands for anything within a name."""
    return re.compile("[^:]*".join(re.escape(part) for part in urn.split("*")))


def _finding(rule: str, urn: str, path: str, words: str) -> Finding:
    return Finding(rule, OWN[rule].severity, Verdict.FAIL, urn, path, words)


def _titled(words: str) -> str:
    """The place of the waiver that a mistake is in; nothing where the file itself is wrong."""
    title = words.partition(": ")[0]
    return f"waivers.{title.removeprefix('waiver ')}" if title.startswith("waiver ") else ""


def used_by(waived: Sequence[Waived]) -> set[str]:
    """The ids of the waivers that waived something."""
    return {one.waiver.id for one in waived}
