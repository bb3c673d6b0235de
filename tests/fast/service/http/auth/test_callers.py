"""Authentication and permissions of callers: no combination of ids and labels gives access to another owner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import jwt
import pytest
from hypothesis import given, strategies

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
from tests.fast.config.stack_samples import ACCESS
from tests.fast.service.http.auth.issuer import AUDIENCE, FakeIssuer, SigningKey

OWNERS = strategies.from_regex(OWNER_ID, fullmatch=True)
IMAGE = "registry.example.com/sandbox@sha256:" + "0" * 64


def caller(owner: str, role: Any = "user", **claims: Any) -> Caller:
    return Caller(owner, with_implied_roles(role), "token", claims)


def workspace(owner: str, **more: Any) -> Workspace:
    return Workspace("w-1", owner, "standard", "user", more.pop("state", "running"), **more)


@given(
    OWNERS,
    OWNERS,
    strategies.sampled_from(STATES),
    strategies.dictionaries(OWNERS, strategies.sampled_from(["rw", "ro"])),
)
def test_a_caller_may_do_nothing_with_an_unshared_workspace_of_another(
    owner: str, other: str, state: Any, shared: Any
) -> None:
    shared_workspace = workspace(owner, state=state, shared=shared)
    if other == owner or (other in shared and state != "deleted"):
        assert is_allowed(caller(other), "see", shared_workspace)
    else:
        assert not any(is_allowed(caller(other), action, shared_workspace) for action in DESCRIPTIONS)
        with pytest.raises(Problem) as problem:
            require(caller(other), "see", shared_workspace)
        assert problem.value.status == 404


@given(strategies.text(), strategies.text(), strategies.text(), strategies.text())
def test_workspace_and_owner_ids_are_unique(owner: str, key: str, other: str, another: str) -> None:
    is_same = (owner, key) == (other, another)
    assert (workspace_id(owner, key) == workspace_id(other, another)) is is_same
    assert (owner_id(owner, key) == owner_id(other, another)) is is_same


def test_missing_and_invisible_workspaces_give_the_same_problem() -> None:
    documents: list[Any] = []
    for shared_workspace in (None, workspace("ann")):
        with pytest.raises(Problem) as refused:
            require(caller("bob"), "see", shared_workspace)
        documents.append(refused.value.document())
    assert documents[0] == documents[1]


def test_an_operator_may_not_read_or_write_workspaces() -> None:
    shared_workspace = workspace("ann")
    assert is_allowed(caller("olga", "operator"), "sleep", shared_workspace)
    assert not {"read", "write", "destroy", "raise-budget", "change"} & ALLOWED["operator"]
    for action in ("read", "write", "destroy"):
        with pytest.raises(Problem) as problem:
            require(caller("olga", "operator"), action, shared_workspace)
        assert problem.value.status == 403
    assert all(is_allowed(caller("root", "admin"), action, shared_workspace) for action in DESCRIPTIONS)


def test_read_only_sharers_only_read() -> None:
    shared_workspace = workspace("ann", shared={"bob": "ro", "eve": "rw"})
    assert {action for action in DESCRIPTIONS if is_allowed(caller("bob"), action, shared_workspace)} == {"see", "read"}
    assert {action for action in DESCRIPTIONS if is_allowed(caller("eve"), action, shared_workspace)} == {
        "see",
        "read",
        "write",
        "wake",
    }


def classes(**more: Any) -> Catalog:
    service = {"name": "vetted", "tier": "verified", "image": IMAGE, **more}
    return Catalog(read({"aws:region": "us-east-1", **ACCESS, "agent-environment:sandboxClasses": [service]}, "dev"))


def test_a_class_is_claimable_by_token_claims() -> None:
    by = {"roles": ["operator"], "tokens": [{"name": "team", "value": "red"}]}
    vetted = classes(claimableBy=by).get("vetted")
    assert claimable(caller("a", team="red"), vetted)
    assert claimable(caller("a", team=["blue", "red"]), vetted)
    assert claimable(caller("a", "admin"), vetted)
    for claims in ({}, {"team": "redder"}, {"team": ["blue"]}, {"Team": "red"}, {"team": {"red": True}}, {"team": 1}):
        assert not claimable(caller("a", **claims), vetted)
    # The claims of a service account are the service's own, so a class cannot require them.
    assert not claimable(Caller("a", with_implied_roles("user"), "account", {"team": "red"}), vetted)


def test_claims_may_be_nested() -> None:
    assert has_claim({"realm": {"roles": ["red"]}}, "realm.roles", "red")
    assert has_claim({"realm.roles": "red"}, "realm.roles", "red")
    assert not has_claim({"realm": "roles"}, "realm.roles", "red")


class FakeReviewer:
    """Reviews tokens without an API server."""

    def __init__(self, account: Account | None) -> None:
        self.account, self.reviewed = account, 0

    def is_cached(self, token: str) -> bool:  # noqa: ARG002 - as the real one
        return False

    async def review_token(self, token: str) -> Account:  # noqa: ARG002
        self.reviewed += 1
        if self.account is None:
            raise UnauthenticatedError("it is none")
        return self.account


def authenticator_of(account: Account | None, **more: Any) -> tuple[Authenticator, FakeReviewer]:
    service = {"operators": ["ops/bot"], "admins": ["platform"]}
    settings = read({"aws:region": "us-east-1", **ACCESS, "agent-environment:service": service}, "dev").service
    reviews = FakeReviewer(account)
    return Authenticator(settings, None, reviews, **more), reviews  # type: ignore[arg-type]


def test_service_accounts_have_the_roles_of_the_settings() -> None:
    known, _ = authenticator_of(Account("ops", "bot"))
    assert asyncio.run(known.caller("Bearer x.y.z")).is_operator
    other, _ = authenticator_of(Account("ops", "other"))
    assert asyncio.run(other.caller("Bearer x.y.z")).roles == {"user"}


def test_service_accounts_of_sandboxes_are_refused() -> None:
    sandbox, _ = authenticator_of(Account("sandbox-standard", "sandbox"))
    with pytest.raises(Problem) as problem:
        asyncio.run(sandbox.caller("Bearer x.y.z"))
    assert problem.value.status == 403


@pytest.mark.parametrize("header", [None, "", "Basic YTpi", "Bearer", "Bearer ", "Bearer a b", "bearer\tx", "x.y.z"])
def test_requests_without_a_bearer_token_are_unauthenticated(header: str | None) -> None:
    authenticator, reviews = authenticator_of(None)
    with pytest.raises(UnauthenticatedError):
        asyncio.run(authenticator.caller(header))
    assert reviews.reviewed == 0


def test_invalid_tokens_of_an_address_are_limited() -> None:
    authenticator, reviews = authenticator_of(
        None, unauthenticated_limiter=RateLimiter(UNAUTHENTICATED_PER_MINUTE, clock=lambda: 0.0)
    )

    async def send(source: str) -> None:
        await authenticator.caller("Bearer x.y.z", source)

    for _ in range(UNAUTHENTICATED_PER_MINUTE):
        with pytest.raises(UnauthenticatedError):
            asyncio.run(send("10.0.0.1"))
    with pytest.raises(Problem) as problem:
        asyncio.run(send("10.0.0.1"))
    assert (problem.value.status, reviews.reviewed) == (429, UNAUTHENTICATED_PER_MINUTE)
    with pytest.raises(UnauthenticatedError):
        asyncio.run(send("10.0.0.2"))


@pytest.fixture
def cluster() -> FakeIssuer:
    """Return the cluster's issuer of service account tokens, whose keys are read from it directly."""
    return FakeIssuer()


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
    settings = read({"aws:region": "us-east-1", **ACCESS}, "dev").service

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


