"""The cost pack, for `pulumi preview --policy-pack policies/cost`."""

from agentenv.policies.packs.pack import serve

serve("cost", "whom things belong to, and what they may cost")
