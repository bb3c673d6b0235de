"""IAM at the simulated endpoint: policies, sessions, tokens, and whether a call is allowed."""
