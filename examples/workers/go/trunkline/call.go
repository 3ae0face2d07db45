package trunkline

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "example.com/trunkline-worker/gen/trunkline/v1"
)

// What a failure's message and data may have, in bytes. The server cuts the one, and refuses the other.
const maxMessage, maxData = 8 << 10, 64 << 10

// Handler runs one tool: it returns the result as JSON text, which the caller reads digit for digit, or an error.
// A *ToolError reaches the caller as it says; any other error, and a panic, as a failure of kind EXCEPTION.
//
// Its context is done when the claim is lost; what is returned then does not count. A time limit of the call
// does not end it from here: the server knows whether that is worth another attempt.
type Handler func(ctx context.Context, call *Call) (json.RawMessage, error)

// Typed gives a handler its input as a Go value, and sends what it returns as JSON.
func Typed[In any](handler func(context.Context, *Call, In) (any, error)) Handler {
	return func(ctx context.Context, call *Call) (json.RawMessage, error) {
		var in In
		if err := json.Unmarshal([]byte(call.InputJson), &in); err != nil {
			return nil, &ToolError{Message: "input: " + err.Error()}
		}
		out, err := handler(ctx, call, in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}
}

// ErrClaimLost is in context.Cause(ctx) when a handler was told to stop.
var ErrClaimLost = errors.New("the claim was lost")

// ToolError is a failure that is meant for the caller.
type ToolError struct {
	Message   string
	Data      json.RawMessage // more, if there is more
	Retryable bool            // whether another attempt makes sense
}

func (e *ToolError) Error() string { return e.Message }

// Call is what a handler works on. CallId is the same on every attempt: pass it on as the idempotency key to
// whatever must not happen twice.
type Call struct {
	*pb.Claim
	session *session
	held    *held
}

// NewToken makes a token with which whoever has it may answer the call later. Store it before Defer, publish it
// after: until the deferral is stored it is refused.
func (c *Call) NewToken() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	return fmt.Sprintf("%s.%d.%s", c.CallId, c.Attempt, base64.RawURLEncoding.EncodeToString(secret))
}

// Defer hands the call over for a token of NewToken, and returns when that is stored: the handler ends then, and
// what it returns is no answer. When it is refused, the handler still has to answer. The zero timeout is that of
// the call's policy.
func (c *Call) Defer(token string, timeout time.Duration) error {
	deferral := &pb.Deferral{
		ClaimId: c.ClaimId, CallId: c.CallId, Secret: token[strings.LastIndexByte(token, '.')+1:],
	}
	if timeout > 0 {
		deferral.Timeout = durationpb.New(timeout)
	}
	stored := make(chan error, 1)
	s := c.session
	s.update(func() {
		if s.held[c.ClaimId] != c.held || c.held.over || s.outbox.has(c.ClaimId) {
			stored <- ErrClaimLost
			return
		}
		c.held.deferred = stored
		s.say(item{claimID: c.ClaimId, deferral: deferral, size: itemSize})
	})
	select {
	case err := <-stored:
		return err
	case <-s.life.Done():
		return context.Cause(s.life)
	}
}

// run runs a claim's handler, answers, and frees the slot.
func (s *session) run(ctx context.Context, h *held) {
	defer h.cancel(nil)
	result, err := s.handle(ctx, &Call{Claim: h.Claim, session: s, held: h})
	answer := s.answer(h, result, err)
	size := proto.Size(answer)
	s.update(func() {
		// Not when the claim was lost, or deferred.
		if s.held[h.ClaimId] == h {
			s.say(item{claimID: h.ClaimId, answer: answer, size: size})
		}
		s.freeSlot(h)
	})
}

func (s *session) handle(ctx context.Context, call *Call) (result json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.Log.Error("a handler panicked", "call", call.CallId, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return s.Tools[call.Tool](ctx, call)
}

// answer says how a handler ended. What could not be sent as it is becomes a failure: text that is not UTF-8 would
// end every stream that is to carry it, and an answer that is too large would be refused with its whole frame.
func (s *session) answer(h *held, result json.RawMessage, err error) *pb.Answer {
	var toolErr *ToolError
	var failure *pb.Failure
	limit := int(s.maxResult.Load())
	switch {
	case errors.As(err, &toolErr):
		failure = toolErr.failure()
	case err != nil:
		failure = newFailure(pb.FailureKind_FAILURE_KIND_EXCEPTION, err.Error())
	case len(result) > limit:
		message := fmt.Sprintf("the result has %d bytes; allowed are %d", len(result), limit)
		failure = newFailure(pb.FailureKind_FAILURE_KIND_OVERSIZED, message)
	case !utf8.Valid(result):
		failure = newFailure(pb.FailureKind_FAILURE_KIND_INVALID_ANSWER, "the result is not valid UTF-8")
	case len(result) == 0:
		result = json.RawMessage("null")
	}
	answer := &pb.Answer{ClaimId: h.ClaimId, CallId: h.CallId}
	if failure != nil {
		answer.Outcome = &pb.Answer_Failure{Failure: failure}
	} else {
		answer.Outcome = &pb.Answer_ResultJson{ResultJson: string(result)}
	}
	return answer
}

func (e *ToolError) failure() *pb.Failure {
	failure := newFailure(pb.FailureKind_FAILURE_KIND_TOOL, e.Message)
	failure.DataJson = strings.ToValidUTF8(string(e.Data), "\uFFFD")
	if size := len(failure.DataJson); size > maxData {
		message := fmt.Sprintf("the failure's data has %d bytes; allowed are %d (of the failure: %s)", size, maxData, e.Message)
		failure = newFailure(pb.FailureKind_FAILURE_KIND_OVERSIZED, message)
	}
	failure.Retryable = e.Retryable
	return failure
}

func newFailure(kind pb.FailureKind, message string) *pb.Failure {
	return &pb.Failure{Kind: kind, Message: strings.ToValidUTF8(message[:min(len(message), maxMessage)], "")}
}
