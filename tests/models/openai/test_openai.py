"""The real SDK against a server on a real socket. No waiting: retries sleep in no time, timeouts are tiny."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from contextlib import aclosing
from datetime import date
from typing import Any

import pytest

from tests.models.server import (
    DONE,
    ModelServer,
    Reply,
    bytewise,
    call,
    delta,
    event,
    fragment,
    refuse,
    say,
    until,
    usage,
)
from watchbell.errors import ModelError, SettingsError
from watchbell.log.messages import (
    BlockEnd,
    Chunk,
    Finish,
    FinishReason,
    Message,
    ReasoningBlock,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    UsageChunk,
)
from watchbell.log.payloads import ToolSpec
from watchbell.models.base import AnswerAssembler, ChatModel, ModelRequest
from watchbell.models.openai.model import OpenAIModel

KEY = "sk-secret-0123456789"
pytestmark = pytest.mark.usefixtures("no_proxy")
ASK = ModelRequest(None, (Message("m-1", "user", {"kind": "user"}, (TextBlock("hello"),)),))


class Answered:
    """What came of a request, and how it was waited for."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.error: ModelError | None = None
        self.waits: list[float] = []
        self.assembled = AnswerAssembler()

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.assembled.blocks() if isinstance(block, TextBlock))

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        return [(call.id, call.name, call.arguments) for call in self.assembled.tool_calls()]

    @property
    def fault(self) -> ModelError:
        assert self.error is not None, "the request did not fail"
        return self.error


async def ask(model: OpenAIModel, answered: Answered, request: ModelRequest = ASK) -> Answered:
    try:
        async with aclosing(model.stream(request)) as chunks:
            async for chunk in chunks:
                answered.chunks.append(answered.assembled.add(chunk))
    except ModelError as error:
        answered.error = error
    return answered


def answer(*replies: Reply, request: ModelRequest = ASK, **options: Any) -> tuple[Answered, ModelServer]:
    """Ask a server that gives these replies."""

    async def main() -> tuple[Answered, ModelServer]:
        answered = Answered()

        async def sleep(seconds: float) -> None:
            answered.waits.append(seconds)

        async with ModelServer(replies) as server:
            model = OpenAIModel(
                "m",
                **{"base_url": server.base_url, "api_key": KEY, "environment": {}, "jitter": lambda: 0.5}
                | options,
                sleep=sleep,
            )
            assert isinstance(model, ChatModel)
            return await ask(model, answered, request), server

    return asyncio.run(main())


# --- whole answers ---------------------------------------------------------------------------------------


