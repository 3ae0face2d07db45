//! A worker with the tools that `npx trunkline conformance` calls: start from it, and put yours in their place.

mod trunkline;

use std::env;
use std::io::stderr;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::signal::{ctrl_c, unix};
use trunkline::{Call, Error, ToolError, Worker, typed};

async fn echo(call: Call) -> Result<String, Error> {
    Ok(call.claim.input_json.clone()) // never parsed, so that no digit is lost
}

async fn fail(_: Call, input: ToolError) -> Result<(), Error> {
    Err(input.into())
}

async fn crash(_: Call, input: ToolError) -> Result<(), Error> {
    panic!("{}", input.message)
}

#[derive(Deserialize)]
struct Sleep {
    ms: f64,
}

async fn sleep(call: Call, input: Sleep) -> Result<Value, Error> {
    tokio::select! {
        () = tokio::time::sleep(Duration::try_from_secs_f64(input.ms / 1000.0)?) => Ok(json!({"slept": true})),
        () = call.lost() => {
            println!("stopped {}", call.claim.call_id);
            Err("the claim was lost".into())
        }
    }
}

#[derive(Deserialize)]
struct Defer {
    timeout_ms: u64,
}

async fn defer(call: Call, input: Defer) -> Result<(), Error> {
    let token = call.new_token(); // a real tool stores it here, before anything can go wrong
    let timeout = Duration::from_millis(input.timeout_ms);
    call.defer(&token, (!timeout.is_zero()).then_some(timeout)).await?;
    println!("token {token}"); // and publishes it here, where it is good
    Ok(())
}

#[derive(Deserialize)]
struct Big {
    bytes: usize,
}

async fn big(_: Call, input: Big) -> Result<String, Error> {
    Ok("x".repeat(input.bytes))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt().with_writer(stderr).init();
    let mut worker = Worker {
        url: setting("TRUNKLINE_URL", "http://127.0.0.1:7788"),
        key: setting("TRUNKLINE_KEY", ""),
        name: setting("TRUNKLINE_WORKER", "rust"),
        slots: setting("TRUNKLINE_CONCURRENCY", "10").parse()?,
        tools: Default::default(),
    }
    .tool("echo", echo)
    .tool("fail", typed(fail))
    .tool("crash", typed(crash))
    .tool("sleep", typed(sleep))
    .tool("defer", typed(defer))
    .tool("big", typed(big));
    for handler in worker.tools.values_mut() {
        let inner = Arc::clone(handler);
        *handler = Arc::new(move |call| {
            println!("started {} {}", call.claim.call_id, call.claim.attempt);
            inner(call)
        });
    }
    let mut terminate = unix::signal(unix::SignalKind::terminate())?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = ctrl_c() => {}
        }
    };
    worker.run(stop).await
}

fn setting(name: &str, otherwise: &str) -> String {
    env::var(name).ok().filter(|value| !value.is_empty()).unwrap_or_else(|| otherwise.to_owned())
}
