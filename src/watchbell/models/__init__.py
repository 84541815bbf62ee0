"""Models: the protocol that every model adapter keeps, and the models that come with Watchbell."""
