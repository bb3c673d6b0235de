"""The stand-in provider for package `kubernetes`, used only where the official plugin is not installed.

It knows no kinds of its own: what a kind is called in the API and whether it has a namespace is asked of the server.
Objects are written by server-side apply. Only waiting (`readiness.py`) and replacing (`replacing.py`) name kinds.
`provider.py` works on plain values, `server.py` speaks the engine's protocol, `cluster.py` the API server's.
"""
