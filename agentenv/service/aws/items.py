"""Items of DynamoDB tables as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from importlib import import_module
from typing import Any

_TYPES = import_module("boto3.dynamodb.types")
_SERIALIZER: Any = _TYPES.TypeSerializer()
_DESERIALIZER: Any = _TYPES.TypeDeserializer()


def serialized(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item as the API takes it."""
    return {name: _SERIALIZER.serialize(value) for name, value in item.items()}


def deserialized(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain values of an item."""
    return {name: _plain(_DESERIALIZER.deserialize(value)) for name, value in item.items()}


def _plain(value: Any) -> Any:
    # Normalises zero, which DynamoDB returns with other decimal places.
    return value + Decimal(0) if isinstance(value, Decimal) else value
