//! Makes the stubs from the protocol's definitions, in Rust alone: there need be no `protoc`.

use std::error::Error;

/// In a copy of this folder, name your copy of `proto/`.
const PROTO: &str = "../../../proto";
const WORKER: &str = "trunkline/v1/worker.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let definitions = protox::compile([WORKER], [PROTO])?;
    tonic_prost_build::configure().build_server(false).build_transport(false).compile_fds(definitions)?;
    Ok(())
}
