"""Volumes of a rehearsed cluster: the simulated EFS CSI driver."""
