package com.example.trunkline;

import java.security.SecureRandom;
import java.time.Duration;
import java.util.Base64;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import trunkline.v1.Worker.Claim;
import trunkline.v1.Worker.Deferral;

/** What a handler works on. */
public final class Call {
  private static final SecureRandom RANDOM = new SecureRandom();

  private final Session session;
  private final Held held;

  Call(Session session, Held held) {
    this.session = session;
    this.held = held;
  }

  /** The same on every attempt: pass it on as the idempotency key to whatever must not happen twice. */
  public String id() {
    return held.claim.getCallId();
  }

  /** From 1. */
  public int attempt() {
    return held.claim.getAttempt();
  }

  /** JSON text, as the caller sent it. */
  public String inputJson() {
    return held.claim.getInputJson();
  }

  /** All that the server said of it. */
  public Claim claim() {
    return held.claim;
  }

  /**
   * Makes a token with which whoever has it may answer the call later. Store it before {@link #defer}, publish it
   * after: until the deferral is stored it is refused.
   */
  public String newToken() {
    byte[] secret = new byte[32];
    RANDOM.nextBytes(secret);
    return id() + "." + attempt() + "." + Base64.getUrlEncoder().withoutPadding().encodeToString(secret);
  }

  /**
   * Hands the call over for a token of {@link #newToken}, and returns when that is stored: the handler ends then, and
   * what it returns is no answer.
   *
   * @param timeout how long the answer may take; zero for what the call's policy says
   * @throws IllegalStateException when it is refused; the handler still has to answer
   */
  public void defer(String token, Duration timeout) throws InterruptedException {
    var deferral = Deferral.newBuilder()
        .setClaimId(held.id())
        .setCallId(id())
        .setSecret(token.substring(token.lastIndexOf('.') + 1));
    if (!timeout.isZero()) {
      deferral.getTimeoutBuilder().setSeconds(timeout.getSeconds()).setNanos(timeout.getNano());
    }
    CompletableFuture<Void> stored = session.defer(held, deferral.build());
    try {
      stored.get();
    } catch (ExecutionException refused) {
      throw new IllegalStateException(refused.getCause().getMessage(), refused);
    }
  }
}
