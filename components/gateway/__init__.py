"""The gateway: a network load balancer, and Envoy behind it."""
