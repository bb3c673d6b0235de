"""The recorded calls of the official provider are known to the simulated cloud."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from moto.backends import get_backend
from moto.core.request import Request
from moto.core.utils import camelcase_to_underscores
from werkzeug.test import EnvironBuilder

from agentenv.rehearsal.cloud.requests import Call, Scope, candidates, recognize
from agentenv.rehearsal.cloud.rows import ROWS

MODULES = {"lambda": "awslambda", "cognito-idp": "cognitoidp"}
STATUS = re.compile(r"(?P<what>.+) (?P<status>\d{3})( x\d+)?$")


@pytest.fixture(scope="module")
def recorded(facts: Path) -> list[tuple[str, int]]:
    cases = json.loads((facts / "aws-provider-calls.json").read_text())["cases"]
    entries = {
        entry for case in cases.values() for phase in ("create", "refresh", "destroy") for entry in case.get(phase, [])
    }
    found = [STATUS.fullmatch(entry) for entry in sorted(entries)]
    return [(match["what"], int(match["status"])) for match in found if match]


def operation(what: str) -> tuple[str, str] | None:
    """Service and operation of a recorded call, by the model; None if no model has it."""
    signed, _, rest = what.partition(" ")
    if " " not in rest:
        for model in candidates(signed):
            if rest in model.operation_names:
                return str(model.service_name), rest
        return None
    method, path = rest.split(" ", 1)
    builder = EnvironBuilder(path=path, method=method, headers=[("x-amz-account-id", "123456789012")])
    environ = builder.get_environ()
    environ["RAW_URI"] = path.replace("<", "%3C").replace(">", "%3E")
    found = recognize(Request(environ), Scope(signed, "us-east-1", "key"), b"")
    return (found.service, found.name) if isinstance(found, Call) else None


def moto_has(service: str, name: str) -> bool:
    module = MODULES.get(service, service)
    regions: Any = get_backend(module)["123456789012"]  # type: ignore[call-overload]
    backend = regions["us-east-1"] if "us-east-1" in regions else regions["aws"]
    handlers = (getattr(handler, "__self__", None) for handler in backend.url_paths.values())
    method = camelcase_to_underscores(name)
    return any(hasattr(handler, method) for handler in handlers)


def test_every_recorded_call_is_an_operation_of_its_service(recorded: list[tuple[str, int]]) -> None:
    assert len(recorded) > 200
    assert [what for what, _ in recorded if operation(what) is None] == []


def test_operations_that_moto_lacks_are_implemented(recorded: list[tuple[str, int]]) -> None:
    lacked = {operation(what) for what, status in recorded if status in {404, 500}}
    assert len(lacked) > 10
    unknown = [call for call in lacked if call and call not in ROWS and not moto_has(*call)]
    assert unknown == []
