"""Facts in the rules, checked against their sources."""

import json
import os
from pathlib import Path
from typing import get_args

import pytest

from agentenv.config.sections.cluster import Version
from agentenv.policies.rules.cluster.control_plane import OLDEST_MINOR
from agentenv.policies.rules.cost.owners import taggable_types


def test_every_version_in_the_settings_is_in_standard_support() -> None:
    [offered] = [get_args(one) for one in get_args(Version) if get_args(one)]
    assert min(int(version.partition(".")[2]) for version in offered) == OLDEST_MINOR


def test_taggable_types_are_those_of_the_official_schema() -> None:
    if "AGENTENV_FACTS" not in os.environ:
        pytest.skip("needs AGENTENV_FACTS: the official schema of the aws plugin")
    schema = json.loads((Path(os.environ["AGENTENV_FACTS"]) / "aws-schema.json").read_text(encoding="utf-8"))
    official = {kind for kind, resource in schema["resources"].items() if "tags" in resource["inputs"]}
    assert len(official) > 40
    assert {kind for kind in schema["resources"] if kind in taggable_types()} == official


def test_types_with_other_tags_are_not_taggable() -> None:
    assert "aws:efs/fileSystem:FileSystem" in taggable_types()
    # A mount target has none, a scaling group lists them, a resource group of DevOps Guru means others
    for kind in ("efs/mountTarget:MountTarget", "autoscaling/group:Group"):
        assert f"aws:{kind}" not in taggable_types()
