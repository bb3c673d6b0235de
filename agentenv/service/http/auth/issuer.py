"""Verify tokens of an issuer: signature, audience and time.

Only the asymmetric algorithms of `keys.ALGORITHMS` are accepted. A rotated key works at once, because an unknown key id
causes a fetch; a withdrawn one is refused after the next fetch in the background.
"""

from __future__ import annotations

import ipaddress
import json
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, cast
from urllib.parse import urlsplit

import httpx2
import jwt

from agentenv.core.values.object_fields import Document
from agentenv.service.http.auth.keys import ALGORITHMS, KeySet
from agentenv.service.http.problems import Problem, UnauthenticatedError

TYPES: Final = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})
MAX_TOKEN_LENGTH = 16_384
LEEWAY = 30
MAX_DOCUMENT_BYTES = 1_000_000


class UnknownKeyError(UnauthenticatedError):
    """No key of the issuer matches a token."""


class TokenVerifier:
    """Verifies tokens by a set of keys: those of one issuer, or of the cluster where none is named."""

    def __init__(self, keys: KeySet, audience: str, issuer: str | None = None, *, check_time: bool = True) -> None:
        self.keys, self._audience, self._issuer, self._check_time = keys, audience, issuer, check_time

    async def verify(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token; raise `UnauthenticatedError` with the reason where it is invalid."""
        if len(token) > MAX_TOKEN_LENGTH:
            raise UnauthenticatedError("the token is too long")
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.InvalidTokenError, RecursionError):
            raise UnauthenticatedError("the token cannot be read") from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise UnauthenticatedError("the token's algorithm is not accepted")
        if "crit" in header:
            raise UnauthenticatedError("the token has critical header parameters that are not supported")
        if str(header.get("typ") or "").lower() not in TYPES:
            raise UnauthenticatedError("the token is not an access token or a plain JWT")
        key = await self.keys.find(key_id if isinstance(key_id, str) else "", str(algorithm))
        if key is None:
            raise UnknownKeyError("no key of the issuer matches the token")
        try:
            return jwt.decode(
                token,
                key.key,
                algorithms=[str(algorithm)],
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY,
                options={
                    "require": ["exp", "iat", "iss", "aud", "sub"],
                    "verify_exp": self._check_time,
                    "verify_iat": self._check_time,
                    "verify_nbf": self._check_time,
                },
            )
        except jwt.ExpiredSignatureError:
            raise UnauthenticatedError("the token has expired") from None
        except jwt.ImmatureSignatureError:
            raise UnauthenticatedError("the token is not valid yet") from None
        except jwt.InvalidAudienceError:
            raise UnauthenticatedError("the token is for another audience") from None
        except jwt.InvalidIssuerError:
            raise UnauthenticatedError("the token is of another issuer") from None
        except jwt.InvalidSignatureError:
            raise UnauthenticatedError("the token's signature is invalid") from None
        except (jwt.InvalidTokenError, jwt.InvalidKeyError, TypeError, ValueError, RecursionError):
            raise UnauthenticatedError("the token's claims are missing or invalid") from None


def issuer_client() -> httpx2.AsyncClient:
    """Return a client for the issuer itself, whatever proxy the environment names; it trusts SSL_CERT_FILE."""
    return httpx2.AsyncClient(trust_env=False, verify=ssl.create_default_context())


class Issuer(TokenVerifier):
    """An OpenID Connect issuer, whose keys its discovery document leads to."""

    def __init__(
        self,
        url: str,
        audience: str,
        client: httpx2.AsyncClient,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        _require_https(url)
        super().__init__(KeySet(self._fetch, clock), audience, url)
        self.url, self._client = url, client
        self._discovery: Document | None = None

    async def discovery(self) -> Document:
        """Return the discovery document, as it was fetched last with the keys."""
        if self._discovery is None:
            await self.keys.fetch()
        if self._discovery is None:
            raise Problem("unavailable", "the issuer does not answer", "retry in a few seconds", retry_after=5)
        return self._discovery

    async def _fetch(self) -> Document:
        discovery = await self._document(f"{self.url.rstrip('/')}/.well-known/openid-configuration")
        if discovery["issuer"] != self.url:
            raise ValueError("the discovery document names another issuer")
        keys_url = str(discovery["jwks_uri"])
        for url in (keys_url, discovery.get("authorization_endpoint"), discovery.get("token_endpoint")):
            if url is not None:
                _require_https(str(url))
        self._discovery = discovery
        return await self._document(keys_url)

    async def _document(self, url: str) -> Document:
        async with self._client.stream("GET", url, timeout=5.0, follow_redirects=False) as response:
            response.raise_for_status()
            if response.status_code != 200:
                raise ValueError(f"the issuer responded with status {response.status_code}")
            body = b""
            async for part in response.aiter_bytes():
                body += part
                if len(body) > MAX_DOCUMENT_BYTES:
                    raise ValueError("the response is too large")
        document: object = json.loads(body)
        if not isinstance(document, dict):
            raise TypeError("the response is not a JSON object")
        return cast("Document", document)


def _require_https(url: str) -> None:
    """Refuse plain HTTP except to loopback: an attacker on the network could replace the keys."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    try:
        is_loopback = parts.hostname == "localhost" or ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        is_loopback = False
    if parts.scheme != "http" or not is_loopback:
        raise ValueError(f"{url} is not an https URL")
