"""Quotas: usage of others counts, the environment's own usage does not, and failed calls fail nothing."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.cli.preflight import quotas
from agentenv.cli.preflight.aws_calls import AwsCallError
from agentenv.cli.preflight.check import Check, Question
from tests.fast.cli.preflight.conftest import StubbedSession
from tests.fast.config.stack_samples import VETTED, sandbox, settings


def run_check(stubbed: StubbedSession, name: str, **sections: Any) -> Check:
    return stubbed.check(quotas.questions(settings(sections)), f"quota: {name}")


def limit(stubbed: StubbedSession, service: str, code: str, value: float) -> None:
    stubbed.stub("service-quotas").add_response(
        "get_service_quota", {"Quota": {"Value": value}}, {"ServiceCode": service, "QuotaCode": code}
    )


def tagged(environment: str) -> list[dict[str, str]]:
    return [{"Key": "environment", "Value": environment}]


@pytest.mark.parametrize(
    ("needed", "quota", "used", "ok"),
    [(1, 5, (4, 0), True), (1, 5, (5, 0), False), (1, 5, (5, 1), True), (3, 5, (4, 1), False), (3, 5, (3, 1), True)],
)
def test_a_need_must_fit_beside_the_usage_of_others(needed: int, quota: int, used: tuple[int, int], ok: bool) -> None:
    assert quotas.quota_answer(needed, quota, used).ok is ok


def test_other_vpcs_count_against_the_quota(stubbed: StubbedSession) -> None:
    limit(stubbed, "vpc", "L-F678F1CE", 2.0)
    stubbed.stub("ec2").add_response("describe_vpcs", {"Vpcs": [{"VpcId": "a"}, {"VpcId": "b"}]})
    found = run_check(stubbed, "VPCs")
    assert (found.needed, found.limit, found.ok) == (1, 2, False)
    assert found.why == "2 in use: 1 too few; request a higher quota, or free some"


def test_the_environments_own_vpc_does_not_count_twice(stubbed: StubbedSession) -> None:
    limit(stubbed, "vpc", "L-F678F1CE", 2.0)
    ours = {"Vpcs": [{"VpcId": "a"}, {"VpcId": "b", "Tags": tagged("dev")}]}
    stubbed.stub("ec2").add_response("describe_vpcs", ours)
    assert run_check(stubbed, "VPCs").ok is True


def test_a_quota_without_a_value_has_the_default(stubbed: StubbedSession) -> None:
    key = {"ServiceCode": "ec2", "QuotaCode": "L-0263D0A3"}
    stub = stubbed.stub("service-quotas")
    stub.add_client_error("get_service_quota", "NoSuchResourceException", "none", expected_params=key)
    stub.add_response("get_aws_default_service_quota", {"Quota": {"Value": 5.0}}, key)
    stubbed.stub("ec2").add_response("describe_addresses", {"Addresses": [{"PublicIp": "192.0.2.1"}] * 4})
    found = run_check(stubbed, "elastic addresses", network={"nat": "per-zone", "zones": 3})
    assert (found.needed, found.limit, found.ok) == (3, 5, False)


def test_cores_count_running_instances_of_the_same_group_and_purchase_option(stubbed: StubbedSession) -> None:
    def runs(kind: str, cores: int, **more: Any) -> dict[str, Any]:
        return {"InstanceType": kind, "CpuOptions": {"CoreCount": cores, "ThreadsPerCore": 1}, **more}

    running = [
        runs("m7g.large", 2),
        runs("c5.xlarge", 4, InstanceLifecycle="spot"),
        runs("m8g.large", 2, InstanceLifecycle="spot", Tags=[{"Key": "eks:eks-cluster-name", "Value": NAME}]),
        runs("g6.xlarge", 4, InstanceLifecycle="spot"),
    ]
    stubbed.stub("ec2").add_response("describe_instances", {"Reservations": [{"Instances": running}]})
    limit(stubbed, "ec2", "L-34B43A08", 12.0)
    spot = [sandbox(capacity="spot", resources={"cpu": "1"}, maxSandboxes=8)]
    found = run_check(stubbed, "Spot cores", sandboxClasses=spot)
    assert (found.needed, found.limit, found.ok) == (10, 12, False)
    assert found.why.startswith("6 cores in use, 2 of them by this environment: 2 too few; ")
    assert found.why.endswith("; for 8 of standard")


NAME = "agent-environment-dev"


def test_a_denied_call_makes_the_check_unknown(stubbed: StubbedSession) -> None:
    stubbed.stub("service-quotas").add_client_error("get_service_quota", "AccessDeniedException", "not\nyou")
    found = run_check(stubbed, "Fargate profiles")
    assert (found.needed, found.limit, found.ok) == (3, None, None)
    assert found.why == "service-quotas GetServiceQuota: AccessDeniedException: not you"


@pytest.mark.parametrize(
    ("fullest", "ok", "words"),
    [
        ((), True, ""),
        ((9_000, 0), True, "9000 on the fullest file system, 0 of them with an owner"),
        ((9_990, 9_000), True, "9990 on the fullest file system, 9000 of them with an owner"),
        ((9_990, 9_001), None, "too few if more than 9000 of those are retained after their workspaces"),
        ((10_000, 9_001), False, "full; add a file system"),
    ],
)
def test_retained_homes_use_access_points(fullest: Any, ok: bool | None, words: str) -> None:
    found = quotas.access_point_answer(1_000, 10_000, fullest)
    assert (found.limit, found.ok) == (10_000, ok)
    assert words in found.why
    assert quotas.access_point_answer(10_001, 10_000, fullest).ok is False


def test_access_points_are_counted_on_the_environments_own_file_systems(stubbed: StubbedSession) -> None:
    ours = [{"Key": "environment", "Value": "dev"}]
    described = [("fs-1", ours), ("fs-2", ours), ("fs-3", [])]
    files = stubbed.stub("efs")
    files.add_response("describe_file_systems", {"FileSystems": [system(id_, tags) for id_, tags in described]})
    for id_, count in (("fs-1", 1), ("fs-2", 3)):
        owned = [{"Tags": [{"Key": "sandbox-user", "Value": "u-1"}]}, *[{} for _ in range(count - 1)]]
        files.add_response("describe_access_points", {"AccessPoints": owned}, {"FileSystemId": id_})
    stubbed.stub("service-quotas").add_response("list_service_quotas", {"Quotas": []})
    found = run_check(stubbed, "access points", sandboxClasses=[sandbox()])
    assert (found.ok, found.why) == (True, "3 on the fullest file system, 1 of them with an owner")


def system(id_: str, tags: list[dict[str, str]]) -> dict[str, Any]:
    plain = {"OwnerId": "1", "CreationToken": id_, "CreationTime": 0, "LifeCycleState": "available"}
    sizes = {"NumberOfMountTargets": 2, "SizeInBytes": {"Value": 1}, "PerformanceMode": "generalPurpose"}
    return {**plain, **sizes, "FileSystemId": id_, "Tags": tags}


def test_the_access_point_quota_is_found_by_name_or_has_a_default(stubbed: StubbedSession) -> None:
    files = stubbed.stub("efs")
    for _ in range(2):
        files.add_response("describe_file_systems", {"FileSystems": []})
    stub = stubbed.stub("service-quotas")
    stub.add_response("list_service_quotas", {"Quotas": [{"QuotaName": "File systems per account", "Value": 1000.0}]})
    many = [sandbox(maxSandboxes=9000)]
    assert run_check(stubbed, "access points", sandboxClasses=many).limit == 10_000
    quota = [{"QuotaName": "Access points per file system", "Value": 1000.0}]
    stub.add_response("list_service_quotas", {"Quotas": quota})
    assert run_check(stubbed, "access points", sandboxClasses=many).ok is False


def test_results_and_errors_are_cached(stubbed: StubbedSession) -> None:
    stub = stubbed.stub("ec2")
    stub.add_client_error("describe_instances", "UnauthorizedOperation", "no")
    account = stubbed.account()
    for _ in range(2):
        with pytest.raises(AwsCallError, match="UnauthorizedOperation"):
            account.cached("x", lambda: account.list_all("ec2", "describe_instances", "Reservations"))


def test_every_group_of_cores_has_its_quota() -> None:
    questions: list[Question] = quotas.questions(
        settings(
            {
                "capacity": {"gpu": {"limit": 2}},
                "sandboxClasses": [sandbox(**VETTED, gpu=1), sandbox("b", capacity="spot")],
            }
        )
    )
    assert sum("cores, " in question.name for question in questions) == 3
    assert len({quota.code for quota in quotas.CORES.values()}) == len(quotas.CORES)
