package com.example.trunkline;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.Test;

final class BackoffTest {
  /** The longest of many pauses of outages that have lasted so long. */
  private static long longestMs(Duration age) {
    long longest = 0;
    for (int outage = 0; outage < 200; outage++) {
      Backoff backoff = new Backoff(0);
      for (int turn = 0; turn < 20; turn++) {
        longest = Math.max(longest, backoff.next(age.toNanos()).toMillis());
      }
    }
    return longest;
  }

  @Test
  void keepsToTwoSecondsInTheFirstTenAndSpreads() {
    long longest = longestMs(Duration.ZERO);
    assertTrue(longest <= 2_000 && longest > 1_000, "the longest pause was " + longest + " ms");
  }

  @Test
  void keepsToEightSecondsLaterAndSpreads() {
    long longest = longestMs(Duration.ofSeconds(10));
    assertTrue(longest <= 8_000 && longest > 4_000, "the longest pause was " + longest + " ms");
  }
}
