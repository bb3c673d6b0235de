"""Who callers are, and what they may: by any ids and labels nobody comes to another's workspace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as some

from agentenv.config import read
from agentenv.config.values import OWNER_ID
from agentenv.core.workspaces.workspace import STATES, Workspace, workspace_id
from agentenv.service.catalog import Catalog
from agentenv.service.http.auth.authenticate import UNAUTHENTICATED_PER_MINUTE, Authenticator
from agentenv.service.http.auth.callers import Caller, has_claim, owner_id, with_implied_roles
from agentenv.service.http.auth.issuer import TokenVerifier
from agentenv.service.http.auth.keys import KeySet
from agentenv.service.http.auth.permissions import ALLOWED, DESCRIPTIONS, claimable, is_allowed, require
from agentenv.service.http.auth.rate_limits import RateLimiter
from agentenv.service.http.auth.token_reviews import Account
from agentenv.service.http.problems import Problem, UnauthenticatedError
from tests.fast.service.http.auth.issuer import AUDIENCE, FakeIssuer, SigningKey

OWNERS = some.from_regex(OWNER_ID, fullmatch=True)
IMAGE = "registry.example.com/sandbox@sha256:" + "0" * 64


def caller(owner: str, role: Any = "user", **claims: Any) -> Caller:
    return Caller(owner, with_implied_roles(role), "token", claims)


def workspace(owner: str, **more: Any) -> Workspace:
    return Workspace("w-1", owner, "standard", "user", more.pop("state", "running"), **more)


@given(OWNERS, OWNERS, some.sampled_from(STATES), some.dictionaries(OWNERS, some.sampled_from(["rw", "ro"])))
def test_nobody_does_anything_to_what_is_neither_theirs_nor_shared(
    owner: str, other: str, state: Any, shared: Any
) -> None:
    one = workspace(owner, state=state, shared=shared)
    if other == owner or (other in shared and state != "deleted"):
        assert is_allowed(caller(other), "see", one)
    else:
        assert not any(is_allowed(caller(other), action, one) for action in DESCRIPTIONS)
        with pytest.raises(Problem) as told:
            require(caller(other), "see", one)
        assert told.value.status == 404


@given(some.text(), some.text(), some.text(), some.text())
def test_no_two_owners_and_keys_make_one_workspace(owner: str, key: str, other: str, another: str) -> None:
    same = (owner, key) == (other, another)
    assert (workspace_id(owner, key) == workspace_id(other, another)) is same
    assert (owner_id(owner, key) == owner_id(other, another)) is same


def test_what_is_not_there_and_what_is_anothers_are_told_alike() -> None:
    told: list[Any] = []
    for one in (None, workspace("ann")):
        with pytest.raises(Problem) as refused:
            require(caller("bob"), "see", one)
        told.append(refused.value.document())
    assert told[0] == told[1]


def test_whoever_looks_after_workspaces_does_not_look_into_them() -> None:
    one = workspace("ann")
    assert is_allowed(caller("olga", "operator"), "sleep", one)
    assert not {"read", "write", "destroy", "raise-budget", "change"} & ALLOWED["operator"]
    for action in ("read", "write", "destroy"):
        with pytest.raises(Problem) as told:
            require(caller("olga", "operator"), action, one)
        assert told.value.status == 403
    assert all(is_allowed(caller("root", "admin"), action, one) for action in DESCRIPTIONS)


def test_read_only_guests_only_read() -> None:
    one = workspace("ann", shared={"bob": "ro", "eve": "rw"})
    assert {action for action in DESCRIPTIONS if is_allowed(caller("bob"), action, one)} == {"see", "read"}
    assert {action for action in DESCRIPTIONS if is_allowed(caller("eve"), action, one)} == {
        "see",
        "read",
        "write",
        "wake",
    }


def classes(**more: Any) -> Catalog:
    said = {"name": "vetted", "tier": "verified", "image": IMAGE, **more}
    return Catalog(read({"aws:region": "us-east-1", "agent-environment:sandboxClasses": [said]}, "dev"))


def test_a_class_is_for_those_whom_its_token_claims_name() -> None:
    by = {"roles": ["operator"], "tokens": [{"name": "team", "value": "red"}]}
    vetted = classes(claimableBy=by).get("vetted")
    assert claimable(caller("a", team="red"), vetted)
    assert claimable(caller("a", team=["blue", "red"]), vetted)
    assert claimable(caller("a", "admin"), vetted)
    for claims in ({}, {"team": "redder"}, {"team": ["blue"]}, {"Team": "red"}, {"team": {"red": True}}, {"team": 1}):
        assert not claimable(caller("a", **claims), vetted)
    # What we say of an account ourselves is nothing that a class can be opened by.
    assert not claimable(Caller("a", with_implied_roles("user"), "account", {"team": "red"}), vetted)


def test_a_claim_may_be_inside_of_others() -> None:
    assert has_claim({"realm": {"roles": ["red"]}}, "realm.roles", "red")
    assert has_claim({"realm.roles": "red"}, "realm.roles", "red")
    assert not has_claim({"realm": "roles"}, "realm.roles", "red")


class Reviewing:
    """Who a token is of, without an API server."""

    def __init__(self, found: Account | None) -> None:
        self.found, self.asked = found, 0

    def is_cached(self, token: str) -> bool:  # noqa: ARG002 - as the real one
        return False

    async def review_token(self, token: str) -> Account:  # noqa: ARG002
        self.asked += 1
        if self.found is None:
            raise UnauthenticatedError("it is none")
        return self.found


def authenticating(found: Account | None, **more: Any) -> tuple[Authenticator, Reviewing]:
    said = {"operators": ["ops/bot"], "admins": ["platform"]}
    settings = read({"aws:region": "us-east-1", "agent-environment:service": said}, "dev").service
    reviews = Reviewing(found)
    return Authenticator(settings, None, reviews, **more), reviews  # type: ignore[arg-type]


def test_accounts_have_the_roles_that_the_settings_give_them() -> None:
    bot, _ = authenticating(Account("ops", "bot"))
    assert asyncio.run(bot.caller("Bearer x.y.z")).is_operator
    other, _ = authenticating(Account("ops", "other"))
    assert asyncio.run(other.caller("Bearer x.y.z")).roles == {"user"}


def test_what_runs_in_a_sandbox_is_nobodys_caller() -> None:
    inside, _ = authenticating(Account("sandbox-standard", "sandbox"))
    with pytest.raises(Problem) as told:
        asyncio.run(inside.caller("Bearer x.y.z"))
    assert told.value.status == 403


@pytest.mark.parametrize("header", [None, "", "Basic YTpi", "Bearer", "Bearer ", "Bearer a b", "bearer\tx", "x.y.z"])
def test_whoever_brings_no_bearers_token_is_asked_for_one(header: str | None) -> None:
    nobody, reviews = authenticating(None)
    with pytest.raises(UnauthenticatedError):
        asyncio.run(nobody.caller(header))
    assert reviews.asked == 0


def test_from_where_too_many_strangers_came_the_server_is_asked_no_more() -> None:
    nobody, reviews = authenticating(
        None, unauthenticated_limiter=RateLimiter(UNAUTHENTICATED_PER_MINUTE, clock=lambda: 0.0)
    )

    async def knock(source: str) -> None:
        await nobody.caller("Bearer x.y.z", source)

    for _ in range(UNAUTHENTICATED_PER_MINUTE):
        with pytest.raises(UnauthenticatedError):
            asyncio.run(knock("10.0.0.1"))
    with pytest.raises(Problem) as told:
        asyncio.run(knock("10.0.0.1"))
    assert (told.value.status, reviews.asked) == (429, UNAUTHENTICATED_PER_MINUTE)
    with pytest.raises(UnauthenticatedError):
        asyncio.run(knock("10.0.0.2"))


@pytest.fixture
def cluster() -> Iterator[FakeIssuer]:
    """The cluster's issuer of service account tokens."""
    issuer = FakeIssuer()
    yield issuer
    issuer.close()


