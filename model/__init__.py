"""What the words mean: settings, tiers, capabilities, classes, prices, names and addresses.

Everything here is pure. It imports nothing of ours, and neither Pulumi, boto3 nor Kubernetes: the same functions serve
the program, the policies, the estimates and the tests.
"""
