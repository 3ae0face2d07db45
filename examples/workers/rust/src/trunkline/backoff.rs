//! How long to wait before the next try.

use std::time::{Duration, Instant};

const YOUNG: Duration = Duration::from_secs(10);
const FIRST_STEP: Duration = Duration::from_millis(500);
const LIMIT_WHEN_YOUNG: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(8);

/// Spaces the tries of one outage: at most 2 s apart in its first ten seconds, then at most 8 s. The jitter is over
/// the whole step, since a node that dies cuts all of its workers in the same moment.
#[derive(Default)]
pub struct Backoff {
    since: Option<Instant>,
    tries: u32,
}

impl Backoff {
    pub fn next(&mut self, now: Instant) -> Duration {
        let since = *self.since.get_or_insert(now);
        let young = now.duration_since(since) < YOUNG;
        let limit = if young { LIMIT_WHEN_YOUNG } else { LIMIT };
        let step = limit.min(FIRST_STEP * (1 << self.tries.min(4)));
        self.tries += 1;
        step.mul_f64(rand::random())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_to_its_limits_and_spreads() {
        let start = Instant::now();
        let longest = |at: Instant| {
            let pauses = (0..200).flat_map(|_| {
                let mut backoff = Backoff::default();
                backoff.next(start);
                (0..20).map(move |_| backoff.next(at)).collect::<Vec<_>>()
            });
            pauses.max().unwrap()
        };
        let young = longest(start);
        assert!(young <= LIMIT_WHEN_YOUNG && young > LIMIT_WHEN_YOUNG / 2, "{young:?}");
        let old = longest(start + YOUNG);
        assert!(old <= LIMIT && old > LIMIT / 2, "{old:?}");
    }
}
