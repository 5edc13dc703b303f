"""Resources by name: generic sizes, AWS instance types, and those of plug-ins.

A name stands for what one replica asks of its host. The tables are plain data; the AWS one is
loaded when a name that is not generic is asked for, plug-ins when no table has the name.
"""

from __future__ import annotations

from wherry.specs.catalogue.named import NamedResources, named_resources, resource

__all__ = ["NamedResources", "named_resources", "resource"]
