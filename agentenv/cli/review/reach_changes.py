"""Compare what each class may reach before and after a change, as text."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentenv.config import Settings
from agentenv.config.sections.capabilities import Grant
from agentenv.config.sections.classes import Daemon, SandboxClass
from agentenv.core.capabilities.from_settings import cluster_facts, daemon_ingress, egress_of
from agentenv.core.capabilities.grants import RefusedGrantError
from agentenv.core.capabilities.sets.description import destination
from agentenv.core.capabilities.sets.reach import NOTHING, Reach, Uncertain, worlds

# Also compared: the settings of a class for isolation
_ISOLATION_SETTINGS = ("tier", "kernel", "compute", "runtime_class", "enforced_by")


@dataclass
class ClassChange:
    """The gained and lost capabilities of one class."""

    name: str
    gained: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Return whether a capability changes."""
        return bool(self.gained or self.lost)


def capability_changes(before: Settings | None, after: Settings | None) -> list[ClassChange]:
    """Return the classes whose capabilities change, in the order of the stack file. A removed class loses all."""
    old = {row.name: row for row in before.sandbox_classes} if before else {}
    new = {row.name: row for row in after.sandbox_classes} if after else {}
    changes = [_class(name, old.get(name), new.get(name), before, after) for name in dict.fromkeys([*new, *old])]
    return [change for change in changes if change.changed]


def _class(
    name: str, old: SandboxClass | None, new: SandboxClass | None, before: Settings | None, after: Settings | None
) -> ClassChange:
    change = ClassChange(name)
    was, now = _egress(old, before), _egress(new, after)
    change.gained += _reach_difference(now, was, _grant_texts(new) - _grant_texts(old))
    change.lost += _reach_difference(was, now, _grant_texts(old) - _grant_texts(new))
    if old is None or new is None:
        (change.lost if new is None else change.gained).append("the class itself")
        return change
    for setting in _ISOLATION_SETTINGS:
        then, value = getattr(old, setting), getattr(new, setting)
        if then != value:
            change.gained.append(f"{setting} {value}")
            change.lost.append(f"{setting} {then}")
    if before is not None and after is not None and before.daemon_of(old) != after.daemon_of(new):
        change.gained.append(_entry(after.daemon_of(new)))
        change.lost.append(_entry(before.daemon_of(old)))
    policies = set(new.identity.policies), set(old.identity.policies)
    change.gained += [f"AWS policy {arn}" for arn in sorted(policies[0] - policies[1])]
    change.lost += [f"AWS policy {arn}" for arn in sorted(policies[1] - policies[0])]
    return change


def _egress(row: SandboxClass | None, settings: Settings | None) -> Uncertain:
    if row is None or settings is None:
        return Uncertain.known(NOTHING)
    try:
        return egress_of(row, cluster_facts(settings))
    except RefusedGrantError:  # an invalid capability opens nothing, and `agentenv check` reports it
        return Uncertain.known(NOTHING)


def _entry(daemon: Daemon) -> str:
    """Return who may connect to the daemon of a sandbox."""
    callers = sorted({entry.pods.namespace or "anybody" for entry in daemon_ingress(daemon)})
    return f"daemon {daemon}, reached from {' and '.join(callers) or 'nowhere'}"


def _grant_texts(row: SandboxClass | None) -> set[str]:
    return {_grant_text(grant) for grant in row.capabilities} if row else set()


def _grant_text(grant: Grant) -> str:
    """Return a capability as text."""
    if grant.word:
        return grant.word
    target = str(grant.cidr or grant.domain or f"the class {grant.class_}")
    ports = f" on {grant.protocol} {', '.join(map(str, grant.ports))}" if grant.ports else f" on {grant.protocol}"
    return target + ports


def _reach_difference(wider: Uncertain, narrower: Uncertain, names: set[str]) -> list[str]:
    """Describe what one reach has beyond the other, under any value of the unknown facts, with an example."""
    facts = wider.facts | narrower.facts
    example = ""
    for world in worlds(facts):
        more: Reach = wider.at(world).most - narrower.at(world).least
        if more:
            example = destination(more)
            break
    if not example:
        # A capability that opens nothing new is listed too
        return [f"{name} (reaches nothing more)" for name in sorted(names)]
    return [f"{', '.join(sorted(names)) or 'no new capability'}: for example {example}"]
