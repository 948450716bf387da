"""Makes the usual calls of a client library to a gateway.

    clients.py <library>     with BASE_URL, KEY, WRONG_KEY and SPENT_KEY in the environment

Prints a JSON object with "ok" or the error for each call. The model is `sim`; the keys may not use
`closed`. SPENT_KEY has reached its limit.
"""

import asyncio
import json
import os
import sys
import traceback

BASE = os.environ["BASE_URL"]
KEY, WRONG, SPENT = (os.environ[name] for name in ("KEY", "WRONG_KEY", "SPENT_KEY"))
V1 = f"{BASE}/v1"
MODEL = "sim"
# Two models have a server that lists the same names.
PUBLISHED = "publishers/llm/models/sim"
ASK = [{"role": "user", "content": "Hi"}]
WORDS = "a small river"
found = {}


def check(name, call):
    try:
        result = call()
        if asyncio.iscoroutine(result):
            result = asyncio.run(result)
        assert result, f"it answered {result!r}"
        found[name] = "ok"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        found[name] = f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"[:600]


def raises(expected, call):
    try:
        result = call()
        if asyncio.iscoroutine(result):
            asyncio.run(result)
    except expected:
        return True
    except Exception as error:
        chain, causes = error, []
        while chain is not None:
            causes.append(chain)
            chain = chain.__cause__ or chain.__context__
        assert any(isinstance(each, expected) for each in causes), f"{type(error)} {error}"
        return True
    raise AssertionError(f"no {expected.__name__}")


def status_of(call):
    try:
        call()
    except Exception as error:
        return error.status_code


def openai_python():
    import openai

    def client(key=KEY, **more):
        return openai.OpenAI(base_url=V1, api_key=key, **more)

    def chat(key=KEY, model=MODEL, **more):
        return client(key).chat.completions.create(model=model, messages=ASK, **more)

    def streamed():
        text = ""
        for chunk in chat(stream=True):
            text += chunk.choices[0].delta.content or ""
        return WORDS in text

    def usage_asked():
        chunks = list(chat(stream=True, stream_options={"include_usage": True}))
        return chunks[-1].choices == [] and chunks[-1].usage.total_tokens > 0

    def responses_streamed():
        kinds = [each.type for each in client().responses.create(model=MODEL, input="Hi", stream=True)]
        return kinds[0] == "response.created" and kinds[-1] == "response.completed"

    async def asynchronous():
        async with openai.AsyncOpenAI(base_url=V1, api_key=KEY) as other:
            answer = await other.chat.completions.create(model=MODEL, messages=ASK)
            return WORDS in answer.choices[0].message.content

    check("chat", lambda: WORDS in chat().choices[0].message.content)
    check("chat, streamed", streamed)
    check("chat, streamed with usage", usage_asked)
    check("chat, async", asynchronous)
    check("responses", lambda: WORDS in client().responses.create(model=MODEL, input="Hi").output_text)
    check("responses, streamed", responses_streamed)
    check("completions", lambda: client().completions.create(model=MODEL, prompt="Hi").choices[0].text)
    check("embeddings", lambda: client().embeddings.create(model=MODEL, input=["a", "b"]).data[1].embedding)
    check("models.list", lambda: [each.id for each in client().models.list()])
    check("models.retrieve", lambda: client().models.retrieve(PUBLISHED).id == PUBLISHED)
    own = openai.OpenAI(base_url=f"{BASE}/llm/sim/v1", api_key=KEY)
    check("models.retrieve, with a slash", lambda: status_of(lambda: own.models.retrieve("meta-llama/name")) == 404)
    for title, other in (("an empty x-api-key", ""), ("the key twice", KEY)):
        check(title, lambda: [each.id for each in client(default_headers={"x-api-key": other}).models.list()])
    check("401", lambda: raises(openai.AuthenticationError, lambda: chat(WRONG)))
    check("403", lambda: raises(openai.PermissionDeniedError, lambda: chat(model="closed")))
    check("429", lambda: raises(openai.RateLimitError, lambda: chat(SPENT)))
    fails = {"extra_headers": {"x-sim": '{"status":503}'}}
    check("503, tried three times", lambda: raises(openai.InternalServerError, lambda: chat(**fails)))


