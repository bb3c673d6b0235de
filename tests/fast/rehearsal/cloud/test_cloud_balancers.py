"""Network load balancers of the simulated account pass connections on, as the real ones do."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest

from tests.fast.core.gateway.running import TIMEOUT, own_address
from tests.fast.rehearsal.cloud.running_cloud import running_cloud

ACCOUNT = "123456789012"
CERTIFICATE = f"arn:aws:acm:us-east-1:{ACCOUNT}:certificate/0f7a3c52-6a0e-4d2e-9b0c-6f3c2a1d9e84"
HOSTS = ["os.example.com", "*.os.example.com"]
PORT, CHECK_PORT = 18080, 18081
SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"


@dataclass
class Account:
    """A simulated account of its own process."""

    url: str

    def client(self, service: str) -> Any:
        keys = {"aws_access_key_id": "AKIAIOSFODNN7EXAMPLE", "aws_secret_access_key": "none"}
        return boto3.client(service, endpoint_url=self.url, region_name="us-east-1", **keys)

    def page(self, name: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"{self.url}/_cloud/{name}", data, timeout=TIMEOUT) as response:  # noqa: S310 - loopback
            return json.load(response)


@dataclass
class Target:
    """A target that answers health checks, and echoes after the header of the PROXY protocol."""

    address: str = field(default_factory=own_address)
    healthy: bool = True
    headers: list[bytes] = field(default_factory=list[bytes])

    def __post_init__(self) -> None:
        self._listening = [socket.create_server((self.address, port)) for port in (PORT, CHECK_PORT)]
        for listening, serve in zip(self._listening, (self._echo, self._check), strict=True):
            threading.Thread(target=self._accept, args=(listening, serve), daemon=True).start()

    def _accept(self, listening: socket.socket, serve: Any) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    def _echo(self, connection: socket.socket) -> None:
        with connection:
            if not connection.recv(1, socket.MSG_PEEK):
                return
            self.headers.append(read_header(connection))
            while data := connection.recv(4096):
                connection.sendall(data)

    def _check(self, connection: socket.socket) -> None:
        with connection:
            read_header(connection)
            while connection.recv(4096):
                status = b"200 OK" if self.healthy else b"503 Service Unavailable"
                connection.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")

    def close(self) -> None:
        for listening in self._listening:
            listening.close()


def read_header(connection: socket.socket) -> bytes:
    """Return the header of the PROXY protocol, version 2."""
    start = connection.recv(16, socket.MSG_WAITALL)
    assert start[:12] == SIGNATURE
    return start + connection.recv(struct.unpack("!H", start[14:])[0], socket.MSG_WAITALL)


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    with running_cloud("--balancers") as url:
        yield Account(url)


@pytest.fixture(scope="module")
def group(account: Account) -> str:
    """The target group of a listener with TLS."""
    account.page("existing", [{"arn": CERTIFICATE, "names": HOSTS}])
    ec2, balancing = account.client("ec2"), account.client("elbv2")
    vpc = ec2.create_vpc(CidrBlock="10.20.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.20.1.0/24")["Subnet"]["SubnetId"]
    [balancer] = balancing.create_load_balancer(Name="b", Type="network", Subnets=[subnet])["LoadBalancers"]
    [created] = balancing.create_target_group(
        Name="t",
        Protocol="TCP",
        Port=PORT,
        VpcId=vpc,
        TargetType="ip",
        HealthCheckProtocol="HTTP",
        HealthCheckPort=str(CHECK_PORT),
        HealthCheckPath="/ready",
        HealthCheckIntervalSeconds=5,
        HealthCheckTimeoutSeconds=2,
        HealthyThresholdCount=2,
        UnhealthyThresholdCount=2,
    )["TargetGroups"]
    arn = created["TargetGroupArn"]
    proxied = [{"Key": "proxy_protocol_v2.enabled", "Value": "true"}]
    balancing.modify_target_group_attributes(TargetGroupArn=arn, Attributes=proxied)
    balancing.create_listener(
        LoadBalancerArn=balancer["LoadBalancerArn"],
        Protocol="TLS",
        Port=443,
        SslPolicy="ELBSecurityPolicy-TLS13-1-2-2021-06",
        Certificates=[{"CertificateArn": CERTIFICATE}],
        AlpnPolicy=["HTTP2Preferred"],
        DefaultActions=[{"Type": "forward", "TargetGroupArn": arn}],
    )
    return arn


def states(account: Account, group: str) -> dict[str, str]:
    rows = account.client("elbv2").describe_target_health(TargetGroupArn=group)["TargetHealthDescriptions"]
    return {row["Target"]["Id"]: row["TargetHealth"]["State"] for row in rows}


def until(account: Account, group: str, expected: dict[str, str]) -> None:
    deadline = time.monotonic() + 30
    while (found := states(account, group)) != expected:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def connect(account: Account, host: str) -> ssl.SSLSocket:
    """Return a connection to the listener, whose certificate is checked for the host."""
    page = account.page("balancers")
    [address] = page["listeners"].values()
    context = ssl.create_default_context(cafile=page["authority"])
    context.set_alpn_protocols(["h2", "http/1.1"])
    name, _, port = address.partition(":")
    return context.wrap_socket(socket.create_connection((name, int(port)), timeout=TIMEOUT), server_hostname=host)


@pytest.fixture
def target(account: Account, group: str) -> Iterator[Target]:
    """The only target, which is healthy."""
    balancing, registered = account.client("elbv2"), Target()
    balancing.register_targets(TargetGroupArn=group, Targets=[{"Id": registered.address}])
    until(account, group, {registered.address: "healthy"})
    yield registered
    balancing.deregister_targets(TargetGroupArn=group, Targets=[{"Id": registered.address}])
    assert states(account, group) == {}
    registered.close()


def test_a_listener_terminates_tls_and_passes_the_address_of_the_caller_on(account: Account, target: Target) -> None:
    with connect(account, "3000-w.os.example.com") as connection:
        assert connection.selected_alpn_protocol() == "h2"
        assert connection.version() == "TLSv1.3"
        connection.sendall(b"hello")
        assert connection.recv(16) == b"hello"
        port = connection.getsockname()[1]
    [header] = target.headers
    assert header[12:14] == bytes([0x21, 0x11])
    assert struct.unpack("!4s4sHH", header[16:28])[0::2] == (socket.inet_aton("127.0.0.1"), port)


def test_connections_go_to_healthy_targets_only(account: Account, group: str) -> None:
    balancing, first, second = account.client("elbv2"), Target(), Target(healthy=False)
    ids = [{"Id": target.address} for target in (first, second)]
    balancing.register_targets(TargetGroupArn=group, Targets=ids)
    until(account, group, {first.address: "healthy", second.address: "unhealthy"})
    for _ in range(6):
        with connect(account, "os.example.com") as connection:
            connection.sendall(b"x")
            assert connection.recv(1) == b"x"
    assert (len(first.headers), len(second.headers)) == (6, 0)
    balancing.deregister_targets(TargetGroupArn=group, Targets=ids)
    first.close()
    second.close()


def test_certificate_covers_only_its_hosts(account: Account, target: Target) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(account, "os.example.org")


def test_certificate_has_its_subject_alternative_names(account: Account, group: str) -> None:
    described = account.client("acm").describe_certificate(CertificateArn=CERTIFICATE)["Certificate"]
    assert described["Status"] == "ISSUED"
    assert set(HOSTS) <= set(described["SubjectAlternativeNames"])


def test_a_listener_needs_a_certificate_that_exists(account: Account, group: str) -> None:
    balancing = account.client("elbv2")
    [balancer] = balancing.describe_load_balancers()["LoadBalancers"]
    with pytest.raises(balancing.exceptions.CertificateNotFoundException):
        balancing.create_listener(
            LoadBalancerArn=balancer["LoadBalancerArn"],
            Protocol="TLS",
            Port=8443,
            Certificates=[{"CertificateArn": f"{CERTIFICATE}0"}],
            DefaultActions=[{"Type": "forward", "TargetGroupArn": group}],
        )


def test_the_configuration_follows_the_listener(account: Account, target: Target) -> None:
    balancing = account.client("elbv2")
    [balancer] = balancing.describe_load_balancers()["LoadBalancers"]
    [listener] = balancing.describe_listeners(LoadBalancerArn=balancer["LoadBalancerArn"])["Listeners"]
    balancing.modify_listener(ListenerArn=listener["ListenerArn"], Protocol="TLS", AlpnPolicy=["HTTP1Only"])
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            with connect(account, "os.example.com") as connection:
                assert connection.selected_alpn_protocol() == "http/1.1"
                break
        except ConnectionError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
