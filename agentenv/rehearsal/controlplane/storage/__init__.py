"""Volumes of a rehearsed cluster: the EFS CSI driver's part."""
