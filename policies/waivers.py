"""Waivers: exceptions to rules with owners, a reason and an expiry. Read from `waivers.yaml`, beside the packs.

A waiver is for one rule in one environment, for one resource or several with the same name prefix, for at most 90 days.
An expired or invalid waiver waives nothing and is a finding. An unused one is advisory. Waived findings are still
shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final, cast

import yaml

from agentenv.policies.verdicts import PACK_FINDINGS, Finding, Severity, Verdict

FILE: Final = Path(__file__).parent / "waivers.yaml"
MAX_DAYS: Final = 90
KEYS: Final = ("id", "rule", "urn", "environment", "reason", "owners", "ticket", "created", "expires")
EXPIRED, INVALID, UNUSED = "WVR-01", "WVR-02", "WVR-03"
_ID = re.compile(r"[a-z0-9][a-z0-9-]{2,62}")
# Characters before a `*`: a pattern without a prefix would waive resources that nobody has looked at
_SHORTEST_PREFIX = 3


@dataclass(frozen=True)
class Waiver:
    """One waiver from the file."""

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
        """Return whether its last day is over."""
        return today > self.expires

    def covers(self, finding: Finding) -> bool:
        """Return whether it covers a finding. A finding about the whole stack has the URN of the stack."""
        return finding.rule == self.rule and _pattern(self.urn).fullmatch(finding.urn) is not None

    @property
    def path(self) -> str:
        """Return its path in the file."""
        return f"waivers.{self.id}"

    @property
    def summary(self) -> str:
        """Return its expiry, reason, owners and ticket in one line."""
        return f"waived by {self.id} until {self.expires}: {self.reason} ({', '.join(self.owners)}, {self.ticket})"


@dataclass(frozen=True)
class Waived:
    """A finding with the waiver that covers it."""

    finding: Finding
    waiver: Waiver


@dataclass(frozen=True)
class Waivers:
    """The valid waivers of a file, and the mistakes in the others."""

    all: tuple[Waiver, ...] = ()
    wrong: tuple[str, ...] = ()

    def in_environment(self, environment: str) -> tuple[Waiver, ...]:
        """Return the waivers of one environment."""
        return tuple(waiver for waiver in self.all if waiver.environment == environment)

    def waiver_for(self, finding: Finding, environment: str, today: date) -> Waiver | None:
        """Return the waiver that covers a finding; None for other verdicts than failures and indeterminate ones."""
        if finding.verdict not in {Verdict.FAIL, Verdict.INDETERMINATE}:
            return None
        waivers = (waiver for waiver in self.in_environment(environment) if not waiver.expired(today))
        return next((waiver for waiver in waivers if waiver.covers(finding)), None)

    def split(
        self, findings: Iterable[Finding], environment: str, today: date
    ) -> tuple[tuple[Finding, ...], tuple[Waived, ...]]:
        """Return the findings without a waiver, and those with one."""
        remaining: list[Finding] = []
        waived: list[Waived] = []
        for finding in findings:
            waiver = self.waiver_for(finding, environment, today)
            if waiver is None:
                remaining.append(finding)
            else:
                waived.append(Waived(finding, waiver))
        return tuple(remaining), tuple(waived)

    def own_findings(self, environment: str, used: Iterable[str], today: date, stack: str = "") -> tuple[Finding, ...]:
        """Return the findings about the waivers; `used` has the ids of those that waive a finding.

        Their URN is that of the stack, and their path is the waiver's path in the file.
        """
        findings = [_finding(INVALID, stack, _waiver_path(mistake), mistake) for mistake in self.wrong]
        used_waivers = set(used)
        for waiver in self.in_environment(environment):
            if waiver.expired(today):
                message = f"the waiver {waiver.id} of {waiver.rule} expired on {waiver.expires}: fix its finding"
                findings.append(_finding(EXPIRED, stack, waiver.path, message))
            elif waiver.id not in used_waivers:
                message = f"the waiver {waiver.id} of {waiver.rule} is unused: remove it"
                findings.append(_finding(UNUSED, stack, waiver.path, message))
        return tuple(findings)


def read_waivers(path: Path, severities: Mapping[str, Severity], today: date | None = None) -> Waivers:
    """Read the waivers of a file; `severities` has the severity of each rule. The default file may be missing."""
    if not path.is_file():
        return Waivers(wrong=() if path == FILE else (f"the file of waivers does not exist: {path}",))
    return waivers_of(path.read_text(encoding="utf-8"), severities, today or datetime.now(UTC).date())


def waivers_of(text: str, severities: Mapping[str, Severity], today: date) -> Waivers:
    """Parse waivers; each mistake names its waiver."""
    try:
        document: object = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        return Waivers(wrong=(f"the waivers are not valid YAML{f', line {mark.line + 1}' if mark else ''}",))
    content = cast("Mapping[object, object]", document) if isinstance(document, Mapping) else {"waivers": document}
    if unknown_keys := [key for key in content if key != "waivers"]:
        return Waivers(
            wrong=tuple(f"'{key}' is not a key of the file: its only key is `waivers`, a list" for key in unknown_keys)
        )
    rows = content.get("waivers")
    if rows is None:
        return Waivers()
    if not isinstance(rows, list):
        return Waivers(wrong=("`waivers` must be a list",))
    valid: list[Waiver] = []
    wrong: list[str] = []
    for index, row in enumerate(cast("list[object]", rows)):
        title, mistakes, waiver = _read(index, row, severities, today)
        if waiver is not None and any(other.id == waiver.id for other in valid):
            mistakes = ["another waiver has the same id"]
        wrong += [f"{title}: {mistake}" for mistake in mistakes]
        if waiver is not None and not mistakes:
            valid.append(waiver)
    return Waivers(tuple(valid), tuple(wrong))


def _read(
    index: int, row: object, severities: Mapping[str, Severity], today: date
) -> tuple[str, list[str], Waiver | None]:
    title = f"waiver {index + 1}"
    if not isinstance(row, Mapping):
        return title, [f"it must be a mapping with the keys {', '.join(KEYS)}"], None
    raw = cast("Mapping[str, object]", row)
    if isinstance(raw.get("id"), str):
        title = f"waiver {raw['id']}"
    mistakes = [f"'{key}' is missing" for key in KEYS if not raw.get(key) or not str(raw[key]).strip()]
    mistakes += [f"'{key}' is not a key of a waiver; its keys are {', '.join(KEYS)}" for key in raw if key not in KEYS]
    mistakes += [
        f"'{key}' must be a string"
        for key in ("id", "rule", "urn", "environment", "reason", "ticket")
        if raw.get(key) and not isinstance(raw[key], str)
    ]
    mistakes += [
        f"'{key}' must be a date, such as 2030-01-31"
        for key in ("created", "expires")
        if raw.get(key) and (not isinstance(raw[key], date) or isinstance(raw[key], datetime))
    ]
    owners = raw.get("owners")
    named = cast("list[object]", owners) if isinstance(owners, list) else [owners]
    if not all(isinstance(owner, str) and _normalized(owner) for owner in named):
        mistakes.append("'owners' must be a list of people or teams")
    if mistakes:
        return title, mistakes, None
    values = {**raw, "owners": tuple(str(owner) for owner in named)}
    waiver = Waiver(**values)  # pyright: ignore[reportArgumentType] every key is checked above
    return title, list(_mistakes(waiver, severities, today)), waiver


def _mistakes(waiver: Waiver, severities: Mapping[str, Severity], today: date) -> Iterable[str]:
    checks: tuple[tuple[Callable[[], bool], str], ...] = (
        (lambda: _ID.fullmatch(waiver.id) is None, "its id must have at least three characters of a-z, 0-9 and '-'"),
        (lambda: waiver.rule not in severities, f"there is no rule {waiver.rule}"),
        (lambda: not is_bounded(waiver.urn), "its urn must be a full URN, or one with a '*' in its name"),
        (lambda: waiver.created > today, "it is created in the future"),
        (lambda: waiver.expires < waiver.created, "it expires before it is created"),
        (
            lambda: waiver.expires - waiver.created > timedelta(days=MAX_DAYS),
            f"it is valid for more than {MAX_DAYS} days",
        ),
        (
            lambda: (
                severities.get(waiver.rule) == "Critical" and len({_normalized(owner) for owner in waiver.owners}) < 2
            ),
            "a Critical rule needs two owners",
        ),
    )
    return [message for is_wrong, message in checks if is_wrong()]


def _normalized(owner: str) -> str:
    """Return an owner's name without the differences in spelling that mean the same owner."""
    return owner.strip().removeprefix("@").strip().casefold()


