"""The simulated AWS endpoint: moto's server application, with a thin layer of ours in front.

`serve` puts it on a loopback port; `wire` reads HTTP; `gate` is the layer: every request is recognised (`calls`),
checked against the service's model (`checks`, `tagging`), answered by a row of ours (`rows/`) or by moto
(`moto_side`), and written down (`journal`). `census` lists what exists now; `announced` is the control plane that EKS's
clusters are served by, once somebody has said where it is (`POST /_cloud/eks`). Nothing here knows Pulumi: whatever
speaks AWS can call it.

To answer an operation that moto lacks or gets wrong, add a row to the module of its family in `rows/`, and a test.
"""
