"""The labels of what is made at the Engine for an app, from which any process can tell it."""

from __future__ import annotations

APP_ID = "wherry.app_id"
ROLE = "wherry.role"
REPLICA = "wherry.replica"
REPLICAS = "wherry.replicas"
ATTEMPT = "wherry.attempt"
