package com.example.trunkline;

import java.time.Duration;
import java.util.random.RandomGenerator;

/**
 * Spaces the tries of one outage: at most 2 s apart in its first ten seconds, then at most 8 s (8). The jitter is over
 * the whole step, since a node that dies cuts all of its workers in the same moment.
 */
final class Backoff {
  private static final long FIRST_MS = 500;

  private final long sinceNanos;
  private int tries;

  Backoff(long nowNanos) {
    this.sinceNanos = nowNanos;
  }

  Duration next(long nowNanos) {
    long limitMs = nowNanos - sinceNanos < Duration.ofSeconds(10).toNanos() ? 2_000 : 8_000;
    long stepMs = Math.min(limitMs, FIRST_MS << Math.min(tries++, 4));
    return Duration.ofMillis(RandomGenerator.getDefault().nextLong(stepMs));
  }
}
