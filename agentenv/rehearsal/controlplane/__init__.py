"""A live Kubernetes control plane for a rehearsal: real programs, started for one run and gone with it.

`plane.py` opens it. What EKS adds to Kubernetes is stood in for beside it, in one attendant process
(`eks_controllers.py`): who may come in (`auth/token_webhook.py`), pods on Fargate (`nodes/fargate.py`), the nodes of
Karpenter's pools (`nodes/karpenter_launches.py`), and controllers that have to be real (`pods/real_pods.py`). Nodes are
kept alive by kwok.
"""
