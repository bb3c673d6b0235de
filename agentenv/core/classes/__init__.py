"""Everything a sandbox class is in a cluster, as plain Kubernetes documents made by pure functions.

`plan` says what a class follows from, `objects` what it comes to; between them a module for each thing. Components
register the documents, policies judge them, estimates count them and the workspace service claims by them.
"""
