"""A control plane that is announced: what clusters tell of it, and what an announcement has to be."""

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from agentenv.rehearsal.cloud.rows.eks_certificate import authority
from agentenv.rehearsal.cloud.server import Cloud
from tests.fast.rehearsal.cloud.conftest import ClientFactory

PLANE = {
    "endpoint": "https://127.0.0.1:7443",
    "certificate_authority": authority(),
    "issuer": "https://127.0.0.1:7443/id",
    "deployer_address": "",
}


def send(cloud: Cloud, method: str, body: Any = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"{cloud.url}/_cloud/eks", data, method=method)  # noqa: S310 -- our own loopback
    with urllib.request.urlopen(request) as answer:  # noqa: S310 -- our own loopback
        return json.load(answer)


@pytest.fixture(autouse=True)
def nothing_announced(cloud: Cloud) -> Iterator[None]:
    yield
    send(cloud, "DELETE")


def registration(cluster: dict[str, Any]) -> dict[str, str]:
    return {
        "endpoint": cluster["endpoint"],
        "certificate_authority": cluster["certificateAuthority"]["data"],
        "issuer": cluster["identity"]["oidc"]["issuer"],
        "deployer_address": "",
    }


@pytest.mark.parametrize("first", ["announced", "cluster"])
def test_registered_control_plane_is_the_endpoint_of_clusters(
    cloud: Cloud, aws_client: ClientFactory, role: str, places: list[str], first: str
) -> None:
    eks = aws_client("eks")
    if first == "announced":
        assert send(cloud, "POST", PLANE) == PLANE
    created = eks.create_cluster(name="c", roleArn=role, resourcesVpcConfig={"subnetIds": places})["cluster"]
    try:
        assert (registration(created) == PLANE) is (first == "announced")
        if first == "cluster":
            send(cloud, "POST", PLANE)
        found = eks.describe_cluster(name="c")["cluster"]
        assert registration(found) == PLANE
        assert found["status"] == "ACTIVE"
    finally:
        eks.delete_cluster(name="c")


def test_withdrawn_control_plane_is_no_longer_described(
    cloud: Cloud, aws_client: ClientFactory, role: str, places: list[str]
) -> None:
    assert send(cloud, "GET") == {}
    send(cloud, "POST", PLANE)
    assert send(cloud, "GET") == PLANE
    assert send(cloud, "DELETE") == {}
    created = aws_client("eks").create_cluster(name="c", roleArn=role, resourcesVpcConfig={"subnetIds": places})[
        "cluster"
    ]
    aws_client("eks").delete_cluster(name="c")
    assert created["endpoint"] != PLANE["endpoint"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"endpoint": "http://127.0.0.1:7443"}, "endpoint is 'http://127.0.0.1:7443', and has to be an https address"),
        ({"issuer": "issuer"}, "issuer is 'issuer', and has to be an https address"),
        ({"certificate_authority": "not base64"}, "not the base64 of a certificate in PEM"),
        ({"certificate_authority": base64.b64encode(b"text").decode()}, "not the base64 of a certificate in PEM"),
        ({"port": "7443"}, "an object of endpoint, certificate_authority, issuer"),
        ({"endpoint": 7443}, "each a text"),
    ],
)
def test_invalid_registration_is_refused_with_a_message(cloud: Cloud, changed: dict[str, Any], words: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        send(cloud, "POST", {**PLANE, **changed})
    assert refused.value.code == 400
    assert words in json.load(refused.value)["message"]
    assert send(cloud, "GET") == {}
