"""EFS, access points: the enforced folder and ids, which are all that keeps one tenant's files from another's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from agentenv.policies.rules.registry import GRAPH, Outcome, fail, resources, rule, unknown
from agentenv.policies.view.fields import UNKNOWN, Field, number_or_unknown, scalar
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.references import reference
from agentenv.policies.view.resource import KubernetesObject, Resource
from agentenv.policies.view.tenants.metering_access_points import ACCESS_POINT, looked_at

FILE_SYSTEM = "aws:efs/fileSystem:FileSystem"
OWNER_TAGS: Final = ("sandbox-user", "sandbox-class")
POINTS = resources(ACCESS_POINT)
Segments = tuple[str, ...]


@rule(
    id="EFS-02",
    title="An access point is a folder, and never the whole file system",
    severity="Critical",
    why="Whoever mounts an access point at the root sees the files of every tenant.",
    do="Set rootDirectory.path to a folder of the tenant's own, without dots in it.",
    equivalents={"Checkov": ("CKV_AWS_329",), "Security Hub": ("EFS.3",)},
    about=POINTS,
    defaults="The root where nothing is said (EFS API reference, RootDirectory).",
)
def whole_file_system(point: Resource) -> Iterator[Outcome]:
    """After the dots are followed."""
    path = point.at("rootDirectory", "path")
    if path.unknown:
        yield unknown(path)
    elif path.missing or not isinstance(path.raw, str) or not path_segments(path.raw):
        yield fail(path, "is the root of the file system")


@rule(
    id="EFS-03",
    title="An access point enforces ids, and none of them is root's",
    severity="Critical",
    why="Without ids of its own an access point believes whatever a client says it is, root too; with root's, file"
    " permissions mean nothing.",
    do="Set posixUser with a uid and a gid that nobody else has, neither of them 0.",
    equivalents={"Checkov": ("CKV_AWS_330",), "Security Hub": ("EFS.4",)},
    about=POINTS,
    defaults="The client's own ids count where posixUser is not given (EFS API reference, PosixUser).",
)
def enforced_ids(point: Resource) -> Iterator[Outcome]:
    """The secondary groups too."""
    user = point.at("posixUser")
    if user.missing:
        yield fail(user, "believes what clients say of themselves")
        return
    ids = [(user.at(key), f"{key} is root's or none") for key in ("uid", "gid")]
    required = {field.path for field, _ in ids}
    for field, words in [*ids, *((one, "a secondary group is root's") for one in user.at("secondaryGids").elements())]:
        number = number_or_unknown(field)
        if number is UNKNOWN:
            yield unknown(field)
        elif number == 0 or (number is None and field.path in required):
            yield fail(field, words)


@rule(
    id="EFS-04",
    title="No tenant's folder is in another's, and no two have the same ids",
    severity="Critical",
    why="A folder inside another one is read through it, and files of the same uid are each other's, whoever's"
    " they are.",
    do="Give every tenant a folder beside the others, and ids of its own; tag access points with sandbox-user and"
    " sandbox-class.",
    about=GRAPH,
    defaults="Access points know nothing of each other (EFS documents, Working with access points).",
)
def apart(graph: Graph) -> Iterator[Outcome]:
    """Access points of one file system, and the base paths and ids of StorageClasses on it.

    One may be where the homes of its own class are made: the one by which the daily job looks how large they are.
    """
    folders: dict[str | None, dict[Segments, _Folder]] = {}
    owners: dict[tuple[str | None, float], _Owner] = {}
    told: set[str] = set()
    for one in sorted(_folders(graph), key=lambda one: (len(one.path), not one.made_there)):
        there = folders.setdefault(one.file_system, {})
        for outcome in _above(one, there):
            if outcome.field.urn not in told:
                told.add(outcome.field.urn)
                yield outcome
        there.setdefault(one.path, one)
    yield from _not_compared(graph)
    for owner in _owners(graph):
        if owner.number is None:
            yield unknown(owner.field)
            continue
        other = owners.setdefault((owner.file_system, owner.number), owner)
        answer = True if other is owner else owner.shares_with(other)
        if answer is None:
            yield unknown(owner.field, f"has the uid of '{other.title}', and whose that one is is not known yet")
        elif not answer:
            yield fail(owner.field, f"has the uid of '{other.title}'")


@rule(
    id="EFS-05",
    title="A tenant's folder is closed to everybody else",
    severity="High",
    why="Permissions for others let every uid on the file system in, whichever access point it comes through.",
    do="Set rootDirectory.creationInfo.permissions to 0700, or 0750 where a group shares it.",
    about=POINTS,
    defaults="Without creationInfo no folder is made, and one that is there keeps its permissions (EFS API reference,"
    " CreationInfo).",
)
def closed_to_others(point: Resource) -> Iterator[Outcome]:
    """The last of the octal digits."""
    mode = point.at("rootDirectory", "creationInfo", "permissions")
    if mode.missing:
        return
    bits = None if mode.unknown else others_bits(mode.raw)
    if bits is None:
        yield unknown(mode)
    elif bits:
        yield fail(mode, "is open to others than its owner and group")


@rule(
    id="EFS-12",
    title="An access point says whose it is",
    severity="Medium",
    why="What nobody can tell the owner of is not found when its owner leaves, and is shared by mistake.",
    do="Tag access points with sandbox-user and sandbox-class.",
    about=POINTS,
    defaults="Only the tags that are given, and the provider's default tags (plugin documents).",
)
def owned(point: Resource) -> Iterator[Outcome]:
    """Either of the two: some storage is a class's and no single user's."""
    tags = [point.at("tags", key) for key in OWNER_TAGS]
    if all(tag.missing or tag.raw == "" for tag in tags):
        yield fail(point.at("tags"), "says neither whose it is nor of which class")
    elif point.at("tags").unknown:
        # One whose value alone is not known yet is a tag all the same
        yield unknown(point.at("tags"))


@dataclass(frozen=True)
class _Folder:
    """A folder that somebody's files are in."""

    file_system: str | None
    path: Segments
    field: Field
    title: str
    tenant: frozenset[object]
    # Whether folders are made below it, so that it may be the same as another such one
    made_there: bool = False
    class_: object = None
    # Whether it is there to be looked at and for nothing else; None where that is not known
    looked_at: bool | None = False


