//! Makes the usual calls of async-openai to a gateway, with BASE_URL, KEY and WRONG_KEY in the environment, and prints
//! a JSON object with "ok" or the error for each call. The model is `sim`; the keys may not use `closed`. A used-up
//! limit is left out: the library repeats a 429 when `retry-after` has passed.

use async_openai::{Client, config::OpenAIConfig, error::OpenAIError};
use futures::StreamExt;
use serde_json::{Map, Value, json};

fn client(key: &str) -> Client<OpenAIConfig> {
    let base = std::env::var("BASE_URL").unwrap();
    let key = std::env::var(key).unwrap();
    Client::with_config(OpenAIConfig::new().with_api_base(format!("{base}/v1")).with_api_key(key))
}

fn chat(model: &str, stream: bool) -> Value {
    json!({ "model": model, "stream": stream, "messages": [{ "role": "user", "content": "Hi" }] })
}

/// "ok" if the pointer leads to something in the answer.
fn holds(answer: Result<Value, OpenAIError>, pointer: &str) -> String {
    match answer {
        Ok(value) if value.pointer(pointer).is_some() => "ok".into(),
        Ok(value) => value.to_string(),
        Err(error) => error.to_string(),
    }
}

async fn streamed() -> String {
    let chats = client("KEY");
    let mut stream = match chats.chat().create_stream_byot::<_, Value>(chat("sim", true)).await {
        Ok(stream) => stream,
        Err(error) => return error.to_string(),
    };
    let mut said = String::new();
    while let Some(chunk) = stream.next().await {
        match chunk {
            Ok(chunk) => said += chunk.pointer("/choices/0/delta/content").and_then(Value::as_str).unwrap_or(""),
            Err(error) => return error.to_string(),
        }
    }
    if said.is_empty() { "the stream has no text".into() } else { "ok".into() }
}

/// "ok" if the library reads the message of the refusal.
async fn refused(key: &str, model: &str, message: &str) -> String {
    let answer: Result<Value, _> = client(key).chat().create_byot(chat(model, false)).await;
    match answer {
        Ok(value) => value.to_string(),
        Err(error) if error.to_string().contains(message) => "ok".into(),
        Err(error) => error.to_string(),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let own = client("KEY");
    let mut found = Map::new();
    let mut check = |name: &str, result: String| found.insert(name.into(), result.into());
    check("chat", holds(own.chat().create_byot(chat("sim", false)).await, "/usage/total_tokens"));
    check("chat, streamed", streamed().await);
    let asked = json!({ "model": "sim", "input": "Hi" });
    check("responses", holds(own.responses().create_byot(&asked).await, "/usage/total_tokens"));
    check("embeddings", holds(own.embeddings().create_byot(&asked).await, "/data/0"));
    check("models", holds(own.models().list_byot().await, "/data/0/id"));
    check("wrong key", refused("WRONG_KEY", "sim", "credential").await);
    check("closed model", refused("KEY", "closed", "closed").await);
    println!("{}", Value::Object(found));
}