def account_token(cluster: FakeIssuer, name: str, **more: Any) -> str:
    return cluster.token(f"system:serviceaccount:ops:{name}", aud=["another", AUDIENCE], **more)


class ReviewedAccounts:
    """Reviews tokens: valid are those of one service account."""

    def __init__(self, valid: str) -> None:
        self.valid, self.reviewed = valid, list[str]()

    def is_cached(self, token: str) -> bool:  # noqa: ARG002 - as the real one
        return False

    async def review_token(self, token: str) -> Account:
        subject = jwt.decode(token, options={"verify_signature": False})["sub"].rpartition(":")[2]
        self.reviewed.append(subject)
        if subject != self.valid:
            raise UnauthenticatedError("its pod is gone")
        return Account("ops", subject)


def run_with_cluster(
    cluster: FakeIssuer,
    act: Callable[[Authenticator, ReviewedAccounts], Coroutine[Any, Any, None]],
    *,
    keys: bool = True,
) -> None:
    settings = read({"aws:region": "us-east-1"}, "dev").service

    async def fetch() -> dict[str, Any]:
        if not keys:
            raise OSError("forbidden")
        return {"keys": [key.public for key in cluster.keys]}

    reviews: Any = ReviewedAccounts("good")
    limiter = RateLimiter(UNAUTHENTICATED_PER_MINUTE, clock=lambda: 0.0)
    verifier = TokenVerifier(KeySet(fetch), AUDIENCE, check_time=False)
    authenticator = Authenticator(settings, None, reviews, cluster=verifier, unauthenticated_limiter=limiter)
    asyncio.run(act(authenticator, reviews))


async def refused(authenticator: Authenticator, token: str, source: str = "10.0.0.1") -> int:
    """Return the status of a refusal."""
    with pytest.raises(Problem) as problem:
        await authenticator.caller(f"Bearer {token}", source)
    return problem.value.status


