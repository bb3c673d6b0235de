"""Sandboxes as processes of this machine: gVisor, namespaces or plain processes, their root folder and address."""
