"""What goes to AWS and comes back from it, as types.

The shapes are AWS's own, documented in the API model that botocore carries; where our code needs
more than to hand a document on, it makes a view of it (see `jobs`).
"""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]
"""JSON as AWS has it."""

Client = Any
"""A client of one service: boto3's, or anything with the same methods."""
