package trunkline

import (
	"strings"
	"testing"

	pb "example.com/trunkline-worker/gen/trunkline/v1"
)

func TestFailureDataHasItsOwnLimitOf64KiB(t *testing.T) {
	failed := &ToolError{Message: "no", Retryable: true}
	for size, want := range map[int]pb.FailureKind{
		maxData: pb.FailureKind_FAILURE_KIND_TOOL, maxData + 1: pb.FailureKind_FAILURE_KIND_OVERSIZED,
	} {
		failed.Data = []byte(strings.Repeat("1", size))
		failure := failed.failure()
		if failure.Kind != want || len(failure.DataJson) > maxData {
			t.Errorf("with data of %d bytes: %v with %d bytes, want %v", size, failure.Kind, len(failure.DataJson), want)
		}
		if !failure.Retryable || !strings.Contains(failure.Message, "no") {
			t.Errorf("with data of %d bytes: %q, retryable %v", size, failure.Message, failure.Retryable)
		}
	}
}
