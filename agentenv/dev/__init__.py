"""The service, its sandboxes and their homes on one machine: `agentenv dev`."""