def anthropic_python():
    import anthropic

    def ask(key=KEY, model=MODEL, **more):
        client = anthropic.Anthropic(base_url=BASE, api_key=key)
        return client.messages.create(model=model, max_tokens=5, messages=ASK, **more)

    def streamed():
        client = anthropic.Anthropic(base_url=BASE, api_key=KEY)
        with client.messages.stream(model=MODEL, max_tokens=5, messages=ASK) as stream:
            return WORDS in "".join(stream.text_stream) and stream.get_final_message().usage.output_tokens == 5

    def by_bearer():
        client = anthropic.Anthropic(base_url=BASE, auth_token=KEY, api_key=None)
        return client.messages.create(model=MODEL, max_tokens=5, messages=ASK).content

    check("messages", lambda: WORDS in ask().content[0].text)
    check("messages, streamed", streamed)
    check("messages, auth_token", by_bearer)
    for title, other in (("an empty x-api-key", ""), ("the key twice", KEY)):
        both = dict(auth_token=KEY, api_key=None, default_headers={"x-api-key": other})
        check(title, lambda: anthropic.Anthropic(base_url=BASE, **both).models.list().data)
    check("401", lambda: raises(anthropic.AuthenticationError, lambda: ask(WRONG)))
    check("404", lambda: raises(anthropic.NotFoundError, lambda: ask(model="closed")))
    check("429", lambda: raises(anthropic.RateLimitError, lambda: ask(SPENT)))
    fails = {"extra_headers": {"x-sim": '{"status":503}'}}
    check("503, tried three times", lambda: raises(anthropic.InternalServerError, lambda: ask(**fails)))


def langchain():
    import anthropic
    import openai
    from langchain_anthropic import ChatAnthropic
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    def chat(key=KEY, model=MODEL, **more):
        return ChatOpenAI(base_url=V1, api_key=key, model=model, **more)

    def claude(key=KEY, model=MODEL):
        return ChatAnthropic(base_url=BASE, api_key=key, model=model, max_tokens=5)

    def streamed(of):
        chunks = list(of.stream("Hi"))
        return "small" in "".join(str(each.content) for each in chunks)

    def usage():
        return chat().invoke("Hi").usage_metadata["total_tokens"] > 0

    def embeddings():
        of = OpenAIEmbeddings(base_url=V1, api_key=KEY, model=MODEL, check_embedding_ctx_length=False)
        return of.embed_documents(["a", "b"])[1]

    check("ChatOpenAI", lambda: WORDS in chat().invoke("Hi").content)
    check("ChatOpenAI, usage", usage)
    check("ChatOpenAI, streamed", lambda: streamed(chat()))
    check("ChatOpenAI, responses", lambda: chat(use_responses_api=True).invoke("Hi").content)
    check("ChatAnthropic", lambda: "small" in str(claude().invoke("Hi").content))
    check("ChatAnthropic, streamed", lambda: streamed(claude()))
    check("OpenAIEmbeddings", embeddings)
    check("401", lambda: raises(openai.AuthenticationError, lambda: chat(WRONG).invoke("Hi")))
    check("403", lambda: raises(openai.PermissionDeniedError, lambda: chat(model="closed").invoke("Hi")))
    check("429", lambda: raises(openai.RateLimitError, lambda: chat(SPENT).invoke("Hi")))
    check("429, ChatAnthropic", lambda: raises(anthropic.RateLimitError, lambda: claude(SPENT).invoke("Hi")))


def llama_index():
    import openai
    from llama_index.core.llms import ChatMessage
    from llama_index.embeddings.openai_like import OpenAILikeEmbedding
    from llama_index.llms.openai_like import OpenAILike

    def like(key=KEY, model=MODEL):
        return OpenAILike(api_base=V1, api_key=key, model=model, is_chat_model=True, max_retries=1)

    def chat(**more):
        return like(**more).chat([ChatMessage(role="user", content="Hi")])

    def embeddings():
        return OpenAILikeEmbedding(api_base=V1, api_key=KEY, model_name=MODEL).get_text_embedding("a")

    check("chat", lambda: WORDS in str(chat().message.content))
    check("chat, streamed", lambda: WORDS in "".join(each.delta or "" for each in like().stream_complete("Hi")))
    check("embeddings", embeddings)
    check("401", lambda: raises(openai.AuthenticationError, lambda: chat(key=WRONG)))
    check("403", lambda: raises(openai.PermissionDeniedError, lambda: chat(model="closed")))
    check("429", lambda: raises(openai.RateLimitError, lambda: chat(key=SPENT)))


