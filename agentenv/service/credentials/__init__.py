"""The AWS identity of a sandbox: its token is exchanged for short-lived credentials of its owner and class."""
