package com.example.trunkline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import trunkline.v1.Worker.Ack;
import trunkline.v1.Worker.Answer;
import trunkline.v1.Worker.Claim;
import trunkline.v1.Worker.ClaimVerdict;
import trunkline.v1.Worker.ClaimVerdict.Standing;
import trunkline.v1.Worker.Hello;
import trunkline.v1.Worker.Revocation;
import trunkline.v1.Worker.Welcome;
import trunkline.v1.Worker.WorkRequest;
import trunkline.v1.Worker.WorkResponse;

/** A session whose loop and handlers are the test's thread, with streams that are on no connection. */
final class SessionTest {
  private final List<String> started = new ArrayList<>();
  private final List<Runnable> handlers = new ArrayList<>();
  private final Handler handler = call -> {
    started.add(call.id());
    return "null";
  };
  private final Session session = new Session(
      new Worker.Settings("http://127.0.0.1:1", "", "test", 1, Map.of("tool", handler)),
      Runnable::run, handlers::add, () -> { });

  private Stream stream;
  private Hello hello;

  private void connect(ClaimVerdict... verdicts) {
    stream = new Stream(session, null, null);
    session.opened(stream);
    hello = sent().getHello();
    stream.welcomed();
    deliver(WorkResponse.newBuilder().setWelcome(Welcome.newBuilder().addAllVerdicts(List.of(verdicts))));
  }

  private void deliver(WorkResponse.Builder frame) {
    session.apply(stream, frame.build());
  }

  /** The next frame, or null; what it accepts counts as sent. */
  private WorkRequest sent() {
    List<Held> accepts = new ArrayList<>();
    WorkRequest frame = stream.next(accepts);
    accepts.forEach(session::accepted);
    return frame;
  }

  private void runHandlers() {
    List.copyOf(handlers).forEach(Runnable::run);
    handlers.clear();
  }

  private static WorkResponse.Builder claim(boolean confirm) {
    return WorkResponse.newBuilder().addClaims(
        Claim.newBuilder().setClaimId("c1").setCallId("run/1").setTool("tool").setConfirm(confirm));
  }

  @Test
  void startsAHandlerOnceAndNotBeforeItsConfirmation() {
    connect();
    deliver(claim(true));
    assertEquals(List.of("c1"), sent().getAcceptedList());
    assertTrue(handlers.isEmpty());
    deliver(WorkResponse.newBuilder().addConfirmed("c1"));
    deliver(WorkResponse.newBuilder().addConfirmed("c1"));
    deliver(claim(true));
    runHandlers();
    assertEquals(List.of("run/1"), started);
  }

  @Test
  void acceptsBeforeItStarts() {
    connect();
    deliver(claim(false));
    assertTrue(handlers.isEmpty());
    sent();
    assertEquals(1, handlers.size());
  }

  @Test
  void sendsAnAnswerAgainAfterAReconnectUntilItsAck() {
    connect();
    deliver(claim(false));
    sent();
    runHandlers();
    assertEquals(1, sent().getAnswersCount());
    deliver(WorkResponse.newBuilder().addRevoked(Revocation.newBuilder().setClaimId("c1").setReasonValue(99)));
    session.ended(stream);

    connect(ClaimVerdict.newBuilder().setClaimId("c1").setStanding(Standing.STANDING_LOST).build());
    assertEquals("c1", hello.getClaims(0).getClaimId());
    assertEquals(1, hello.getSlots());
    assertEquals(1, sent().getAnswersCount());
    deliver(WorkResponse.newBuilder().addAcks(Ack.newBuilder().setClaimId("c1")));
    assertNull(sent());
    assertEquals(0, session.heartbeat().getClaimsCount());
  }

  @Test
  void handsBackInADrainWhatHasNotStarted() {
    connect();
    deliver(claim(true));
    sent();
    session.drain();
    WorkRequest frame = sent();
    assertEquals(List.of("c1"), frame.getReleasesList());
    assertTrue(frame.hasDrain());
    assertEquals(0, frame.getGrant());
    deliver(WorkResponse.newBuilder().addConfirmed("c1"));
    assertTrue(handlers.isEmpty());
  }

  @Test
  void closesAFrameAt256KiBUnlessOneItemIsLarger() {
    connect();
    for (int size : new int[] {100 << 10, 100 << 10, 100 << 10, 1 << 20, 10}) {
      stream.say(new Item.Outcome(Answer.newBuilder().setResultJson("1".repeat(size)).build()));
    }
    List<Integer> answers = new ArrayList<>();
    for (WorkRequest frame; (frame = sent()) != null;) {
      answers.add(frame.getAnswersCount());
      assertFalse(frame.getAnswersCount() > 1 && frame.getSerializedSize() > Stream.FULL_FRAME);
    }
    assertEquals(List.of(2, 1, 1, 1), answers);
  }
}
