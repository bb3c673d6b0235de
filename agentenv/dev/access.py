"""API keys, links and the audit trail in SQLite, and who the owner of this machine is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agentenv.core.gateway.access_records import Alias, Record, record_of, row_of, to_item
from agentenv.core.gateway.api_keys import digest, key_id, matches
from agentenv.core.values.timestamps import format_timestamp
from agentenv.service.gateway.access_table import AccessStore
from agentenv.service.http.auth.callers import Caller, owner_id, with_implied_roles
from agentenv.service.http.problems import UnauthenticatedError

if TYPE_CHECKING:
    from agentenv.dev.records import Records
    from agentenv.service.gateway.keys import ApiKeys

_BEARER = re.compile(r"[Bb]earer +(\S+)")
_ISSUER, _SUBJECT = "agentenv-dev", "owner"
_LIVE, _USED, _ENTRY = "record", "used", "entry"


class LocalAuthenticator:
    """Identifies callers by API key. The key of the state folder is that of its owner, who may create others."""

    def __init__(self, key: str, keys: ApiKeys) -> None:
        self._digest, self._keys = digest(key), keys
        self._owner = Caller(owner_id(_ISSUER, _SUBJECT), with_implied_roles("admin"), "session")

    async def caller(self, authorization: str | None, source: str = "", *, api_key: str | None = None) -> Caller:  # noqa: ARG002 - the service's
        """Return the caller; raise `UnauthenticatedError` without a valid key."""
        match = _BEARER.fullmatch(authorization or "")
        key = match[1] if match else api_key or ""
        if not key:
            raise UnauthenticatedError("the request has no token")
        return self._of_key(key)

    async def bearer(self, token: str, source: str) -> Caller | None:  # noqa: ARG002 - the service's
        """Return the caller of an API key; None for a text that is none."""
        return self._of_key(token) if key_id(token) is not None else None

    def _of_key(self, key: str) -> Caller:
        return self._owner if matches(key, self._digest) else self._keys.caller(key)


class LocalAccessStore(AccessStore):
    """The records of access of one `agentenv dev`."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def put(self, record: Record, now: datetime) -> None:
        """Create or replace a record."""
        document = json.dumps(to_item(record))
        self._records.put_access(_LIVE, row_of(record), format_timestamp(now), document)

    def take_alias(self, alias: Alias, now: datetime) -> bool:
        """Store an alias unless it is another owner's; return whether it is stored."""
        document = dict(self._records.access(_LIVE)).get(row_of(alias))
        existing = record_of(row_of(alias), json.loads(document)) if document is not None else None
        if isinstance(existing, Alias) and existing.owner != alias.owner:
            rests_until = existing.rests_until()
            if rests_until is None or now < rests_until:
                return False
        self.put(alias, now)
        return True

    def changed_since(self, since: datetime | None) -> list[Record]:
        """Return the records that changed since a time, or all."""
        rows = self._records.access(_LIVE, changed=format_timestamp(since) if since else "")
        records = (record_of(row, json.loads(document)) for row, document in rows)
        return [record for record in records if record is not None]

    def touch(self, rows: Mapping[str, datetime]) -> None:
        """Record when keys were last used."""
        known = dict(self._records.access(_LIVE))
        for row, at in rows.items():
            if row in known:
                document = json.dumps({**json.loads(known[row]), "last_used": format_timestamp(at)})
                self._records.put_access(_LIVE, row, format_timestamp(at), document)

    def use_once(self, code: str, until: datetime) -> bool:
        """Return whether a code is used for the first time."""
        return self._records.add_access(_USED, code, format_timestamp(until), "")

    def add_entries(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Append to the audit trail; an entry has `workspace`, `at` and `id`."""
        for entry in entries:
            row = f"{entry['workspace']}#{entry['at']}#{entry['id']}"
            self._records.put_access(_ENTRY, row, entry["at"], json.dumps(entry))

    def entries(self, workspace: str, day: str, since: str = "") -> list[dict[str, Any]]:
        """Return the audit trail of a workspace and a day, in order, from a time on."""
        rows = self._records.access(_ENTRY, prefix=f"{workspace}#{day}")
        return [json.loads(document) for row, document in rows if row >= f"{workspace}#{since}"]
