"""The isolation pack, for `pulumi preview --policy-pack policies/isolation`."""

from agentenv.policies.packs.pack import serve

serve("isolation", "what keeps sandboxes apart from each other, from the platform and from the cloud")
