"""The cost pack, for `pulumi preview --policy-pack policies/cost`."""

from agentenv.policies.packs.pack import serve

serve("cost", "owners and costs of resources")
