"""Who a sandbox is to AWS: its token is exchanged for credentials that are its owner's and its class's, and end soon."""