@dataclass(frozen=True)
class _Owner:
    """A uid, and whose it is."""

    file_system: str | None
    number: float | None
    field: Field
    title: str
    user: object
    class_: object

    def shares_with(self, other: _Owner) -> bool | None:
        """Whether both are one tenant's: of the same class, and of no two users. None where a tag is not known."""
        if UNKNOWN in (self.user, self.class_, other.user, other.class_):
            return None
        if self.class_ is not None and self.class_ == other.class_:
            return self.user == other.user or None in (self.user, other.user)
        return self.user is not None and self.user == other.user and None in (self.class_, other.class_)


def _not_compared(graph: Graph) -> Iterator[Outcome]:
    """Folders of which nobody knows yet where they are, or beside which others."""
    points, classes = graph.of_type(ACCESS_POINT), graph.objects("storage.k8s.io", "StorageClass")
    if not points or len(points) + len(classes) == 1:
        return
    yield from (unknown(path) for one in points if (path := one.at("rootDirectory", "path")).unknown)
    yield from (unknown(base) for one in classes if (base := one.at("parameters", "basePath")).unknown)
    systems = [(_file_system(graph, one), one.at("fileSystemId")) for one in points]
    systems += [(_class_system(graph, one), one.at("parameters", "fileSystemId")) for one in classes]
    # As long as of none of them is known on which it is, all are compared as if they were on one
    if len({key for key, _ in systems}) > 1:
        nowhere = (field for key, field in systems if key is None and field.unknown)
        yield from (unknown(field, "whose neighbour it is is not known yet") for field in nowhere)


