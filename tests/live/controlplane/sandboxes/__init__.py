"""Pods of sandbox classes that run as processes of this machine."""
