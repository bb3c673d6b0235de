"""The Connect protocol in JSON: streams in any pieces, errors of both servers, and responses of something else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenv.client.connect_json import Document, Frames, SandboxError, error_of, frame, result_of

MESSAGES: list[Document] = [{"event": {"start": {"pid": 7}}}, {"event": {"data": {"stdout": "eA=="}}}, {}]


def _last(document: Document) -> bytes:
    body = frame(document)
    return b"\x02" + body[1:]


@given(st.lists(st.integers(min_value=1, max_value=9), max_size=40))
def test_a_stream_is_read_in_any_pieces(sizes: list[int]) -> None:
    data = b"".join(frame(message) for message in MESSAGES) + _last({})
    frames, messages = Frames(), list[Document]()
    for size in [*sizes, len(data)]:
        messages += frames.feed(data[:size])
        data = data[size:]
    frames.finish()
    assert messages == MESSAGES


def test_the_error_at_the_end_is_raised() -> None:
    error = {"error": {"code": "deadline_exceeded", "message": "the time is over"}}
    with pytest.raises(SandboxError, match="the time is over") as raised:
        list(Frames().feed(frame(MESSAGES[0]) + _last(error)))
    assert raised.value.code == "deadline_exceeded"


def test_a_stream_that_ends_early_is_an_error() -> None:
    frames = Frames()
    assert list(frames.feed(frame(MESSAGES[0]) + b"\x00\x00")) == [MESSAGES[0]]
    with pytest.raises(SandboxError, match="lost"):
        frames.finish()


@pytest.mark.parametrize("data", [b"\x01\x00\x00\x00\x01x", b"\x00\xff\xff\xff\xff", b"\x00\x00\x00\x00\x03[1]"])
def test_a_stream_of_something_else_is_refused(data: bytes) -> None:
    with pytest.raises(SandboxError, match="not from a sandbox"):
        list(Frames().feed(data))


@pytest.mark.parametrize(
    ("status", "document", "code", "message"),
    [
        (404, {"code": "not_found", "message": "no such process"}, "not_found", "no such process"),
        (404, {"code": 404, "message": "no such file"}, "not_found", "no such file"),
        (403, {"status": 403, "detail": "not yours"}, "permission_denied", "not yours"),
        (599, ["?"], "unknown", "the sandbox responded with status 599"),
    ],
)
def test_errors_of_workspaced_and_of_the_gateway(status: int, document: object, code: str, message: str) -> None:
    error = error_of(status, json.dumps(document).encode())
    assert (error.code, error.message, error.status) == (code, message, status)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'"text"'])
def test_a_response_of_something_else_is_refused(body: bytes) -> None:
    with pytest.raises(SandboxError, match="not from a sandbox"):
        result_of(body)
