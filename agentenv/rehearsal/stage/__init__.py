"""Where a rehearsal runs: its folder, engine, processes, credentials, and cluster."""
