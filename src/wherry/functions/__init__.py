"""Python calls as apps: executors, job handles, maps."""
