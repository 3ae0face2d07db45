//! What a handler sees, and what becomes of what it returns.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::pb::{self, FailureKind, answer::Outcome};
use super::session::Start;
use super::worker::Shared;

/// The server cuts a failure's message here.
const MAX_MESSAGE: usize = 8 << 10;
/// And refuses a failure with more data.
const MAX_DATA: usize = 64 << 10;
/// How deep the server lets input nest. serde_json's own limit is 128, and one that it cannot be told.
const MAX_DEPTH: usize = 256;

/// A `ToolError` in it reaches the caller as it says; any other error, and a panic, as a failure of kind EXCEPTION.
pub type Error = Box<dyn StdError + Send + Sync>;

/// The result is JSON text, which the caller reads digit for digit.
pub type Handling = Pin<Box<dyn Future<Output = Result<String, Error>> + Send>>;

pub type Handler = Arc<dyn Fn(Call) -> Handling + Send + Sync>;

/// A failure that is meant for the caller.
#[derive(Debug, Default, Deserialize)]
pub struct ToolError {
    pub message: String,
    /// More, if there is more.
    pub data: Option<Box<RawValue>>,
    /// Whether another attempt makes sense.
    #[serde(default)]
    pub retryable: bool,
}

impl ToolError {
    fn data_size(&self) -> usize {
        self.data.as_ref().map_or(0, |data| data.get().len())
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for ToolError {}

/// Gives a handler its input as a Rust value, and sends what it returns as JSON.
pub fn typed<In, Out, F, Fut>(handler: F) -> impl Fn(Call) -> Handling + Send + Sync
where
    In: DeserializeOwned + Send + 'static,
    Out: Serialize,
    F: Fn(Call, In) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Out, Error>> + Send + 'static,
{
    move |call| match parsed(&call.claim.input_json) {
        Ok(input) => {
            let handling = handler(call, input);
            Box::pin(async { Ok(serde_json::to_string(&handling.await?)?) })
        }
        Err(error) => {
            let message = format!("input: {error}");
            Box::pin(async { Err(ToolError { message, ..Default::default() }.into()) })
        }
    }
}

fn parsed<In: DeserializeOwned>(json: &str) -> serde_json::Result<In> {
    let depth = depth(json);
    if depth > MAX_DEPTH {
        return Err(serde::de::Error::custom(format!("it nests {depth} deep; allowed are {MAX_DEPTH}")));
    }
    let mut parser = serde_json::Deserializer::from_str(json);
    parser.disable_recursion_limit();
    let input = In::deserialize(&mut parser)?;
    parser.end()?;
    Ok(input)
}

/// How deep JSON text nests. A parser that tried it would fill the stack, and that is the end of the process.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => depth += 1,
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// What a handler works on. `claim.call_id` is the same on every attempt: pass it on as the idempotency key to
/// whatever must not happen twice.
#[derive(Clone)]
pub struct Call {
    pub claim: Arc<pb::Claim>,
    lost: CancellationToken,
    shared: Arc<Shared>,
}

impl Call {
    /// Returns when the claim is lost: then the handler should stop, and what it returns does not count. A time limit
    /// of the call does not end it from here: the server knows whether that is worth another attempt.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Makes a token with which whoever has it may answer the call later. Store it before `defer`, publish it after:
    /// until the deferral is stored it is refused.
    pub fn new_token(&self) -> String {
        let secret = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>());
        format!("{}.{}.{secret}", self.claim.call_id, self.claim.attempt)
    }

    /// Hands the call over for a token of `new_token`, and returns when that is stored: the handler ends then, and
    /// what it returns is no answer. When it is refused, the handler still has to answer. Without a timeout it is
    /// that of the call's policy.
    pub async fn defer(&self, token: &str, timeout: Option<Duration>) -> Result<(), Error> {
        let secret = token.rsplit('.').next().unwrap_or_default();
        let deferral = pb::Deferral {
            claim_id: self.claim.claim_id.clone(),
            call_id: self.claim.call_id.clone(),
            secret: secret.to_owned(),
            timeout: timeout.map(prost_types::Duration::try_from).transpose()?,
        };
        let (stored, ack) = oneshot::channel();
        self.shared.update(|session| session.defer(&self.claim, deferral, stored));
        // Nobody is left to tell when the claim was lost.
        ack.await.unwrap_or_else(|_| Err("the claim was lost".into()))
    }
}

/// Runs the handler of a claim, answers, and frees its slot.
pub async fn run(shared: Arc<Shared>, start: Start) {
    let Start { claim, lost } = start;
    let handler = Arc::clone(&shared.tools[&claim.tool]);
    let call = Call { claim: Arc::clone(&claim), lost, shared: Arc::clone(&shared) };
    // A task of its own, which a panic ends alone.
    let result = match tokio::spawn(async move { handler(call).await }).await {
        Ok(result) => result,
        Err(ended) => Err(match ended.try_into_panic() {
            Ok(panic) => format!("panic: {}", panic_text(&*panic)).into(),
            Err(ended) => ended.into(),
        }),
    };
    shared.update(|session| {
        let answer = pb::Answer {
            claim_id: claim.claim_id.clone(),
            call_id: claim.call_id.clone(),
            outcome: Some(outcome(result, session.max_result)),
        };
        session.finish(&claim, answer);
    });
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("of no text")
}

/// Says how a handler ended. What is too large would be refused with its whole frame.
fn outcome(result: Result<String, Error>, limit: usize) -> Outcome {
    let error = match result {
        Ok(json) if json.len() <= limit => return Outcome::ResultJson(json),
        Ok(json) => {
            let message = format!("the result has {} bytes; allowed are {limit}", json.len());
            return failure(FailureKind::Oversized, &message, None, false);
        }
        Err(error) => error,
    };
    match error.downcast::<ToolError>() {
        Ok(tool) if tool.data_size() > MAX_DATA => {
            let (size, said) = (tool.data_size(), &tool.message);
            let message = format!(
                "the failure's data has {size} bytes; allowed are {MAX_DATA} (of the failure: {said})"
            );
            failure(FailureKind::Oversized, &message, None, tool.retryable)
        }
        Ok(tool) => failure(FailureKind::Tool, &tool.message, tool.data, tool.retryable),
        Err(error) => failure(FailureKind::Exception, &error.to_string(), None, false),
    }
}

fn failure(kind: FailureKind, message: &str, data: Option<Box<RawValue>>, retryable: bool) -> Outcome {
    Outcome::Failure(pb::Failure {
        kind: kind.into(),
        message: message[..message.floor_char_boundary(MAX_MESSAGE)].to_owned(),
        data_json: data.map(|data| data.get().to_owned()).unwrap_or_default(),
        retryable,
        outcome_unknown: false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn nested(depth: usize) -> String {
        "[".repeat(depth) + &"]".repeat(depth)
    }

    #[test]
    fn input_is_read_as_deep_as_the_server_lets_it_through() {
        assert_eq!(parsed::<Value>(&nested(MAX_DEPTH)).unwrap().to_string(), nested(MAX_DEPTH));
    }

    #[test]
    fn input_that_would_fill_the_stack_is_an_error() {
        let error = parsed::<Value>(&nested(100_000)).unwrap_err();
        assert_eq!(error.to_string(), "it nests 100000 deep; allowed are 256");
    }

    #[test]
    fn brackets_in_strings_are_no_nesting() {
        assert_eq!(depth(r#"{"a\\":"[[[\"[[","b":[{}]}"#), 3);
    }
}
