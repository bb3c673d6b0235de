"""What a sandbox may reach, as exact sets: what is granted, what that compiles to, and whether it exceeds its parent.

Read in this order: `intervals` and `boxes` (sets of addresses and ports), `pods` and `names` (destinations that are no
addresses), `reach` (all three together), `ranges` and `surroundings` (what the addresses mean here), `grants` and
`resolve` (the words of a class and what they amount to), `network_policy` and `security_group` (what is written), and
`envelope` with `containment` (whether a child stays within its parent).
"""
