"""What a sandbox may reach, as exact sets: what is granted, what that compiles to, and whether it exceeds its parent.

Read in this order:

- `intervals` and `boxes` are sets of addresses and ports, `pods` and `names` sets of what is no address, and `reach` is
  all three together, with what is not known about it;
- `ranges` and `surroundings` are what the addresses mean here, `grants` the words of a class, `resolve` what they
  amount to, and `of_settings` where the words come from;
- `network_policy`, `group_rules` and `security_group` write a reach down; `effective`, with `rules` and `selecting`,
  reads policies back, whoever wrote them;
- `envelope` is everything a class may do, and `containment` decides whether a child stays within its parent, with
  `implied`, `authority`, `globs` and `wording`.
"""
