"""Simulated time takes none, is exact, and tells when a program would hang."""

from __future__ import annotations

import asyncio
import time

import pytest

from watchbell.testing import (
    LeftoverTaskError,
    SimulatedClock,
    SimulatedEventLoop,
    SimulationDeadlockError,
    simulate,
)


def test_time_leaps_to_the_next_timer() -> None:
    async def main(clock: SimulatedClock) -> str:
        loop = asyncio.get_running_loop()
        assert loop.time() == 0
        await asyncio.sleep(1200)
        assert loop.time() == 1200
        await asyncio.sleep(10 * 86_400)
        return clock.iso()

    assert simulate(main) == "2026-12-11T00:20:00.000Z"


def test_sleepers_wake_in_the_order_of_their_instants() -> None:
    async def main(clock: SimulatedClock) -> list[tuple[int, str]]:
        woken: list[tuple[int, str]] = []

        async def sleeper(seconds: float) -> None:
            await asyncio.sleep(seconds)
            woken.append((int(seconds), clock.iso()[11:19]))

        await asyncio.gather(*(sleeper(seconds) for seconds in (3, 1, 2)))
        return woken

    assert simulate(main) == [(1, "00:00:01"), (2, "00:00:02"), (3, "00:00:03")]


def test_a_timeout_counts_simulated_seconds() -> None:
    async def main(clock: SimulatedClock) -> int:
        before = clock.now_ms()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return clock.now_ms() - before

    assert simulate(main) == 30_000


def test_what_is_meant_for_a_thread_runs_in_place() -> None:
    async def main(_: SimulatedClock) -> None:
        order = ["before"]
        pending = asyncio.get_running_loop().run_in_executor(None, order.append, "inside")
        order.append("after")
        assert not pending.done()
        await pending
        assert order == ["before", "inside", "after"]
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)
        given_up = asyncio.get_running_loop().run_in_executor(None, time.monotonic)
        given_up.cancel()
        await asyncio.sleep(0)
        assert given_up.cancelled()

    simulate(main)


def test_a_program_that_would_hang_is_told_so_with_the_tasks_that_wait() -> None:
    async def never_answered(_: SimulatedClock) -> None:
        await asyncio.Event().wait()

    with pytest.raises(
        SimulationDeadlockError, match=r"wait for ever:\n  Task-\d+: .*never_answered:\d+ > Event.wait:"
    ):
        simulate(never_answered)


def test_tasks_left_running_are_cancelled_and_reported() -> None:
    ended: list[str] = []

    async def forgotten() -> None:
        try:
            await asyncio.sleep(5)
        finally:
            ended.append("cancelled")

    async def main(_: SimulatedClock) -> None:
        tasks.append(asyncio.create_task(forgotten()))
        await asyncio.sleep(1)

    tasks: list[asyncio.Task[None]] = []
    with pytest.raises(LeftoverTaskError, match="forgotten"):
        simulate(main)
    assert ended == ["cancelled"]


def test_a_task_that_only_has_to_note_its_end_is_not_left_over() -> None:
    async def main(_: SimulatedClock) -> str:
        tasks.append(asyncio.create_task(asyncio.sleep(5)))
        await asyncio.sleep(0)
        tasks[0].cancel()
        return "done"

    tasks: list[asyncio.Task[None]] = []
    assert simulate(main) == "done"


def test_the_programs_own_error_comes_first() -> None:
    async def main(_: SimulatedClock) -> None:
        tasks.append(asyncio.create_task(asyncio.sleep(5)))
        raise LookupError("its own")

    tasks: list[asyncio.Task[None]] = []
    with pytest.raises(LookupError, match="its own"):
        simulate(main)
    assert tasks[0].cancelled()


def test_two_runs_are_the_same() -> None:
    async def main(clock: SimulatedClock) -> list[str]:
        seen: list[str] = []

        async def worker(name: str, pause: float) -> None:
            for _ in range(3):
                await asyncio.sleep(pause)
                await asyncio.to_thread(seen.append, f"{name} {clock.iso()}")

        await asyncio.gather(worker("a", 0.3), worker("b", 0.2), worker("c", 0.3))
        return seen

    assert simulate(main) == simulate(main)


def test_real_sockets_still_work() -> None:
    async def main(_: SimulatedClock) -> bytes:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write((await reader.readline()).upper())
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"ahoy\n")
        answered = await reader.readline()
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return answered

    with asyncio.Runner(loop_factory=SimulatedEventLoop) as runner:
        assert runner.run(main(SimulatedClock())) == b"AHOY\n"


def test_a_start_is_text_with_an_offset_or_milliseconds() -> None:
    assert SimulatedClock(0).iso() == "1970-01-01T00:00:00.000Z"
    assert SimulatedClock("2026-12-01T01:00:00.250+01:00").iso() == "2026-12-01T00:00:00.250Z"
    assert SimulatedClock("0001-01-01T00:00:00.000Z").iso() == "0001-01-01T00:00:00.000Z"
    with pytest.raises(ValueError, match="no offset"):
        SimulatedClock("2026-12-01T00:00:00")


@pytest.mark.parametrize(("rate", "seconds"), [(1.25, 80.0), (0.5, 200.0)])
def test_a_wall_clock_that_drifts_is_waited_for_by_what_it_reads(rate: float, seconds: float) -> None:
    async def main(clock: SimulatedClock) -> tuple[float, str]:
        await asyncio.sleep(10)
        clock.drift(rate)
        begun = asyncio.get_running_loop().time()
        await clock.sleep_until(clock.now_ms() + 100_000)
        return asyncio.get_running_loop().time() - begun, clock.iso()

    waited, read = simulate(main)
    assert waited == pytest.approx(seconds, abs=0.5)
    assert read >= "2026-12-01T00:01:50.000Z"


def test_a_clock_cannot_drift_backwards() -> None:
    with pytest.raises(ValueError, match="step"):
        SimulatedClock().drift(0)


def test_a_machine_cannot_sleep_backwards() -> None:
    with pytest.raises(ValueError, match="step"):
        SimulatedClock().freeze_monotonic(-1)