def pydantic_ai():
    from pydantic_ai import Agent, ModelHTTPError
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    def agent(kind=OpenAIChatModel, key=KEY, model=MODEL):
        return Agent(kind(model, provider=OpenAIProvider(base_url=V1, api_key=key)))

    def claude():
        return Agent(AnthropicModel(MODEL, provider=AnthropicProvider(base_url=BASE, api_key=KEY)))

    async def streamed(of):
        async with of.run_stream("Hi") as result:
            return WORDS in await result.get_output()

    def by_environment():
        os.environ.update(OPENAI_BASE_URL=V1, OPENAI_API_KEY=KEY)
        return WORDS in Agent(f"openai:{MODEL}").run_sync("Hi").output

    def refused(status, **how):
        try:
            agent(**how).run_sync("Hi")
        except ModelHTTPError as error:
            return error.status_code == status

    check("chat", lambda: WORDS in agent().run_sync("Hi").output)
    check("chat, streamed", lambda: streamed(agent()))
    check("responses", lambda: WORDS in agent(OpenAIResponsesModel).run_sync("Hi").output)
    check("responses, streamed", lambda: streamed(agent(OpenAIResponsesModel)))
    check("openai:<model>", by_environment)
    check("anthropic", lambda: WORDS in claude().run_sync("Hi").output)
    check("anthropic, streamed", lambda: streamed(claude()))
    check("401", lambda: refused(401, key=WRONG))
    check("403", lambda: refused(403, model="closed"))
    check("429", lambda: refused(429, key=SPENT))


def openai_agents():
    import openai
    from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, set_tracing_disabled

    # Otherwise traces are sent to api.openai.com, with any key that is set.
    set_tracing_disabled(True)

    def agent(kind=OpenAIResponsesModel, key=KEY, model=MODEL):
        client = openai.AsyncOpenAI(base_url=V1, api_key=key)
        return Agent(name="a", instructions="Be brief", model=kind(model=model, openai_client=client))

    async def run(*how, **more):
        return WORDS in (await Runner.run(agent(*how, **more), "Hi")).final_output

    async def streamed(*how):
        result = Runner.run_streamed(agent(*how), "Hi")
        kinds = [each.type async for each in result.stream_events()]
        return kinds and WORDS in result.final_output

    check("responses", run)
    check("responses, streamed", streamed)
    check("chat", lambda: run(OpenAIChatCompletionsModel))
    check("chat, streamed", lambda: streamed(OpenAIChatCompletionsModel))
    check("401", lambda: raises(openai.AuthenticationError, lambda: run(key=WRONG)))
    check("403", lambda: raises(openai.PermissionDeniedError, lambda: run(model="closed")))
    check("429", lambda: raises(openai.RateLimitError, lambda: run(key=SPENT)))


def litellm_client():
    import litellm

    litellm.suppress_debug_info = True

    def chat(key=KEY, model=MODEL, **more):
        return litellm.completion(
            model=f"openai/{model}", api_base=V1, api_key=key, messages=ASK, num_retries=0, **more
        )

    def claude(**more):
        return litellm.completion(
            model=f"anthropic/{MODEL}", api_base=BASE, api_key=KEY, messages=ASK, max_tokens=5, **more
        )

    def text(stream):
        return "".join(each.choices[0].delta.content or "" for each in stream)

    def embeddings():
        return litellm.embedding(
            model=f"openai/{MODEL}", api_base=V1, api_key=KEY, input=["a"], encoding_format="float"
        ).data

    def responses():
        return litellm.responses(model=f"openai/{MODEL}", api_base=V1, api_key=KEY, input="Hi").output

    check("chat", lambda: WORDS in chat().choices[0].message.content)
    check("chat, streamed", lambda: WORDS in text(chat(stream=True)))
    check("responses", responses)
    check("anthropic", lambda: WORDS in claude().choices[0].message.content)
    check("anthropic, streamed", lambda: WORDS in text(claude(stream=True)))
    check("embeddings", embeddings)
    check("401", lambda: raises(litellm.AuthenticationError, lambda: chat(WRONG)))
    # Its own class for 403 is used only for providers other than `openai/`.
    check("403", lambda: status_of(lambda: chat(model="closed")) == 403)
    check("429", lambda: raises(litellm.RateLimitError, lambda: chat(SPENT)))


{
    "openai": openai_python,
    "anthropic": anthropic_python,
    "langchain": langchain,
    "llama-index": llama_index,
    "pydantic-ai": pydantic_ai,
    "openai-agents": openai_agents,
    "litellm": litellm_client,
}[sys.argv[1]]()
print(json.dumps(found))
