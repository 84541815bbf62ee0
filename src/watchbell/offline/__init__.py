"""The offline stand-in for a model: understands what people say of reminders, and no more."""
