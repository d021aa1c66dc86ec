"""The JSON Schema of a manifest, by which editors complete its keys and mark what is wrong."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from layton_batch.manifest.form import ManifestForm

SCHEMA_FILE = "layton-batch.schema.json"
"""Name of the schema's file beside a manifest."""


def manifest_schema() -> Mapping[str, object]:
    """Return the schema of the manifest's form. It knows the tasks and providers that are installed here, and allows
    others: what is wrong beyond the form, `plan` says."""
    from layton_batch.providers import provider_names
    from layton_batch.tasks import task_names

    schema = ManifestForm.model_json_schema()
    schema["properties"]["models"]["type"] = ["array", "string"]  # a string names a file with the tables
    tables = schema["$defs"]
    named = [(schema, "task", task_names())]
    named += [(tables[name], "provider", provider_names()) for name in ("ModelTable", "JudgeTable", "PriceTable")]
    for table, key, names in named:
        table["properties"][key]["anyOf"] = [{"enum": list(names)}, {"type": "string"}]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "A manifest of layton-batch"}


def schema_text() -> str:
    """Return the schema as the text of a file."""
    return orjson.dumps(manifest_schema(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
