"""Wall time is waited for with one timer, whatever happens to the clock meanwhile."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from watchbell.clock import RECHECK_SECONDS, SystemClock, WallClock, wall_ms
from watchbell.testing import SimulatedClock, SimulatedEventLoop, simulate

HOUR_MS = 3_600_000
YEAR_9999_MS = 253_402_300_799_999


class CountingLoop(SimulatedEventLoop):
    """Knows how many timers are set at once, at most."""

    def __init__(self) -> None:
        super().__init__()
        self.handles: list[asyncio.TimerHandle] = []
        self.most = 0

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
        handle = super().call_at(when, callback, *args, context=context)
        self.handles = [h for h in self.handles if not h.cancelled() and h.when() > self.time()]
        self.handles.append(handle)
        self.most = max(self.most, len(self.handles))
        return handle


def test_a_callback_runs_once_at_its_target() -> None:
    async def main(clock: SimulatedClock) -> list[int]:
        fired: list[int] = []
        timer = clock.call_at(clock.now_ms() + 90_061, lambda: fired.append(clock.now_ms()))
        assert timer.is_pending
        await asyncio.sleep(300)
        assert not timer.is_pending
        return fired

    assert simulate(main, start=1_000) == [91_061]


def test_a_target_in_the_past_runs_soon_but_never_inside_the_call() -> None:
    async def main(clock: SimulatedClock) -> None:
        fired: list[str] = []
        clock.call_at(clock.now_ms() - HOUR_MS, lambda: fired.append("x"))
        assert fired == []
        before = clock.now_ms()
        await clock.sleep_until(before)
        assert fired == ["x"]
        assert clock.now_ms() == before

    simulate(main)


def test_equal_targets_run_in_the_order_in_which_they_were_armed() -> None:
    async def main(clock: SimulatedClock) -> list[int]:
        order: list[int] = []
        target = clock.now_ms() + 1_000
        for n in range(50):
            clock.call_at(target, lambda n=n: order.append(n))
        clock.call_at(target - 1, lambda: order.append(-1))
        await asyncio.sleep(2)
        return order

    assert simulate(main) == [-1, *range(50)]


def test_a_clock_set_back_fires_nothing_early() -> None:
    async def main(clock: SimulatedClock) -> None:
        fired: list[int] = []
        target = clock.now_ms() + 10_000
        clock.call_at(target, lambda: fired.append(clock.now_ms()))
        await asyncio.sleep(5)
        clock.step(-3600)
        await asyncio.sleep(3600)
        assert fired == []
        await asyncio.sleep(5)
        assert fired == [target]

    simulate(main)


@pytest.mark.parametrize("how", ["step", "freeze_monotonic"])
def test_a_clock_set_forward_or_a_suspend_makes_due_within_a_recheck(how: str) -> None:
    async def main(clock: SimulatedClock) -> None:
        fired: list[str] = []
        clock.call_at(clock.now_ms() + HOUR_MS, lambda: fired.append("x"))
        await asyncio.sleep(0.1)
        getattr(clock, how)(7200)
        assert fired == []
        await asyncio.sleep(RECHECK_SECONDS)
        assert fired == ["x"]

    simulate(main)


def test_a_cancelled_timer_never_runs_even_when_due_together_with_who_cancels_it() -> None:
    async def main(clock: SimulatedClock) -> list[str]:
        fired: list[str] = []
        target = clock.now_ms() + 1_000
        clock.call_at(target, lambda: second.cancel())
        second = clock.call_at(target, lambda: fired.append("second"))
        clock.call_at(target, lambda: fired.append("third"))
        await asyncio.sleep(2)
        second.cancel()
        return fired

    assert simulate(main) == ["third"]


def test_a_callback_that_arms_what_is_due_does_not_starve_others() -> None:
    async def main(clock: SimulatedClock) -> None:
        runs: list[int] = []

        def again() -> None:
            runs.append(clock.now_ms())
            if len(runs) < 1_000:
                clock.call_at(0, again)

        clock.call_at(0, again)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(runs) < 5
        await asyncio.sleep(1)
        assert len(runs) == 1_000

    simulate(main)


def test_a_callbacks_exception_is_logged_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def main(clock: SimulatedClock) -> list[str]:
        fired: list[str] = []
        clock.call_at(clock.now_ms() + 1, lambda: 1 / 0)
        clock.call_at(clock.now_ms() + 1, lambda: fired.append("next"))
        await asyncio.sleep(1)
        return fired

    assert simulate(main) == ["next"]
    assert [record.name for record in caplog.records] == ["watchbell.clock"]
    assert "ZeroDivisionError" in caplog.text


def test_a_callback_runs_in_the_context_of_whoever_armed_it() -> None:
    who = contextvars.ContextVar("who", default="nobody")

    async def arm(clock: SimulatedClock, name: str, seen: list[str]) -> None:
        who.set(name)
        clock.call_at(clock.now_ms() + 10, lambda: seen.append(who.get()))

    async def main(clock: SimulatedClock) -> list[str]:
        seen: list[str] = []
        await asyncio.gather(arm(clock, "a", seen), arm(clock, "b", seen))
        await asyncio.sleep(1)
        return seen

    assert simulate(main) == ["a", "b"]


def test_a_hundred_thousand_waiters_share_one_timer() -> None:
    loop = CountingLoop()
    fired = 0

    def count() -> None:
        nonlocal fired
        fired += 1

    async def main() -> None:
        clock = SimulatedClock()
        start = clock.now_ms()
        for n in range(100_000):
            clock.call_at(start + 1 + (n * 7919) % 100_000, count)
        loop.handles, loop.most = [], 0
        await asyncio.sleep(101)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())
    assert fired == 100_000
    assert loop.most == 2  # the clock's, and that of this test's own sleep


def test_cancelled_waiters_do_not_pile_up_and_the_last_one_takes_the_timer_with_it() -> None:
    loop = CountingLoop()

    async def main() -> None:
        clock = SimulatedClock()
        for _ in range(1_000):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(clock.sleep_until(YEAR_9999_MS), 0.001)
        timers = [clock.call_at(YEAR_9999_MS - n, lambda: None) for n in range(1_000)]
        for timer in timers[:-1]:
            timer.cancel()
        assert len(clock._heap) <= 2
        timers[-1].cancel()
        assert all(handle.cancelled() for handle in loop.handles)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())


def test_each_step_is_logged_once_with_its_size(caplog: pytest.LogCaptureFixture) -> None:
    async def main(clock: SimulatedClock) -> None:
        clock.call_at(YEAR_9999_MS, lambda: None)
        await asyncio.sleep(60)
        clock.step(-3600)
        await asyncio.sleep(60)
        clock.freeze_monotonic(90.5)
        await asyncio.sleep(60)
        clock.step(0.9)  # a nudge is no step
        await asyncio.sleep(60)
        clock.step(5)
        await asyncio.sleep(60)

    simulate(main)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [message.split("(")[0] for message in warnings] == [
        "the wall clock went -3600.000 s ",
        "the wall clock went +90.500 s ",
        "the wall clock went +5.000 s ",
    ]


def test_time_that_passes_while_nothing_is_armed_is_no_step(caplog: pytest.LogCaptureFixture) -> None:
    async def main(clock: SimulatedClock) -> None:
        await clock.sleep_until(clock.now_ms() + 10)
        clock.step(86_400)
        await asyncio.sleep(3600)
        await clock.sleep_until(clock.now_ms() + 10)

    simulate(main)
    assert caplog.records == []


def test_a_clock_goes_on_cleanly_with_another_event_loop() -> None:
    clock = SimulatedClock("2026-12-01T00:00:00.000Z")
    fired: list[str] = []

    async def first() -> None:
        clock.call_at(clock.now_ms() + 5_000, lambda: fired.append("first"))
        await asyncio.sleep(2)

    async def second() -> None:
        assert clock.iso() == "2026-12-01T00:00:02.000Z"
        clock.call_at(clock.now_ms() + 5_000, lambda: fired.append("second"))
        await asyncio.sleep(10)

    for main in (first, second):
        with asyncio.Runner(loop_factory=SimulatedEventLoop) as runner:
            runner.run(main())
    assert fired == ["second"]
    assert clock.iso() == "2026-12-01T00:00:12.000Z"


def test_sleeping_until_an_instant_can_be_cancelled() -> None:
    async def main(clock: SimulatedClock) -> None:
        sleeping = asyncio.create_task(clock.sleep_until(clock.now_ms() + 1_000))
        await asyncio.sleep(0.5)
        clock.step(60)
        sleeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeping
        await asyncio.sleep(5)

    simulate(main)


def test_the_system_clock_reads_the_machines_time_and_fires() -> None:
    async def main() -> None:
        clock = SystemClock()
        before = time.time_ns() // 1_000_000
        assert before <= wall_ms() <= clock.now_ms() <= time.time_ns() // 1_000_000
        await clock.sleep_until(clock.now_ms() + 1)
        assert clock.now_ms() > before

    asyncio.run(main())


def test_any_pair_of_readings_makes_a_clock() -> None:
    async def main(_: SimulatedClock) -> None:
        wall = [0]
        clock = WallClock(lambda: wall[0], lambda: 0.0, recheck_seconds=2)
        fired: list[int] = []
        clock.call_at(1_000_000, lambda: fired.append(wall[0]))
        await asyncio.sleep(1)
        wall[0] = 1_000_000
        await asyncio.sleep(0.9)
        assert fired == []
        await asyncio.sleep(0.2)
        assert fired == [1_000_000]

    simulate(main)
