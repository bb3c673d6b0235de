"""The meaning of the settings: capabilities, classes, nodes, workspaces, costs and prices.

Everything here is pure. It imports settings alone, and neither Pulumi, boto3 nor Kubernetes: the same functions serve
the program, the policies, the estimates and the tests.
"""
