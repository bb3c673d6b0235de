"""Capabilities of sandbox classes: grants, the reach they resolve to, the policies compiled from it, and containment.

Read in this order:

- `sets`: `intervals` and `boxes` are sets of addresses and ports, `pods` and `domains` sets of other destinations, and
  `reach` combines all three with their unknown parts;
- `cluster_facts` holds what addresses mean in one cluster, `grants` the declared capabilities of a class, `resolve`
  turns grants into a reach, and `from_settings` starts from a stack's settings;
- `policies`: `network_policy`, `security_group` and `security_group_rules` compile a reach; `effective_policy`, with
  `policy_rules` and `selectors`, reads any NetworkPolicies back into one;
- `envelope` is everything a class may do, and `containment` decides whether a child stays within its parent, with
  `implied_reach` and `authority`.
"""
