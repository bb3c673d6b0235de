"""Where workspaces really are: what the API and the loops need of it, and the Kubernetes that it is."""
