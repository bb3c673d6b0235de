"""Functions (data sources): what a program asks of the cloud before it makes anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rehearsal.aws.calls import Cloud
from rehearsal.aws.row import Problem

Function = Callable[[Cloud, Mapping[str, Any]], dict[str, Any]]

TABLE: dict[str, Function] = {}


def invoke(cloud: Cloud, token: str, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    return TABLE[token](cloud, arguments), []