def _above(one: _Folder, others: dict[Segments, _Folder]) -> Iterator[Outcome]:
    """Those whose folder is this one, or is above it, were there before: shorter paths come first."""
    path = one.path
    for length in range(len(path) + 1):
        other = others.get(path[:length])
        if other is None or (other.made_there and (one.made_there or length < len(path))):
            continue
        if (one.tenant and one.tenant == other.tenant) or not contains_path(other.path, path):
            continue
        if other.made_there and one.class_ is not None and one.class_ == other.class_ and one.looked_at is not False:
            if one.looked_at is None:
                yield unknown(one.field, "what it is for is not known yet")
            continue
        outer = one if length == len(path) else other
        named = other if outer is one else one
        word = "is the folder of" if length == len(path) else "holds the folder of"
        yield fail(outer.field, f"{word} '{named.title}'")
        return


def _folders(graph: Graph) -> Iterator[_Folder]:
    for point in graph.of_type(ACCESS_POINT):
        path = point.at("rootDirectory", "path")
        if path.unknown or point.at("rootDirectory").unknown:
            continue
        found = path_segments(path.raw) if isinstance(path.raw, str) else ()
        # The root is another rule's, and would hold everything here too
        if found:
            tenant = frozenset((key, said) for key in OWNER_TAGS if (said := scalar(point.at("tags", key))) is not None)
            class_ = scalar(point.at("tags", "sandbox-class"))
            where = _file_system(graph, point)
            yield _Folder(where, found, path, point.name, tenant, class_=class_, looked_at=looked_at(graph, point))
    for thing in graph.objects("storage.k8s.io", "StorageClass"):
        base = thing.at("parameters", "basePath")
        if isinstance(base.raw, str) and path_segments(base.raw):
            system = _class_system(graph, thing)
            of = scalar(thing.labels.at("sandbox.users.io/class"))
            yield _Folder(system, path_segments(base.raw), base, thing.resource.name, frozenset(), True, of)


def _owners(graph: Graph) -> Iterator[_Owner]:
    points = graph.of_type(ACCESS_POINT)
    for point in points:
        uid, tags = point.at("posixUser", "uid"), point.at("tags")
        user, class_ = (_tag(tags.at(key)) for key in OWNER_TAGS)
        if uid.unknown and len(points) > 1:
            yield _Owner(None, None, uid, point.name, user, class_)
        elif (number := _number(uid)) is not None:
            yield _Owner(_file_system(graph, point), number, uid, point.name, user, class_)
    for thing in graph.objects("storage.k8s.io", "StorageClass"):
        uid = thing.at("parameters", "uid")
        if (number := _number(uid)) is not None:
            system = _class_system(graph, thing)
            labelled = _tag(thing.labels.at("sandbox.users.io/class"))
            yield _Owner(system, number, uid, thing.resource.name, None, labelled)


def _file_system(graph: Graph, point: Resource) -> str | None:
    return reference(graph, point, ("fileSystemId",), FILE_SYSTEM).key


def _class_system(graph: Graph, thing: KubernetesObject) -> str | None:
    return reference(graph, thing.resource, ("parameters", "fileSystemId"), FILE_SYSTEM).key


def _tag(field: Field) -> object:
    return UNKNOWN if field.unknown else field.raw if isinstance(field.raw, str) else None


def _number(field: Field) -> float | None:
    found = number_or_unknown(field)
    return None if found is UNKNOWN else found


def others_bits(mode: object) -> int | None:
    """What octal permissions leave to others; None where they cannot be read."""
    try:
        # Engines hand numbers over as floats, and people leave quotes away
        return int(str(mode).removesuffix(".0"), 8) & 0o007
    except ValueError:
        return None


def path_segments(path: str) -> Segments:
    """Return the parts of an absolute path, with `.`, `..` and double slashes resolved. The root has none."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return tuple(parts)


def contains_path(outer: Segments, inner: Segments) -> bool:
    """Return whether a path is the other one, or a directory above it."""
    return inner[: len(outer)] == outer
