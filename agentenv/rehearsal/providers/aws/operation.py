"""One operation on one resource: its inputs, its previous state, its id, and the endpoint to call."""

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
    from agentenv.rehearsal.providers.aws.row import ResourceType
    from agentenv.rehearsal.providers.aws.shapes import Shape

INITIAL_BACKOFF: Final = 0.02
MAX_BACKOFF: Final = 1.0
FIELD: Final = re.compile(r"\{(\w+)\}")


@dataclass
class Operation:
    """The context of a create, read, update or delete.

    Mutable on purpose: a create learns the id half way, and every later step needs it.
    """

    row: ResourceType
    shape: Shape
    cloud: Cloud
    inputs: dict[str, Any] = field(default_factory=dict)
    old_inputs: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    id: str = ""
    timeout: float = 60.0
    changed: frozenset[str] = frozenset()
    creating: bool = False

    @property
    def region(self) -> str:
        return self.inputs.get("region") or self.state.get("region") or self.cloud.access.region

    def call(
        self, operation: str, *, ignored_errors: Collection[str] = (), service: str = "", **parameters: Any
    ) -> Any:
        """Call one API operation. An error whose code is in `ignored_errors` gives an empty response."""
        region = self.region if self.row.regional else self.row.fixed_region or None
        try:
            return self.cloud.call(service or self.row.service, operation, region, **parameters)
        except CloudError as error:
            if error.code in ignored_errors:
                return {}
            raise

    def value(self, name: str) -> Any:
        """Return an input, else the output of that name."""
        value = self.inputs.get(name)
        return self.state.get(name) if value is None or value is UNKNOWN else value

    def resolve(self, constant: Any) -> Any:
        """Return a call's constant member with its references replaced by values."""
        if callable(constant):
            return constant(self)
        if isinstance(constant, str) and constant.startswith("$"):
            if constant == "$id":
                return self.id
            source, name = constant[1:].split(".", 1)
            return self.value(name) if source == "in" else self.state.get(name)
        if isinstance(constant, Mapping):
            return {key: self.resolve(item) for key, item in constant.items()}
        if isinstance(constant, list | tuple):
            return [self.resolve(item) for item in constant]
        return constant

    def format(self, template: str, outputs: Mapping[str, Any]) -> str:
        """Return a template with its `{fields}` filled in. The account is read only if the template needs it."""

        def field_value(match: re.Match[str]) -> str:
            name = match[1]
            if name == "account":
                return self.cloud.account()
            if name == "partition":
                return partition(self.region)
            if name == "region":
                return self.region
            return self.id if name == "id" else str(outputs.get(name) or self.value(name) or "")

        return FIELD.sub(field_value, template)

    def attempts(self) -> Iterator[None]:
        """Yield once per attempt, with exponential backoff, until the timeout."""
        end = time.monotonic() + self.timeout
        backoff = INITIAL_BACKOFF
        while True:
            yield
            if time.monotonic() + backoff > end or self.cloud.stopping.wait(backoff):
                return
            backoff = min(backoff * 2, MAX_BACKOFF)

    def retry(self, action: Callable[[], Any], codes: Collection[str]) -> Any:
        """Run an action again while the service returns one of these error codes, until the timeout."""
        last: CloudError | None = None
        for _ in self.attempts():
            try:
                return action()
            except CloudError as error:
                if error.code not in codes:
                    raise
                last = error
        raise last or AssertionError("no attempt was made")
