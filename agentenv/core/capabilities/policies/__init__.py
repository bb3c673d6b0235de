"""Network policies and security groups: compiled from a reach, and read back into one."""
