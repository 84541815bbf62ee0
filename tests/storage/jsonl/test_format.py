"""What we write, byte for byte, against the description of the format: so that dsh resumes it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.logs import BOTH, FUTURE, HEADER, create, host, lines_of, place, rows_of, run, units
from tests.program import ask, quiet
from watchbell.host import Host
from watchbell.log.codec import encode_header, encode_rows
from watchbell.log.event import Draft
from watchbell.log.header import SessionHeader
from watchbell.log.messages import (
    Message,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    ToolResultBlock,
)
from watchbell.log.payloads import (
    Aborted,
    AbortReason,
    AssistantMessage,
    ChunkEvent,
    EndSeed,
    RequestContext,
    RequestHeader,
    Splice,
    StepMark,
    TakeUp,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
)
from watchbell.storage.jsonl.layout import Compression
from watchbell.testing import SimulatedClock, call, say, simulate, think

PERSON = Message("m-1", "user", {"kind": "user"}, (TextBlock("Grüße"),))
MODEL = {"kind": "model", "provider": "p", "model": "m"}
ANSWER = Message("m-2", "assistant", MODEL, (TextBlock("a"), ToolCallBlock("c", "t", '{"x":1}')))
RESULT = Message(
    "m-3", "user", {"kind": "tool", "callId": "c"}, (ToolResultBlock("c", (TextBlock("r"),), True),)
)


@pytest.mark.parametrize(
    ("draft", "row"),
    [
        (Draft("session/end-seed", EndSeed()), '"data":{}'),
        (Draft("turn/start", TurnStart(1)), '"data":{"turn":1}'),
        (
            Draft("agent/inbox/spliced", Splice(target="next-turn", start=0, inserted=(PERSON,))),
            ('"data":{"target":"next-turn","start":0,"inserted":[{"id":"m-1","role":"user",'
            '"source":{"kind":"user"},"content":[{"type":"text","text":"Grüße"}]}]}'),
        ),
        (
            Draft(
                "agent/inbox/spliced",
                Splice(target="next-step", start=2, removed_count=1, inserted=(), outcome="canceled"),
            ),
            '"data":{"target":"next-step","start":2,"removedCount":1,"inserted":[],"outcome":"canceled"}',
        ),
        (Draft("step/start", StepMark(1, 2)), '"data":{"turn":1,"step":2}'),
        (
            Draft("user/message", PERSON, None, "append"),
            ('"data":{"id":"m-1","role":"user","source":{"kind":"user"},'
            '"content":[{"type":"text","text":"Grüße"}]},"surfaceOp":"append"'),
        ),
        (
            Draft("request/header", RequestHeader({"config": {"provider": "p", "model": "m"}}, "initial")),
            '"data":{"header":{"config":{"provider":"p","model":"m"}},"reason":"initial"}',
        ),
        (
            Draft("request/context", RequestContext("p", "m", 1024)),
            '"data":{"provider":"p","model":"m","contextWindow":1024}',
        ),
        (
            Draft("assistant/chunk", ChunkEvent(1, 1, TextDelta(0, "x\ty"))),
            '"data":{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"x\\ty"}}',
        ),
        (
            Draft("assistant/message", AssistantMessage(1, 1, ANSWER, {"x": 1}, True), (), "append"),
            ('"data":{"turn":1,"step":1,"message":{"id":"m-2","role":"assistant","source":{"kind":"model",'
            '"provider":"p","model":"m"},"content":[{"type":"text","text":"a"},{"type":"tool-call","id":"c",'
            '"name":"t","arguments":"{\\"x\\":1}"}]},"usage":{"x":1},"interrupted":true},'
            '"sourceEventSeqs":[],"surfaceOp":"append"'),
        ),
        (
            Draft("tool/call", ToolCallEvent(1, 1, "c", "t", "{}")),
            '"data":{"turn":1,"step":1,"callId":"c","name":"t","arguments":"{}"}',
        ),
        (
            Draft("tool/result", ToolResultEvent(1, 1, RESULT, {"name": "E", "code": "C"}), (9,), "append"),
            ('"data":{"turn":1,"step":1,"message":{"id":"m-3","role":"user","source":{"kind":"tool","callId":"c"},'
            '"content":[{"type":"tool-result","toolCallId":"c","content":[{"type":"text","text":"r"}],'
            '"isError":true}]},"error":{"name":"E","code":"C"}},"sourceEventSeqs":[9],"surfaceOp":"append"'),
        ),
        (
            Draft("turn/end", TurnEnd(1, Aborted(AbortReason("user")))),
            '"data":{"turn":1,"reason":{"kind":"aborted","reason":{"kind":"user"}}}',
        ),
        (
            create(1, 'a "quote" — \u2028 ☕'),
            ('"data":{"version":1,"operation":"create","schedule":{"id":"schedule-1","kind":"at",'
            f'"prompt":"a \\"quote\\" — \u2028 ☕","scheduledAt":"{FUTURE}"}}}}'),
        ),
        (
            Draft("watchbell/take-up", TakeUp("m", 2), ignorable=True),
            '"data":{"messageId":"m","attempt":2},"ignorable":true',
        ),
        (Draft("turn/end", {"turn": 1, "x": "\ud83d"}), '"data":{"turn":1,"x":"\\ud83d"}'),
    ],
)  # fmt: skip
def test_a_row_is_compact_and_its_keys_have_their_order(draft: Draft, row: str) -> None:
    line = f'{{"type":"{draft.type}","seq":7,"time":1796036425007,{row}}}\n'
    assert encode_rows([draft.at(7, 1_796_036_425_007)]) == line.encode()


def test_a_header_has_its_keys_in_their_order() -> None:
    header = SessionHeader(
        id="s", created_at=1, cwd="/x", parent_session="p", seed_length=3, origin="subagent",
        delegation_depth=1, agent_preset="q",
    )  # fmt: skip
    assert encode_header(header) == (
        b'{"type":"session","version":0,"id":"s","createdAt":1,"cwd":"/x","parentSession":"p","seedLength":3,'
        b'"origin":"subagent","delegationDepth":1,"agentPreset":"q"}\n'
    )


def chunks(*deltas: Any) -> list[Draft]:
    return [Draft("assistant/chunk", ChunkEvent(2, 1, delta)) for delta in deltas]


def test_a_run_of_deltas_shares_a_row() -> None:
    times = (10, 12, 11, 15)
    texts = chunks(*(TextDelta(1, text) for text in ("a", "", "é", "\n")))
    assert (
        encode_rows(draft.at(5 + k, times[k]) for k, draft in enumerate(texts))
        == (
            '{"type":"text-chunks","seq0":5,"time0":10,"data":{"turn":2,"step":1,"index":1,"dt":[2,-1,4],'
            '"texts":["a","","é","\\n"]}}\n'
        ).encode()
    )
    calls = chunks(*(ToolCallDelta(index=0, id="c", name="t", arguments_delta=text) for text in "{x}"))
    assert encode_rows(draft.at(k, 0) for k, draft in enumerate(calls)) == (
        b'{"type":"tool-call-chunks","seq0":0,"time0":0,"data":{"turn":2,"step":1,"index":0,"dt":[0,0],'
        b'"id":"c","name":"t","args":["{","x","}"]}}\n'
    )


def frames(data: bytes) -> list[tuple[bytes, bool]]:
    """The text of each frame, and whether it has a checksum."""
    found: list[tuple[bytes, bool]] = []
    while data:
        decoder = zstandard.ZstdDecompressor().decompressobj()
        text = decoder.decompress(data)
        assert decoder.eof
        found.append((text, zstandard.get_frame_parameters(data).has_checksum))
        data = decoder.unused_data
    return found


def test_the_header_has_a_frame_of_its_own_and_each_durable_batch_one(tmp_path: Path) -> None:
    async def work(program: Host) -> None:
        agent = await program.agents.create("s")
        await ask(agent, "schedule_create", prompt="a", after_seconds=600)
        await ask(agent, "schedule_create", prompt="b", after_seconds=600)

    run(tmp_path, work)
    (path,) = tmp_path.rglob("session.jsonl.zstd")
    texts = frames(path.read_bytes())
    assert all(has_checksum for _, has_checksum in texts)
    assert [text.count(b"\n") for text, _ in texts] == [1, 1, 1]
    assert all(text.endswith(b"\n") for text, _ in texts)
    assert (
        texts[0][0]
        == b'{"type":"session","version":0,"id":"s","createdAt":1796083200000,"delegationDepth":0}\n'
    )


@pytest.mark.parametrize("compression", BOTH)
def test_a_turn_stands_in_the_order_of_the_format(tmp_path: Path, compression: Compression) -> None:
    async def work(program: Host) -> None:
        agent = await program.agents.create("s", cwd="/srv/a b")
        agent.followup("hello")
        await quiet(agent)

    script = [(think("thinking about it"), say("one moment"), call("schedule_list")), "done at last"]
    run(tmp_path, work, script=script, compression=compression)
    (path,) = tmp_path.rglob("session.jsonl*")
    assert path == tmp_path / "sessions" / "--srv-a~0020b--" / "s" / path.name
    rows = rows_of(path)
    order = [row["type"] for row in rows if not re.search("chunk", row["type"])]
    step = ["step/start", "assistant/message", "step/end"]
    assert order == [
        "session",
        "agent/inbox/spliced",
        "turn/start",
        "agent/inbox/spliced",
        "step/start",
        "user/message",
        "request/header",
        "request/context",
        "assistant/message",
        "tool/call",
        "tool/result",
        "step/end",
        *step,
        "turn/end",
    ]
    seqs: list[int] = []
    for row in rows[1:]:
        first: int = row["seq0"] if "seq0" in row else row["seq"]
        seqs += range(first, first + len(row["data"].get("dt", [])) + 1)
    assert seqs == list(range(len(seqs)))
    answers = [row for row in rows if row["type"] == "assistant/message"]
    chunks_of = [row["seq"] for row in rows if row["type"] == "assistant/chunk"]
    assert set(chunks_of) <= {seq for row in answers for seq in row["sourceEventSeqs"]}
    made, got = (next(row for row in rows if row["type"] == kind) for kind in ("tool/call", "tool/result"))
    assert got["sourceEventSeqs"] == [made["seq"]]
    assert {row["surfaceOp"] for row in rows if "surfaceOp" in row} == {"append"}


def test_a_resumed_session_marks_where_it_began_anew_with_its_first_event(tmp_path: Path) -> None:
    async def open_it(program: Host) -> None:
        await program.agents.open("s")

    async def create_one(program: Host) -> None:
        await ask(await program.agents.open("s"), "schedule_create", prompt="a", after_seconds=600)

    run(tmp_path, create_one)
    (path,) = tmp_path.rglob("session.jsonl.zstd")
    before = path.read_bytes()
    run(tmp_path, open_it)
    assert path.read_bytes() == before
    run(tmp_path, create_one)
    rows = rows_of(path)
    assert [row["type"] for row in rows] == [
        "session",
        "schedule/change",
        "session/end-seed",
        "schedule/change",
    ]
    assert rows[2]["data"] == {}
    assert [text.count(b"\n") for text, _ in frames(path.read_bytes())] == [1, 1, 2]


def test_a_fork_s_seed_is_one_frame_and_names_its_parent(tmp_path: Path) -> None:
    async def work(program: Host) -> None:
        parent = await program.agents.create("p")
        for prompt in "ab":
            await ask(parent, "schedule_create", prompt=prompt, after_seconds=600)
        await program.agents.fork(parent, "c")

    run(tmp_path, work)
    path = tmp_path / "sessions" / "_no-cwd" / "c" / "session.jsonl.zstd"
    texts = [text for text, _ in frames(path.read_bytes())]
    assert [text.count(b"\n") for text in texts] == [1, 2]
    header = rows_of(path)[0]
    assert (header["parentSession"], header["seedLength"]) == ("p", 2)


def test_everything_is_for_its_owner_alone_and_nothing_else_lies_about(tmp_path: Path) -> None:
    home = tmp_path / "home"
    names = ["a", "..", "x/y ~ü\U0001f600"]

    async def work(clock: SimulatedClock) -> None:
        async with host(home, clock) as program:
            for name in names:
                agent = await program.agents.create(name, cwd="/srv/x: \\y" if name == "a" else None)
                await ask(agent, "schedule_create", prompt="p", after_seconds=600)
            found = sorted(home.rglob("*"))
            assert {path.stat().st_mode & 0o777 for path in [home, *found] if path.is_dir()} == {0o700}
            assert {path.stat().st_mode & 0o777 for path in found if path.is_file()} == {0o600}
            assert {path.name for path in found if path.is_file()} == {"session.jsonl.zstd", "owner"}

    simulate(work)
    assert sorted(str(path.relative_to(home / "sessions")) for path in home.rglob("*.zstd")) == [
        "--srv-x-~0020-y--/a/session.jsonl.zstd",
        "_no-cwd/x~002Fy~0020~007E~00FC~D83D~DE00/session.jsonl.zstd",
        "_no-cwd/~002E~002E/session.jsonl.zstd",
    ]
    assert [path.name for path in home.iterdir()] == ["sessions"]
    assert all(path.is_dir() for path in (home / "sessions").iterdir())
    assert not list(home.rglob("owner"))


@pytest.mark.skipif(not shutil.which("zstd"), reason="the zstd program is not installed")
def test_the_zstd_program_finds_a_checksum_in_each_frame(tmp_path: Path) -> None:
    path = place(tmp_path, b"".join(units("zstd", [create(1)], [create(2)])))
    told = subprocess.run(["zstd", "-lv", str(path)], capture_output=True, text=True, check=True).stdout
    assert re.search(r"# Zstandard Frames: 3", told)
    assert "Check: XXH64" in told
    unpacked = subprocess.run(["zstd", "-dc", str(path)], capture_output=True, check=True).stdout
    assert unpacked.splitlines() == lines_of(path)
    assert unpacked.startswith(encode_header(HEADER))
