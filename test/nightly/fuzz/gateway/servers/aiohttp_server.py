"""Two chat servers on aiohttp.

One uses the framework's router and parser, the other dispatches by the end of the path.

Prints {"router": port, "suffix": port} and serves until its input is closed.
"""

import asyncio
import json
import sys
from urllib.parse import quote, unquote

from aiohttp import web

count = 0


def answer(kind, body, of=None):
    """A completion in OpenAI's format; x-served reports how the server read the request."""
    global count
    count += 1
    if not isinstance(body, dict):
        raise web.HTTPBadRequest(text="an object is needed")
    stream = bool(body.get("stream"))
    options = body.get("stream_options")
    reported = not stream or bool(isinstance(options, dict) and options.get("include_usage"))
    total = 10 + count % 90
    usage = {"prompt_tokens": 6, "completion_tokens": total - 6, "total_tokens": total}
    served = f"{kind};{quote(str(body.get('model')), safe='')};{total};{int(stream)};{int(reported)}"
    headers = {"x-served": served}
    if not stream:
        choice = {"index": 0, "message": {"role": "assistant", "content": "la la"}, "text": "la la"}
        return web.json_response({"choices": [choice], "usage": usage}, headers=headers)
    events = [{"choices": [{"index": 0, "delta": {"content": "la"}}]}] * 2
    if reported:
        events.append({"choices": [], "usage": usage})
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    headers["content-type"] = "text/event-stream"
    return web.Response(body=text.encode(), headers=headers)


async def chat(request):
    return answer("chat", await request.json())


async def completions(request):
    return answer("completions", await request.json())


async def models(_):
    return web.json_response({"object": "list", "data": [{"id": "sim"}]})


async def by_suffix(request):
    """Dispatches by the end of the target only, as servers on http.server do."""
    body = await request.read()
    for path in (request.raw_path, unquote(request.raw_path)):
        if request.method == "POST" and path.endswith("/v1/chat/completions"):
            return answer("chat", json.loads(body))
        if request.method == "POST" and path.endswith("/v1/completions"):
            return answer("completions", json.loads(body))
    if "/v1/models" in request.raw_path:
        return await models(request)
    raise web.HTTPNotFound()


@web.middleware
async def faults_are_the_clients(request, handler):
    try:
        return await handler(request)
    except web.HTTPException:
        raise
    except Exception as error:  # an unreadable request is 400, as in most servers
        return web.json_response({"error": {"message": repr(error)}}, status=400)


async def start(app):
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner.addresses[0][1]


async def main():
    limits = {"client_max_size": 64 << 20, "middlewares": [faults_are_the_clients]}
    router = web.Application(**limits)
    router.router.add_post("/v1/chat/completions", chat)
    router.router.add_post("/v1/completions", completions)
    router.router.add_get("/v1/models", models)
    suffix = web.Application(**limits)
    suffix.router.add_route("*", "/{any:.*}", by_suffix)
    print(json.dumps({"router": await start(router), "suffix": await start(suffix)}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main())