def test_requests_of_a_caller_are_limited() -> None:
    now = [0.0]
    limits = RateLimiter(60, clock=lambda: now[0], max_callers=2)
    for _ in range(60):
        limits.take("ann")
    with pytest.raises(Problem) as problem:
        limits.take("ann")
    assert (problem.value.status, problem.value.retry_after) == (429, 1)
    limits.take("bob")
    now[0] += 1.0
    limits.take("ann")
    with pytest.raises(Problem):
        limits.take("ann")


class FakeVerifier:
    """An issuer that accepts any token."""

    url = "https://issuer.example.com"

    def __init__(self, **claims: Any) -> None:
        self.claims = claims

    async def verify(self, token: str) -> dict[str, Any]:  # noqa: ARG002 - as the real one
        return {"iss": self.url, "sub": "ann@example.com", **self.claims}


def caller_of_issuer(owner_claim: str | None = None, **claims: Any) -> Caller:
    service = {"operators": ["ops/bot", "platform"], "rolesClaim": "realm.groups"}
    settings = read({"aws:region": "us-east-1", **ACCESS, "agent-environment:service": service}, "dev").service
    issuer: Any = FakeVerifier(**claims)
    reviews: Any = FakeReviewer(None)
    authenticator = Authenticator(settings, issuer, reviews, owner_claim=owner_claim)
    token = jwt.encode({"iss": FakeVerifier.url}, "a secret that is long enough for its hash", "HS256")
    return asyncio.run(authenticator.caller(f"Bearer {token}"))


def test_an_owner_id_does_not_reveal_the_subject() -> None:
    caller_ = caller_of_issuer()
    assert caller_.owner == owner_id(FakeVerifier.url, "ann@example.com")
    assert "ann" not in caller_.owner
    assert "ann" not in repr(caller_)
    assert caller_of_issuer("uid", uid="u-4711").owner == "u-4711"
    for claims in ({}, {"uid": "ann@example.com"}, {"uid": ""}, {"uid": ["u-1"]}, {"uid": "u 1"}):
        with pytest.raises(UnauthenticatedError):
            caller_of_issuer("uid", **claims)


def test_groups_may_be_nested_and_are_not_service_accounts() -> None:
    assert caller_of_issuer(realm={"groups": ["platform"]}).is_operator
    assert not caller_of_issuer(realm={"groups": ["ops/bot"]}).is_operator
    assert not caller_of_issuer(groups=["platform"]).is_operator


def test_a_token_that_is_bound_to_a_key_is_refused() -> None:
    with pytest.raises(UnauthenticatedError):
        caller_of_issuer(cnf={"jkt": "x" * 43})
