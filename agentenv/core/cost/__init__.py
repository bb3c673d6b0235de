"""The cost estimate of an environment, from its settings, a price book and assumptions.

Each module computes some lines of the estimate: `platform` the fixed parts, `network` traffic and gateways, `homes`
storage, `sandboxes` nodes. `assumptions` has all values that are not settings. `estimate` combines them.
"""
