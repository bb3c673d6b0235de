"""The isolation pack with another rule, which always raises an error."""

from collections.abc import Iterator

from agentenv.policies.packs.pack import serve
from agentenv.policies.rules.registry import POD, Outcome, rule
from agentenv.policies.view.cluster.pods import PodSpec


@rule(
    id="ZZZ-01",
    title="Always raises an error",
    severity="Critical",
    why="It raises an error.",
    fix="Fix it.",
    applies_to=POD,
)
def failing(pod: PodSpec) -> Iterator[Outcome]:
    """Raise an error whose message has a value of the pod."""
    raise KeyError(pod.annotations.at("token").value)
    yield


serve("isolation", "with a crack")
