package com.example.trunkline;

import java.util.concurrent.CompletableFuture;
import trunkline.v1.Worker.Claim;

/** A claim from its receipt to the ack of what became of it. */
final class Held {
  final Claim claim;
  /** The server was told of its acceptance. */
  boolean told;
  /** The acceptance of a claim with {@code confirm} is stored. */
  boolean confirmed;
  /** Its handler, once it was started. */
  Run run;
  /** Its handler has ended, or will never start. */
  boolean over;
  /** What became of its deferral, if there is one. */
  CompletableFuture<Void> deferred;

  Held(Claim claim) {
    this.claim = claim;
  }

  String id() {
    return claim.getClaimId();
  }

  boolean mayStart() {
    return told && (confirmed || !claim.getConfirm()) && run == null && !over;
  }
}
