use prost::Message;
use tokio::sync::oneshot;

use super::outgoing::FULL_FRAME;
use super::*;

/// A session with one slot and a welcomed stream.
fn connected() -> (Session, StreamId) {
    let mut session = Session::new("test".to_owned(), vec!["tool".to_owned()], 1);
    let stream = reconnected(&mut session, Vec::new());
    (session, stream)
}

fn reconnected(session: &mut Session, verdicts: Vec<pb::ClaimVerdict>) -> StreamId {
    let stream = session.open(oneshot::channel().0);
    assert!(sent(session, stream).hello.is_some());
    let welcome = Some(pb::Welcome { verdicts, ..Default::default() });
    session.apply(stream, pb::WorkResponse { welcome, ..Default::default() });
    stream
}

fn sent(session: &mut Session, stream: StreamId) -> pb::WorkRequest {
    match session.next(stream) {
        Next::Frame(frame) => *frame,
        Next::Nothing | Next::Close => panic!("there was nothing to send"),
    }
}

fn claim(claim_id: &str, confirm: bool) -> pb::WorkResponse {
    let (claim_id, tool) = (claim_id.to_owned(), "tool".to_owned());
    let claim = pb::Claim { claim_id, call_id: "run/1".to_owned(), tool, confirm, ..Default::default() };
    pb::WorkResponse { claims: vec![claim], ..Default::default() }
}

fn confirmed(claim_id: &str) -> pb::WorkResponse {
    pb::WorkResponse { confirmed: vec![claim_id.to_owned()], ..Default::default() }
}

fn revoked(claim_id: &str) -> pb::WorkResponse {
    let revocation = pb::Revocation { claim_id: claim_id.to_owned(), reason: 99 };
    pb::WorkResponse { revoked: vec![revocation], ..Default::default() }
}

fn acknowledged(claim_id: &str, problem: Option<pb::Problem>) -> pb::WorkResponse {
    let ack = pb::Ack { claim_id: claim_id.to_owned(), problem, deferred: None };
    pb::WorkResponse { acks: vec![ack], ..Default::default() }
}

fn answer(start: &Start, size: usize) -> pb::Answer {
    let outcome = Some(pb::answer::Outcome::ResultJson("1".repeat(size)));
    pb::Answer { claim_id: start.claim.claim_id.clone(), call_id: start.claim.call_id.clone(), outcome }
}

/// Takes a claim and accepts it.
fn started(session: &mut Session, stream: StreamId, claim_id: &str) -> Start {
    session.apply(stream, claim(claim_id, false));
    sent(session, stream);
    session.startable.pop().expect("its handler may start")
}

#[test]
fn starts_a_handler_once_and_not_before_its_confirmation() {
    let (mut session, stream) = connected();
    session.apply(stream, claim("c1", true));
    assert_eq!(sent(&mut session, stream).accepted, ["c1"]);
    assert!(session.startable.is_empty());
    session.apply(stream, confirmed("c1"));
    session.apply(stream, confirmed("c1"));
    session.apply(stream, claim("c1", true));
    assert_eq!(session.startable.len(), 1);
    session.apply(stream, revoked("c1"));
    assert!(session.startable[0].lost.is_cancelled());
}

#[test]
fn sends_an_answer_again_after_a_reconnect_until_its_ack() {
    let (mut session, stream) = connected();
    let start = started(&mut session, stream, "c1");
    session.finish(&start.claim, answer(&start, 1));
    session.apply(stream, revoked("c1"));
    assert_eq!(sent(&mut session, stream).answers.len(), 1);
    session.ended(stream, Status::unavailable("cut"));
    let lost = pb::ClaimVerdict { claim_id: "c1".to_owned(), standing: Standing::Lost.into() };
    let stream = reconnected(&mut session, vec![lost]);
    assert_eq!(sent(&mut session, stream).answers.len(), 1);
    session.apply(stream, acknowledged("c1", None));
    assert!(session.held.is_empty());
    assert!(matches!(session.next(stream), Next::Nothing));
}

#[test]
fn leaves_a_claim_whose_deferral_was_refused_with_its_handler() {
    let (mut session, stream) = connected();
    let start = started(&mut session, stream, "c1");
    let (stored, mut ack) = oneshot::channel();
    let deferral = pb::Deferral { claim_id: "c1".to_owned(), ..Default::default() };
    session.defer(&start.claim, deferral, stored);
    assert_eq!(sent(&mut session, stream).deferrals.len(), 1);
    session.apply(stream, acknowledged("c1", Some(pb::Problem::default())));
    assert!(ack.try_recv().is_ok_and(|stored| stored.is_err()));
    session.finish(&start.claim, answer(&start, 1));
    let frame = sent(&mut session, stream);
    assert_eq!((frame.answers.len(), frame.grant), (1, 1));
}

#[test]
fn hands_back_in_a_drain_what_has_not_started_and_ends_when_nothing_is_held() {
    let (mut session, stream) = connected();
    session.apply(stream, claim("c1", true));
    session.drain();
    let frame = sent(&mut session, stream);
    assert_eq!(
        (frame.accepted.len(), frame.releases, frame.drain.is_some()),
        (0, vec!["c1".to_owned()], true)
    );
    session.apply(stream, acknowledged("c1", None));
    assert!(!session.settle() && matches!(session.next(stream), Next::Nothing));
    session.apply(stream, pb::WorkResponse { drained: Some(pb::Drained {}), ..Default::default() });
    assert!(!session.settle() && matches!(session.next(stream), Next::Close));
    session.ended(stream, Status::ok("closed"));
    assert!(session.settle());
}

#[test]
fn closes_a_frame_at_256_kib_unless_one_item_is_larger() {
    let (mut session, stream) = connected();
    let claims = ["c1", "c2", "c3", "c4", "c5"].map(|claim_id| started(&mut session, stream, claim_id));
    for (start, size) in claims.iter().zip([100 << 10, 100 << 10, 100 << 10, 1 << 20, 10]) {
        session.finish(&start.claim, answer(start, size));
    }
    let mut counts = Vec::new();
    while let Next::Frame(frame) = session.next(stream) {
        assert!(frame.encoded_len() <= FULL_FRAME || frame.answers.len() == 1);
        counts.push(frame.answers.len());
    }
    assert_eq!(counts, [2, 1, 1, 1]);
}
