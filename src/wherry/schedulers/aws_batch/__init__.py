"""Run apps on AWS Batch: as container jobs, array jobs and multi-node parallel jobs."""
