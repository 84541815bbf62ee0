"""Where session logs are kept, and the live sessions above it."""
