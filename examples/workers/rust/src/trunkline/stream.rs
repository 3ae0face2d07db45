//! One `Work` stream, on a connection of its own.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use hyper::rt::Executor;
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::pb::worker_service_client::WorkerServiceClient;
use super::pb::{WorkRequest, WorkResponse};
use super::session::{Next, StreamId};
use super::worker::Shared;

/// The largest frame that either side sends.
const MAX_FRAME: usize = 4 << 20;
/// How long a stream may take from its opening to its welcome.
const WELCOME_WITHIN: Duration = Duration::from_secs(10);
/// How long after its deadline a stream is left that said goaway and did not end.
const GOAWAY_SLACK: Duration = Duration::from_secs(5);
const DEFAULT_INTERVAL: Duration = Duration::from_secs(5);

/// Talks until the stream ends, and closes its connection.
pub async fn run(shared: Arc<Shared>, id: StreamId) {
    let connection = CancellationToken::new();
    let end = talk(&shared, id, Connection(connection.clone())).await;
    connection.cancel();
    let why = end.err().unwrap_or_else(|| Status::unavailable("the server has ended the stream"));
    shared.update(|session| session.ended(id, why));
}

/// Runs the tasks of one connection until that is cancelled. By itself a connection that has more to send than its
/// socket takes would outlive its requests, for as long as the other side is silent (8).
struct Connection(CancellationToken);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Connection {
    fn execute(&self, task: F) {
        tokio::spawn(self.0.clone().run_until_cancelled_owned(task));
    }
}

async fn talk(shared: &Arc<Shared>, id: StreamId, connection: Connection) -> Result<(), Status> {
    // A connection for each stream, so that one that is dead, or whose server leaves, carries nothing new (8, 9).
    let connecting = shared.endpoint.clone().executor(connection);
    let no_connection = |_| Status::unavailable("no connection in time");
    let connected = timeout(WELCOME_WITHIN, connecting.connect()).await.map_err(no_connection)?;
    let channel = connected.map_err(|error| Status::from_error(error.into()))?;
    let mut client = WorkerServiceClient::new(channel).max_decoding_message_size(MAX_FRAME);
    let (frames, outgoing) = mpsc::channel(1);
    let mut request = Request::new(ReceiverStream::new(outgoing));
    if let Some(authorization) = &shared.authorization {
        request.metadata_mut().insert("authorization", authorization.clone());
    }
    tokio::select! {
        end = read(shared, id, client.work(request)) => end,
        end = write(shared, id, frames) => end,
    }
}

/// Sends whatever is ready, frame by frame; more gathers while there is no room for another. How the stream ends is
/// for `read` to see.
async fn write(shared: &Arc<Shared>, id: StreamId, frames: mpsc::Sender<WorkRequest>) -> Result<(), Status> {
    let wake = shared.with(|session| session.wake(id));
    while let Ok(room) = frames.reserve().await {
        // Sent under the lock: when a handler starts, its acceptance is on its way (2).
        let idle = shared.with(|session| match session.next(id) {
            Next::Frame(frame) => {
                room.send(*frame);
                Some(false)
            }
            Next::Nothing => Some(true),
            Next::Close => None,
        });
        match idle {
            Some(false) => {}
            Some(true) => wake.notified().await,
            None => break,
        }
    }
    drop(frames);
    pending().await
}

/// Does what the frames say, makes a heartbeat due in every interval, and gives up on a connection on which nothing
/// was heard for three.
async fn read<F>(shared: &Arc<Shared>, id: StreamId, work: F) -> Result<(), Status>
where
    F: Future<Output = Result<Response<Streaming<WorkResponse>>, Status>>,
{
    let no_welcome = || Status::unavailable("the server gave no welcome");
    let mut frames = timeout(WELCOME_WITHIN, work).await.map_err(|_| no_welcome())??.into_inner();
    let mut ticks = every(WELCOME_WITHIN);
    let (mut welcomed, mut silent, mut overdue) = (false, 0, None);
    loop {
        tokio::select! {
            frame = frames.message() => {
                let Some(frame) = frame? else { return Ok(()) };
                if let Some(welcome) = frame.welcome.as_ref().filter(|_| !welcomed) {
                    welcomed = true;
                    ticks = every(duration(welcome.heartbeat_interval).unwrap_or(DEFAULT_INTERVAL));
                }
                if let Some(goaway) = &frame.goaway {
                    let deadline = duration(goaway.deadline).unwrap_or_default();
                    overdue = Some(Instant::now() + deadline + GOAWAY_SLACK);
                }
                shared.update(|session| session.apply(id, frame));
            }
            _ = ticks.tick() => {
                if !welcomed {
                    return Err(no_welcome());
                }
                silent = if shared.update(|session| session.beat(id)) { 0 } else { silent + 1 };
                if silent == 3 {
                    return Err(Status::unavailable("the server was silent for three heartbeat intervals"));
                }
            }
            () = until(overdue) => {
                return Err(Status::unavailable("the server said goaway and did not end the stream"));
            }
        }
    }
}

/// Ticks are counted, not time: a process that stood still itself has had no chance to hear anything.
fn every(interval: Duration) -> Interval {
    let mut ticks = interval_at(Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn duration(given: Option<prost_types::Duration>) -> Option<Duration> {
    given?.try_into().ok().filter(|duration: &Duration| !duration.is_zero())
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
