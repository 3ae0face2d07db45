//! `Worker::run`: a stream after the other, for ever.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tonic::Code;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{ClientTlsConfig, Endpoint};
use tracing::warn;

use super::backoff::Backoff;
use super::call::{self, Call, Error, Handler};
use super::session::{Left, Session};
use super::stream;

/// A stream that asked to be replaced this soon is replaced with a pause, or both sides would go round in circles.
const YOUNG: Duration = Duration::from_secs(1);

/// Says which tools to run, and for which server.
pub struct Worker {
    /// `http://HOST:PORT`, or `https://`.
    pub url: String,
    /// Sent as a bearer token; empty for a server without keys.
    pub key: String,
    /// For people.
    pub name: String,
    /// How many handlers run at once, 1 to 10,000.
    pub slots: u32,
    pub tools: BTreeMap<String, Handler>,
}

/// What streams and handlers share.
pub struct Shared {
    pub tools: BTreeMap<String, Handler>,
    pub endpoint: Endpoint,
    pub authorization: Option<AsciiMetadataValue>,
    session: Mutex<Session>,
    done: CancellationToken,
}

impl Worker {
    /// Adds a tool.
    pub fn tool<F, Fut>(mut self, name: &str, handler: F) -> Self
    where
        F: Fn(Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, Error>> + Send + 'static,
    {
        self.tools.insert(name.to_owned(), Arc::new(move |call| Box::pin(handler(call))));
        self
    }

    /// Works until `stop` returns. Then it takes no further call, hands back what has not started, finishes what
    /// runs, delivers the answers however long that takes, and returns. It returns an error when the server refuses
    /// the key; everything else is waited out.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        if !(1..=10_000).contains(&self.slots) {
            return Err(format!("slots is {}; allowed are 1 to 10,000", self.slots).into());
        }
        let mut endpoint = Endpoint::from_shared(self.url.clone())?;
        if self.url.starts_with("https:") {
            endpoint = endpoint.tls_config(ClientTlsConfig::new().with_native_roots())?;
        }
        let authorization = match self.key.as_str() {
            "" => None,
            key => Some(format!("Bearer {key}").parse()?),
        };
        let tools = self.tools.keys().cloned().collect();
        let shared = Arc::new(Shared {
            tools: self.tools,
            endpoint,
            authorization,
            session: Mutex::new(Session::new(self.name, tools, self.slots)),
            done: CancellationToken::new(),
        });
        let drain = async {
            stop.await;
            shared.update(Session::drain);
            pending().await
        };
        tokio::select! {
            end = keep_a_stream(&shared) => end,
            end = drain => end,
        }
    }
}

async fn keep_a_stream(shared: &Arc<Shared>) -> Result<(), Error> {
    let mut retry = Backoff::default();
    loop {
        let opened = Instant::now();
        let left = shared.open().await?;
        if matches!(left.why.code(), Code::Unauthenticated | Code::PermissionDenied) {
            return Err(format!("the server refuses the key: {}", left.why.message()).into());
        }
        if left.welcomed {
            retry = Backoff::default();
        }
        if shared.done.is_cancelled() {
            return Ok(());
        }
        if left.replaced && opened.elapsed() > YOUNG {
            continue;
        }
        let pause = retry.next(Instant::now());
        warn!("no stream ({}); next try in {pause:?}", left.why.message());
        tokio::select! {
            () = sleep(pause) => {}
            () = shared.done.cancelled() => return Ok(()),
        }
    }
}

impl Shared {
    /// Opens a stream; what is returned comes when the next one is wanted.
    fn open(self: &Arc<Self>) -> oneshot::Receiver<Left> {
        let (leave, left) = oneshot::channel();
        let id = self.update(|session| session.open(leave));
        tokio::spawn(stream::run(Arc::clone(self), id));
        left
    }

    /// Makes a change, and lets the writers look for something to send.
    pub fn update<T>(self: &Arc<Self>, change: impl FnOnce(&mut Session) -> T) -> T {
        self.with(|session| {
            let value = change(session);
            if session.settle() {
                self.done.cancel();
            }
            value
        })
    }

    /// Has the session for itself, then starts the handlers that may start now.
    pub fn with<T>(self: &Arc<Self>, work: impl FnOnce(&mut Session) -> T) -> T {
        let mut session = self.session.lock().expect("no handler runs under the lock");
        let value = work(&mut session);
        let startable = std::mem::take(&mut session.startable);
        drop(session);
        for start in startable {
            tokio::spawn(call::run(Arc::clone(self), start));
        }
        value
    }
}
