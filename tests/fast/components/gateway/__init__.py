"""Tests of the gateway's components."""
