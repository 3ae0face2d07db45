//! This process as the server knows it, across streams: the claims it holds, its slots, and what it has to say.
//! Nothing here waits or sends; streams and handlers have it in turn.

mod outgoing;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::mem::take;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tracing::{info, warn};

use super::call::Error;
use super::outbox::{Outbox, Word};
use super::pb::{self, RevokeReason, claim_verdict::Standing};
use outgoing::{Item, Stream};
pub use outgoing::{Left, Next, StreamId};

/// A handler that is to start.
pub struct Start {
    pub claim: Arc<pb::Claim>,
    pub lost: CancellationToken,
}

pub struct Session {
    /// In bytes, as the server announced it.
    pub max_result: usize,
    /// Whose handlers may start: the one who has the session starts them after.
    pub startable: Vec<Start>,
    /// What every hello has.
    who: pb::Hello,
    slots: i64,
    free: i64,
    /// By claim id, until the ack of what became of them.
    held: HashMap<String, Held>,
    outbox: Outbox,
    draining: bool,
    streams: HashMap<StreamId, Stream>,
    last: StreamId,
    /// The one opened last, unless it has ended or said goaway.
    newest: Option<StreamId>,
    /// The last that was welcomed, unless it has ended.
    active: Option<StreamId>,
}

/// A claim from its receipt to the ack of what became of it.
struct Held {
    claim: Arc<pb::Claim>,
    /// The server was told of its acceptance.
    told: bool,
    /// The acceptance of a `confirm` claim is stored.
    confirmed: bool,
    started: bool,
    /// Its handler has ended, or will never start.
    over: bool,
    lost: CancellationToken,
    /// Where to say what became of its deferral.
    deferred: Option<oneshot::Sender<Result<(), Error>>>,
}

impl Session {
    pub fn new(worker: String, tools: Vec<String>, slots: u32) -> Self {
        let random = || URL_SAFE_NO_PAD.encode(rand::random::<[u8; 24]>());
        let (session_id, nonce, sdk) = (random(), random(), "trunkline-example-rust".to_owned());
        let who = pb::Hello { session_id, nonce, worker, sdk, tools, ..Default::default() };
        Session {
            max_result: 1 << 20,
            startable: Vec::new(),
            who,
            slots: slots.into(),
            free: slots.into(),
            held: HashMap::new(),
            outbox: Outbox::default(),
            draining: false,
            streams: HashMap::new(),
            last: 0,
            newest: None,
            active: None,
        }
    }

    pub fn open(&mut self, leave: oneshot::Sender<Left>) -> StreamId {
        self.last += 1;
        self.newest = Some(self.last);
        self.streams.insert(self.last, Stream { leave: Some(leave), ..Default::default() });
        self.last
    }

    pub fn wake(&self, id: StreamId) -> Arc<Notify> {
        Arc::clone(&self.streams[&id].wake)
    }

    /// Lets every stream look for something to send, or to end; true when all is done.
    pub fn settle(&mut self) -> bool {
        let mut done = false;
        if self.draining && self.held.is_empty() && self.free == self.slots {
            match self.active() {
                Some(active) => active.closing = active.drained,
                None => done = self.newest.is_none(), // nothing is left to say, and nobody listens
            }
        }
        for stream in self.streams.values() {
            stream.wake.notify_one();
        }
        done
    }

    pub fn ended(&mut self, id: StreamId, why: Status) {
        self.newest = self.newest.filter(|newest| *newest != id);
        self.active = self.active.filter(|active| *active != id);
        if let Some(mut stream) = self.streams.remove(&id) {
            stream.leave(why);
        }
    }

    fn active(&mut self) -> Option<&mut Stream> {
        self.streams.get_mut(&self.active?)
    }

    fn queue(&mut self, item: Item) {
        if let Some(active) = self.active() {
            active.queue.push_back(item);
        }
    }

    /// Makes a heartbeat due; whether the stream has been heard since the last one.
    pub fn beat(&mut self, id: StreamId) -> bool {
        let active = self.active == Some(id);
        let Some(stream) = self.streams.get_mut(&id) else { return false };
        stream.beat_due = active;
        // One that was replaced gets no heartbeat, and so has no ack to send: its deadline bounds it (9).
        take(&mut stream.heard) || stream.replaced && !active
    }

