"""What one operation on one resource knows: its inputs, what it was, its id, and the endpoint to call."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.api_calls import CloudError, partition
from agentenv.rehearsal.providers.common.property_values import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from agentenv.rehearsal.providers.aws.api_calls import Cloud
    from agentenv.rehearsal.providers.aws.row import Row
    from agentenv.rehearsal.providers.aws.shapes import Shape

FIRST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 1.0
FIELD: Final = re.compile(r"\{(\w+)\}")


@dataclass
class Situation:
    """Mutable on purpose: a create learns its id half way, and everything after needs it."""

    row: Row
    shape: Shape
    cloud: Cloud
    inputs: dict[str, Any] = field(default_factory=dict)
    old: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    id: str = ""
    patience: float = 60.0
    changed: frozenset[str] = frozenset()
    creating: bool = False

    @property
    def region(self) -> str:
        return self.inputs.get("region") or self.state.get("region") or self.cloud.access.region

    def call(self, operation: str, *, forgives: Collection[str] = (), service: str = "", **parameters: Any) -> Any:
        """One call; a refusal whose code is forgiven comes back as an empty answer."""
        region = self.region if self.row.regional else self.row.home or None
        try:
            return self.cloud.call(service or self.row.service, operation, region, **parameters)
        except CloudError as error:
            if error.code in forgives:
                return {}
            raise

    def value(self, name: str) -> Any:
        """An input, else what the resource said of itself."""
        found = self.inputs.get(name)
        return self.state.get(name) if found is None or found is UNKNOWN else found

    def fill(self, given: Any) -> Any:
        """A call's constant members with the situation's values in them."""
        if callable(given):
            return given(self)
        if isinstance(given, str) and given.startswith("$"):
            if given == "$id":
                return self.id
            place, name = given[1:].split(".", 1)
            return self.value(name) if place == "in" else self.state.get(name)
        if isinstance(given, Mapping):
            return {key: self.fill(item) for key, item in given.items()}
        if isinstance(given, list | tuple):
            return [self.fill(item) for item in given]
        return given

    def form(self, text: str, known: Mapping[str, Any]) -> str:
        """A text with its `{fields}` filled in; the account is only asked for where the text needs it."""

        def field_of(match: re.Match[str]) -> str:
            name = match[1]
            if name == "account":
                return self.cloud.account()
            if name == "partition":
                return partition(self.region)
            if name == "region":
                return self.region
            return self.id if name == "id" else str(known.get(name) or self.value(name) or "")

        return FIELD.sub(field_of, text)

    def tries(self) -> Iterator[None]:
        """Attempts with growing pauses until patience ends."""
        end = time.monotonic() + self.patience
        pause = FIRST_PAUSE
        while True:
            yield
            if time.monotonic() + pause > end or self.cloud.stopping.wait(pause):
                return
            pause = min(pause * 2, LONGEST_PAUSE)

    def insist(self, work: Callable[[], Any], codes: Collection[str]) -> Any:
        """Do it again while the service answers with one of these codes, as long as patience lasts."""
        last: CloudError | None = None
        for _ in self.tries():
            try:
                return work()
            except CloudError as error:
                if error.code not in codes:
                    raise
                last = error
        raise last or AssertionError("no attempt was made")
