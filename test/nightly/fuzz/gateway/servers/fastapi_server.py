"""Two chat servers on FastAPI, with models of pydantic as vLLM and most servers in Python have.

In one FastAPI reads the body, with its types as lenient as they are by default; the other lets pydantic's own
parser read the bytes, whatever their type, and takes camelCase too.

Prints {"router": port, "raw": port} and serves until its input is closed.
"""

import asyncio
import json
import socket
import sys
from typing import Any
from urllib.parse import quote

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

count = 0


class Options(BaseModel):
    model_config = ConfigDict(extra="allow", alias_generator=to_camel, populate_by_name=True)
    include_usage: bool | None = False


class Call(BaseModel):
    model_config = ConfigDict(extra="allow", protected_namespaces=())
    model: str
    stream: bool | None = False
    stream_options: Options | None = None
    messages: Any = None


class LenientCall(Call):
    model_config = ConfigDict(coerce_numbers_to_str=True, alias_generator=to_camel, populate_by_name=True)
    model: str | None = None


def answer(kind: str, call: Call):
    """A completion in OpenAI's format; x-served reports how the server read the request."""
    global count
    count += 1
    stream = bool(call.stream)
    reported = not stream or bool(call.stream_options and call.stream_options.include_usage)
    total = 10 + count % 90
    usage = {"prompt_tokens": 6, "completion_tokens": total - 6, "total_tokens": total}
    served = f"{kind};{quote(str(call.model), safe='')};{total};{int(stream)};{int(reported)}"
    headers = {"x-served": served}
    if not stream:
        choice = {"index": 0, "message": {"role": "assistant", "content": "la la"}, "text": "la la"}
        return JSONResponse({"choices": [choice], "usage": usage}, headers=headers)
    events = [{"choices": [{"index": 0, "delta": {"content": "la"}}]}] * 2
    if reported:
        events.append({"choices": [], "usage": usage})
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    return Response(text, media_type="text/event-stream", headers=headers)


def refuse(_, error):
    return JSONResponse({"error": {"message": type(error).__name__}}, status_code=400)


def new_app() -> FastAPI:
    app = FastAPI()
    # An unreadable request is 400, as in most servers.
    app.exception_handler(Exception)(refuse)
    for error in (RequestValidationError, ValidationError, ValueError, RecursionError):
        app.exception_handler(error)(refuse)

    @app.get("/v1/models")
    async def models():
        return {"object": "list", "data": [{"id": "sim"}]}

    return app


router = new_app()


@router.post("/v1/chat/completions")
async def chat(call: Call):
    return answer("chat", call)


@router.post("/v1/completions")
async def completions(call: Call):
    return answer("completions", call)


raw = new_app()


@raw.post("/v1/{operation:path}")
async def read_bytes(operation: str, request: Request):
    call = LenientCall.model_validate_json(await request.body())
    kinds = {"chat/completions": "chat", "completions": "completions"}
    return answer(kinds.get(operation.strip("/").lower(), operation), call)


async def start(app):
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="critical", lifespan="off", h11_max_incomplete_event_size=1 << 20)
    task = asyncio.create_task(uvicorn.Server(config).serve(sockets=[listener]))
    return listener.getsockname()[1], task


async def main():
    (first, _), (second, _) = [await start(router), await start(raw)]
    print(json.dumps({"router": first, "raw": second}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main())
