"""The control API of the `e2b` clients, under `/e2b`: a template is a class, and a sandbox is a workspace."""
