"""Tools: what a model can call, the registry that runs them, and their catalog."""