def test_text_comes_as_it_is_streamed_and_ends_with_usage_and_the_reason() -> None:
    details = {
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    pieces = [
        delta(role="assistant", content=""),
        delta(content="Good "),
        delta(content="day"),
        delta("stop"),
    ]
    answered, _ = answer(Reply([*pieces, usage(**details), DONE]))
    assert answered.text == "Good day"
    assert answered.chunks[-2:] == [
        UsageChunk(
            {
                "inputTokens": 12,
                "outputTokens": 5,
                "totalTokens": 17,
                "cachedInputTokens": 8,
                "reasoningTokens": 2,
            }
        ),
        Finish(FinishReason("stop")),
    ]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_a_block_of_its_own_before_the_text(field: str) -> None:
    answered, _ = answer(
        Reply(
            [delta(**{field: "They "}), delta(**{field: "greet."}), delta(content="Hi"), delta("stop"), DONE]
        )
    )
    assert answered.assembled.blocks() == (ReasoningBlock("They greet."), TextBlock("Hi"))
    assert ReasoningDelta(0, "They ") in answered.chunks


def test_the_request_holds_conversation_tools_and_nothing_secret() -> None:
    tool = ToolSpec("ring", "Rings.", {"type": "object", "properties": {}})
    request = ModelRequest("Be brief.", ASK.messages, (tool,))
    function = {"name": "ring", "description": "Rings.", "parameters": tool.parameters}
    _, server = answer(say("ok"), request=request, extra={"temperature": 0.2})
    assert server.requests == [
        {
            "model": "m",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "tools": [{"type": "function", "function": function}],
            "temperature": 0.2,
        }
    ]  # fmt: skip
    assert server.headers[0]["authorization"] == f"bearer {KEY}"


def test_a_server_of_ones_own_learns_no_key_and_no_accounts_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-somebody")
    answered, server = answer(say("ok"), api_key=None)
    assert answered.text == "ok"
    assert not {"authorization", "openai-organization"} & server.headers[0].keys()


def test_tool_calls_in_fragments_come_out_whole_and_in_order() -> None:
    answered, _ = answer(
        Reply(
            [
                delta(role="assistant", content=None, tool_calls=[fragment(0, "", id="a", name="first")]),
                delta(tool_calls=[fragment(0, '{"x"')]),
                delta(tool_calls=[fragment(1, "", id="b", name="second"), fragment(0, ": 1}")]),
                delta(tool_calls=[fragment(1, "{}")]),
                delta("tool_calls"),
                DONE,
            ]
        )
    )
    assert answered.calls == [("a", "first", '{"x": 1}'), ("b", "second", "{}")]
    assert answered.chunks[-1] == Finish(FinishReason("tool-calls"))


@pytest.mark.parametrize(
    ("fragments", "calls"),
    [
        pytest.param(
            [fragment(0, '{"x":', id="a", name="f"), fragment(0, "1}", id="a", name="f")],
            [("a", "f", '{"x":1}')],
            id="id and name in every fragment",
        ),
        pytest.param(
            [fragment(0, "{}", id="a", name="f"), fragment(1, "{}", id="a", name="f")],
            [("a", "f", "{}"), ("a-2", "f", "{}")],
            id="one id for two calls",
        ),
        pytest.param(
            [fragment(0, "{}", id="a", name="f"), fragment(0, "{}", id="b", name="g")],
            [("a", "f", "{}"), ("b", "g", "{}")],
            id="one index for two calls",
        ),
        pytest.param(
            [fragment(None, "{}", id="a", name="f"), fragment(None, "[]", id="b", name="f")],
            [("a", "f", "{}"), ("b", "f", "[]")],
            id="no index",
        ),
        pytest.param(
            [fragment(None, '{"x":1}', id="a", name="f"), fragment(None, '{"x":2}', id="a", name="f")],
            [("a", "f", '{"x":1}'), ("a-2", "f", '{"x":2}')],
            id="no index and one id for two calls",
        ),
        pytest.param(
            [fragment(None, '{"x":', id="a", name="f"), fragment(None, "1}", id="a", name="f")],
            [("a", "f", '{"x":1}')],
            id="no index, id and name in every fragment",
        ),
        pytest.param(
            [fragment(0, "{}", name="f"), fragment(1, "{}", name="g")],
            [("call", "f", "{}"), ("call-2", "g", "{}")],
            id="no ids",
        ),
        pytest.param(
            [fragment(0, '{"x":'), fragment(0, "1}", id="a", name="f")],
            [("a", "f", '{"x":1}')],
            id="the name after the first arguments",
        ),
        pytest.param([fragment(0, None, id="a", name="f")], [("a", "f", "")], id="no arguments"),
    ],
)
def test_however_a_server_cuts_tool_calls_up_they_are_read(
    fragments: list[dict[str, Any]], calls: list[tuple[str, str, str]]
) -> None:
    answered, _ = answer(Reply([*(delta(tool_calls=[part]) for part in fragments), delta("stop"), DONE]))
    assert answered.calls == calls
    assert answered.chunks[-1] == Finish(FinishReason("tool-calls"))


def test_a_length_limit_is_told_and_cut_arguments_stay_cut() -> None:
    answered, _ = answer(call("f", '{"after_seconds": 6', finish="length"))
    assert answered.calls == [("call_1", "f", '{"after_seconds": 6')]
    assert answered.chunks[-1] == Finish(FinishReason("max-tokens"))


# --- bytes -----------------------------------------------------------------------------------------------


def test_unicode_line_ends_and_cuts_inside_characters_change_nothing() -> None:
    arguments = '{"prompt": "a\u2028b\u0085c\u000bd\u001ce\u00e4\U0001f514"}'
    piece = delta(tool_calls=[fragment(0, arguments, id="a", name="f")])
    answered, _ = answer(Reply(bytewise(piece, delta("tool_calls"), usage(), DONE)))
    assert answered.calls == [("a", "f", arguments)]
    assert any(isinstance(chunk, UsageChunk) for chunk in answered.chunks)


def test_comments_carriage_returns_and_a_missing_done_are_fine() -> None:
    body = b": keep-alive\n\n" + delta(content="x") + b": ping\n" + delta("stop")
    answered, _ = answer(Reply(bytewise(body.replace(b"\n", b"\r\n"))))
    assert answered.text == "x"
    assert answered.chunks[-1] == Finish(FinishReason("stop"))


def test_a_whole_answer_does_not_wait_for_a_server_that_hangs() -> None:
    answered, _ = answer(Reply([delta(content="x"), delta("stop")], then="hang"), idle_timeout_seconds=0.05)
    assert answered.text == "x"
    assert answered.error is None


@pytest.mark.parametrize("then", ["cut", "end"])
def test_half_a_surrogate_pair_is_kept_and_two_halves_are_joined(then: Any) -> None:
    halves = ["x\\ud83d", "\\ude00y\\ud83d"]
    pieces = [
        b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % half.encode() for half in halves
    ]
    answered, _ = answer(Reply([*pieces, delta("stop")], then=then))
    # Nobody is told a half while the other one may still come.
    told = [chunk.text for chunk in answered.chunks if isinstance(chunk, TextDelta)]
    assert told == ["x", "\U0001f600y", "\ud83d"]
    assert answered.text == "x\U0001f600y\ud83d"
    assert answered.error is None


def test_of_several_choices_the_first_is_the_answer() -> None:
    def part(index: int, text: str, finish: str | None = None) -> bytes:
        return event({"choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}]})

    answered, _ = answer(
        Reply([part(0, "A"), part(1, "B", "length"), part(0, "a"), part(1, "b"), part(0, "", "stop"), DONE])
    )
    assert answered.text == "Aa"
    assert answered.chunks[-1] == Finish(FinishReason("stop"))


# --- faults ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "code", "says"),
    [
        (refuse(401, f"Incorrect API key provided: {KEY}"), "AUTHENTICATION", "check OPENAI_API_KEY"),
        (refuse(403, f"{KEY} may not"), "PERMISSION_DENIED", "[key] may not"),
        (refuse(404, "The model `m` does not exist", code="model_not_found"), "MODEL_NOT_FOUND", "'m'"),
        (refuse(400, "Model Not Exist"), "MODEL_NOT_FOUND", "--model"),
        (Reply([b"<html>no such page</html>"], 404), "NOT_FOUND", "/v1"),
        (refuse(400, "too long", code="context_length_exceeded"), "CONTEXT_OVERFLOW", "too long"),
        (
            refuse(400, "This model's maximum context length is 8192 tokens"),
            "CONTEXT_OVERFLOW",
            "new session",
        ),
        (refuse(413, "big"), "CONTEXT_OVERFLOW", "too long"),
        (refuse(402, "Insufficient Balance"), "QUOTA", "account"),
        (refuse(429, "You exceeded it", code="insufficient_quota"), "QUOTA", "account"),
        (refuse(400, "Invalid schema for function 'f'"), "INVALID_REQUEST", "dialect"),
        (refuse(422, "no\n such\tthing"), "INVALID_REQUEST", "no such thing"),
        (refuse(429, "slow down"), "RATE_LIMITED", "429"),
        (refuse(503, "overloaded"), "PROVIDER_ERROR", "overloaded"),
        (Reply([delta("stop"), DONE]), "EMPTY_ANSWER", "empty"),
        (Reply([DONE]), "CUT_STREAM", "cut off"),
        (Reply([b"data: {oops\n\n"]), "INVALID_STREAM", "OpenAI-compatible"),
        (Reply([b"<html>welcome</html>"]), "CUT_STREAM", "cut off"),
        (Reply([b"data: \xff\xfe\n\n"]), "INVALID_STREAM", "JSON"),
        (Reply([delta("content_filter"), DONE]), "CONTENT_FILTER", "filter"),
        (Reply([event({"error": {"message": "gone", "type": "server_error"}})]), "PROVIDER_ERROR", "gone"),
        (Reply([event({"error": {"message": "busy", "code": 429}})]), "RATE_LIMITED", "429"),
        (Reply([event({"error": {"message": "context length exceeded"}})]), "CONTEXT_OVERFLOW", "too long"),
        (Reply([delta(role="assistant")], then="cut"), "CUT_STREAM", "closed the connection"),
        (Reply(then="hang"), "IDLE_TIMEOUT", "sent nothing for 0.05 seconds"),
        (Reply([delta(content="x")], then="hang"), "IDLE_TIMEOUT", "idle_timeout_seconds"),
    ],
)
def test_each_fault_is_a_clear_line_with_a_code_and_no_key(reply: Reply, code: str, says: str) -> None:
    answered, _ = answer(reply, max_retries=0, idle_timeout_seconds=0.05 if reply.then == "hang" else 5)
    assert answered.fault.code == code
    assert says in str(answered.fault)
    assert KEY not in repr(answered.fault)
    assert "\n" not in str(answered.fault)
    assert answered.fault.__suppress_context__ or answered.fault.__context__ is None
    assert reply.status in (200, answered.fault.status)


def test_a_refused_connection_says_where_it_was_tried() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        answered, _ = answer(base_url=f"http://me:pass@127.0.0.1:{port}/v1?token=x", max_retries=0)
    assert answered.fault.code == "CONNECTION"
    assert str(answered.fault).startswith(f"http://127.0.0.1:{port}/v1 cannot be reached")


@pytest.mark.parametrize("piece", [b": keep-alive\n\n", delta()])
def test_a_server_that_only_keeps_the_line_alive_counts_as_stalled(piece: bytes) -> None:
    class Endless(list[bytes]):
        def __iter__(self) -> Any:
            return iter(lambda: piece, None)

    answered, _ = answer(Reply(Endless()), max_retries=0, idle_timeout_seconds=0.05)
    assert answered.fault.code == "IDLE_TIMEOUT"
    assert "0.5 seconds" in str(answered.fault)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/html", b"<html>welcome</html>"),
        ("application/json", b'{"object": "chat.completion", "choices": []}'),
    ],
)
def test_an_answer_that_is_no_event_stream_is_told_at_once(kind: str, body: bytes) -> None:
    answered, server = answer(Reply([body], headers={"content-type": kind}), say("no"))
    assert answered.fault.code == "INVALID_STREAM"
    assert "OpenAI-compatible" in str(answered.fault)
    assert len(server.requests) == 1