def is_bounded(urn: str) -> bool:
    """Return whether a URN or pattern has its stack, project and type, and its name or the beginning of its name."""
    parts = urn.split("::", 3)
    if len(parts) < 4 or not parts[0].startswith("urn:pulumi:") or not all(parts):
        return False
    literal, star, _ = parts[3].partition("*")
    if any(mark in "".join(parts[:3]) for mark in "*?[") or "?" in parts[3]:
        return False
    return not star or len(literal) >= _SHORTEST_PREFIX


def _pattern(urn: str) -> re.Pattern[str]:
    """Return the pattern of a waiver's URN; `*` matches anything within a name."""
    return re.compile("[^:]*".join(re.escape(part) for part in urn.split("*")))


def _finding(rule: str, urn: str, path: str, message: str) -> Finding:
    return Finding(rule, PACK_FINDINGS[rule].severity, Verdict.FAIL, urn, path, message)


def _waiver_path(mistake: str) -> str:
    """Return the path of the waiver with a mistake; empty if the mistake is in the file itself."""
    title = mistake.partition(": ")[0]
    return f"waivers.{title.removeprefix('waiver ')}" if title.startswith("waiver ") else ""


def used_ids(waived: Sequence[Waived]) -> set[str]:
    """Return the ids of the waivers that waive a finding."""
    return {each.waiver.id for each in waived}
