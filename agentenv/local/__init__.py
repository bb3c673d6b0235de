"""Programs of this machine that a rehearsal and `agentenv dev` run: processes that are found again, and sandboxes."""
