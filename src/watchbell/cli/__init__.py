"""The command line: `watchbell demo | chat | run | sessions | reminders | log | tools`."""
