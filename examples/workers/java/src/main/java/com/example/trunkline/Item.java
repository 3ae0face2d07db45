package com.example.trunkline;

import trunkline.v1.Worker.Answer;
import trunkline.v1.Worker.Deferral;
import trunkline.v1.Worker.WorkRequest;

/** One thing to say about a claim. */
sealed interface Item {
  /** Roughly what an id takes in a frame. */
  int ID_BYTES = 40;

  String claimId();

  /** About how many bytes it takes in a frame. */
  int size();

  void addTo(WorkRequest.Builder frame);

  /** That the claim was received and will be run. */
  record Acceptance(Held held) implements Item {
    @Override
    public String claimId() {
      return held.id();
    }

    @Override
    public int size() {
      return ID_BYTES;
    }

    @Override
    public void addTo(WorkRequest.Builder frame) {
      frame.addAccepted(claimId());
    }
  }

  /** That the claim is given back, not started. */
  record Release(String claimId) implements Item {
    @Override
    public int size() {
      return ID_BYTES;
    }

    @Override
    public void addTo(WorkRequest.Builder frame) {
      frame.addReleases(claimId);
    }
  }

  /** That whoever has the token will answer. */
  record Handover(Deferral deferral) implements Item {
    @Override
    public String claimId() {
      return deferral.getClaimId();
    }

    @Override
    public int size() {
      return deferral.getSerializedSize();
    }

    @Override
    public void addTo(WorkRequest.Builder frame) {
      frame.addDeferrals(deferral);
    }
  }

  /** How its handler ended. */
  record Outcome(Answer answer) implements Item {
    @Override
    public String claimId() {
      return answer.getClaimId();
    }

    @Override
    public int size() {
      return answer.getSerializedSize();
    }

    @Override
    public void addTo(WorkRequest.Builder frame) {
      frame.addAnswers(answer);
    }
  }
}
