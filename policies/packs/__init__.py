"""The code that both packs share: it turns the engine's calls into resources, and findings into violations.

A pack has one resource policy and one stack policy. The first runs the rules that need no graph; the second adds the
dependencies and runs the others. The SDK reads every resource again for each policy, so few policies are faster.
"""
