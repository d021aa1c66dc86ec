"""The protocols by name; the first is the default."""

from __future__ import annotations

from collections.abc import Mapping

from layton_batch.errors import ManifestError
from layton_batch.tasks.zebralogic_rules.corrected import CORRECTED
from layton_batch.tasks.zebralogic_rules.grading import Rules
from layton_batch.tasks.zebralogic_rules.original import ORIGINAL
from layton_batch.tasks.zebralogic_rules.zeroeval import ZEROEVAL

PROTOCOLS: Mapping[str, Rules] = {rules.name: rules for rules in (CORRECTED, ORIGINAL, ZEROEVAL)}


def rules_of(protocol: object) -> Rules:
    """Raises ManifestError for a protocol there is none of; a manifest may say anything."""
    if not isinstance(protocol, str) or protocol not in PROTOCOLS:
        raise ManifestError(f"protocol {protocol!r}: zebralogic has {', '.join(PROTOCOLS)}")
    return PROTOCOLS[protocol]
