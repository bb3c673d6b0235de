"""Tests of `agentenv dev` without processes."""
