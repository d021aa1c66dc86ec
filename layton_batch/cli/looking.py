"""The work of ``status`` and ``events``."""

from __future__ import annotations

import sys
from pathlib import Path

from layton_batch.cli.progress import event_json, event_line, followed
from layton_batch.cli.terminal import print_json, say
from layton_batch.clock import SystemClock
from layton_batch.errors import LaytonBatchError
from layton_batch.reports.status import next_steps, print_status, status_json
from layton_batch.reports.table import say_line
from layton_batch.runs.failure_words import failure_words
from layton_batch.runs.folders import find_run, find_runs, misplaced_runs, run_source
from layton_batch.runs.status import read_status
from layton_batch.runs.stores import open_store, open_stores
from layton_batch.settings import Settings


def show_status(run_name: str | None, runs: Path, *, as_json: bool) -> int:
    """Print the status of a run, or of all runs. Return the exit code: that of the last run left out, else 0."""
    settings, now = Settings.from_process(), SystemClock().now()
    folders = [find_run(run_name, runs)] if run_name else find_runs(runs)
    shown_runs, code = [], 0
    for line in () if run_name else misplaced_runs(runs):
        say(f"left out: {line}")
    with open_stores(settings) as store_of:
        for folder in folders:
            try:
                store = store_of(folder)
                status = read_status(store)
                gone = [batch for batch in store.answered_batches() if not folder.batch(batch).raw_results]
            except LaytonBatchError as error:
                if run_name:
                    raise
                say(f"left out: {error}")
                code = error.exit_code
            else:
                shown_runs.append((status, failure_words(folder, status), gone, run_source(folder)))
    if as_json:
        documents = [status_json(status, words, gone, source) for status, words, gone, source in shown_runs]
        print_json(documents[0] if run_name else documents)
        return code
    for status, words, gone, source in shown_runs:
        print_status(status, now, words, gone)
        for step in next_steps(status, source):
            say_line(step)
    if not shown_runs:
        say(f"no runs under {runs}")
    return code


def show_events(run_name: str, runs: Path, *, follow: bool, as_json: bool) -> None:
    with open_store(find_run(run_name, runs), Settings.from_process()) as store:
        if as_json and not follow:
            print_json([event_json(event) for event in store.events()])
            return
        for event in followed(store, SystemClock()) if follow else store.events():
            if as_json:
                print_json(event_json(event), line=True)
            else:
                sys.stdout.write(event_line(event) + "\n")
                if follow:
                    sys.stdout.flush()
