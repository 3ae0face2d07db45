package trunkline

import (
	"testing"
	"time"
)

func TestBackoffKeepsToItsLimitsAndSpreads(t *testing.T) {
	start := time.Now()
	var longestYoung, longestOld time.Duration
	for range 200 {
		b := backoff{}
		for range 20 {
			longestYoung = max(longestYoung, b.next(start))
		}
		for range 20 {
			longestOld = max(longestOld, b.next(start.Add(10*time.Second)))
		}
	}
	if longestYoung > 2*time.Second || longestYoung < time.Second {
		t.Errorf("in the first ten seconds the longest pause was %v, want one near 2 s", longestYoung)
	}
	if longestOld > 8*time.Second || longestOld < 4*time.Second {
		t.Errorf("later the longest pause was %v, want one near 8 s", longestOld)
	}
}
