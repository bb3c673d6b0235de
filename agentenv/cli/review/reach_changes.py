"""What each class may reach after a change that it could not before, and the other way round, in plain words."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentenv.config import Settings
from agentenv.config.sections.capabilities import Grant
from agentenv.config.sections.classes import SandboxClass
from agentenv.core.capabilities.from_settings import cluster_facts, egress_of
from agentenv.core.capabilities.grants import RefusedGrantError
from agentenv.core.capabilities.sets.description import destination
from agentenv.core.capabilities.sets.reach import NOTHING, Reach, Uncertain, worlds

# What is compared besides the network: the settings that decide what a sandbox is held by and what it may do
_WALLS = ("tier", "kernel", "compute", "runtime_class", "enforced_by")


@dataclass
class ClassChange:
    """What changes for the sandboxes of one class."""

    name: str
    gained: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether anything does."""
        return bool(self.gained or self.lost)


def reaching(before: Settings | None, after: Settings | None) -> list[ClassChange]:
    """The classes whose capabilities change, in the order of the stack file; a class that goes loses all."""
    old = {one.name: one for one in before.sandbox_classes} if before else {}
    new = {one.name: one for one in after.sandbox_classes} if after else {}
    found = [_class(name, old.get(name), new.get(name), before, after) for name in dict.fromkeys([*new, *old])]
    return [change for change in found if change.changed]


def _class(
    name: str, old: SandboxClass | None, new: SandboxClass | None, before: Settings | None, after: Settings | None
) -> ClassChange:
    change = ClassChange(name)
    was, now = _egress(old, before), _egress(new, after)
    change.gained += _words(now, was, _written(new) - _written(old))
    change.lost += _words(was, now, _written(old) - _written(new))
    if old is None or new is None:
        (change.lost if new is None else change.gained).append("the class itself")
        return change
    for setting in _WALLS:
        one, other = getattr(old, setting), getattr(new, setting)
        if one != other:
            change.gained.append(f"{setting} {other}")
            change.lost.append(f"{setting} {one}")
    policies = set(new.identity.policies), set(old.identity.policies)
    change.gained += [f"AWS policy {arn}" for arn in sorted(policies[0] - policies[1])]
    change.lost += [f"AWS policy {arn}" for arn in sorted(policies[1] - policies[0])]
    return change


def _egress(one: SandboxClass | None, settings: Settings | None) -> Uncertain:
    if one is None or settings is None:
        return Uncertain.known(NOTHING)
    try:
        return egress_of(one, cluster_facts(settings))
    except RefusedGrantError:  # what cannot be granted opens nothing, and `agentenv check` refuses it
        return Uncertain.known(NOTHING)


def _written(one: SandboxClass | None) -> set[str]:
    return {_grant(grant) for grant in one.capabilities} if one else set()


def _grant(grant: Grant) -> str:
    """A capability as people write it."""
    if grant.word:
        return grant.word
    what = str(grant.cidr or grant.domain or f"the class {grant.class_}")
    ports = f" on {grant.protocol} {', '.join(map(str, grant.ports))}" if grant.ports else f" on {grant.protocol}"
    return what + ports


def _words(wider: Uncertain, narrower: Uncertain, names: set[str]) -> list[str]:
    """What the one reaches and the other does not, whatever is not known yet: the words for it, and an example."""
    facts = wider.facts | narrower.facts
    example = ""
    for world in worlds(facts):
        more: Reach = wider.at(world).most - narrower.at(world).least
        if more:
            example = destination(more)
            break
    if not example:
        # A word that opens nothing that was not open before is still worth a line
        return [f"{name} (reaches nothing more)" for name in sorted(names)]
    return [f"{', '.join(sorted(names)) or 'without a word of its own'}: for example {example}"]
