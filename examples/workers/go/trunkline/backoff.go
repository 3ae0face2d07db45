package trunkline

import (
	"math/rand/v2"
	"time"
)

// backoff spaces the tries of one outage: at most 2 s apart in its first ten seconds, then at most 8 s. The jitter
// is over the whole step, since a node that dies cuts all of its workers in the same moment.
type backoff struct {
	since time.Time
	tries int
}

func (b *backoff) next(now time.Time) time.Duration {
	if b.since.IsZero() {
		b.since = now
	}
	limit := 2 * time.Second
	if now.Sub(b.since) >= 10*time.Second {
		limit = 8 * time.Second
	}
	step := min(limit, 500*time.Millisecond<<min(b.tries, 4))
	b.tries++
	return rand.N(step)
}
