"""The name under which releases before 0.2 started the service; gone with the next one."""
