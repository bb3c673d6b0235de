"""The command line's client of the workspace service: its address, requests and output, and access to sandboxes."""
