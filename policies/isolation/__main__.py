"""The isolation pack, for `pulumi preview --policy-pack policies/isolation`."""

from agentenv.policies.packs.pack import serve

serve("isolation", "isolation of sandboxes from each other, from the platform and from AWS")