def test_what_came_before_a_cut_stays() -> None:
    answered, _ = answer(Reply([delta(content="Half an ans")], then="cut"))
    assert answered.text == "Half an ans"
    assert answered.fault.code == "CUT_STREAM"


def test_a_tool_call_that_was_cut_off_is_not_whole() -> None:
    answered, _ = answer(Reply([delta(tool_calls=[fragment(0, '{"x', id="a", name="f")])], then="cut"))
    assert answered.calls == []
    assert not any(isinstance(chunk, BlockEnd) for chunk in answered.chunks)


# --- asking again ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [
        refuse(429),
        refuse(500),
        refuse(503),
        Reply([delta(role="assistant")], then="cut"),
        Reply(then="cut"),
        Reply(then="hang"),
    ],
)
def test_what_fails_before_the_answer_begins_is_asked_again(
    reply: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    answered, server = answer(reply, say("ok"), idle_timeout_seconds=0.1 if reply.then == "hang" else 5)
    assert answered.text == "ok"
    assert answered.error is None
    assert len(server.requests) == 2
    assert server.requests[0] == server.requests[1]
    assert answered.waits == [0.75]
    assert "request 2 of 4 follows" in caplog.text


@pytest.mark.parametrize(
    "reply",
    [
        refuse(400),
        refuse(401),
        refuse(404),
        refuse(429, code="insufficient_quota"),
        Reply([delta("stop")]),
        Reply([delta(content="x")], then="cut"),
    ],
)
def test_what_would_fail_again_or_has_begun_is_not_asked_again(reply: Reply) -> None:
    answered, server = answer(reply, say("no"))
    assert answered.error is not None
    assert len(server.requests) == 1
    assert answered.waits == []


def test_the_waits_grow_and_the_requests_are_bounded() -> None:
    answered, server = answer(*[refuse(500)] * 9, max_retries=6)
    assert len(server.requests) == 7
    assert answered.waits == [0.75, 1.5, 3.0, 6.0, 12.0, 12.0]
    assert answered.fault.status == 500


@pytest.mark.parametrize(
    ("headers", "retry_after_ms"),
    [
        ({"retry-after": "7"}, 7000),
        ({"retry-after": "1.5"}, 1500),
        ({"retry-after-ms": "250", "retry-after": "9"}, 250),
        (
            {"date": "Sun, 06 Nov 2033 08:49:37 GMT", "retry-after": "Sun, 06 Nov 2033 08:49:47 GMT"},
            10_000,
        ),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"}, 0),
    ],
)
def test_a_wait_that_the_provider_asks_for_is_kept(headers: dict[str, str], retry_after_ms: int) -> None:
    told = {**headers, "x-request-id": "req-7"}
    answered, _ = answer(refuse(429, headers=told), refuse(429, headers=told), max_retries=1)
    assert answered.fault.retry_after_ms == retry_after_ms
    assert answered.fault.request_id == "req-7"
    assert len(answered.waits) == 1
    assert retry_after_ms / 1000 <= answered.waits[0] < retry_after_ms / 1000 + 1


@pytest.mark.parametrize("text", ["soon", "nan", "inf", "-", "Sun, 99 Nov"])
def test_a_wait_that_makes_no_sense_is_passed_over(text: str) -> None:
    answered, _ = answer(refuse(429, headers={"retry-after": text}), say("ok"))
    assert answered.text == "ok"
    assert answered.waits == [0.75]


@pytest.mark.parametrize(
    ("status", "seconds", "says"), [(429, 3_600, "wait 60 minutes"), (503, 61, "try again in 2 minutes")]
)
def test_a_provider_that_asks_for_minutes_is_not_waited_for(status: int, seconds: int, says: str) -> None:
    answered, server = answer(refuse(status, headers={"retry-after": str(seconds)}), say("no"))
    assert len(server.requests) == 1
    assert answered.fault.retry_after_ms == seconds * 1_000
    assert says in str(answered.fault)


# --- life ------------------------------------------------------------------------------------------------


def test_cancelling_drops_the_request_and_frees_its_connection() -> None:
    async def main() -> int:
        async with ModelServer([Reply([delta(content="x")], then="hang")]) as server:
            model = OpenAIModel("m", base_url=server.base_url, environment={})
            begun = asyncio.Event()

            async def read() -> None:
                async for _ in model.stream(ASK):
                    begun.set()

            reading = asyncio.create_task(read())
            await begun.wait()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            await until(lambda: server.gone > 0)
            return server.gone

    assert asyncio.run(asyncio.wait_for(main(), 30)) == 1


def test_one_model_serves_several_event_loops_and_many_answers_at_once() -> None:
    async def main(model: OpenAIModel | None) -> OpenAIModel:
        async with ModelServer([say("ok")] * 5) as server:
            model = model or OpenAIModel("m", base_url=server.base_url, environment={})
            answers = await asyncio.gather(*(ask(model, Answered()) for _ in range(5)))
            assert {each.text for each in answers} | {each.error for each in answers} == {"ok", None}
            return model

    asyncio.run(main(None))
    first = asyncio.run(main(None))
    assert "sk-" not in repr(first)


def test_the_key_is_in_no_repr_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    model = OpenAIModel("m", base_url="http://u:p@localhost:1/v1", api_key=KEY, environment={})
    assert repr(model) == "OpenAIModel('m', base_url='http://localhost:1/v1')"
    assert KEY not in str(vars(model))
    answer(refuse(500, KEY), refuse(401, KEY))
    assert KEY not in caplog.text


def test_without_the_extra_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(SettingsError, match=r"pip install 'watchbell\[openai\]'"):
        OpenAIModel("m", base_url="http://localhost/v1", environment={})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HTTP_PROXY", "foo://me:password@box"),
        ("HTTP_PROXY", "http://[::password"),
        ("SSL_CERT_FILE", "/no/such/password"),
    ],
)
def test_a_proxy_or_certificate_that_cannot_be_used_says_what_to_check(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=variable) as caught:
        OpenAIModel("m", base_url="http://localhost/v1", environment={})
    assert "password" not in str(caught.value)


