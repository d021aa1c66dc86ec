"""The record of a made-up jury: two judges, of whom the second is kinder than people."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from layton_batch.scoring.annotator_agreement import AnnotatorAgreement
from layton_batch.scoring.diagnosis_record import DiagnosisRecord
from layton_batch.scoring.evidence import Entrant
from layton_batch.scoring.judge_quality import diagnose
from layton_batch.scoring.jury_board import JuryBoard
from layton_batch.scoring.rules import ScoringRules
from tests.support.evidence import Judged, frames, judged_frame

ITEMS = 4


def judges_rows(
    models: Sequence[str], judge: str, family: str, item_id: Callable[[int], str]
) -> list[Mapping[str, object]]:
    """The one row of the table; every word reaches the page."""
    judged = [
        Judged(
            entrant=Entrant(model, family, 0),
            family=family,
            item_id=item_id(index),
            verdicts={f"{judge} 0": index % 2 == 1, f"{judge} 1": True},
            human=index % 2 == 1,
            content=0,
        )
        for index in range(1, ITEMS + 1)
        for model in models
    ]
    found = diagnose(judged_frame(judged), JuryBoard(*frames([]), ScoringRules()))
    record = DiagnosisRecord(found, AnnotatorAgreement({judge: len(judged)}, 0, 0, 0.95, None))
    return [{"document": json.dumps(asdict(record))}]
