"""Tests of the hosts and of the configuration of the gateway."""
