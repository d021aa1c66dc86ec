"""Files that are appended to: through no link, which whoever made the folder may have laid."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.files.atomic import append_json_line


@pytest.mark.parametrize("is_there", [True, False])
def test_a_planted_link_is_not_appended_to(tmp_path: Path, is_there: bool) -> None:
    target, link = tmp_path / "authorized_keys", tmp_path / "log.jsonl"
    if is_there:
        target.write_text("mine\n", encoding="utf-8")
    link.symlink_to(target)
    with pytest.raises(OSError, match="is a symbolic link"):
        append_json_line(link, {"a": 1})
    assert target.exists() is is_there
    assert not is_there or target.read_text(encoding="utf-8") == "mine\n"
