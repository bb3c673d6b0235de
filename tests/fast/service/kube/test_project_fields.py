"""Of documents that are held by the thousand, only the needed fields are kept."""

from __future__ import annotations

from agentenv.service.kube.project_fields import project_fields


def test_only_named_fields_are_cached() -> None:
    document = {"metadata": {"name": "a", "labels": {"x": "1", "y": "2"}}, "spec": {"big": "b" * 99}, "status": {}}
    paths = [("metadata", "name"), ("metadata", "labels", "y"), ("metadata", "uid"), ("status", "sandbox", "name")]
    assert project_fields(document, paths) == {"metadata": {"name": "a", "labels": {"y": "2"}}}
    assert project_fields(document, [("spec", "small")]) == {"spec": {}}
