"""Tests of the client of the service's API."""