@pytest.mark.parametrize("forged", [True, False], ids=["forged tokens", "tokens of deleted pods"])
def test_invalid_tokens_do_not_lock_out_others_behind_the_same_address(cluster: FakeIssuer, *, forged: bool) -> None:
    async def act(authenticator: Authenticator, reviews: ReviewedAccounts) -> None:
        key = SigningKey("first") if forged else None
        for number in range(2 * UNAUTHENTICATED_PER_MINUTE):
            code = await refused(authenticator, account_token(cluster, "bad", key=key, jti=str(number)))
            assert code == (401 if forged or number < UNAUTHENTICATED_PER_MINUTE else 429)
        caller_ = await authenticator.caller(f"Bearer {account_token(cluster, 'good')}", "10.0.0.1")
        assert caller_.claims["sub"] == "system:serviceaccount:ops:good"
        assert reviews.reviewed.count("bad") == (0 if forged else UNAUTHENTICATED_PER_MINUTE)

    run_with_cluster(cluster, act)


def test_tokens_for_another_audience_are_not_reviewed_and_expired_ones_are(cluster: FakeIssuer) -> None:
    async def act(authenticator: Authenticator, reviews: ReviewedAccounts) -> None:
        assert await refused(authenticator, cluster.token("system:serviceaccount:ops:bad", aud="another")) == 401
        assert reviews.reviewed == []
        assert await refused(authenticator, account_token(cluster, "bad", exp=1)) == 401
        assert reviews.reviewed == ["bad"]

    run_with_cluster(cluster, act)


@pytest.mark.parametrize("keys", [True, False], ids=["of an unknown key", "without the cluster's keys"])
def test_tokens_that_cannot_be_verified_are_limited_by_address(cluster: FakeIssuer, *, keys: bool) -> None:
    async def act(authenticator: Authenticator, reviews: ReviewedAccounts) -> None:
        for number in range(UNAUTHENTICATED_PER_MINUTE + 1):
            token = account_token(cluster, "bad", key=SigningKey("unknown") if keys else None)
            assert await refused(authenticator, token) == (401 if number < UNAUTHENTICATED_PER_MINUTE else 429)
        assert len(reviews.reviewed) == UNAUTHENTICATED_PER_MINUTE
        assert await refused(authenticator, account_token(cluster, "bad"), "10.0.0.2") == 401

    run_with_cluster(cluster, act, keys=keys)


def test_a_caller_may_ask_so_often_and_again_after_a_while() -> None:
    now = [0.0]
    limits = RateLimiter(60, clock=lambda: now[0], max_callers=2)
    for _ in range(60):
        limits.take("ann")
    with pytest.raises(Problem) as told:
        limits.take("ann")
    assert (told.value.status, told.value.retry_after) == (429, 1)
    limits.take("bob")
    now[0] += 1.0
    limits.take("ann")
    with pytest.raises(Problem):
        limits.take("ann")


class Vouching:
    """An issuer that vouches for whatever a token says."""

    url = "https://issuer.example.com"

    def __init__(self, **claims: Any) -> None:
        self.claims = claims

    async def verify(self, token: str) -> dict[str, Any]:  # noqa: ARG002 - as the real one
        return {"iss": self.url, "sub": "ann@example.com", **self.claims}


def of_issuer(owner_claim: str | None = None, **claims: Any) -> Caller:
    said = {"operators": ["ops/bot", "platform"], "rolesClaim": "realm.groups"}
    settings = read({"aws:region": "us-east-1", "agent-environment:service": said}, "dev").service
    issuer: Any = Vouching(**claims)
    reviews: Any = Reviewing(None)
    asked = Authenticator(settings, issuer, reviews, owner_claim=owner_claim)
    token = jwt.encode({"iss": Vouching.url}, "a secret that is long enough for its hash", "HS256")
    return asyncio.run(asked.caller(f"Bearer {token}"))


def test_an_owner_is_nobodys_address() -> None:
    caller_ = of_issuer()
    assert caller_.owner == owner_id(Vouching.url, "ann@example.com")
    assert "ann" not in caller_.owner
    assert "ann" not in repr(caller_)
    assert of_issuer("uid", uid="u-4711").owner == "u-4711"
    for spoilt in ({}, {"uid": "ann@example.com"}, {"uid": ""}, {"uid": ["u-1"]}, {"uid": "u 1"}):
        with pytest.raises(UnauthenticatedError):
            of_issuer("uid", **spoilt)


def test_groups_are_found_inside_of_others_and_are_no_accounts() -> None:
    assert of_issuer(realm={"groups": ["platform"]}).is_operator
    assert not of_issuer(realm={"groups": ["ops/bot"]}).is_operator
    assert not of_issuer(groups=["platform"]).is_operator


def test_a_token_that_is_bound_to_a_key_is_no_bearers() -> None:
    with pytest.raises(UnauthenticatedError):
        of_issuer(cnf={"jkt": "x" * 43})
