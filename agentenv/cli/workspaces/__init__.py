"""The service's client on the command line: where it is, who asks, what is said, and the ways into a workspace."""
