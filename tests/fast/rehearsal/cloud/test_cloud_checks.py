"""Requests against the services' models: what does not fit is found, whatever it is."""

import pytest
from botocore.exceptions import ClientError
from hypothesis import given, settings
from hypothesis import strategies as st

from agentenv.rehearsal.cloud.parameter_checks import compiled, find_violations, lenient
from agentenv.rehearsal.cloud.requests import candidates, service_model, signing_names
from tests.fast.rehearsal.cloud.calls import refused, trust
from tests.fast.rehearsal.cloud.conftest import ClientFactory

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(
    where=st.sampled_from([("iam", "CreateRole"), ("eks", "CreateCluster"), ("s3", "PutBucketPolicy")]),
    names=st.lists(st.sampled_from(["RoleName", "name", "resourcesVpcConfig", "Tags", "Bucket", "x"]), max_size=4),
    value=VALUES,
)
def test_any_parameters_are_validated(where: tuple[str, str], names: list[str], value: object) -> None:
    service, operation = where
    for misfit in find_violations(
        service, service_model(service).operation_model(operation), dict.fromkeys(names, value)
    ):
        assert misfit.constraint
        assert misfit.kind in {"required", "type", "enum", "pattern", "length", "range"}


def test_every_exemption_names_a_constraint_and_its_reason() -> None:
    for name, reason in lenient().items():
        service, shape, kind = name.split(".", 2)
        assert shape in service_model(service).shape_names
        assert kind.split(".")[0] in {"pattern", "enum", "min", "max", "required"}
        assert len(reason) > 20


def test_patterns_of_the_service_models_compile() -> None:
    letters = compiled(r"^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$")
    assert letters is not None
    assert letters.fullmatch("Größe 1:2")
    assert not letters.fullmatch("a;b")


@pytest.mark.parametrize(
    ("signed", "meant"),
    [("monitoring", "cloudwatch"), ("elasticfilesystem", "efs"), ("states", "stepfunctions"), ("iam", "iam")],
)
def test_services_are_found_by_the_name_they_sign_with(signed: str, meant: str) -> None:
    assert meant in {model.service_name for model in candidates(signed)}
    assert meant == signed or meant in signing_names()[signed]


def test_errors_have_the_form_of_their_protocol(aws_client: ClientFactory) -> None:
    iam, eks, logs, ec2, kms = (aws_client(name) for name in ("iam", "eks", "logs", "ec2", "kms"))
    with refused("ValidationError"):
        iam.create_role(RoleName="a b", AssumeRolePolicyDocument=trust())
    with refused("ValidationError"):
        iam.create_role(RoleName="a" * 65, AssumeRolePolicyDocument=trust())
    with refused("ValidationError"):
        iam.create_role(RoleName="a", AssumeRolePolicyDocument=trust(), MaxSessionDuration=60)
    with refused("InvalidParameterException"):
        eks.create_cluster(name="-a", roleArn="x", resourcesVpcConfig={})
    with refused("InvalidParameterException"):
        eks.create_cluster(name="a", resourcesVpcConfig={})
    with refused("InvalidParameterException"):
        eks.create_cluster(name="a", roleArn="r", resourcesVpcConfig={}, accessConfig={"authenticationMode": "NO"})
    with refused("InvalidParameterException"):
        logs.create_log_group(logGroupName="a b")
    with refused("ValidationException"):
        kms.enable_key_rotation(KeyId="k", RotationPeriodInDays=10)
    with refused("MissingParameter"):
        ec2.create_subnet(CidrBlock="10.0.0.0/24")
    with refused("InvalidParameterValue"):
        ec2.create_vpc(CidrBlock="10.0.0.0/16", InstanceTenancy="borrowed")


@pytest.mark.parametrize("tag", [("aws:x", "y"), ("k" * 129, "y"), ("k", "y" * 257), ("", "y")])
def test_invalid_tags_are_refused(aws_client: ClientFactory, tag: tuple[str, str]) -> None:
    listed = [{"Key": tag[0], "Value": tag[1]}]
    with refused("InvalidParameterValue"):
        specification = {"ResourceType": "vpc", "Tags": listed}
        aws_client("ec2").create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=[specification])
    with pytest.raises(ClientError, match=r"ValidationError|InvalidInput"):
        aws_client("iam").create_role(RoleName="tagged", AssumeRolePolicyDocument=trust(), Tags=listed)
    with refused("InvalidParameterException"):
        aws_client("logs").create_log_group(logGroupName="tagged", tags={tag[0]: tag[1]})


def test_duplicate_tag_keys_are_refused(aws_client: ClientFactory) -> None:
    twice = [{"Key": "a", "Value": "b"}, {"Key": "a", "Value": "c"}]
    with refused("InvalidParameterValue"):
        specification = {"ResourceType": "vpc", "Tags": twice}
        aws_client("ec2").create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=[specification])


def test_secrets_are_not_repeated_in_a_refusal(aws_client: ClientFactory) -> None:
    with pytest.raises(Exception, match=r"ValidationException|InvalidParameter") as caught:
        aws_client("secretsmanager").create_secret(Name="n", SecretString="tell-nobody" * 6000)
    assert "tell-nobody" not in str(caught.value)
