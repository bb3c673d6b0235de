"""A live Kubernetes control plane for a rehearsal: real programs, started for one run and gone with it.

`plane.py` opens it. What EKS adds to Kubernetes is stood in for beside it, in one attendant process (`attendant.py`):
who may come in (`reviewer.py`), pods on Fargate (`fargate.py`), the nodes of Karpenter's pools (`launches.py`), and
controllers that have to be real (`residents.py`). Nodes are kept alive by kwok.
"""