@pytest.mark.parametrize(
    ("model", "environment", "provider", "url"),
    [
        ("gpt-4.1", {"OPENAI_API_KEY": KEY}, "openai", "https://api.openai.com/v1"),
        ("deepseek-chat", {"DEEPSEEK_API_KEY": KEY}, "deepseek", "https://api.deepseek.com"),
        ("deepseek-r1", {"OPENAI_BASE_URL": "http://box:8000/v1"}, "box:8000", "http://box:8000/v1"),
    ],
)
def test_the_name_and_the_environment_say_who_serves_a_model(
    model: str, environment: dict[str, str], provider: str, url: str
) -> None:
    made = OpenAIModel(model, environment=environment)
    assert made.provider == provider
    assert url in repr(made)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"model": "deepseek-chat", "environment": {"OPENAI_API_KEY": KEY}}, "DEEPSEEK_API_KEY"),
        ({"model": "gpt-4.1"}, "OPENAI_API_KEY"),
        ({"model": " "}, "name a model"),
        ({"model": "m", "api_key": "sk-\u00e9"}, "copy it again"),
        ({"model": "m", "base_url": "localhost:8000"}, "http://localhost:8000/v1"),
        ({"model": "m", "dialect": "loose"}, "full, strict, narrow"),
        ({"model": "m", "idle_timeout_seconds": 0}, "above 0"),
        ({"model": "m", "api_key": "k", "extra": {"messages": []}}, "'messages' is Watchbell's own"),
        ({"model": "m", "api_key": "k", "extra": {"n": 2}}, "'n' is Watchbell's own"),
        ({"model": "m", "api_key": "k", "extra": {"top_p": float("nan")}}, "'top_p' holds something"),
        ({"model": "m", "api_key": "k", "extra": {"since": date(2030, 1, 1)}}, "'since' holds something"),
    ],
)
def test_what_cannot_work_is_refused_at_once(options: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        OpenAIModel(**{"environment": {}, **options})


def test_a_call_is_a_block_with_the_same_text_as_its_deltas() -> None:
    answered, _ = answer(call("f", '{"x": 1}'))
    ends = [chunk.block for chunk in answered.chunks if isinstance(chunk, BlockEnd)]
    assert ends == [ToolCallBlock("call_1", "f", '{"x": 1}')]
