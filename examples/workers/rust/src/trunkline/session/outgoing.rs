//! What the streams have to send, and the frames that it is sent in.

use std::collections::{HashSet, VecDeque};
use std::mem::take;
use std::sync::Arc;

use prost::Message;
use tokio::sync::{Notify, oneshot};
use tonic::Status;

use super::{Session, Word, pb};

/// A frame is closed at this size, unless one item is larger.
pub const FULL_FRAME: usize = 256 << 10;
/// The tag and the length of an item.
const TAG: usize = 5;

pub type StreamId = u64;

/// Why the next stream is wanted.
pub struct Left {
    pub welcomed: bool,
    /// The server said goaway.
    pub replaced: bool,
    pub why: Status,
}

/// What a stream is to send.
pub enum Next {
    Frame(Box<pb::WorkRequest>),
    Nothing,
    Close,
}

/// What a stream has to send, and what was heard on it.
#[derive(Default)]
pub struct Stream {
    pub queue: VecDeque<Item>,
    /// Claims that its hello named; none before it was made.
    pub named: Option<HashSet<String>>,
    pub grant: u32,
    pub welcomed: bool,
    pub beat_due: bool,
    pub drain_due: bool,
    pub drained: bool,
    pub closing: bool,
    pub heard: bool,
    pub replaced: bool,
    pub leave: Option<oneshot::Sender<Left>>,
    pub wake: Arc<Notify>,
}

/// Something to say about a claim, by its id: what it is then, if it still is, goes into the frame.
pub enum Item {
    Acceptance(String),
    Word(String),
}

impl Stream {
    pub fn leave(&mut self, why: Status) {
        if let Some(leave) = self.leave.take() {
            // Nobody waits for it once the worker has ended.
            let _ = leave.send(Left { welcomed: self.welcomed, replaced: self.replaced, why });
        }
    }
}

impl Session {
    /// Makes the next frame of a stream.
    pub fn next(&mut self, id: StreamId) -> Next {
        let Some(mut stream) = self.streams.remove(&id) else { return Next::Close };
        let next = if stream.named.is_none() {
            let hello = Some(self.hello(&mut stream));
            Next::Frame(Box::new(pb::WorkRequest { hello, ..Default::default() }))
        } else {
            let mut frame = pb::WorkRequest { grant: take(&mut stream.grant), ..Default::default() };
            if stream.welcomed {
                self.fill(&mut stream, &mut frame); // until then grants only (1)
            }
            match frame.encoded_len() {
                0 if stream.closing => Next::Close,
                0 => Next::Nothing,
                _ => Next::Frame(Box::new(frame)),
            }
        };
        self.streams.insert(id, stream);
        next
    }

    /// Says who is here and what it holds, at the moment when it is sent (1).
    fn hello(&mut self, stream: &mut Stream) -> pb::Hello {
        stream.named = Some(self.held.keys().cloned().collect());
        self.who.number += 1;
        let claims = self.held.values().map(|held| pb::HeldClaim {
            call_id: held.claim.call_id.clone(),
            claim_id: held.claim.claim_id.clone(),
        });
        let slots = if self.draining { 0 } else { u32::try_from(self.free).unwrap_or(0) };
        pb::Hello { slots, claims: claims.collect(), ..self.who.clone() }
    }

    /// Moves what is ready into a frame, up to its size.
    fn fill(&mut self, stream: &mut Stream, frame: &mut pb::WorkRequest) {
        let mut size = 0;
        if take(&mut stream.beat_due) {
            let claims = self.held.keys().cloned().collect();
            let heartbeat = pb::Heartbeat { claims, progress: Vec::new() };
            size = heartbeat.encoded_len() + TAG;
            frame.heartbeat = Some(heartbeat);
        }
        while let Some(item) = stream.queue.front() {
            let item_size = match item {
                Item::Acceptance(claim_id) => claim_id.len(),
                Item::Word(claim_id) => self.outbox.get(claim_id).map_or(0, Word::size),
            };
            size += TAG + item_size;
            if size > FULL_FRAME && frame.encoded_len() > 0 {
                return;
            }
            match stream.queue.pop_front() {
                Some(Item::Word(claim_id)) => {
                    if let Some(word) = self.outbox.get(&claim_id) {
                        word.put(frame);
                    }
                }
                Some(Item::Acceptance(claim_id))
                    if self.held.get(&claim_id).is_some_and(|held| !held.over) =>
                {
                    self.accepted(&claim_id);
                    frame.accepted.push(claim_id);
                }
                _ => {} // what was acknowledged or lost in the meantime need not be said
            }
        }
        if take(&mut stream.drain_due) {
            frame.drain = Some(pb::Drain {}); // what was to be said before it has been
        }
    }
}
