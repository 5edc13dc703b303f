"""What runs containers: as processes, or in a Docker Engine. Knows nothing of jobs."""
