"""Tests of the settings: defaults of a small file, and how all mistakes of a bad one are reported."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from decimal import Decimal
from ipaddress import IPv4Network
from typing import Any

import pytest

from agentenv.config import Mistakes, read
from agentenv.config.reader import read_known
from tests.fast.config.stack_samples import IMAGE, config, fargate, mistakes, mistakes_of, sandbox, settings


def test_a_region_alone_gives_a_small_environment() -> None:
    read_settings = settings()
    assert read_settings.network.cidr == IPv4Network("10.40.0.0/16")
    assert read_settings.network.zone_count == 2
    assert read_settings.sandbox_classes == ()
    assert read_settings.cluster_name == "agent-environment-dev"
    assert read_settings.tags == {"environment": "dev", "owner": "platform", "cost-center": "unassigned"}


def test_the_settings_of_a_usual_environment() -> None:
    read_settings = read(
        {
            "aws:region": "us-east-1",
            "agent-environment:network": {"cidr": "10.40.0.0/16", "zones": 2, "nat": "single"},
            "agent-environment:cluster": {
                "version": "1.35",
                "publicAccessCidrs": ["203.0.113.0/24"],
                "admins": ["arn:aws:iam::111122223333:role/platform"],
            },
            "agent-environment:storage": {"fileSystems": 1, "throughput": "elastic", "retainDeletedFor": "30d"},
            "agent-environment:sandboxClasses": [
                {
                    "name": "standard",
                    "tier": "standard",
                    "compute": "karpenter",
                    "capacity": "spot",
                    "image": IMAGE,
                    "resources": {"cpu": "100m", "memory": "512Mi", "burst": {"cpu": "2", "memory": "2Gi"}},
                    "capabilities": ["dns", "web", "git"],
                    "storage": {"size": "5Gi", "mountPath": "/home/agent"},
                    "pool": {"size": 10},
                    "suspendAfter": "20m",
                }
            ],
            "agent-environment:cost": {"monthlyBudget": 500, "perUserCap": 3.00, "alertTo": "platform@example.com"},
            "kubernetes:context": "another namespace is none of ours",
        },
        "prod",
    )
    (class_,) = read_settings.sandbox_classes
    assert class_.resources.burst.memory is not None
    assert class_.resources.burst.memory.value == 2 * 2**30
    assert class_.suspend_after == timedelta(minutes=20)
    assert [grant.word for grant in class_.capabilities] == ["dns", "web", "git"]
    assert read_settings.cost.per_user_cap == Decimal(3)
    assert isinstance(read_settings.cost.per_user_cap, Decimal)
    assert read_settings.protect
    assert read_settings.cluster.deletion_protection


def test_settings_are_frozen_and_can_be_compared() -> None:
    read_settings = settings({"sandboxClasses": [sandbox()]})
    with pytest.raises(ValueError, match="frozen"):
        read_settings.network.nat = "none"
    assert read_settings == settings({"sandboxClasses": [sandbox()]})
    assert read_settings != settings()


def test_settings_round_trip() -> None:
    read_settings = settings(
        {"sandboxClasses": [sandbox(capabilities=["dns", {"cidr": "203.0.113.0/24", "ports": [443]}], budget=2.5)]}
    )
    dumped = read_settings.model_dump(
        mode="json", by_alias=True, exclude={"environment", "region"}, exclude_defaults=True
    )
    assert dumped["sandboxClasses"][0]["capabilities"] == ["dns", {"cidr": "203.0.113.0/24", "ports": [443]}]
    assert settings(dumped) == read_settings


TEN_MISTAKES = {
    "aws:region": "us-east1",
    "agent-environment:netwrok": {"nat": "none"},
    "agent-environment:cluster": {"version": 1.35, "publicAccesCidrs": []},
    "agent-environment:storage": '{"throughput": "elastik", "fileSystems": "1"}',
    "agent-environment:sandboxClasses": [
        {"name": "a", "image": "registry.example.com/sandbox:latest", "compute": "karpentr"},
        {"name": "a", "image": IMAGE},
    ],
    "agent-environment:cost": {"alertTo": "platform"},
}


def test_all_mistakes_are_reported_together() -> None:
    found = mistakes_of(TEN_MISTAKES)
    mistake = {mistake.path: mistake.hint for mistake in found}
    assert len(found) == len(mistake) == 10
    assert mistake["aws:region"] == "did you mean 'us-east-1'?"
    assert mistake["agent-environment:netwrok"] == "did you mean 'network'?"
    assert mistake["agent-environment:cluster.version"].startswith("put it in quotes")
    assert mistake["agent-environment:cluster.publicAccesCidrs"] == "did you mean 'publicAccessCidrs'?"
    assert mistake["agent-environment:storage.throughput"] == "did you mean 'elastic'?"
    assert mistake["agent-environment:storage.fileSystems"] == "write it without quotes"
    assert "pin the digest" in mistake["agent-environment:sandboxClasses[0].image"]
    assert mistake["agent-environment:sandboxClasses[0].compute"] == "did you mean 'karpenter'?"
    assert "rename one" in mistake["agent-environment:sandboxClasses[1].name"]
    assert "agent-environment:cost.alertTo" in mistake
    assert all(mistake.found and mistake.allowed for mistake in found)


def test_texts_that_are_no_number_get_no_hint_about_quotes() -> None:
    for sections in ({"service": {"replicas": "two"}}, {"storage": {"backup": "yeah"}}):
        assert [mistake.hint for mistake in mistakes(sections)] == [""]


def test_two_values_that_are_as_similar_are_both_named() -> None:
    hints = {mistake.path: mistake.hint for mistake in mistakes_of({**TEN_MISTAKES, "aws:region": "us-est-1"})}
    assert hints["aws:region"] == "did you mean 'us-east-1' or 'us-west-1'?"


def test_two_classes_of_one_name_are_one_mistake() -> None:
    child = sandbox("child", parent="reviewer", tier="untrusted")
    classes = [sandbox("standard"), sandbox("standard", parent="standard"), child]
    found = mistakes({"sandboxClasses": classes, "workspaces": [{"name": "a", "class": "standard", "user": "u-1"}]})
    assert [mistake.path for mistake in found] == ["agent-environment:sandboxClasses[1].name"]


def test_an_unknown_time_zone_is_one_mistake_and_no_zone_of_another_continent_is_suggested() -> None:
    hours = {"days": ["mon"], "start": "08:00", "end": "18:00", "size": 3}
    schedules = [{**hours, "timezone": "CEST"}, {**hours, "days": ["tue"], "timezone": "Europe/Berlin"}]
    (mistake,) = mistakes({"sandboxClasses": [sandbox(pool={"schedules": schedules})]})
    assert mistake.path == "agent-environment:sandboxClasses[0].pool.schedules[0].timezone"
    assert "did you mean" not in mistake.hint


@pytest.mark.parametrize("key", ["secretKey", "token"])
def test_credentials_of_the_provider_are_not_in_clear(key: str) -> None:
    config = {"aws:region": "us-east-1", f"aws:{key}": "hunter2"}
    public = {"agent-environment:cluster": {"publicAccessCidrs": ["203.0.113.0/24"]}}
    with pytest.raises(Mistakes) as caught:
        read({**config, **public}, "dev")
    (mistake,) = caught.value.mistakes
    assert (mistake.path, "hunter2" in str(mistake), "--secret" in mistake.hint) == (f"aws:{key}", False, True)
    assert read({**config, **public, f"aws:{key}": {"secure": "v1:x"}}, "dev")
    assert read({**config, **public}, "dev", secrets=[f"aws:{key}"])


def test_the_message_of_all_mistakes_has_a_line_each() -> None:
    with pytest.raises(Mistakes) as caught:
        read(TEN_MISTAKES, "dev")
    assert len(str(caught.value).splitlines()) == 10


@pytest.mark.parametrize(
    ("sections", "path", "found", "hint"),
    [
        ({"network": {"throughput": "elastic"}}, "network.throughput", "the key 'throughput'", "belongs under storage"),
        ({"network": None}, "network", "nothing", "remove the key"),
        ({"network": "text"}, "network", "'text'", ""),
        ({"network": []}, "network", "an empty list", ""),
        ({"network": {"flowLogDays": 2}}, "network.flowLogDays", "2", ""),
        ({"network": {"cidr": "10.40.0.1/16"}}, "network.cidr", "'10.40.0.1/16'", "write 10.40.0.0/16"),
        ({"cluster": {"admins": ["arn:aws:iam::1:role/x"]}}, "cluster.admins[0]", "'arn:aws:iam::1:role/x'", "root"),
        ({"cluster": {"public_access_cidrs": []}}, "cluster.public_access_cidrs", "the key", "publicAccessCidrs"),
        ({"storage": {"retainDeletedFor": 30}}, "storage.retainDeletedFor", "30", "add the unit"),
        ({"storage": {"backup": "yes"}}, "storage.backup", "'yes'", "without quotes"),
        ({"cost": {"perUserCap": 3.001}}, "cost.perUserCap", "3.001", ""),
        ({"cost": {"perUserCap": float("nan")}}, "cost.perUserCap", "nan", ""),
        ({"cost": {"owner": 7}}, "cost.owner", "7", "put it in quotes"),
        ({"sandboxClasses": [sandbox(capabilities=["dsn"])]}, "sandboxClasses[0].capabilities[0]", "'dsn'", "'dns'"),
        (
            {"sandboxClasses": [sandbox(capabilities=[{"cidr": "10.0.0.0/8", "domain": "a.example"}])]},
            "sandboxClasses[0].capabilities[0]",
            "a mapping",
            "cidr and domain",
        ),
        ({"sandboxClasses": [sandbox(resources={"memory": 512})]}, "sandboxClasses[0].resources.memory", "512", "unit"),
        ({"sandboxClasses": [{"name": "a"}]}, "sandboxClasses[0].image", "nothing", "no default"),
        (
            {"workspaces": [{"name": "a", "class": "standard", "user": "a@example.com"}]},
            "workspaces[0].user",
            "'a@example.com'",
            "no e-mail address",
        ),
        ({"protect": "perhaps"}, "protect", "'perhaps'", ""),
        ({"sandboxClasses": [sandbox(pool={"missRate": 5})]}, "sandboxClasses[0].pool.missRate", "5", "0.05"),
    ],
)
def test_a_mistake_has_its_path_value_and_hint(sections: dict[str, object], path: str, found: str, hint: str) -> None:
    mistake = next(mistake for mistake in mistakes(sections) if mistake.path == f"agent-environment:{path}")
    assert found in mistake.found
    assert hint in mistake.hint
    assert mistake.allowed


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("netwrok", "did you mean 'network'?"),
        ("agent-environment:region", "write aws:region"),
        ("agent-enviroment:network", "write agent-environment:network"),
        ("region", "write aws:region"),
    ],
)
def test_a_key_in_the_wrong_namespace_is_a_mistake(key: str, hint: str) -> None:
    (mistake,) = mistakes_of({**config(), key: {}})
    assert mistake.hint == hint


def test_a_key_is_read_in_every_spelling_that_the_engine_knows() -> None:
    assert read({**config(), "network": {"nat": "per-zone"}}, "dev").network.nat == "per-zone"
    spelled = {"aws:config:region": "eu-west-1", "cluster": {"publicAccessCidrs": ["203.0.113.0/24"]}}
    assert read(spelled, "dev").region == "eu-west-1"
    assert read({**config(), "agent-environment:config:network": {"nat": "per-zone"}}, "dev").network.nat == "per-zone"


def test_a_key_in_two_spellings_is_a_mistake() -> None:
    (mistake,) = mistakes_of({**config({"network": {}}), "network": {"nat": "per-zone"}})
    assert mistake.found == "the key twice, as 'network' too"


def test_a_secret_is_refused_and_never_printed() -> None:
    for sections in ({"cost": {"owner": {"secure": "v1:abc"}}}, {"cost": {"secure": "v1:abc"}}):
        (mistake,) = mistakes(sections)
        assert mistake.found == "a secret"
        assert "abc" not in str(mistake)


def test_decrypted_secrets_are_never_printed() -> None:
    with pytest.raises(Mistakes) as caught:
        read(config({"network": '{"nat": "hunter2"}'}), "dev", secrets=["agent-environment:network"])
    assert [mistake.found for mistake in caught.value.mistakes] == ["a secret"]
    assert "hunter2" not in str(caught.value)


def test_objects_are_read_from_json_text() -> None:
    sections = {"network": {"zones": 3}, "sandboxClasses": [sandbox()], "workspaces": []}
    text = {name: json.dumps(value) for name, value in sections.items()}
    assert settings(text) == settings(sections)


@pytest.mark.parametrize(
    ("environment", "protected", "protect"),
    [
        ("dev", None, False),
        ("prod", None, True),
        ("prod-eu", "auto", True),
        ("prod", False, False),
        ("prod", "false", False),
        ("dev", "true", True),
        ("product-demo", None, False),
    ],
)
def test_production_is_protected_by_default(environment: str, protected: object, protect: bool) -> None:
    assert settings({} if protected is None else {"protect": protected}, environment).protect is protect


@pytest.mark.parametrize(
    ("environment", "network", "bucket"),
    [
        ("dev", {}, False),
        ("prod", {}, True),
        ("prod-eu", {"mirrors": {}, "zones": 3}, True),
        ("prod", {"mirrors": {"bucket": False}}, False),
        ("prod", {"mirrors": {"files": "https://copies.s3.us-east-1.amazonaws.com"}}, False),
        ("dev", {"mirrors": {"bucket": True}}, True),
    ],
)
def test_production_has_a_bucket_of_runtimes_by_default(
    environment: str, network: dict[str, Any], bucket: bool
) -> None:
    assert settings({"network": network} if network else {}, environment).network.mirrors.bucket is bucket


@pytest.mark.parametrize("environment", ["", "Prod", "a b", "9lives", "x" * 40])
def test_a_stack_name_that_is_too_long_is_refused(environment: str) -> None:
    (mistake,) = mistakes(environment=environment)
    assert mistake.path == "stack name"


def test_fargate_classes_have_no_storage_by_default() -> None:
    read_settings = settings({"sandboxClasses": [fargate(), fargate("other", storage={"kind": "scratch"})]})
    assert [sandbox_class.storage.kind for sandbox_class in read_settings.sandbox_classes] == ["none", "scratch"]


def test_constraints_are_checked_beside_invalid_values() -> None:
    broken = {"name": "broken", "image": "x:latest"}
    found = mistakes({"sandboxClasses": [broken, "nonsense", sandbox("b", parent="c"), fargate(gpu=1)]})
    assert [mistake.path.partition("[")[2] for mistake in found] == ["0].image", "1]", "3].gpu"]


def test_missing_values_are_reported_separately() -> None:
    found = mistakes({"network": {"existing": {"privateSubnetIds": ["a", "b"]}}, "sandboxClasses": [fargate(gpu=1)]})
    assert len(found) == 4
    assert found[-1].path == "agent-environment:sandboxClasses[0].gpu"


def test_an_invalid_item_keeps_the_paths_of_others() -> None:
    found = mistakes({"sandboxClasses": [sandbox("a"), sandbox("b", capabilities=[{}, "web"]), fargate(gpu=1)]})
    assert [mistake.path.partition("[")[2] for mistake in found] == ["1].capabilities[0]", "2].gpu"]


def test_constraints_ignore_defaults_of_mistyped_keys() -> None:
    copies = {"registry": "111122223333.dkr.ecr.us-east-1.amazonaws.com"}
    found = mistakes({"network": {"nat": "none", "endpoint": [], "mirrors": copies}})
    assert [mistake.path for mistake in found] == ["agent-environment:network.endpoint"]
    found = mistakes({"sandboxClases": [], "workspaces": [{"name": "a", "class": "b", "user": "u-1"}]})
    assert [mistake.path for mistake in found] == ["agent-environment:sandboxClases"]


@pytest.mark.parametrize(
    ("changes", "path", "allowed"),
    [
        ({"flags": {"replenishDelay": "61m"}}, "flags.replenishDelay", "a duration of at most an hour"),
        ({"flags": {"readinessGrace": "25h"}}, "flags.readinessGrace", "a duration of at most a day"),
        ({"labelDomains": ["app.kubernetes.io"]}, "labelDomains[0]", "a domain of your own"),
        ({"labelDomains": ["team"]}, "labelDomains[0]", "a domain of your own"),
        ({"replicas": 0}, "replicas", "a whole number from 1 to 5"),
        ({"manifests": "http://mirror.example.com/x"}, "manifests", "an https address, or a folder"),
    ],
)
def test_values_that_the_controller_refuses_are_mistakes(changes: dict[str, Any], path: str, allowed: str) -> None:
    (mistake,) = mistakes({"cluster": {"sandboxController": changes}})
    assert mistake.path == f"agent-environment:cluster.sandboxController.{path}"
    assert mistake.allowed.startswith(allowed)


def test_amounts_of_money_are_exact() -> None:
    for text_ in (2.3, "2.30", "2.3"):
        assert settings({"cost": {"perUserCap": text_}}).cost.per_user_cap == Decimal("2.3")


def test_the_model_is_imported_without_pydantic() -> None:
    program = (
        "import agentenv.core, agentenv.core.values.addresses, agentenv.core.values.names, sys\n"
        "sys.exit('pydantic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("text", ['{"secure": "v1:cipher"}', "[{secure: v1:cipher}]"])
def test_a_secret_written_as_text_is_not_shown(text: str) -> None:
    found = mistakes_of({"aws:region": text, "agent-environment:protect": text, "agent-environment:network": [text]})
    assert len(found) >= 3
    assert not [mistake for mistake in found if "cipher" in str(mistake)]


def test_an_older_reader_leaves_out_the_keys_that_it_does_not_know() -> None:
    newer = config(
        {
            "sandboxClasses": [sandbox(later=1), sandbox("second", pool={"size": 2, "later": True})],
            "network": {"later": {"deep": 1}},
            "laterSection": {},
        }
    )
    before = json.dumps(newer)
    found, ignored = read_known(newer, "dev")
    known = {"sandboxClasses": [sandbox(), sandbox("second", pool={"size": 2})], "network": {}}
    assert found == settings(known)
    assert sorted(path.removeprefix("agent-environment:") for path in ignored) == [
        "laterSection",
        "network.later",
        "sandboxClasses[0].later",
        "sandboxClasses[1].pool.later",
    ]
    assert json.dumps(newer) == before
    assert read_known(config(), "dev") == (settings(), ())


def test_an_older_reader_still_refuses_a_value_that_it_does_not_know() -> None:
    with pytest.raises(Mistakes) as refused:
        read_known(config({"network": {"nat": "later", "zone": 3}}), "dev")
    assert [mistake.path for mistake in refused.value.mistakes] == ["agent-environment:network.nat"]
    with pytest.raises(Mistakes):
        read_known({}, "dev")
