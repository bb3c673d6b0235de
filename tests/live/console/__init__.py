"""The console in a real browser, before the gateway and sandboxes of `agentenv dev`."""
