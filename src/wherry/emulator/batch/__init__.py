"""The control plane of AWS Batch: resources, jobs, and where they go. No HTTP, moto or Docker."""
