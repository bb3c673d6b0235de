"""A computer of its own for every user, chat session or agent, as infrastructure code."""
