"""The service's side of workspaced, the program inside sandboxes: its keys, tokens and status."""
