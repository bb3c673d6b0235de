"""The workspace service: its HTTP API, its lifecycle loops and its ledger. It runs in the cluster."""
