"""Live sessions: the log that grows, write-behind and the barrier."""
