"""IAM roles and the statements of policies, as rules see them. The documents are read in `agentenv.core.iam`."""
