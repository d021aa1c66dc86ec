"""Lanes: providers side by side, none waiting for another."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from layton_batch.errors import MissingKeyError, StoppedError
from layton_batch.runs.context import Lanes

SOON = 0.02


def test_a_lane_at_work_is_left_alone_and_what_it_moved_is_told_by_a_later_tick() -> None:
    let_go, begun = threading.Event(), list[str]()

    def step(name: str) -> bool:
        begun.append(name)
        return name == "slow" and let_go.wait(30.0)

    with ThreadPoolExecutor(4) as executor:
        lanes = Lanes(executor)
        assert not lanes.work(step, ["fast", "slow"], SOON)
        assert lanes.busy
        assert not lanes.work(step, ["fast", "slow"], SOON)
        assert sorted(begun) == ["fast", "fast", "slow"]
        let_go.set()
        assert lanes.work(step, [], None)
        assert not lanes.busy


def test_trouble_in_one_lane_is_told_when_the_others_have_finished_their_step() -> None:
    tried, finished = threading.Event(), list[str]()

    def step(name: str) -> bool:
        if name == "no key":
            tried.set()
            raise MissingKeyError("no key")
        tried.wait(30.0)
        finished.append(name)
        return True

    with ThreadPoolExecutor(4) as executor:
        lanes = Lanes(executor)
        with pytest.raises(MissingKeyError):
            lanes.work(step, ["a", "no key", "z"], 30.0)
        assert sorted(finished) == ["a", "z"]
        assert not lanes.busy


def test_a_call_that_was_cut_short_by_a_stop_is_no_trouble() -> None:
    def step(_name: str) -> bool:
        raise StoppedError("told to stop")

    with ThreadPoolExecutor(1) as executor:
        assert not Lanes(executor).work(step, ["a"], None)
