"""IAM at the simulated endpoint: policies, sessions, tokens and authorization."""
