"""How rules see resources: every value is there, missing, or not known yet, and knows its own path.

`fields` is that value; `situation` what the platform says about itself; `resource` one resource and the Kubernetes
objects in it; `graph` all of them with what depends on what; `pods` pod specs wherever they stand.
"""
