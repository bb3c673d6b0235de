"""The stand-in provider for package `kubernetes`, used only where the official plugin is not installed.

It has no list of kinds: their names and scopes come from the server's discovery. Objects are written by server-side
apply. Only waiting (`readiness`) and replacing (`replacing`) name kinds.

The path of a request: `agentenv/rehearsal/providers/common` (the gRPC server) -> `servicer` -> `provider` (plain
values) -> `checking`, `comparing`, `previewing` at preview, `writing` and `waiting` during an update -> `cluster`
(objects) -> `discovery` (kinds) and `client` (HTTP, with `kubeconfig` and `credentials`). `checkpoint` is the format
of the state. Beside objects there are `releases` (helm: `charts`, `templating`, `installing`), `components` from
`manifests`, and `functions`.

It reaches only the cluster of the provider's kubeconfig or KUBECONFIG. What it does not simulate (charts that are not
available, hooks) it records for the rehearsal's summary
(`agentenv/rehearsal/providers/common/unsimulated.py`).
"""
