"""The command line and workspaces: the service's address, output, and access to sandboxes."""
