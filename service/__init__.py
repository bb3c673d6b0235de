"""The workspace service: its HTTP API, its lifecycle loops and its ledger. Runs in the cluster; imports only `model`."""
