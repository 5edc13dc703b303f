"""The rest of AWS around a job: moto's services, logs, events, credentials, metadata, secrets."""
