"""The JSON Schema of a manifest, by which editors complete its keys and mark what is wrong."""

from __future__ import annotations

import orjson

from layton_batch.manifest.form import Form
from layton_batch.records import JsonValue

SCHEMA_FILE = "layton-batch.schema.json"
"""What the schema is called beside a manifest."""


def manifest_schema() -> dict[str, JsonValue]:
    """Return the schema of the manifest's form. It knows the tasks and providers that are installed here, and allows
    others: what is wrong beyond the form, `plan` says."""
    from layton_batch.providers import provider_names
    from layton_batch.tasks import task_names

    schema: dict[str, JsonValue] = Form.model_json_schema()
    tables = schema["$defs"]
    for table, key, names in (
        (schema, "task", task_names()),
        *((tables[name], "provider", provider_names()) for name in ("ModelTable", "JudgeTable", "PriceTable")),  # type: ignore[index, call-overload]
    ):
        table["properties"][key] |= {"anyOf": [{"enum": list(names)}, {"type": "string"}]}  # type: ignore[index, call-overload]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "A manifest of layton-batch"}


def schema_text() -> str:
    """Return the schema as the text of a file."""
    return orjson.dumps(manifest_schema(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
