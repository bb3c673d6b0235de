"""What the service has to do with workspaced, the program inside sandboxes: its keys, tokens for it, and its status."""
