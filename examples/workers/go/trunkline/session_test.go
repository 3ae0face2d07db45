package trunkline

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "example.com/trunkline-worker/gen/trunkline/v1"
)

func idle(context.Context, *Call) (json.RawMessage, error) { return nil, nil }

// connected is a session with one slot and a welcomed stream that nobody writes or reads: frames are taken by next.
func connected(t *testing.T, handler Handler) (*session, *stream) {
	t.Helper()
	w := Worker{Slots: 1, Tools: map[string]Handler{"tool": handler}, Log: slog.New(slog.DiscardHandler)}
	s := newSession(w, t.Context())
	return s, welcomed(s)
}

func welcomed(s *session, verdicts ...*pb.ClaimVerdict) *stream {
	st := newStream(s, nil)
	s.update(func() { s.newest = st })
	st.next() // the hello
	s.update(func() { s.apply(st, &pb.WorkResponse{Welcome: &pb.Welcome{Verdicts: verdicts}}) })
	return st
}

func deliver(s *session, st *stream, frame *pb.WorkResponse) {
	s.update(func() { s.apply(st, frame) })
}

func claims(confirm bool) *pb.WorkResponse {
	return &pb.WorkResponse{Claims: []*pb.Claim{{ClaimId: "c1", CallId: "run/1", Tool: "tool", Confirm: confirm}}}
}

// sent takes the next frame as the writer does.
func sent(t *testing.T, s *session, st *stream) *pb.WorkRequest {
	t.Helper()
	frame, accepted, _ := st.next()
	if frame == nil {
		t.Fatal("there was nothing to send")
	}
	s.update(func() { s.accepted(accepted...) })
	return frame
}

func TestHandlerStartsOnceAndNotBeforeItsConfirmation(t *testing.T) {
	started, stopped := make(chan string, 10), make(chan error, 10)
	s, st := connected(t, func(ctx context.Context, call *Call) (json.RawMessage, error) {
		started <- call.CallId
		<-ctx.Done()
		stopped <- context.Cause(ctx)
		return nil, nil
	})
	deliver(s, st, claims(true))
	if frame := sent(t, s, st); len(frame.Accepted) != 1 {
		t.Fatalf("sent %v, want an acceptance", frame)
	}
	if s.held["c1"].started {
		t.Fatal("the handler started before its confirmation")
	}
	for range 2 {
		deliver(s, st, &pb.WorkResponse{Confirmed: []string{"c1"}})
	}
	deliver(s, st, claims(true))
	<-started
	deliver(s, st, &pb.WorkResponse{Revoked: []*pb.Revocation{{ClaimId: "c1", Reason: 99}}})
	if cause := <-stopped; !errors.Is(cause, ErrClaimLost) {
		t.Errorf("the handler was stopped by %v", cause)
	}
	if len(started) > 0 {
		t.Error("the handler started twice")
	}
}

func TestAnswerIsSentAgainAfterAReconnectUntilItsAck(t *testing.T) {
	s, first := connected(t, idle)
	deliver(s, first, claims(false))
	s.update(func() { s.say(answerItem("c1")) })
	deliver(s, first, &pb.WorkResponse{Revoked: []*pb.Revocation{{ClaimId: "c1"}}})
	s.update(func() { s.ended(first, nil) })

	second := welcomed(s, &pb.ClaimVerdict{ClaimId: "c1", Standing: pb.ClaimVerdict_STANDING_LOST})
	if !second.named["c1"] {
		t.Error("the hello did not name the claim")
	}
	if frame := sent(t, s, second); len(frame.Answers) != 1 {
		t.Errorf("sent %v, want the answer again", frame)
	}
	deliver(s, second, &pb.WorkResponse{Acks: []*pb.Ack{{ClaimId: "c1"}}})
	if len(s.held) > 0 || len(s.outbox.items()) > 0 {
		t.Error("the ack did not end it")
	}
}

func TestFrameIsClosedAt256KiBUnlessOneItemIsLarger(t *testing.T) {
	s, st := connected(t, idle)
	for _, size := range []int{100 << 10, 100 << 10, 100 << 10, 1 << 20, 10} {
		answer := &pb.Answer{Outcome: &pb.Answer_ResultJson{ResultJson: strings.Repeat("1", size)}}
		st.queue = append(st.queue, item{answer: answer, size: size + itemSize})
	}
	var got []int
	for len(st.queue) > 0 {
		frame := sent(t, s, st)
		got = append(got, len(frame.Answers))
		if size := proto.Size(frame); size > fullFrame && len(frame.Answers) > 1 {
			t.Errorf("a frame of %d answers has %d bytes", len(frame.Answers), size)
		}
	}
	if len(got) != 4 {
		t.Errorf("frames of %v answers, want [2 1 1 1]", got)
	}
}
