"""Constraints on names: unknown, ambiguous, or rejected by AWS or Kubernetes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Constraint, Finding
from agentenv.config.mistakes import nearest
from agentenv.core.classes.names import SCHEDULES, namespace
from agentenv.core.nodes.tier_rules import rule_of
from agentenv.core.values.names import KINDS
from agentenv.core.values.posix_ids import class_id, seat_id

if TYPE_CHECKING:
    from agentenv.config.mistakes import Place
    from agentenv.config.settings import Settings

CLASS_TWICE = "class-twice"
# The longest name derived from a class is `home-<class>-<hash of 8>-<shard of 2>-<5>`, in a label of 63 characters.
LONGEST_CLASS = 63 - len("home-") - len("-12345678") - len("-99") - len("-12345")
OUR_TAGS = ("environment", "component", "owner", "cost-center", "sandbox-user", "sandbox-class")

_NAMES: Place = ("sandboxClasses", "*", "name")


def _classes_twice(settings: Settings) -> Iterator[Finding]:
    names = [sandbox_class.name for sandbox_class in settings.sandbox_classes]
    for index, name in enumerate(names):
        if name in names[:index]:
            also = (("sandboxClasses", names.index(name), "name"),)
            yield Finding(("sandboxClasses", index, "name"), f"{name} twice", also=also)


def _class_ids_collide(settings: Settings) -> Iterator[Finding]:
    holders: dict[int, str] = {}
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        holder = holders.setdefault(class_id(sandbox_class.name), sandbox_class.name)
        if holder != sandbox_class.name:
            yield Finding(
                ("sandboxClasses", index, "name"), f"{sandbox_class.name} with the ids of {holder}", also=(_NAMES,)
            )


def _class_reserved(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        if namespace(sandbox_class.name) == SCHEDULES:
            yield Finding(("sandboxClasses", index, "name"), sandbox_class.name)


def _class_too_long(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        if len(sandbox_class.name) > LONGEST_CLASS:
            yield Finding(("sandboxClasses", index, "name"), f"{len(sandbox_class.name)} characters")


def _parent_unknown(settings: Settings) -> Iterator[Finding]:
    names = [sandbox_class.name for sandbox_class in settings.sandbox_classes]
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        if sandbox_class.parent is not None and sandbox_class.parent not in names:
            yield _unknown_class(("sandboxClasses", index, "parent"), sandbox_class.parent, names)


def _unknown_class(place: Place, name: str, names: list[str]) -> Finding:
    known = f"there are {', '.join(names[:8])}" if names else "there is no class yet"
    return Finding(place, name, nearest(name, names) or known, (_NAMES,))


def _parent_cycle(settings: Settings) -> Iterator[Finding]:
    parents = {sandbox_class.name: sandbox_class.parent for sandbox_class in settings.sandbox_classes}
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        line = [sandbox_class.name]
        while (parent := parents.get(line[-1])) is not None and parent not in line:
            line.append(parent)
        if parent == sandbox_class.name:
            also = (_NAMES, ("sandboxClasses", "*", "parent"))
            yield Finding(("sandboxClasses", index, "parent"), " under ".join([*line, sandbox_class.name]), also=also)


def _tier_below_parent(settings: Settings) -> Iterator[Finding]:
    tiers = {sandbox_class.name: sandbox_class.tier for sandbox_class in settings.sandbox_classes}
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        parent = tiers.get(sandbox_class.parent or "")
        if parent is not None and rule_of(sandbox_class.tier).strength < rule_of(parent).strength:
            also = (_NAMES, ("sandboxClasses", "*", "tier"), ("sandboxClasses", index, "parent"))
            yield Finding(("sandboxClasses", index, "tier"), f"{sandbox_class.tier} under {parent}", also=also)


def _grant_unknown(settings: Settings) -> Iterator[Finding]:
    names = [sandbox_class.name for sandbox_class in settings.sandbox_classes]
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        for position, grant in enumerate(sandbox_class.capabilities):
            if grant.class_ is not None and grant.class_ not in names:
                place = ("sandboxClasses", index, "capabilities", position, "class")
                yield _unknown_class(place, grant.class_, names)


def _channels(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        seen = ["stable"]
        for position, release in enumerate(sandbox_class.releases):
            place = ("sandboxClasses", index, "releases")
            if release.channel in seen:
                yield Finding((*place, position, "channel"), f"{release.channel} twice", also=(place,))
            seen.append(release.channel)


def _releases_identical(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        place = ("sandboxClasses", index)
        seen = {sandbox_class.image: "stable"}
        for position, release in enumerate(sandbox_class.releases):
            if release.image in seen:
                found = f"the image of {seen[release.image]}"
                yield Finding((*place, "releases", position, "image"), found, also=((*place, "image"), place))
            seen.setdefault(release.image, release.channel)


def _variables_twice(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        names = [variable.name for variable in sandbox_class.env]
        for position, name in enumerate(names):
            if name in names[:position]:
                yield Finding(("sandboxClasses", index, "env", position, "name"), f"{name} twice")


def _seat_class(settings: Settings) -> Iterator[Finding]:
    names = [sandbox_class.name for sandbox_class in settings.sandbox_classes]
    for index, seat in enumerate(settings.workspaces):
        if seat.class_ not in names:
            yield _unknown_class(("workspaces", index, "class"), seat.class_, names)


def _seat_mode(settings: Settings) -> Iterator[Finding]:
    modes = {sandbox_class.name: sandbox_class.modes for sandbox_class in settings.sandbox_classes}
    for index, seat in enumerate(settings.workspaces):
        if seat.mode not in modes.get(seat.class_, (seat.mode,)):
            also = (("workspaces", index, "class"), ("sandboxClasses", "*", "modes"), _NAMES)
            yield Finding(("workspaces", index, "mode"), f"{seat.mode} in class {seat.class_}", also=also)


def _seats_collide(settings: Settings) -> Iterator[Finding]:
    holders: dict[int, str] = {}
    for index, seat in enumerate(settings.workspaces):
        holder = holders.get(seat_id(seat.name))
        if holder is None:
            holders[seat_id(seat.name)] = seat.name
        else:
            found = f"{seat.name} twice" if holder == seat.name else f"{seat.name} with the ids of {holder}"
            yield Finding(("workspaces", index, "name"), found)


def _seat_too_long(settings: Settings) -> Iterator[Finding]:
    for index, seat in enumerate(settings.workspaces):
        if not KINDS["kubernetes-label"].accepts(f"home-{seat.name}"):
            yield Finding(("workspaces", index, "name"), f"{len(seat.name)} characters")


def _principals_twice(settings: Settings) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    lists: tuple[tuple[str, Callable[[Settings], tuple[str, ...]]], ...] = (
        ("admins", lambda settings: settings.cluster.admins),
        ("operators", lambda settings: settings.cluster.operators),
        ("readers", lambda settings: settings.cluster.readers),
        ("deployers", lambda settings: settings.cluster.deployers),
    )
    for key, principals in lists:
        for index, principal in enumerate(principals(settings)):
            if principal in seen:
                also = (("cluster", seen[principal]),)
                yield Finding(("cluster", key, index), f"{principal} in {seen[principal]} already", also=also)
            seen.setdefault(principal, key)


def _tags(settings: Settings) -> Iterator[Finding]:
    keys = [tag.key for tag in settings.cost.tags]
    for index, key in enumerate(keys):
        if key in OUR_TAGS or key in keys[:index] or not KINDS["aws-tag-key"].accepts(key):
            yield Finding(("cost", "tags", index, "key"), key)


CONSTRAINTS = (
    Constraint(
        CLASS_TWICE,
        "each class has its own namespace, so its name must be unique",
        "each name once",
        "rename one of them",
        _classes_twice,
    ),
    Constraint(
        "class-ids-collide",
        "uid and gid derive from the name, and two classes with the same id could read each other's files",
        "classes with different ids",
        "rename the one without data",
        _class_ids_collide,
    ),
    Constraint(
        "class-name-taken",
        "the namespace of that name runs the schedules of all pools, with permissions that sandboxes must not have",
        "any other name",
        "rename it",
        _class_reserved,
    ),
    Constraint(
        "class-name-too-long",
        "names of pods and volumes append a release and a shard to it, and Kubernetes allows 63 characters",
        f"at most {LONGEST_CLASS} characters",
        "shorten it",
        _class_too_long,
    ),
    Constraint(
        "parent-unknown",
        "the parent must be another class",
        "the name of a class",
        "set it to the name of a class",
        _parent_unknown,
    ),
    Constraint(
        "parent-cycle",
        "a class cannot be its own ancestor",
        "parents without a cycle",
        "remove one of the parents",
        _parent_cycle,
    ),
    Constraint(
        "tier-below-parent",
        "a child class must be isolated at least as strongly as its parent",
        "the tier of the parent or a stronger one",
        "raise the tier, or remove parent",
        _tier_below_parent,
    ),
    Constraint(
        "grant-of-unknown-class",
        "only a class has a service",
        "the name of a class",
        "set it to the name of a class",
        _grant_unknown,
    ),
    Constraint(
        "channel-twice",
        "a channel has one release, and stable is the class itself",
        "each channel once, and none of them stable",
        "rename it",
        _channels,
    ),
    Constraint(
        "release-twice",
        "the name of a release derives from its content, and two identical ones would share a template and a pool",
        "a different image for each release",
        "remove the release, or set its image",
        _releases_identical,
    ),
    Constraint(
        "variable-twice",
        "the last value would silently win",
        "each variable once",
        "remove the duplicate",
        _variables_twice,
    ),
    Constraint(
        "seat-of-unknown-class",
        "a seat is a sandbox of a class",
        "the name of a class",
        "set it to the name of a class",
        _seat_class,
    ),
    Constraint(
        "seat-mode-not-of-class",
        "the class does not allow workspaces of this mode",
        "one of the modes of the class",
        "add the mode to the class",
        _seat_mode,
    ),
    Constraint(
        "seats-collide",
        "uid, gid and path derive from the name, and two seats with the same id could read each other's files",
        "seats with different names and ids",
        "rename the one without data",
        _seats_collide,
    ),
    Constraint(
        "seat-name-too-long",
        "its volume is named home-<name>, and Kubernetes allows 63 characters",
        "at most 58 characters",
        "shorten it",
        _seat_too_long,
    ),
    Constraint(
        "principal-twice",
        "EKS allows one access entry for each principal",
        "each principal in one list",
        "keep it in the list with the permissions that it needs",
        _principals_twice,
    ),
    Constraint(
        "tag-taken",
        "the tag is set by the environment, is a duplicate, or is reserved by AWS",
        f"keys other than {', '.join(OUR_TAGS)}, each once",
        "rename or remove it; owner and cost-center have their own settings",
        _tags,
    ),
)
