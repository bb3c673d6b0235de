"""Values on the wire: whatever is written is read again, and what is secret stays marked."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentenv.core.capabilities.unknown_values import PLACEHOLDERS
from agentenv.rehearsal.providers.common.property_values import (
    OUTPUT_SIGNATURE,
    SIGNATURE_KEY,
    UNKNOWN,
    Path,
    decode,
    encode,
)

TEXT = st.text(max_size=8).filter(lambda text: text not in PLACEHOLDERS)
KEYS = st.text(alphabet="abcXYZ_./", min_size=1, max_size=6)
LEAVES = st.none() | st.booleans() | st.integers(-(2**52), 2**52) | TEXT | st.just(UNKNOWN)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_values_are_serialized_and_read_back(values: dict[str, Any]) -> None:
    assert decode(encode(values)) == (values, frozenset())


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=4), st.data())
def test_a_secret_path_survives(values: dict[str, Any], data: st.DataObject) -> None:
    path: Path = (data.draw(st.sampled_from(sorted(values))),)
    assert decode(encode(values, {path})) == (values, frozenset({path}))


def test_an_output_value_is_its_value_or_unknown() -> None:
    known = {SIGNATURE_KEY: OUTPUT_SIGNATURE, "value": "x", "secret": True}
    unknown = {SIGNATURE_KEY: OUTPUT_SIGNATURE}
    assert decode(encode({"a": known, "b": unknown})) == (
        {"a": "x", "b": UNKNOWN},
        {("a",)},
    )