    /// Does what a frame says, in the order of its fields. Fields and enum values of a newer server fall through.
    pub fn apply(&mut self, id: StreamId, frame: pb::WorkResponse) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.heard = true;
        if let Some(welcome) = frame.welcome.filter(|_| !stream.welcomed) {
            self.welcome(id, welcome);
        }
        for claim in frame.claims {
            self.receive(id, claim);
        }
        for claim_id in frame.confirmed {
            self.confirm(&claim_id);
        }
        for ack in frame.acks {
            self.acknowledge(ack);
        }
        for revocation in frame.revoked {
            let reason = RevokeReason::try_from(revocation.reason).unwrap_or_default();
            self.lose(&revocation.claim_id, reason.as_str_name());
        }
        for claim_id in frame.heartbeat_ack.unwrap_or_default().lost {
            self.lose(&claim_id, "the server does not hold it any more");
        }
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.drained |= frame.drained.is_some();
        if frame.goaway.is_some() {
            stream.replaced = true;
            stream.leave(Status::unavailable("the server said goaway"));
            self.newest = self.newest.filter(|newest| *newest != id);
        }
    }

    /// Makes a stream the one to talk on. What the one before has not sent is said here.
    fn welcome(&mut self, id: StreamId, welcome: pb::Welcome) {
        if let Some(before) = self.active() {
            before.queue.clear();
        }
        self.active = Some(id);
        if welcome.max_result_bytes > 0 {
            self.max_result = welcome.max_result_bytes as usize;
        }
        for verdict in welcome.verdicts {
            match Standing::try_from(verdict.standing).unwrap_or_default() {
                Standing::Confirmed => self.confirm(&verdict.claim_id),
                standing @ (Standing::Deferred | Standing::Answered | Standing::Lost) => {
                    self.lose(&verdict.claim_id, standing.as_str_name());
                }
                // Where that is wrong, the next heartbeat_ack says so.
                Standing::Kept | Standing::Unspecified => {}
            }
        }
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.welcomed = true;
        stream.drain_due = self.draining;
        stream.queue = self.outbox.claim_ids().map(|claim_id| Item::Word(claim_id.to_owned())).collect();
        let named = stream.named.clone().unwrap_or_default();
        for claim_id in self.held.keys().cloned().collect::<Vec<_>>() {
            if named.contains(&claim_id) {
                self.accepted(&claim_id); // to name it was to accept it
            } else if !self.outbox.has(&claim_id) {
                self.queue(Item::Acceptance(claim_id)); // it came on the stream before, after this one's hello
            }
        }
    }

    /// Takes a claim, and one slot for it (2).
    fn receive(&mut self, id: StreamId, claim: pb::Claim) {
        let claim_id = claim.claim_id.clone();
        if self.held.contains_key(&claim_id) {
            if self.newest == Some(id) {
                self.grant(); // sent again, it took credit but takes no slot
            }
            return;
        }
        let unknown = !self.who.tools.contains(&claim.tool);
        let held = Held {
            claim: Arc::new(claim),
            told: false,
            confirmed: false,
            started: false,
            over: false,
            lost: CancellationToken::new(),
            deferred: None,
        };
        self.held.insert(claim_id.clone(), held);
        self.free -= 1;
        if self.draining || unknown {
            self.release(claim_id);
        } else {
            self.queue(Item::Acceptance(claim_id));
        }
    }

    fn accepted(&mut self, claim_id: &str) {
        if let Some(held) = self.held.get_mut(claim_id) {
            held.told = true;
            self.startable.extend(held.start());
        }
    }

    fn confirm(&mut self, claim_id: &str) {
        if let Some(held) = self.held.get_mut(claim_id) {
            held.told = true;
            held.confirmed = true;
            self.startable.extend(held.start());
        }
    }

    /// Keeps a word until its ack, and sends it where there is a stream; if not, the next welcome does (5).
    fn say(&mut self, word: Word) {
        let claim_id = word.claim_id().to_owned();
        if self.outbox.put(word) {
            self.queue(Item::Word(claim_id));
        }
    }

    /// Hands back a claim whose handler has not started.
    fn release(&mut self, claim_id: String) {
        if let Some(held) = self.held.get_mut(&claim_id) {
            held.over = true;
        }
        self.say(Word::Release(claim_id));
        self.free_slot();
    }

    /// Passes on a slot of which no handler has need any more (3).
    fn free_slot(&mut self) {
        self.free += 1;
        self.grant();
    }

    fn grant(&mut self) {
        let newest = self.newest.and_then(|newest| self.streams.get_mut(&newest));
        // Before the hello it is counted there.
        if let Some(stream) = newest.filter(|stream| stream.named.is_some() && !self.draining) {
            stream.grant += 1;
        }
    }

    /// The claim, if it is still the handler's own.
    fn own(&mut self, claim: &Arc<pb::Claim>) -> Option<&mut Held> {
        self.held.get_mut(&claim.claim_id).filter(|held| Arc::ptr_eq(&held.claim, claim))
    }

    /// Hands a claim over. `stored` is dropped when it is lost, or has been answered.
    pub fn defer(
        &mut self,
        claim: &Arc<pb::Claim>,
        deferral: pb::Deferral,
        stored: oneshot::Sender<Result<(), Error>>,
    ) {
        let has_word = self.outbox.has(&claim.claim_id);
        if let Some(held) = self.own(claim).filter(|held| !held.over && !has_word) {
            held.deferred = Some(stored);
            self.say(Word::Deferral(deferral));
        }
    }

    /// Answers a claim, unless it was lost or deferred, and frees its slot.
    pub fn finish(&mut self, claim: &Arc<pb::Claim>, answer: pb::Answer) {
        if let Some(held) = self.own(claim) {
            held.over = true;
            self.say(Word::Answer(answer));
        }
        self.free_slot();
    }

    /// Drops a claim that has ended without our doing. One in the outbox waits for its ack, which alone counts (6).
    fn lose(&mut self, claim_id: &str, why: &str) {
        if self.outbox.has(claim_id) {
            return;
        }
        let Some(held) = self.held.remove(claim_id) else { return };
        info!("the claim of call {} is lost: {why}", held.claim.call_id);
        held.lost.cancel();
        if !held.started {
            self.free_slot();
        }
    }

    /// Is done with a word, and with its claim. Only a refused deferral leaves the claim with its handler, which has
    /// yet to answer (5).
    fn acknowledge(&mut self, ack: pb::Ack) {
        let Some(word) = self.outbox.take(&ack.claim_id) else { return };
        let Some(held) = self.held.get_mut(&ack.claim_id) else { return };
        let refusal = ack.problem.map(|problem| problem.message);
        if let Some(refusal) = &refusal {
            warn!("refused, of call {}: {refusal}", held.claim.call_id);
        }
        let stored = held.deferred.take();
        if !matches!(word, Word::Deferral(_)) || refusal.is_none() || held.over {
            self.held.remove(&ack.claim_id);
        }
        if let Some(stored) = stored {
            // A handler that waits no longer has no need to know.
            let _ = stored.send(refusal.map_or(Ok(()), |refusal| Err(refusal.into())));
        }
    }

    /// Takes no further claim, and hands back those whose handlers have not started (7).
    pub fn drain(&mut self) {
        self.draining = true;
        let waiting = self.held.values().filter(|held| !held.started && !held.over);
        for claim_id in waiting.map(|held| held.claim.claim_id.clone()).collect::<Vec<_>>() {
            self.release(claim_id);
        }
        if let Some(active) = self.active() {
            active.drain_due = true;
        }
    }
}

impl Held {
    /// Starts its handler once, as soon as it may.
    fn start(&mut self) -> Option<Start> {
        if !self.told || self.claim.confirm && !self.confirmed || self.started || self.over {
            return None;
        }
        self.started = true;
        Some(Start { claim: Arc::clone(&self.claim), lost: self.lost.clone() })
    }
}
