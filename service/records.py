"""The record of data that was destroyed: whose it was, when it was deleted, and when it went.

Written before anything goes, so that nothing goes without one, and completed when it is gone. A ConfigMap a day in the
service's own namespace; another one when a day's is full.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

from model.workspaces import moment, written
from service.cluster import CONFIGURATIONS, Api, Document, section

LABEL = "sandbox.users.io/record"
OF = "destroyed"
# Of some three hundred bytes each: a ConfigMap holds a mebibyte.
MOST = 1500


class Records:
    """What one environment has destroyed."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    def write(self, name: str, facts: dict[str, str], now: datetime) -> bool:
        """Say that a volume is about to go; False where somebody else wrote at the same time."""
        if any(name in section(page, "data") for page in self._pages()):
            return True
        text = json.dumps({**facts, "decided": written(now)}, separators=(",", ":"), sort_keys=True)
        day = now.strftime("%Y-%m-%d")
        for number in range(1, 1000):
            page = f"{OF}-{day}" if number == 1 else f"{OF}-{day}-{number}"
            found = self._api.find(CONFIGURATIONS, page, self._namespace)
            if found is None:
                about = {"name": page, "namespace": self._namespace, "labels": {LABEL: OF}}
                document: Document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {name: text}}
                return self._api.make(CONFIGURATIONS, document)
            if len(section(found, "data")) < MOST:
                return self._api.change(CONFIGURATIONS, found, {"data": {name: text}})
        return False

    def unfinished(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Those of which it is not said yet that they are gone."""
        for page in self._pages():
            for name, text in section(page, "data").items():
                facts = json.loads(text)
                if "gone" not in facts:
                    yield name, facts

    def finish(self, name: str, now: datetime) -> bool:
        """Say that a volume is gone."""
        for page in self._pages():
            text = section(page, "data").get(name)
            if text is not None:
                facts = {**json.loads(text), "gone": written(now)}
                told = json.dumps(facts, separators=(",", ":"), sort_keys=True)
                return self._api.change(CONFIGURATIONS, page, {"data": {name: told}})
        return False

    def prune(self, before: datetime) -> int:
        """Take away pages that are older than that, and in which all is gone."""
        gone = 0
        for page in [*self._pages()]:
            made = moment(page["metadata"].get("creationTimestamp"))
            rows = [json.loads(text) for text in section(page, "data").values()]
            if made is not None and made < before and all("gone" in row for row in rows):
                gone += self._api.remove(CONFIGURATIONS, page)
        return gone

    def _pages(self) -> Iterator[Document]:
        return self._api.list(CONFIGURATIONS, self._namespace, {LABEL: OF})
