"""The session event log: envelope, payloads, sessions and what is derived from them. Pure."""
