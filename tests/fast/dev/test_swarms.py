"""`agentenv dev` has no swarms, and says so by a problem that no client repeats."""

from __future__ import annotations

from pathlib import Path

import httpx2

from tests.fast.dev.served import serving


def test_a_swarm_is_refused_with_what_to_do_instead(tmp_path: Path) -> None:
    with serving(tmp_path) as served, httpx2.Client(base_url=served.address, trust_env=False) as client:
        headers = {"Authorization": f"Bearer {served.key}"}
        body = {"class": "standard", "task": "t-1", "count": 2}
        for answer in (
            client.post("/v1/swarms", json=body, headers=headers),
            client.get("/v1/swarms", headers=headers),
        ):
            assert answer.status_code == 409, answer.text
            assert "one by one" in answer.text
            assert "Retry-After" not in answer.headers
