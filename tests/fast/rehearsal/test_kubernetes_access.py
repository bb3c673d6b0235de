"""Getting in: kubeconfigs of every make, credentials that expire, and a server that is slow, busy or gone."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentenv.rehearsal.providers.kubernetes import credentials, kubeconfig, settings
from agentenv.rehearsal.providers.kubernetes.client import ApiError, Client, Unreachable
from agentenv.rehearsal.providers.kubernetes.cluster import Cluster
from agentenv.rehearsal.providers.kubernetes.discovery import Discovery, UnknownKind
from agentenv.rehearsal.providers.kubernetes.kubeconfig import Access, InvalidKubeconfig
from agentenv.rehearsal.providers.kubernetes.values import UNKNOWN
from tests.stub_server import Request, Response, stub_server


def config(server: str = "https://one.example.com", **user: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [
            {"name": "one", "cluster": {"server": server, "certificate-authority-data": "Y2E="}},
            {"name": "two", "cluster": {"server": "https://two.example.com", "insecure-skip-tls-verify": True}},
        ],
        "contexts": [
            {"name": "one", "context": {"cluster": "one", "user": "me", "namespace": "mine"}},
            {"name": "two", "context": {"cluster": "two", "user": "me"}},
        ],
        "users": [{"name": "me", "user": user or {"token": "very-secret"}}],
    }


def test_kubeconfig_is_read_from_contents_path_and_environment(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(config()), encoding="utf-8")
    for given_config, environment in ((json.dumps(config()), {}), (str(path), {}), (None, {"KUBECONFIG": str(path)})):
        access = kubeconfig.cluster_access(kubeconfig.load(given_config, environment))
        assert (access.server, access.namespace, access.ca) == ("https://one.example.com", "mine", b"ca")
        assert access.token == "very-secret"
        assert "very-secret" not in repr(access)


def test_a_context_a_cluster_and_a_namespace_can_be_chosen() -> None:
    loaded = kubeconfig.load(config(), {})
    assert kubeconfig.cluster_access(loaded, context="two").insecure
    assert kubeconfig.cluster_access(loaded, cluster="two").server == "https://two.example.com"
    assert kubeconfig.cluster_access(loaded, namespace="other").namespace == "other"


def test_several_files_are_merged_and_the_first_wins(tmp_path: Path) -> None:
    first, second = config("https://first.example.com"), config("https://second.example.com")
    first["contexts"], first["clusters"] = first["contexts"][:1], first["clusters"][:1]
    (tmp_path / "a").write_text(json.dumps(first), encoding="utf-8")
    (tmp_path / "b").write_text(json.dumps(second), encoding="utf-8")
    loaded = kubeconfig.load(None, {"KUBECONFIG": f"{tmp_path / 'a'}:{tmp_path / 'none'}:{tmp_path / 'b'}"})
    assert kubeconfig.cluster_access(loaded).server == "https://first.example.com"
    assert kubeconfig.cluster_access(loaded, context="two").server == "https://two.example.com"


def test_certificates_are_read_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "me.crt").write_bytes(b"certificate")
    (tmp_path / "me.key").write_bytes(b"key")
    path = tmp_path / "config"
    path.write_text(json.dumps(config(**{"client-certificate": "me.crt", "client-key": "me.key"})), encoding="utf-8")
    access = kubeconfig.cluster_access(kubeconfig.load(str(path), {}))
    assert (access.certificate, access.key) == (b"certificate", b"key")


@pytest.mark.parametrize(
    ("given_config", "message"),
    [
        ("no such path", "neither the path of a file"),
        ("{broken: [very-secret", "neither YAML nor JSON"),
        (config("one.example.com"), "starts with https"),
        ({**config(), "current-context": "three"}, "context 'three' does not exist; the kubeconfig has 'one', 'two'"),
        ({**config(), "current-context": ""}, "has no current-context"),
        ({**config(), "users": []}, "user 'me' does not exist"),
        (config(**{"client-certificate-data": "%%"}), "not base64"),
        (config(exec={"args": ["x"]}), "names no command"),
        ({"clusters": []}, "no kubeconfig was given"),
    ],
)
def test_errors_do_not_quote_secrets(given_config: Any, message: str) -> None:
    with pytest.raises(InvalidKubeconfig, match=message) as caught:
        kubeconfig.cluster_access(kubeconfig.load(given_config, {}))
    assert "very-secret" not in str(caught.value)


def test_kubeconfig_of_the_home_folder_is_never_used(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(json.dumps(config()), encoding="utf-8")
    with pytest.raises(InvalidKubeconfig, match="no kubeconfig was given"):
        kubeconfig.cluster_access(kubeconfig.load(None, {"HOME": str(tmp_path)}))


def test_a_token_file_is_read_for_each_token(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(config(tokenFile="token")), encoding="utf-8")
    (tmp_path / "token").write_text("first\n", encoding="utf-8")
    held = credentials.Credentials(kubeconfig.cluster_access(kubeconfig.load(str(path), {})))
    assert held.headers()["Authorization"] == "Bearer first"
    (tmp_path / "token").write_text("second", encoding="utf-8")
    held.refused()
    assert held.headers()["Authorization"] == "Bearer second"


# -- credentials ------------------------------------------------------------------------------------------------------


def program(tmp_path: Path, status: dict[str, Any], code: int = 0) -> kubeconfig.Exec:
    """A credentials program that counts how often it was run."""
    counter = tmp_path / "runs"
    source = (
        "import json, os, pathlib, sys\n"
        f"runs = pathlib.Path({str(counter)!r})\n"
        "count = int(runs.read_text()) + 1 if runs.exists() else 1\n"
        "runs.write_text(str(count))\n"
        "assert json.loads(os.environ['KUBERNETES_EXEC_INFO'])['kind'] == 'ExecCredential'\n"
        f"status = {status!r}\n"
        "status = {k: v.replace('COUNT', str(count)) for k, v in status.items()}\n"
        "print(json.dumps({'kind': 'ExecCredential', 'status': status}))\n"
        "print('it went wrong', file=sys.stderr)\n"
        f"sys.exit({code})\n"
    )
    return kubeconfig.Exec(sys.executable, ("-c", source), {}, "client.authentication.k8s.io/v1", cluster_info=True)


def test_a_credentials_program_is_run_again_when_its_token_has_expired(tmp_path: Path) -> None:
    lasting = {"token": "t-COUNT", "expirationTimestamp": "2999-01-01T00:00:00Z"}
    held = credentials.Credentials(Access("https://x", exec=program(tmp_path, lasting)))
    assert [held.headers()["Authorization"] for _ in range(2)] == ["Bearer t-1", "Bearer t-1"]
    held.refused()
    assert held.headers()["Authorization"] == "Bearer t-2"
    short = {"token": "t-COUNT", "expirationTimestamp": "2001-01-01T00:00:00Z"}
    held = credentials.Credentials(Access("https://x", exec=program(tmp_path, short)))
    assert [held.headers()["Authorization"] for _ in range(2)] == ["Bearer t-3", "Bearer t-4"]


def test_a_credentials_program_that_fails_is_quoted_by_its_last_line(tmp_path: Path) -> None:
    with pytest.raises(credentials.CredentialsError, match="ended with 3: it went wrong"):
        credentials.run(program(tmp_path, {"token": "x"}, code=3), Access("https://x"))
    missing = kubeconfig.Exec("no-such-program", (), {}, "v1", hint="Install it.")
    with pytest.raises(credentials.CredentialsError, match=r"is not on PATH\. Install it\."):
        credentials.run(missing, Access("https://x"))
    with pytest.raises(credentials.CredentialsError, match="neither a token nor a certificate"):
        credentials.parse(b'{"status": {}}', "x")
    with pytest.raises(credentials.CredentialsError, match="did not print an ExecCredential"):
        credentials.parse(b"nonsense", "x")


def test_passwords_and_impersonation_are_headers() -> None:
    access = Access("https://x", username="me", password="pass", impersonate="you", impersonate_groups=("a", "b"))
    headers = credentials.Credentials(access).headers()
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"me:pass").decode()
    assert headers["Impersonate-User"] == "you"
    assert headers.getlist("Impersonate-Group") == ["a", "b"]


# -- requests ---------------------------------------------------------------------------------------------------------

Answer = tuple[int, dict[str, str], Any]


@dataclass
class Server:
    """An API server that answers what a test tells it to."""

    url: str
    responses: list[Answer] = field(default_factory=list)
    desired: list[str] = field(default_factory=list)
    respond: Callable[[str], Answer] | None = None


@pytest.fixture
def server() -> Iterator[Server]:
    def respond(request: Request) -> Response:
        created.desired.append(f"{request.method} {request.target} {request.headers.get('Authorization', '')}".strip())
        status, headers, body = (
            created.responses.pop(0) if created.responses else (created.respond or missing)(request.target)
        )
        return Response(status, body, headers)

    def missing(path: str) -> Answer:
        return 404, {}, {"kind": "Status", "reason": "NotFound", "message": f"{path} not found"}

    with stub_server(respond, keep_alive=True) as port:
        created = Server(f"http://127.0.0.1:{port}")
        yield created


def client(server: Server, **parts: Any) -> Client:
    return Client(Access(server.url, **parts), timeout=5, attempts=3)


def status(code: int, message: str, **more: Any) -> Answer:
    return code, {"Retry-After": "0.01"}, {"kind": "Status", "message": message, **more}


def test_busy_server_is_retried(server: Server) -> None:
    server.responses = [status(429, "later"), status(503, "later"), (200, {}, {"ok": True})]
    assert client(server).request("GET", "/x") == {"ok": True}
    assert len(server.desired) == 3


def test_refusal_has_the_servers_message_and_is_not_retried(server: Server) -> None:
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "b"', "field": ".data.a"}
    server.responses = [status(409, "Apply failed", reason="Conflict", details={"causes": [cause]})]
    with pytest.raises(ApiError, match="Apply failed") as caught:
        client(server).request("PATCH", "/x", None, {})
    assert caught.value.conflict
    assert caught.value.causes == [cause]
    assert len(server.desired) == 1


def test_post_that_may_have_succeeded_is_not_retried(server: Server) -> None:
    server.responses = [status(504, "too slow")] * 2
    with pytest.raises(ApiError, match="too slow"):
        client(server).request("POST", "/x", None, {})
    assert len(server.desired) == 1


def test_a_refused_token_is_renewed_once(server: Server, tmp_path: Path) -> None:
    server.responses = [status(401, "who?"), (200, {}, {"ok": True})]
    speaks = client(server, exec=program(tmp_path, {"token": "t-COUNT"}))
    assert speaks.request("GET", "/x") == {"ok": True}
    assert server.desired == ["GET /x Bearer t-1", "GET /x Bearer t-2"]
    server.responses = [status(401, "who?")] * 3
    with pytest.raises(ApiError, match="who"):
        speaks.request("GET", "/x")
    server.responses = [status(401, "who?")]
    with pytest.raises(ApiError):
        client(server, token="fixed").request("GET", "/x")


def test_unreachable_server_is_reported_in_one_line() -> None:
    began = time.monotonic()
    with pytest.raises(Unreachable, match=r"https://127\.0\.0\.1:9: .*[Rr]efused") as caught:
        Client(Access("https://127.0.0.1:9"), attempts=2).request("GET", "/x")
    assert "0x" not in str(caught.value)
    assert time.monotonic() - began < 30


def test_answers_that_are_not_json_are_quoted(server: Server) -> None:
    server.responses = [(418, {}, b"I am a teapot")]
    with pytest.raises(ApiError, match="HTTP 418: I am a teapot"):
        client(server).request("GET", "/x")


RESOURCES = {
    "resources": [
        {"name": "widgets", "kind": "Widget", "namespaced": True, "verbs": ["get"]},
        {"name": "widgets/status", "kind": "Widget", "namespaced": True, "verbs": ["get"]},
    ]
}


def test_discovery_is_cached_and_repeated_for_a_missing_kind(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    knows = Discovery(client(server))
    with pytest.raises(UnknownKind, match=r'no matches for kind "Widget" in version "e.com/v1"'):
        knows.find("e.com/v1", "Widget")
    with pytest.raises(UnknownKind):
        knows.find("e.com/v1", "Widget")
    assert len(server.desired) == 1  # missed a moment ago: many operations may miss it at once
    monkeypatch.setattr("agentenv.rehearsal.providers.kubernetes.discovery.MIN_REFRESH_INTERVAL", 0.0)
    server.respond = lambda _: (200, {}, RESOURCES)
    assert knows.find("e.com/v1", "Widget").path("n", "x") == "/apis/e.com/v1/namespaces/n/widgets/x"
    assert knows.find("e.com/v1", "Widget").path() == "/apis/e.com/v1/widgets"
    assert len(server.desired) == 2


def test_scope_is_known_without_a_server_where_it_can_be(server: Server) -> None:
    knows = Discovery(client(server))
    assert knows.namespaced("v1", "Namespace") is False
    assert knows.namespaced("core/v1", "Namespace") is False
    assert knows.namespaced("rbac.authorization.k8s.io/v1", "ClusterRole") is False
    assert knows.namespaced("apps/v1", "Deployment", fetch=False) is True
    assert knows.namespaced("e.com/v1", "Widget", fetch=False) is None
    knows.register_definition({"spec": {"group": "e.com", "scope": "Cluster", "names": {"kind": "Widget"}}})
    assert knows.namespaced("e.com/v1", "Widget", fetch=False) is False


def watched(*events: dict[str, Any]) -> Answer:
    return 200, {}, b"".join(json.dumps(e).encode() + b"\n" for e in events)


def widget(name: str, version: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": version}}


def test_watch_resumes_at_its_version_or_lists_again(server: Server) -> None:
    cluster = Cluster(client(server))
    server.responses = [
        (200, {}, RESOURCES),
        (200, {}, {"metadata": {"resourceVersion": "1"}, "items": [widget("a", "1")]}),
        watched({"type": "ADDED", "object": widget("b", "2")}, {"type": "BOOKMARK", "object": widget("", "5")}),
        watched({"type": "DELETED", "object": widget("a", "6")}, {"type": "ERROR", "object": {"code": 410}}),
        (200, {}, {"metadata": {"resourceVersion": "9"}, "items": [widget("c", "9")]}),
    ]
    kind = cluster.discovery.find("e.com/v1", "Widget")
    seen: list[list[str]] = []
    for result in cluster.follow(kind, "n", {}, time.monotonic() + 30):
        seen.append(sorted(result))
        if "c" in result:
            break
    assert seen == [["a"], ["a", "b"], ["b"], ["c"]]
    watches = [line for line in server.desired if "watch=true" in line]
    assert ["resourceVersion=1&" in watches[0], "resourceVersion=5&" in watches[1]] == [True, True]


# -- the provider's own configuration ---------------------------------------------------------------------------------


def test_options_are_texts_booleans_or_variables() -> None:
    assert settings.settings({"deleteUnreachable": "true"}, {}).delete_unreachable
    assert settings.settings({"deleteUnreachable": True}, {}).delete_unreachable
    assert settings.settings({}, {"PULUMI_K8S_DELETE_UNREACHABLE": "true"}).delete_unreachable
    message = settings.settings({"deleteUnreachable": "false"}, {"PULUMI_K8S_DELETE_UNREACHABLE": "true"})
    assert not message.delete_unreachable
    assert settings.settings({"kubeClientSettings": '{"timeout": 7}'}, {}).timeout == 7


def test_unsupported_features_are_refused() -> None:
    assert [name for name, _ in settings.check({"enableServerSideApply": "false"}, {})] == ["enableServerSideApply"]
    assert [name for name, _ in settings.check({"renderYamlToDirectory": "/x"}, {})] == ["renderYamlToDirectory"]
    assert settings.check({"enableServerSideApply": True, "renderYamlToDirectory": ""}, {}) == []


def test_only_another_cluster_replaces_its_objects() -> None:
    item, renewed = json.dumps(config()), json.dumps(config(token="another"))
    other = json.dumps(config("https://other.example.com"))
    assert settings.changed({"kubeconfig": item}, {"kubeconfig": item}) == ([], [])
    assert settings.changed({"kubeconfig": item}, {"kubeconfig": renewed}) == (["kubeconfig"], [])
    assert settings.changed({"kubeconfig": item}, {"kubeconfig": other}) == (["kubeconfig"], ["kubeconfig"])
    assert settings.changed({"kubeconfig": item}, {"kubeconfig": UNKNOWN}) == (["kubeconfig"], ["kubeconfig"])
    marked = {"clusterIdentifier": "a"}
    assert settings.changed({"kubeconfig": item, **marked}, {"kubeconfig": other, **marked}) == (["kubeconfig"], [])
    assert settings.changed({"kubeconfig": item, **marked}, {"kubeconfig": UNKNOWN, **marked}) == (["kubeconfig"], [])
    assert settings.changed(marked, {"clusterIdentifier": "b"})[1] == ["clusterIdentifier"]
