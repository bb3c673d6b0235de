"""AWS's clients: each its own, and what its services are like is held once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.loaders import JSONFileLoader

from agentenv.service.aws import clients as aws

if TYPE_CHECKING:
    import pytest


def test_what_services_are_like_is_read_once_for_all_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    load = JSONFileLoader.load_file

    def counted(self: JSONFileLoader, path: str) -> object:
        found: object = load(self, path)
        if found is not None:
            read.append(path)
        return found

    monkeypatch.setattr(JSONFileLoader, "load_file", counted)
    keys = {"aws_access_key_id": "nobody", "aws_secret_access_key": "nobody"}
    first = aws.client("sts", "us-east-1", **keys)
    read.clear()
    second = aws.client("sts", "us-west-2", **keys)
    assert read == []
    assert (first.meta.region_name, second.meta.region_name) == ("us-east-1", "us-west-2")


def test_created_clients_leave_the_shared_session_unchanged() -> None:
    """One is made for each exchange of a token."""
    keys = {"aws_access_key_id": "nobody", "aws_secret_access_key": "nobody"}
    first = aws.client("sts", "us-east-1", **keys)
    looked_in = _paths()
    for _ in range(3):
        aws.client("sts", "us-east-1", **keys)
    assert _paths() == looked_in
    assert first.meta.service_model.service_name == "sts"


def _paths() -> list[str]:
    return list(aws._data_loader().search_paths)  # pyright: ignore[reportPrivateUsage]
