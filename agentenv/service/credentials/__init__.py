"""Who a sandbox is to AWS: its token is exchanged for credentials of its owner and its class, and they end soon."""
