"""Session logs as JSON lines in files, zstd or plain."""
