"""Agents: the handle, the durable inbox, the driver and the registry of the live ones."""
