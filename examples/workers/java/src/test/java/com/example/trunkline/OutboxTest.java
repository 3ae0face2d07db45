package com.example.trunkline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import trunkline.v1.Worker.Answer;
import trunkline.v1.Worker.Deferral;

final class OutboxTest {
  private final Outbox outbox = new Outbox();

  private static Item answer(String claimId) {
    return new Item.Outcome(Answer.newBuilder().setClaimId(claimId).build());
  }

  @Test
  void keepsItemsInOrderUntilTheirAck() {
    List.of("c", "a", "b").forEach(id -> outbox.put(answer(id)));
    assertEquals("a", outbox.take("a").orElseThrow().claimId());
    assertEquals(List.of("c", "b"), outbox.items().stream().map(Item::claimId).toList());
    assertFalse(outbox.has("a"));
    assertTrue(outbox.has("b"));
  }

  @Test
  void takesASecondAckForNothing() {
    outbox.put(answer("a"));
    outbox.take("a");
    assertTrue(outbox.take("a").isEmpty());
  }

  @Test
  void keepsTheFirstWordOfAClaimSinceItMayHaveBeenStored() {
    assertTrue(outbox.put(new Item.Handover(Deferral.newBuilder().setClaimId("a").build())));
    assertFalse(outbox.put(answer("a")));
    assertInstanceOf(Item.Handover.class, outbox.take("a").orElseThrow());
  }
}
