"""EFS rules about access points: their directories and ids separate the files of tenants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from agentenv.policies.rules.registry import GRAPH, Outcome, fail, resources, rule, unknown
from agentenv.policies.view.fields import UNKNOWN, Field, number_or_unknown, scalar
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.references import reference
from agentenv.policies.view.resource import KubernetesObject, Resource
from agentenv.policies.view.tenants.metering_access_points import ACCESS_POINT, is_for_metering

FILE_SYSTEM = "aws:efs/fileSystem:FileSystem"
OWNER_TAGS: Final = ("sandbox-user", "sandbox-class")
POINTS = resources(ACCESS_POINT)
Segments = tuple[str, ...]


@rule(
    id="EFS-02",
    title="An access point has its own root directory",
    severity="Critical",
    why="A client of an access point at the root of the file system sees the files of every tenant.",
    fix="Set rootDirectory.path to a directory of the tenant, without dots in it.",
    equivalents={"Checkov": ("CKV_AWS_329",), "Security Hub": ("EFS.3",)},
    applies_to=POINTS,
    defaults="The root of the file system by default (EFS API reference, RootDirectory).",
)
def own_directory(point: Resource) -> Iterator[Outcome]:
    """Check the path with its dots resolved."""
    path = point.at("rootDirectory", "path")
    if path.unknown:
        yield unknown(path)
    elif path.missing or not isinstance(path.raw, str) or not path_segments(path.raw):
        yield fail(path, "is the root of the file system")


@rule(
    id="EFS-03",
    title="An access point enforces a user and group other than root",
    severity="Critical",
    why="Without enforced ids, an access point trusts the ids of its clients, including root. With the ids of root,"
    " file permissions have no effect.",
    fix="Set posixUser with a uid and a gid that no other tenant has, neither of them 0.",
    equivalents={"Checkov": ("CKV_AWS_330",), "Security Hub": ("EFS.4",)},
    applies_to=POINTS,
    defaults="The client's own ids without posixUser (EFS API reference, PosixUser).",
)
def enforced_ids(point: Resource) -> Iterator[Outcome]:
    """Check the user, the group and the secondary groups."""
    user = point.at("posixUser")
    if user.missing:
        yield fail(user, "trusts the ids of clients")
        return
    ids = [(user.at(key), f"{key} is missing or that of root") for key in ("uid", "gid")]
    required = {field.path for field, _ in ids}
    ids += [(group, "a secondary group is that of root") for group in user.at("secondaryGids").elements()]
    for field, message in ids:
        number = number_or_unknown(field)
        if number is UNKNOWN:
            yield unknown(field)
        elif number == 0 or (number is None and field.path in required):
            yield fail(field, message)


@rule(
    id="EFS-04",
    title="Tenants have separate directories and user ids",
    severity="Critical",
    why="A tenant can read a directory inside its own, and the files of another tenant with the same uid.",
    fix="Give every tenant a directory beside the others, and its own ids. Tag access points with sandbox-user and"
    " sandbox-class.",
    applies_to=GRAPH,
    defaults="Access points are not isolated from each other (EFS documents, Working with access points).",
)
def separate_tenants(graph: Graph) -> Iterator[Outcome]:
    """Compare the access points of each file system, and the base paths and ids of its StorageClasses.

    The job that measures homes may have an access point at the base path of its own class.
    """
    by_system: dict[str | None, dict[Segments, _Directory]] = {}
    user_ids: dict[tuple[str | None, float], _UserId] = {}
    reported: set[str] = set()
    ordered = sorted(_directories(graph), key=lambda directory: (len(directory.path), not directory.is_base_path))
    for directory in ordered:
        others = by_system.setdefault(directory.file_system, {})
        for outcome in _overlap(directory, others):
            if outcome.field.urn not in reported:
                reported.add(outcome.field.urn)
                yield outcome
        others.setdefault(directory.path, directory)
    yield from _unknown_directories(graph)
    for user_id in _user_ids(graph):
        if user_id.number is None:
            yield unknown(user_id.field)
            continue
        other = user_ids.setdefault((user_id.file_system, user_id.number), user_id)
        answer = True if other is user_id else user_id.is_same_tenant(other)
        if answer is None:
            yield unknown(user_id.field, f"has the uid of '{other.title}', and one of the owners is not known yet")
        elif not answer:
            yield fail(user_id.field, f"has the uid of '{other.title}'")


@rule(
    id="EFS-05",
    title="The directory of a tenant is closed to other users",
    severity="High",
    why="Permissions for others let every uid of the file system read the directory, through any access point.",
    fix="Set rootDirectory.creationInfo.permissions to 0700, or to 0750 if a group shares it.",
    applies_to=POINTS,
    defaults="Without creationInfo no directory is created, and an existing one keeps its permissions (EFS API"
    " reference, CreationInfo).",
)
def closed_to_others(point: Resource) -> Iterator[Outcome]:
    """Check the last octal digit."""
    mode = point.at("rootDirectory", "creationInfo", "permissions")
    if mode.missing:
        return
    bits = None if mode.unknown else others_bits(mode.raw)
    if bits is None:
        yield unknown(mode)
    elif bits:
        yield fail(mode, "is open to users other than its owner and group")


@rule(
    id="EFS-12",
    title="An access point has the tags of its owner",
    severity="Medium",
    why="Without an owner, storage is not found when the owner leaves, and may be shared by mistake.",
    fix="Tag access points with sandbox-user and sandbox-class.",
    applies_to=POINTS,
    defaults="Only the given tags and the provider's default tags (provider documents).",
)
def owner_tags(point: Resource) -> Iterator[Outcome]:
    """Check that there is one of the two tags: some storage belongs to a class and not to a user."""
    tags = [point.at("tags", key) for key in OWNER_TAGS]
    if all(tag.missing or tag.raw == "" for tag in tags):
        yield fail(point.at("tags"), "has neither a user nor a class")
    elif point.at("tags").unknown:
        # A tag with an unknown value is still a tag
        yield unknown(point.at("tags"))


@dataclass(frozen=True)
class _Directory:
    """A directory with files of a tenant."""

    file_system: str | None
    path: Segments
    field: Field
    title: str
    owner: frozenset[object]
    # Whether it is the base path of a StorageClass, which several may share
    is_base_path: bool = False
    class_name: object = None
    # Whether only the job that measures homes can use it; None if that is not known
    for_metering: bool | None = False


@dataclass(frozen=True)
class _UserId:
    """A uid, and its owner."""

    file_system: str | None
    number: float | None
    field: Field
    title: str
    user: object
    class_name: object

    def is_same_tenant(self, other: _UserId) -> bool | None:
        """Return whether both have the same class and no two users; None if a tag is not known."""
        if UNKNOWN in (self.user, self.class_name, other.user, other.class_name):
            return None
        if self.class_name is not None and self.class_name == other.class_name:
            return self.user == other.user or None in (self.user, other.user)
        return self.user is not None and self.user == other.user and None in (self.class_name, other.class_name)


def _unknown_directories(graph: Graph) -> Iterator[Outcome]:
    """Yield the directories whose path or file system is not known, if there are others to compare."""
    points, classes = graph.of_type(ACCESS_POINT), graph.objects("storage.k8s.io", "StorageClass")
    if not points or len(points) + len(classes) == 1:
        return
    yield from (unknown(path) for point in points if (path := point.at("rootDirectory", "path")).unknown)
    yield from (unknown(path) for item in classes if (path := item.at("parameters", "basePath")).unknown)
    systems = [(_file_system(graph, point), point.at("fileSystemId")) for point in points]
    systems += [(_class_file_system(graph, item), item.at("parameters", "fileSystemId")) for item in classes]
    # While all file systems are unknown, all directories are compared as if they were on the same one
    if len({key for key, _ in systems}) > 1:
        unknown_systems = (field for key, field in systems if key is None and field.unknown)
        yield from (unknown(field, "which directories are beside it is not known yet") for field in unknown_systems)


def _overlap(directory: _Directory, others: dict[Segments, _Directory]) -> Iterator[Outcome]:
    """Yield a failure if another directory is the same or contains it. The others have shorter paths."""
    path = directory.path
    for length in range(len(path) + 1):
        other = others.get(path[:length])
        if other is None or (other.is_base_path and (directory.is_base_path or length < len(path))):
            continue
        if (directory.owner and directory.owner == other.owner) or not contains_path(other.path, path):
            continue
        same_class = directory.class_name is not None and directory.class_name == other.class_name
        if other.is_base_path and same_class and directory.for_metering is not False:
            if directory.for_metering is None:
                yield unknown(directory.field, "its purpose is not known yet")
            continue
        outer, inner = (directory, other) if length == len(path) else (other, directory)
        relation = "is the directory of" if length == len(path) else "contains the directory of"
        yield fail(outer.field, f"{relation} '{inner.title}'")
        return


def _directories(graph: Graph) -> Iterator[_Directory]:
    for point in graph.of_type(ACCESS_POINT):
        path = point.at("rootDirectory", "path")
        if path.unknown or point.at("rootDirectory").unknown:
            continue
        parts = path_segments(path.raw) if isinstance(path.raw, str) else ()
        # EFS-02 is about the root, which would contain every other directory
        if parts:
            tags = ((key, scalar(point.at("tags", key))) for key in OWNER_TAGS)
            owner = frozenset((key, value) for key, value in tags if value is not None)
            class_name = scalar(point.at("tags", "sandbox-class"))
            system, metering = _file_system(graph, point), is_for_metering(graph, point)
            yield _Directory(system, parts, path, point.name, owner, class_name=class_name, for_metering=metering)
    for item in graph.objects("storage.k8s.io", "StorageClass"):
        base = item.at("parameters", "basePath")
        if isinstance(base.raw, str) and path_segments(base.raw):
            system = _class_file_system(graph, item)
            class_name = scalar(item.labels.at("sandbox.users.io/class"))
            yield _Directory(system, path_segments(base.raw), base, item.resource.name, frozenset(), True, class_name)


def _user_ids(graph: Graph) -> Iterator[_UserId]:
    points = graph.of_type(ACCESS_POINT)
    for point in points:
        uid, tags = point.at("posixUser", "uid"), point.at("tags")
        user, class_name = (_string_or_unknown(tags.at(key)) for key in OWNER_TAGS)
        if uid.unknown and len(points) > 1:
            yield _UserId(None, None, uid, point.name, user, class_name)
        elif (number := _number(uid)) is not None:
            yield _UserId(_file_system(graph, point), number, uid, point.name, user, class_name)
    for item in graph.objects("storage.k8s.io", "StorageClass"):
        uid = item.at("parameters", "uid")
        if (number := _number(uid)) is not None:
            class_name = _string_or_unknown(item.labels.at("sandbox.users.io/class"))
            yield _UserId(_class_file_system(graph, item), number, uid, item.resource.name, None, class_name)


def _file_system(graph: Graph, point: Resource) -> str | None:
    return reference(graph, point, ("fileSystemId",), FILE_SYSTEM).key


def _class_file_system(graph: Graph, item: KubernetesObject) -> str | None:
    return reference(graph, item.resource, ("parameters", "fileSystemId"), FILE_SYSTEM).key


def _string_or_unknown(field: Field) -> object:
    return UNKNOWN if field.unknown else field.raw if isinstance(field.raw, str) else None


def _number(field: Field) -> float | None:
    number = number_or_unknown(field)
    return None if number is UNKNOWN else number


def others_bits(mode: object) -> int | None:
    """Return the permissions of others in octal permissions; None if they cannot be parsed."""
    try:
        # The engine passes numbers as floats, and quotes may be missing
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
