"""The scenario of a rehearsal: its steps, the probes of a running stack, and the check after a destroy."""
