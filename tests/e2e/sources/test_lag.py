"""A live source whose watermark lags: what waits is worked off as backlog, and an end of it is found without rows."""

from __future__ import annotations

import support
from support import World

#: Years old: every watermark of theirs lags by more than any threshold.
EVENTS = support.stream_of(60, seed=5)


def test_idle_source_of_old_rows_leaves_backlog(world: World) -> None:
    """Old rows are a backlog only until they are processed: then their output is committed although nothing comes.

    Afterwards the same source, which keeps up, is not taken for a backlog again because its rows are old.
    """
    options = {
        "pipeline.backlog.watermark-lag-threshold": "1 hour",
        "execution.checkpointing.interval": "300 ms",
        "execution.backlog.final-watermark": "observed",
    }
    query = support.live(world.start(support.sessions(world.history(EVENTS[:20]), world.live()), options))
    assert not query.status["isBacklog"]

    world.land(EVENTS[20:40])
    support.wait_beside(query, lambda: len(support.details(query, "switch")) >= 4)
    switches = [detail.split(" after")[0] for detail in support.details(query, "switch")]
    assert switches[-2:] == ["live isBacklog=true", "live isBacklog=false"]
    assert support.details(query, "switch")[-1].endswith("nothing waits at the source")
    support.wait_beside(query, lambda: query.status["checkpoint"] >= 2)
    assert [progress.mode for progress in query.recentProgress if progress.numInputRows][-1] == "backlog"

    seen = len(support.details(query, "switch"))
    world.land([*EVENTS[40:], *support.flush_after(EVENTS)])
    expected = world.expected(EVENTS)
    support.wait_beside(query, lambda: world.results() == expected)
    assert len(support.details(query, "switch")) == seen
    assert [progress.mode for progress in query.recentProgress if progress.numInputRows][-1] == "streaming"
