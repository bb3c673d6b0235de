"""The description of one resource type: the operations that create, read, update and delete it.

A row is data. Inputs and outputs are matched to the API's members by name (`name_mapping`); a row states only what that
rule cannot know. Where one operation is not enough, the row holds a small function from the module of its service.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation
    from agentenv.rehearsal.providers.aws.value_kinds import ValueKind

Problem = tuple[str, str]  # the property's path, and what is wrong with it


@dataclass(frozen=True)
class Call:
    """One API operation.

    `inputs` are the inputs it sends (None: every input it has a member for). `constants` are further members: a
    constant, `$id`, `$in.<input>`, `$out.<output>`, or a function of the operation.
    """

    operation: str
    inputs: tuple[str, ...] | None = ()
    member_names: Mapping[str, str] = field(default_factory=dict)  # by input, where the rule finds another member
    constants: Mapping[str, Any] = field(default_factory=dict)
    convert: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)  # by input, before it is sent
    ignored_errors: tuple[str, ...] = ()
    condition: Callable[[Operation], bool] | None = None
    service: str = ""


@dataclass(frozen=True)
class CustomCreate:
    """A create that needs more than one operation. The row's `id` is read from what `run` returns."""

    run: Callable[[Operation], Mapping[str, Any]]
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class CustomStep:
    """A function in place of an operation: several calls, or one that depends on the current state."""

    run: Callable[[Operation], None]
    inputs: tuple[str, ...] = ()
    always: bool = False


@dataclass(frozen=True)
class ReadCall:
    """An operation that reads the resource; `path` selects the part of its response.

    The first read finds the resource. Further reads add to the document: the whole part, or the members in `fields`.
    """

    operation: str
    constants: Mapping[str, Any] = field(default_factory=dict)
    path: str = "@"
    fields: Mapping[str, str] = field(default_factory=dict)
    not_found_errors: tuple[str, ...] = ()
    service: str = ""


@dataclass(frozen=True)
class StateCheck:
    """The states that a wait expects at `path`; a state in `failed` ends the wait with an error."""

    path: str
    expected: tuple[str, ...]
    failed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tagging:
    """The tagging of a type: by a member of the create, later by the tag and untag operations."""

    create_member: str = ""
    resource_kind: str = ""  # EC2 wraps tags in a specification that names the resource's kind
    tag_operation: str = ""
    untag_operation: str = ""
    constants: Mapping[str, Any] = field(default_factory=dict)  # what identifies the resource in these operations
    tags_member: str = "Tags"
    keys_member: str = "TagKeys"
    key_value_members: tuple[str, str] | None = ("Key", "Value")  # None: a map
    path: str = "Tags"  # where a response has the tags
    service: str = ""
    wrapper: str = ""  # S3 replaces all tags at once, under this name within the member, and deletes all at once


@dataclass(frozen=True)
class AutoName:
    """The name of a resource when the program sets none: the logical name and a random suffix."""

    input: str = "name"
    max_length: int = 255
    prefix: str = ""
    suffix: Callable[[Mapping[str, Any]], str] = lambda _: ""
    prefix_input: str = "namePrefix"


class Template(str):
    """A text with the fields `{region}`, `{account}`, `{partition}`, `{id}` or the name of an output."""

    __slots__ = ()


OutputSource = str | Template | Callable[["Operation", Mapping[str, Any]], Any]


@dataclass(frozen=True)
class ResourceType:
    """One resource type."""

    type: str
    service: str
    create: Call | CustomCreate
    id: str | Callable[[Operation, Mapping[str, Any]], str]
    read: ReadCall | Callable[[Operation], Mapping[str, Any] | None]
    delete: tuple[Call | CustomStep, ...]
    more_reads: tuple[ReadCall | Callable[[Operation, Mapping[str, Any]], Mapping[str, Any]], ...] = ()
    updates: tuple[Call | CustomStep, ...] = ()
    output_sources: Mapping[str, OutputSource] = field(default_factory=dict)
    member_names: Mapping[str, str] = field(default_factory=dict)  # of nested members in a response
    tags: Tagging | None = None
    auto_name: AutoName | None = None
    ready: StateCheck | None = None
    deleted_state: StateCheck | None = None  # states in which a resource that can still be read counts as deleted
    wait_until_deleted: bool = False
    retry_delete_on: tuple[str, ...] = ("DependencyViolation",)  # error codes
    retry_create_on: tuple[str, ...] = ()  # error codes
    value_kinds: Mapping[str, ValueKind] = field(default_factory=dict)  # by path
    # By path: the form in which objects are compared that can be written in several ways.
    normalize: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)  # by path: `input`, or `input.part` if the input is set
    ordered_lists: frozenset[str] = frozenset()  # lists whose order matters
    write_only: frozenset[str] = frozenset()  # inputs the service never returns: the state keeps the program's value
    duplicate_inputs: frozenset[str] = frozenset()  # inputs that repeat another one: an import leaves them out
    compared_if_set: frozenset[str] = frozenset()  # inputs that are compared only if the program sets them
    unsupported: Mapping[str, str] = field(default_factory=dict)  # inputs this stand-in cannot apply, and why
    validators: tuple[Callable[[Mapping[str, Any]], list[Problem]], ...] = ()
    replace_on_changes: frozenset[str] = frozenset()  # beyond the schema: plan modifiers that it does not list
    # The inputs that force a replacement, from the old and the new inputs.
    replaced_inputs: Callable[[Mapping[str, Any], Mapping[str, Any]], set[str]] | None = None
    updated_outputs: frozenset[str] = frozenset()  # outputs an update may change: unknown in its preview
    delete_before_replace: bool = False
    # From the id of an import: the id of the resource, and the inputs it contains.
    parse_import_id: Callable[[str], tuple[str, Mapping[str, Any]]] | None = None
    adjust_outputs: Callable[[Operation, Mapping[str, Any], dict[str, Any]], None] | None = None  # after all others
    computed: frozenset[str] = frozenset()  # parts of an object that the service sets: unknown in a preview
    regional: bool = True
    fixed_region: str = ""  # of a service with one endpoint only, whatever the provider's region
