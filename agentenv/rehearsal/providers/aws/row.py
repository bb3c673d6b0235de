"""What a row is made of: the operations of one resource type, and only what the renaming rule cannot know.

A row is data. Where an operation needs more than renamed inputs, a small function stands in its place, in the family's
module; there are no classes a type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation
    from agentenv.rehearsal.providers.aws.value_kinds import Kind

Problem = tuple[str, str]  # the property's path, and what is wrong with it


@dataclass(frozen=True)
class Call:
    """One operation of the service.

    `takes` are the inputs it sends (None: every input it has a member for). `given` are members from elsewhere: a
    constant, `$id`, `$in.<input>`, `$out.<output>`, or a function of the situation.
    """

    operation: str
    takes: tuple[str, ...] | None = ()
    names: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    turns: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    forgives: tuple[str, ...] = ()
    when: Callable[[Situation], bool] | None = None
    service: str = ""

    def names_at_top(self) -> list[str]:
        """The irregular members of the operation itself."""
        return [member for path, member in self.names.items() if "." not in path]


@dataclass(frozen=True)
class Make:
    """A create that one operation cannot do; what it answers is what the row's `id` is taken from."""

    run: Callable[[Situation], Mapping[str, Any]]
    takes: tuple[str, ...]


@dataclass(frozen=True)
class Do:
    """Several calls, or one that depends on what is there: a function instead of an operation."""

    run: Callable[[Situation], None]
    takes: tuple[str, ...] = ()
    always: bool = False


@dataclass(frozen=True)
class Look:
    """An operation that tells something: `at` picks the part that matters out of its answer.

    A first look finds the resource. A further one adds to what is known: all of the part, or what `puts` names.
    """

    operation: str
    given: Mapping[str, Any] = field(default_factory=dict)
    at: str = "@"
    puts: Mapping[str, str] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    service: str = ""


@dataclass(frozen=True)
class Until:
    """What a resource has to say before it counts as made; anything in `fails` ends the wait."""

    at: str
    wants: tuple[str, ...]
    fails: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tags:
    """How a type is tagged: by the create's member, later by `put` and `drop`; `at` is where an answer tells them."""

    create: str = ""
    kind: str = ""  # EC2 wraps tags in a specification that names the resource's kind
    put: str = ""
    drop: str = ""
    on: Mapping[str, Any] = field(default_factory=dict)
    member: str = "Tags"
    keys: str = "TagKeys"
    pair: tuple[str, str] | None = ("Key", "Value")  # None: a map
    at: str = "Tags"
    service: str = ""
    whole: str = ""  # S3 takes all tags at once, under this name within the member, and drops all


@dataclass(frozen=True)
class Name:
    """How a type gets a name when it is given none: the logical name and a random suffix, within its limit."""

    input: str = "name"
    longest: int = 255
    prefix: str = ""
    suffix: Callable[[Mapping[str, Any]], str] = lambda _: ""
    prefix_input: str = "namePrefix"


class Form(str):
    """A text with `{region}`, `{account}`, `{partition}`, `{id}` or an output's name to fill in."""

    __slots__ = ()


Shown = str | Form | Callable[["Situation", Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Row:
    """One resource type."""

    type: str
    service: str
    create: Call | Make
    id: str | Callable[[Situation, Mapping[str, Any]], str]
    find: Look | Callable[[Situation], Mapping[str, Any] | None]
    delete: tuple[Call | Do, ...]
    also: tuple[Look | Callable[[Situation, Mapping[str, Any]], Mapping[str, Any]], ...] = ()
    sets: tuple[Call | Do, ...] = ()
    shows: Mapping[str, Shown] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)  # irregular members of an answer's nested parts
    tags: Tags | None = None
    name: Name | None = None
    ready: Until | None = None
    gone: Until | None = None  # states in which a resource that still answers counts as deleted
    ends: bool = False  # deleting takes a while: wait until it is gone
    busy: tuple[str, ...] = ("DependencyViolation",)  # refusals of a delete that pass
    early: tuple[str, ...] = ()  # refusals of a create that pass
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    # By path, as `kinds`: the one form in which objects are compared that have several for the same meaning.
    forms: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)  # by path: `input`, or `input.part` of a given object
    ordered: frozenset[str] = frozenset()  # lists whose order matters
    unread: frozenset[str] = frozenset()  # inputs the service never tells: they stay as they were written
    twins: frozenset[str] = frozenset()  # inputs that say what another one says: left out of what an import finds
    undeclared: frozenset[str] = frozenset()  # inputs that are compared only where the program declares them
    refused: Mapping[str, str] = field(default_factory=dict)  # inputs this stand-in cannot carry out, and why
    rules: tuple[Callable[[Mapping[str, Any]], list[Problem]], ...] = ()
    replaces: frozenset[str] = frozenset()  # beyond the schema: plan modifiers the schema does not tell
    replaces_when: Callable[[Mapping[str, Any], Mapping[str, Any]], set[str]] | None = None  # old and new inputs
    moves: frozenset[str] = frozenset()  # outputs an update may change
    first_delete: bool = False  # the old one has to go before the new one can come
    parse: Callable[[str], tuple[str, Mapping[str, Any]]] | None = None  # an import's id: our id, and what it tells
    repairs: Callable[[Situation, Mapping[str, Any], dict[str, Any]], None] | None = None  # last word on outputs
    fills: frozenset[str] = frozenset()  # parts of an object that the cloud fills in: unknown at a preview
    regional: bool = True
    home: str = ""  # of a service that answers in one region only, whichever the provider's is
