"""One `agentenv dev` with a class whose ports are shared by link and one that asks, and one browser for all tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import yaml

from agentenv.client import Client
from tests.live.console.browser import Browser, missing, opened
from tests.live.dev.test_command import COMMAND, Serving, serving

_DIGEST = "@sha256:" + "0" * 64
_CLASS = {
    "image": f"registry.example.com/sandbox{_DIGEST}",
    "resources": {"cpu": "250m", "memory": "1Gi", "burst": {"cpu": "2", "memory": "4Gi"}},
    "capabilities": [],
    "storage": {"size": "5Gi"},
    "budget": 3,
}
STACK = {
    "aws:region": "us-east-1",
    "agent-environment:cluster": {"publicAccessCidrs": ["203.0.113.0/24"]},
    "agent-environment:sandboxClasses": [
        {"name": "standard", **_CLASS, "sharing": ["private", "team", "link"]},
        {"name": "careful", **_CLASS, "approval": "ask"},
    ],
    "agent-environment:service": {
        "image": f"registry.example.com/workspace-service{_DIGEST}",
        "workspaced": {"image": f"registry.example.com/workspaced{_DIGEST}"},
        "domain": "os.example.com",
        "certificate": "arn:aws:acm:us-east-1:111122223333:certificate/0f7a3c52-6a0e-4d2e-9b0c-6f3c2a1d9e84",
        "workspaceDomain": "workspaces.example.net",
    },
}


@dataclass
class Console:
    """The console, the service behind it, and a browser that is signed in."""

    browser: Browser
    served: Serving
    client: Client

    @property
    def address(self) -> str:
        """Return the console's address."""
        return str(self.served.facts["console"])

    def open(self, page: str = "") -> None:
        """Open a page, signed in."""
        self.browser.driver.get("about:blank")
        self.browser.driver.get(f"{self.address}#/{page}")
        self.browser.until(lambda: "Loading" not in self.browser.text())
        if self.browser.driver.title.startswith("Sign in"):
            self.sign_in()

    def sign_in(self, key: str | None = None) -> None:
        """Sign in with the key of this machine."""
        field = self.browser.find('input[type="password"]')
        field.clear()
        field.send_keys(key or self.served.key)
        self.browser.click("form button", "Sign in")
        if key is None:
            self.browser.until(lambda: not self.browser.driver.title.startswith("Sign in"))

    def created(self, name: str, of_class: str = "standard") -> str:
        """Create a workspace, and return its id once it runs."""
        body = {"class": of_class, "key": name, "labels": {"name": name}}
        workspace = self.client.create_workspace(body, wait=60)  # type: ignore[arg-type]
        assert workspace["state"] == "running", workspace
        return workspace["id"]


@pytest.fixture(scope="session")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    if lacking := missing():
        pytest.skip(lacking)
    folder = tmp_path_factory.mktemp("console")
    stack = folder / "Pulumi.console.yaml"
    stack.write_text(yaml.safe_dump({"config": json.loads(json.dumps(STACK))}), encoding="utf-8")
    with (
        serving(folder / "state", [*COMMAND, "--file", str(stack)], seconds=1800) as served,
        served.client() as client,
        opened(folder / "browser") as browser,
    ):
        yield Console(browser, served, client)
