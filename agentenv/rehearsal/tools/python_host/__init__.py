"""The stand-in for Pulumi's Python language host."""
