"""The stand-in provider for package `kubernetes`, used only where the official plugin is not installed.

It knows no kinds of its own: what a kind is called in the API and whether it has a namespace is asked of the server.
Objects are written by server-side apply. Only waiting (`readiness`) and replacing (`replacing`) name kinds.

How a call goes through: `agentenv/rehearsal/providers/common` (serving) -> `servicer` (the engine's gRPC) -> `provider`
(plain values) -> `checking`, `comparing`, `previewing` before anything is done, `writing` and `waiting` around what is
-> `cluster` (objects) -> `discovery` (kinds) and `client` (HTTP, with `kubeconfig` and `credentials`). `checkpoint` is
what a state keeps. Beside objects there are `releases` (helm: `charts`, `templating`, `installing`), `components` built
from `manifests`, and `functions`.

It reaches only the cluster it is given, by the provider's kubeconfig or KUBECONFIG. What it pretends (charts that it
lacks, hooks that are not run) it writes down for the rehearsal's summary
(`agentenv/rehearsal/providers/common/unsimulated.py`).
"""
