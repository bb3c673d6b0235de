"""What both packs share: how the engine's calls become resources, and findings become what the engine is told.

A pack is one policy that collects (it sees each resource's inputs, and judges by the rules that need no more) and one
policy of the whole stack (which adds who depends on whom, and judges by the rules that need the graph): the SDK reads a
resource anew for each policy, so that fewer are faster.
"""
