"""A SQLite store that several programs make at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from sqlalchemy import create_engine, event

from layton_batch.store.engine import _sqlite_pragmas, sqlite_url


def test_programs_that_make_one_store_at_the_same_moment_wait_for_each_other(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        for number in range(60):
            url = sqlite_url(tmp_path / f"{number}.sqlite3")
            together = Barrier(4)

            def connect(url: str = url, together: Barrier = together) -> None:
                engine = create_engine(url)
                event.listen(engine, "connect", _sqlite_pragmas)
                together.wait()
                with engine.connect():
                    engine.dispose()

            for done in [pool.submit(connect) for _ in range(4)]:
                done.result()
