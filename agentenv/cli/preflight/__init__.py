"""Preflight: what a stack needs of an AWS account, asked of the account before anything is made.

`needs` and `actions` say what the settings ask for, without a network. Each other module turns some of it into
questions; `asking` puts one to AWS, and knows what to say when there is no answer. Nothing here changes anything.
"""
