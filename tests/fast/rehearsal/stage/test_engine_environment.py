"""The environment of the rehearsed engine: nothing of a real account, and the machine's own plugins first."""

from __future__ import annotations

import os
from pathlib import Path

from agentenv.rehearsal.stage.engine_environment import clean_environment, engine_environment, region_variables

HERE = Path("/run")


def around(**inherited: str) -> dict[str, str]:
    return engine_environment("r1", HERE, cloud="http://127.0.0.1:1", shims=HERE / "shims", inherited=inherited)


def test_variables_of_a_real_account_are_removed() -> None:
    seen = around(
        AWS_PROFILE="production",
        AWS_SESSION_TOKEN="token",
        AWS_ENDPOINT_URL_EFS="https://elsewhere",
        PULUMI_ACCESS_TOKEN="pul-1",
        PULUMI_STACK="prod",
        KUBECONFIG="/home/somebody/.kube/config",
        HOME="/home/somebody",
    )
    assert not {"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_EFS"} & seen.keys()
    assert not {"PULUMI_ACCESS_TOKEN", "PULUMI_STACK", "KUBECONFIG"} & seen.keys()
    assert seen["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
    assert seen["PULUMI_HOME"].startswith("/run/")
    assert seen["HOME"] == "/home/somebody"


def test_a_plugin_on_path_comes_before_its_stand_in() -> None:
    assert around(PATH="/usr/bin:/opt/pulumi")["PATH"].split(os.pathsep) == ["/usr/bin", "/opt/pulumi", "/run/shims"]


def test_loopback_is_never_reached_through_a_proxy() -> None:
    seen = around(HTTPS_PROXY="http://proxy:3128", NO_PROXY="example.com")
    assert seen["NO_PROXY"].split(",") == ["example.com", "127.0.0.1", "localhost", "::1"]
    assert seen["HTTPS_PROXY"] == "http://proxy:3128"


def test_cloud_gets_no_credentials_of_the_caller() -> None:
    seen = clean_environment(
        {"AWS_ENDPOINT_URL": "https://elsewhere", "MOTO_ACCOUNT_ID": "1", "PYTHONPATH": "/x", "HOME": "/h"}
    )
    assert seen == {"HOME": "/h"}


def test_the_region_is_the_stacks() -> None:
    assert {**around(AWS_REGION="eu-west-1"), **region_variables("ap-south-2")}["AWS_DEFAULT_REGION"] == "ap-south-2"
    assert around(AWS_REGION="eu-west-1")["AWS_REGION"] == "us-east-1"
