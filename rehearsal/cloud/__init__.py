"""The simulated AWS endpoint: moto's server application, with a thin layer of ours in front.

`serve` puts it on a loopback port; `wire` reads HTTP; `gate` is the layer: every request is recognised (`calls`),
checked against the service's model (`checks`), answered by a row of ours (`rows/`) or by moto, and written down
(`journal`). `census` lists what exists now. Nothing here knows Pulumi: whatever speaks AWS can call it.
"""
