"""Preflight: check that an AWS account has what a stack needs, before anything is created.

`needs` and `actions` derive the needs from the settings, without a network. The other modules turn them into questions.
`aws_calls` makes the calls, and explains why a call failed. All calls only read.
"""
