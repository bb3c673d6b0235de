"""Refusals of names: those that mean nothing, mean two things, or that AWS and Kubernetes would not take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Finding, Row
from agentenv.config.mistakes import nearest
from agentenv.core.classes.names import SCHEDULES, namespace
from agentenv.core.nodes.tier_rules import rule_of
from agentenv.core.values.names import KINDS
from agentenv.core.values.posix_ids import class_id, seat_id

if TYPE_CHECKING:
    from agentenv.config.mistakes import Place
    from agentenv.config.settings import Settings

# A pod of a class is called `home-<class>-<hash of 8>-<shard of 2>-<5>` at the longest, in a label of 63.
LONGEST_CLASS = 63 - len("home-") - len("-12345678") - len("-99") - len("-12345")
OUR_TAGS = ("environment", "component", "owner", "cost-center", "sandbox-user", "sandbox-class")

_NAMES: Place = ("sandboxClasses", "*", "name")


def _classes_twice(settings: Settings) -> Iterator[Finding]:
    names = [one.name for one in settings.sandbox_classes]
    for index, name in enumerate(names):
        if name in names[:index]:
            also = (("sandboxClasses", names.index(name), "name"),)
            yield Finding(("sandboxClasses", index, "name"), f"{name} twice", also=also)


def _class_ids_collide(settings: Settings) -> Iterator[Finding]:
    holders: dict[int, str] = {}
    for index, one in enumerate(settings.sandbox_classes):
        holder = holders.setdefault(class_id(one.name), one.name)
        if holder != one.name:
            yield Finding(("sandboxClasses", index, "name"), f"{one.name} with the ids of {holder}", also=(_NAMES,))


def _class_taken(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        if namespace(one.name) == SCHEDULES:
            yield Finding(("sandboxClasses", index, "name"), one.name)


def _class_too_long(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        if len(one.name) > LONGEST_CLASS:
            yield Finding(("sandboxClasses", index, "name"), f"{len(one.name)} characters")


def _parent_unknown(settings: Settings) -> Iterator[Finding]:
    names = [one.name for one in settings.sandbox_classes]
    for index, one in enumerate(settings.sandbox_classes):
        if one.parent is not None and one.parent not in names:
            yield _unknown_class(("sandboxClasses", index, "parent"), one.parent, names)


def _unknown_class(place: Place, name: str, names: list[str]) -> Finding:
    known = f"there are {', '.join(names[:8])}" if names else "there is no class yet"
    return Finding(place, name, nearest(name, names) or known, (_NAMES,))


def _parent_cycle(settings: Settings) -> Iterator[Finding]:
    parents = {one.name: one.parent for one in settings.sandbox_classes}
    for index, one in enumerate(settings.sandbox_classes):
        line = [one.name]
        while (parent := parents.get(line[-1])) is not None and parent not in line:
            line.append(parent)
        if parent == one.name:
            also = (_NAMES, ("sandboxClasses", "*", "parent"))
            yield Finding(("sandboxClasses", index, "parent"), " under ".join([*line, one.name]), also=also)


def _weaker_than_parent(settings: Settings) -> Iterator[Finding]:
    tiers = {one.name: one.tier for one in settings.sandbox_classes}
    for index, one in enumerate(settings.sandbox_classes):
        parent = tiers.get(one.parent or "")
        if parent is not None and rule_of(one.tier).strength < rule_of(parent).strength:
            also = (_NAMES, ("sandboxClasses", "*", "tier"), ("sandboxClasses", index, "parent"))
            yield Finding(("sandboxClasses", index, "tier"), f"{one.tier} under {parent}", also=also)


def _grant_unknown(settings: Settings) -> Iterator[Finding]:
    names = [one.name for one in settings.sandbox_classes]
    for index, one in enumerate(settings.sandbox_classes):
        for position, grant in enumerate(one.capabilities):
            if grant.class_ is not None and grant.class_ not in names:
                place = ("sandboxClasses", index, "capabilities", position, "class")
                yield _unknown_class(place, grant.class_, names)


def _channels(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        seen = ["stable"]
        for position, release in enumerate(one.releases):
            place = ("sandboxClasses", index, "releases")
            if release.channel in seen:
                yield Finding((*place, position, "channel"), f"{release.channel} twice", also=(place,))
            seen.append(release.channel)


def _releases_alike(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        place = ("sandboxClasses", index)
        seen = {one.image: "stable"}
        for position, release in enumerate(one.releases):
            if release.image in seen:
                found = f"the image of {seen[release.image]}"
                yield Finding((*place, "releases", position, "image"), found, also=((*place, "image"), place))
            seen.setdefault(release.image, release.channel)


def _variables_twice(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        names = [variable.name for variable in one.env]
        for position, name in enumerate(names):
            if name in names[:position]:
                yield Finding(("sandboxClasses", index, "env", position, "name"), f"{name} twice")


def _seat_class(settings: Settings) -> Iterator[Finding]:
    names = [one.name for one in settings.sandbox_classes]
    for index, seat in enumerate(settings.workspaces):
        if seat.class_ not in names:
            yield _unknown_class(("workspaces", index, "class"), seat.class_, names)


def _seat_mode(settings: Settings) -> Iterator[Finding]:
    modes = {one.name: one.modes for one in settings.sandbox_classes}
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
        if not KINDS["kubernetes-label"].takes(f"home-{seat.name}"):
            yield Finding(("workspaces", index, "name"), f"{len(seat.name)} characters")


def _principals_twice(settings: Settings) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    lists: tuple[tuple[str, Callable[[Settings], tuple[str, ...]]], ...] = (
        ("admins", lambda given: given.cluster.admins),
        ("operators", lambda given: given.cluster.operators),
        ("readers", lambda given: given.cluster.readers),
        ("deployers", lambda given: given.cluster.deployers),
    )
    for key, listed in lists:
        for index, principal in enumerate(listed(settings)):
            if principal in seen:
                also = (("cluster", seen[principal]),)
                yield Finding(("cluster", key, index), f"{principal} in {seen[principal]} already", also=also)
            seen.setdefault(principal, key)


def _tags(settings: Settings) -> Iterator[Finding]:
    keys = [tag.key for tag in settings.cost.tags]
    for index, key in enumerate(keys):
        if key in OUR_TAGS or key in keys[:index] or not KINDS["aws-tag-key"].takes(key):
            yield Finding(("cost", "tags", index, "key"), key)


ROWS = (
    Row(
        "class-twice",
        "a class is a namespace, and there is one of a name",
        "each name once",
        "rename one",
        _classes_twice,
    ),
    Row(
        "class-ids-collide",
        "uid and gid follow from the name, and two classes of one id could read each other's files",
        "classes whose ids differ",
        "rename the one that has no data yet",
        _class_ids_collide,
    ),
    Row(
        "class-name-taken",
        "the namespace of that name is where the schedules of all pools run, which may do what no sandbox may",
        "any other name",
        "rename it",
        _class_taken,
    ),
    Row(
        "class-name-too-long",
        "pods and volumes add a release, a shard and more to it, and Kubernetes takes 63 characters",
        f"at most {LONGEST_CLASS} characters",
        "shorten it",
        _class_too_long,
    ),
    Row("parent-unknown", "a parent is another class", "the name of a class", "name a class", _parent_unknown),
    Row("parent-cycle", "nothing can be within itself", "parents that end", "drop one of the parents", _parent_cycle),
    Row(
        "tier-below-parent",
        "a child is never less walled off than its parent",
        "the parent's tier or a stronger one",
        "raise the tier, or drop the parent",
        _weaker_than_parent,
    ),
    Row("grant-of-unknown-class", "only a class has a service", "the name of a class", "name a class", _grant_unknown),
    Row(
        "channel-twice",
        "a channel names one release, and stable is the class itself",
        "each channel once, none of them stable",
        "rename it",
        _channels,
    ),
    Row(
        "release-twice",
        "a release is named by what is in it, and two of the same would be one template and one pool",
        "an image of its own for each release",
        "drop the release, or name the image that it is to try",
        _releases_alike,
    ),
    Row("variable-twice", "the last one would win in silence", "each variable once", "drop one", _variables_twice),
    Row("seat-of-unknown-class", "a seat is a sandbox of a class", "the name of a class", "name a class", _seat_class),
    Row(
        "seat-mode-not-of-class",
        "the class does not offer such workspaces",
        "one of the modes of its class",
        "add it to the modes of the class",
        _seat_mode,
    ),
    Row(
        "seats-collide",
        "uid, gid and path follow from the name, and two owners of one id could read each other",
        "seats whose names and ids differ",
        "rename one that has no data yet",
        _seats_collide,
    ),
    Row(
        "seat-name-too-long",
        "its volume is called home- and its name, and Kubernetes takes 63 characters",
        "at most 58 characters",
        "shorten it",
        _seat_too_long,
    ),
    Row(
        "principal-twice",
        "EKS has one access entry a principal",
        "each principal in one list",
        "keep the one with the rights it needs",
        _principals_twice,
    ),
    Row(
        "tag-taken",
        "the tag is set by the environment, stands twice, or belongs to AWS",
        f"keys other than {', '.join(OUR_TAGS)}, each once",
        "rename or drop it; owner and cost-center are settings of their own",
        _tags,
    ),
)
