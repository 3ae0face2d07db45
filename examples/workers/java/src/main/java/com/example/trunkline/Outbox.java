package com.example.trunkline;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Keeps what the server has yet to acknowledge, one item for each claim, oldest first. */
final class Outbox {
  private final Map<String, Item> items = new LinkedHashMap<>();

  /** Keeps an item; false for a claim that has one already, since that one may have been stored. */
  boolean put(Item item) {
    return items.putIfAbsent(item.claimId(), item) == null;
  }

  /** Whether a claim waits for an ack: then nothing else that the server says of it counts. */
  boolean has(String claimId) {
    return items.containsKey(claimId);
  }

  /** Removes the item that was acknowledged; empty when that was done before. */
  Optional<Item> take(String claimId) {
    return Optional.ofNullable(items.remove(claimId));
  }

  List<Item> items() {
    return List.copyOf(items.values());
  }
}
