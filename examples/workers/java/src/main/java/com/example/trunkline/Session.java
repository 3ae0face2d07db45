package com.example.trunkline;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import trunkline.v1.Worker.Ack;
import trunkline.v1.Worker.Answer;
import trunkline.v1.Worker.Claim;
import trunkline.v1.Worker.ClaimVerdict;
import trunkline.v1.Worker.Deferral;
import trunkline.v1.Worker.Heartbeat;
import trunkline.v1.Worker.HeldClaim;
import trunkline.v1.Worker.Hello;
import trunkline.v1.Worker.Revocation;
import trunkline.v1.Worker.Welcome;
import trunkline.v1.Worker.WorkResponse;

/**
 * This process as the server knows it, across streams: the claims it holds and what it has to say. Only {@link #defer}
 * may be called from outside the loop.
 */
final class Session {
  private static final Logger LOG = System.getLogger(Session.class.getName());

  private final Worker.Settings settings;
  private final Executor loop;
  private final Executor handlers;
  private final Runnable done;
  private final String id = UUID.randomUUID().toString();
  private final String nonce = UUID.randomUUID().toString();

  /** By claim id, until the ack of what became of them. */
  private final Map<String, Held> claims = new HashMap<>();
  private final Outbox outbox = new Outbox();
  /** Those that have not ended. */
  private final Set<Stream> streams = new HashSet<>();
  /** The stream that was opened last, unless it has ended or said goaway. */
  private Stream newest;
  /** The one that was welcomed last, unless it has ended. */
  private Stream active;
  private int free;
  private long hellos;
  private int maxResultBytes = 1 << 20;
  private boolean draining;
  private boolean flushing;

  /** @param done runs when it has drained */
  Session(Worker.Settings settings, Executor loop, Executor handlers, Runnable done) {
    this.settings = settings;
    this.loop = loop;
    this.handlers = handlers;
    this.done = done;
    this.free = settings.slots();
  }

  /** Something has changed: looks, after all that is due now, whether there is something to send. */
  void changed() {
    if (!flushing) {
      flushing = true;
      loop.execute(this::flush);
    }
  }

  private void flush() {
    flushing = false;
    if (isDone()) {
      done.run();
      return;
    }
    if (isIdle() && active != null && active.isDrained()) {
      active.closeWhenSent();
    }
    for (Stream stream : List.copyOf(streams)) {
      if (stream == active || stream == newest) {
        stream.send();
      }
    }
  }

  private boolean isIdle() {
    return draining && claims.isEmpty() && free == settings.slots();
  }

  /** It has drained: nothing is left to say, and nobody listens. */
  boolean isDone() {
    return isIdle() && active == null && newest == null;
  }

  void opened(Stream stream) {
    streams.add(stream);
    newest = stream;
  }

  void replaced(Stream stream) {
    if (newest == stream) {
      newest = null;
    }
    changed();
  }

  void ended(Stream stream) {
    streams.remove(stream);
    if (active == stream) {
      active = null;
    }
    replaced(stream);
  }

  void close() {
    List.copyOf(streams).forEach(stream -> stream.drop("the worker has ended"));
  }

  boolean isActive(Stream stream) {
    return active == stream;
  }

  /** Says who is here and what it holds, at the moment when it is sent (1). */
  Hello hello() {
    Hello.Builder hello = Hello.newBuilder()
        .setSessionId(id)
        .setNonce(nonce)
        .setWorker(settings.name())
        .setSdk("trunkline-example-java")
        .addAllTools(settings.tools().keySet())
        .setSlots(draining ? 0 : Math.max(free, 0))
        .setNumber(++hellos);
    claims.values().forEach(held ->
        hello.addClaims(HeldClaim.newBuilder().setCallId(held.claim.getCallId()).setClaimId(held.id())));
    return hello.build();
  }

  /** Names all that is held, what is in the outbox too (4). */
  Heartbeat heartbeat() {
    return Heartbeat.newBuilder().addAllClaims(claims.keySet()).build();
  }

  /** Does what a frame says, in the order of its fields. Fields and enum values of a newer server fall through. */
  void apply(Stream stream, WorkResponse frame) {
    if (frame.hasWelcome()) {
      welcome(stream, frame.getWelcome());
    }
    frame.getClaimsList().forEach(claim -> receive(stream, claim));
    frame.getConfirmedList().forEach(this::confirm);
    frame.getAcksList().forEach(this::acknowledge);
    for (Revocation revocation : frame.getRevokedList()) {
      lose(revocation.getClaimId(), "revoked, reason " + revocation.getReasonValue());
    }
    frame.getHeartbeatAck().getLostList().forEach(claimId -> lose(claimId, "the server does not hold it any more"));
    changed();
  }

