"""The isolation pack with one more rule, which breaks over whatever it sees."""

from collections.abc import Iterator

from agentenv.policies.packs.pack import serve
from agentenv.policies.rules.registry import POD, Outcome, rule
from agentenv.policies.view.cluster.pods import PodSpec


@rule(id="ZZZ-01", title="Cracked", severity="Critical", why="It breaks.", fix="Mend it.", applies_to=POD)
def cracked(pod: PodSpec) -> Iterator[Outcome]:
    """The error's words would show what is in the pod."""
    raise KeyError(pod.annotations.at("token").value)
    yield


serve("isolation", "with a crack")
