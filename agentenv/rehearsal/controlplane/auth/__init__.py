"""Who a caller is to the cluster: tokens, certificates, access entries, pod credentials."""
