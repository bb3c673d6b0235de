"""Tests that `read` gives settings or mistakes for any configuration."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentenv.config import Mistakes, Settings, read
from agentenv.config.reader import SECTIONS
from agentenv.config.vocabulary import schema

WORDS = sorted(
    {key for definition in schema()["$defs"].values() for key in definition.get("properties", {})}
    | {
        "spot",
        "fargate",
        "none",
        "shared",
        "dns",
        "web",
        "10.40.0.0/16",
        "0.0.0.0/0",
        "prod",
        "1.36",
        "5Gi",
        "20m",
        "2",
    }
)

LEAVES: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats()
    | st.text(max_size=12)
    | st.text(st.characters(), max_size=4)
    | st.sampled_from(WORDS)
    | st.just(date(2026, 1, 1))
    | st.just(Decimal("NaN"))
    | st.just(b"bytes")
    | st.builds(object)
    | st.just({"secure": "v1:cipher"})
)
KEYS: st.SearchStrategy[Any] = st.sampled_from(WORDS) | st.text(max_size=6) | st.integers() | st.none()
JUNK = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=25
)
TOP = (
    st.sampled_from([f"agent-environment:{section}" for section in SECTIONS])
    | st.just("aws:region")
    | st.text(max_size=20)
    | st.integers()
)


def answers(config: Any, environment: Any = "dev") -> Settings | Mistakes:
    try:
        return read(config, environment)
    except Mistakes as mistakes:
        answer = mistakes
    assert answer.mistakes
    for mistake in answer.mistakes:
        assert mistake.path
        assert mistake.found
        assert mistake.allowed
        assert "cipher" not in str(mistake)
    return answer


@given(st.dictionaries(TOP, JUNK, max_size=6), st.text(max_size=8) | st.sampled_from(["dev", "prod"]) | JUNK)
@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@example({"agent-environment:network": "[" * 100_000}, "dev")
@example({"agent-environment:network": '{"zones": ' + "9" * 5000 + "}"}, "dev")
@example({"agent-environment:network": '{"cidr": "\\ud800"}'}, "dev")
@example({"agent-environment:cost": {"monthlyBudget": float("nan"), "perUserCap": float("inf")}}, "dev")
def test_any_mapping_gives_settings_or_mistakes(config: dict[Any, Any], environment: Any) -> None:
    assert isinstance(answers(config, environment), Settings | Mistakes)


def _valid(draw: st.DrawFn, node: dict[str, Any]) -> Any:  # noqa: PLR0911 - a line a kind of schema
    """A value near to what a schema node allows: chance alone never comes deep into mappings that are valid."""
    if draw(st.integers(0, 24)) == 24:
        return draw(LEAVES)
    if "$ref" in node:
        node = schema()["$defs"][node["$ref"].rsplit("/", 1)[1]]
    if "properties" in node:
        required = node.get("required", ())
        return {
            key: _valid(draw, inner)
            for key, inner in node["properties"].items()
            if key in required or draw(st.integers(0, 3)) == 0
        }
    if "examples" in node or "enum" in node:
        return draw(st.sampled_from(node.get("examples") or node["enum"]))
    if "anyOf" in node:
        return _valid(draw, draw(st.sampled_from(node["anyOf"])))
    match node.get("type"):
        case "array":
            return [_valid(draw, node["items"]) for _ in range(draw(st.integers(node.get("minItems", 0), 3)))]
        case "integer":
            least = node.get("minimum", 0)
            return draw(st.integers(least, max(least, min(node.get("maximum", 100), 200))))
        case "boolean":
            return draw(st.booleans())
        case "null":
            return None
        case _:
            return draw(st.sampled_from(["standard", "small", "platform", "us-east-1a", f"x@sha256:{'0' * 64}"]))


@st.composite
def nearly(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.sets(st.sampled_from(SECTIONS)))
    sections = {f"agent-environment:{name}": _valid(draw, schema()["properties"][name]) for name in sorted(names)}
    return {"aws:region": "us-east-1", **sections}


@given(nearly(), st.sampled_from(["dev", "prod"]))
@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
def test_nearly_valid_mappings_give_settings_or_mistakes(config: dict[str, Any], environment: str) -> None:
    assert isinstance(answers(config, environment), Settings | Mistakes)


@given(nearly())
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
def test_json_text_is_read_like_its_value(config: dict[str, Any]) -> None:
    try:
        # The engine hands objects and lists over as JSON text, and everything else as it is.
        as_text = {key: json.dumps(value) if isinstance(value, dict | list) else value for key, value in config.items()}
        as_read = {key: json.loads(text) if text is not config[key] else text for key, text in as_text.items()}
    except (TypeError, ValueError):
        return
    plain, text = answers(as_read), answers(as_text)
    assert type(plain) is type(text)
    assert str(plain) == str(text)


def test_a_number_too_long_to_print_is_a_mistake() -> None:
    for section in ({"zones": 10**5000}, {"flowLogDays": -(10**5000)}, 10**5000):
        assert isinstance(answers({"aws:region": "us-east-1", "agent-environment:network": section}), Mistakes)
    for section in ({"monthlyBudget": 10**5000}, {"noticeAt": 10**5000}):
        assert isinstance(answers({"aws:region": "us-east-1", "agent-environment:cost": section}), Mistakes)


def test_deep_nesting_is_one_mistake() -> None:
    around: list[Any] = []
    around.extend([around, around])
    found = answers({"aws:region": "us-east-1", "agent-environment:sandboxClasses": around})
    assert isinstance(found, Mistakes)
    assert len(found.mistakes) < 10
