//! A worker of a Trunkline server: it takes calls from a stream, runs their handlers, and brings the answers back,
//! whatever happens to connections and servers. docs/protocol.md, "Being a worker", is what it follows; the numbers
//! in comments are the steps there.

mod backoff;
mod call;
mod outbox;
mod session;
mod stream;
mod worker;

pub use call::{Call, Error, ToolError, typed};
pub use worker::Worker;

/// The stubs, which build.rs makes.
#[allow(dead_code, clippy::all)]
mod pb {
    tonic::include_proto!("trunkline.v1");
}
