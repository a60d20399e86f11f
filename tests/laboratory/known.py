"""All differences from the references that the laboratory knows of, each with its reason."""

from __future__ import annotations

from programs import Known

KNOWN: list[Known] = []
