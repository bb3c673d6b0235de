"""A live Kubernetes control plane for a rehearsal: real programs, started for one run and ended with it.

`plane.py` starts it. One process beside it simulates what EKS adds to Kubernetes (`eks_controllers.py`):
authentication (`auth/token_webhook.py`), pods on Fargate (`nodes/fargate.py`), the nodes of Karpenter's pools
(`nodes/karpenter_launches.py`), and controllers that have to be real (`pods/real_pods.py`). Nodes are kept alive by
kwok.
"""