  /** Makes it the stream to talk on. What the one before has not sent is said here. */
  private void welcome(Stream stream, Welcome welcome) {
    if (active != null) {
      active.forget();
    }
    active = stream;
    if (welcome.getMaxResultBytes() > 0) {
      maxResultBytes = welcome.getMaxResultBytes();
    }
    for (ClaimVerdict verdict : welcome.getVerdictsList()) {
      switch (verdict.getStanding()) {
        case STANDING_CONFIRMED -> confirm(verdict.getClaimId());
        case STANDING_DEFERRED, STANDING_ANSWERED, STANDING_LOST ->
            lose(verdict.getClaimId(), verdict.getStanding().toString());
        default -> { } // kept; where that is wrong, the next heartbeat_ack says so
      }
    }
    outbox.items().forEach(stream::say);
    for (Held held : claims.values()) {
      if (stream.named(held.id())) {
        accepted(held); // to name it was to accept it (2)
      } else if (!outbox.has(held.id())) {
        stream.say(new Item.Acceptance(held)); // it came on the stream before, after this one's hello
      }
    }
    if (draining) {
      stream.sayDrain();
    }
  }

  /** Takes a claim, and one slot for it (2). */
  private void receive(Stream stream, Claim claim) {
    if (claims.containsKey(claim.getClaimId())) {
      if (stream == newest && !draining) {
        stream.grant(); // sent again, it took credit but takes no slot (3)
      }
      return;
    }
    Held received = new Held(claim);
    claims.put(received.id(), received);
    free--;
    if (draining || !settings.tools().containsKey(claim.getTool())) {
      release(received);
    } else if (active != null) {
      active.say(new Item.Acceptance(received));
    }
  }

  /** The server was told, or is about to read, that the claim is accepted. */
  void accepted(Held held) {
    held.told = true;
    startIfDue(held);
  }

  private void confirm(String claimId) {
    Held held = claims.get(claimId);
    if (held != null) {
      held.confirmed = true;
      accepted(held);
    }
  }

  private void startIfDue(Held held) {
    if (held.mayStart()) {
      Handler handler = settings.tools().get(held.claim.getTool());
      held.run = new Run(handler, new Call(this, held), maxResultBytes,
          answer -> loop.execute(() -> handled(held, answer)));
      handlers.execute(held.run);
    }
  }

  private void handled(Held held, Answer answer) {
    if (claims.get(held.id()) == held) { // not when it was lost, or deferred
      say(new Item.Outcome(answer));
    }
    freeSlot(held);
    changed();
  }

  /** Keeps an item until its ack, and sends it where there is a stream; if not, the next welcome does (5). */
  private void say(Item item) {
    if (outbox.put(item) && active != null) {
      active.say(item);
    }
  }

  /** Hands a claim over for a token; what is returned completes when that is stored, and fails when it is refused. */
  CompletableFuture<Void> defer(Held held, Deferral deferral) {
    CompletableFuture<Void> stored = new CompletableFuture<>();
    loop.execute(() -> {
      if (claims.get(held.id()) != held || held.over || outbox.has(held.id())) {
        stored.completeExceptionally(new IllegalStateException("the claim was lost, or is deferred already"));
        return;
      }
      held.deferred = stored;
      say(new Item.Handover(deferral));
      changed();
    });
    return stored;
  }

  /** Hands back a claim whose handler has not started. */
  private void release(Held held) {
    say(new Item.Release(held.id()));
    freeSlot(held);
  }

  /** No handler runs for a claim any more: passes its slot on (3). */
  private void freeSlot(Held held) {
    held.over = true;
    free++;
    if (newest != null && newest.isGreeted() && !draining) {
      newest.grant(); // before the hello it is counted there
    }
  }

  /** Drops a claim that has ended without our doing. One in the outbox waits for its ack, which alone counts (6). */
  private void lose(String claimId, String why) {
    if (outbox.has(claimId)) {
      return;
    }
    Held held = claims.remove(claimId);
    if (held == null) {
      return;
    }
    LOG.log(Level.INFO, "lost the claim on call {0}: {1}", held.claim.getCallId(), why);
    if (held.run == null) {
      freeSlot(held);
    } else {
      held.run.stop();
    }
  }

  /** Is done with an item, and with its claim, unless a refused deferral leaves its handler to answer (5). */
  private void acknowledge(Ack ack) {
    Item item = outbox.take(ack.getClaimId()).orElse(null);
    Held held = claims.get(ack.getClaimId());
    if (item == null || held == null) {
      return;
    }
    String refusal = ack.getProblem().getReason() + ": " + ack.getProblem().getMessage();
    if (ack.hasProblem()) {
      LOG.log(Level.WARNING, "call {0} is refused: {1}", held.claim.getCallId(), refusal);
    }
    boolean deferral = item instanceof Item.Handover;
    if (!deferral || !ack.hasProblem() || held.over) {
      claims.remove(held.id());
    }
    if (deferral && ack.hasProblem()) {
      held.deferred.completeExceptionally(new IllegalStateException(refusal));
    } else if (deferral) {
      held.deferred.complete(null);
    }
  }

  /** Takes no further claim, and hands back those whose handlers have not started (7). */
  void drain() {
    draining = true;
    for (Held held : new ArrayList<>(claims.values())) {
      if (held.run == null && !held.over) {
        release(held);
      }
    }
    if (active != null) {
      active.sayDrain();
    }
    changed();
  }
}
