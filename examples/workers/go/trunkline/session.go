package trunkline

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	pb "example.com/trunkline-worker/gen/trunkline/v1"
)

// What the id of a claim takes in a frame, and an item beside its payload.
const claimIDSize, itemSize = 40, 200

// session is this process as the server knows it, across streams: the claims it holds and what it has to say.
type session struct {
	Worker
	life  context.Context
	id    string
	nonce string
	done  chan struct{} // closed when it has drained
	leave func()

	maxResult atomic.Int64 // bytes, as the server announced it

	mu       sync.Mutex
	held     map[string]*held // by claim id, until the ack of what became of them
	outbox   *outbox
	free     int
	hellos   uint64
	draining bool
	newest   *stream // the one opened last, unless it has ended or said goaway
	active   *stream // the last that was welcomed, unless it has ended
}

// held is a claim from its receipt to the ack of what became of it.
type held struct {
	*pb.Claim
	told      bool // the server was told of its acceptance
	confirmed bool // the acceptance of a `confirm` claim is stored
	started   bool
	over      bool // its handler has ended, or will never start
	cancel    context.CancelCauseFunc
	deferred  chan error // what became of its deferral
}

func newSession(w Worker, life context.Context) *session {
	done := make(chan struct{})
	s := &session{
		Worker: w, life: life, id: rand.Text(), nonce: rand.Text(),
		done: done, leave: sync.OnceFunc(func() { close(done) }),
		held: map[string]*held{}, outbox: newOutbox(), free: w.Slots,
	}
	s.maxResult.Store(1 << 20)
	return s
}

// update makes a change, then looks whether the session may end and lets the writers look for something to send.
func (s *session) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	if s.draining && len(s.held) == 0 && s.free == s.Slots {
		if s.active == nil && s.newest == nil {
			s.leave() // nothing is left to say, and nobody listens
		} else if s.active != nil && s.active.drained {
			s.active.closing = true
		}
	}
	for _, st := range []*stream{s.active, s.newest} {
		if st != nil {
			st.poke()
		}
	}
}

func (s *session) open(conn *grpc.ClientConn) *stream {
	st := newStream(s, conn)
	s.update(func() { s.newest = st })
	go st.run(s.life)
	return st
}

func (s *session) ended(st *stream, err error) {
	st.err = err
	if s.active == st {
		s.active = nil
	}
	if s.newest == st {
		s.newest = nil
	}
	st.leave()
}

// hello says who is here and what it holds, at the moment when it is sent (1).
func (s *session) hello(st *stream) *pb.Hello {
	s.hellos++
	hello := &pb.Hello{
		SessionId: s.id, Nonce: s.nonce, Worker: s.Name, Sdk: "trunkline-example-go",
		Tools: slices.Sorted(maps.Keys(s.Tools)), Number: s.hellos,
	}
	if !s.draining {
		hello.Slots = uint32(max(s.free, 0))
	}
	st.named = make(map[string]bool, len(s.held))
	for id, h := range s.held {
		st.named[id] = true
		hello.Claims = append(hello.Claims, &pb.HeldClaim{CallId: h.CallId, ClaimId: id})
	}
	return hello
}

func (s *session) heartbeat() *pb.Heartbeat {
	return &pb.Heartbeat{Claims: slices.Collect(maps.Keys(s.held))}
}

// apply does what a frame says, in the order of its fields. Fields and enum values of a newer server fall through.
func (s *session) apply(st *stream, frame *pb.WorkResponse) {
	st.heard = true
	if frame.Welcome != nil && !st.welcomed {
		s.welcome(st, frame.Welcome)
	}
	for _, claim := range frame.Claims {
		s.receive(st, claim)
	}
	for _, id := range frame.Confirmed {
		s.confirm(id)
	}
	for _, ack := range frame.Acks {
		s.acknowledge(ack)
	}
	for _, revocation := range frame.Revoked {
		s.lose(revocation.ClaimId, revocation.Reason.String())
	}
	for _, id := range frame.GetHeartbeatAck().GetLost() {
		s.lose(id, "the server does not hold it any more")
	}
	if frame.Drained != nil {
		st.drained = true
	}
	if frame.Goaway != nil {
		st.replaced, st.err = true, errGoaway
		if s.newest == st {
			s.newest = nil
		}
		st.leave()
	}
}

// welcome makes st the stream to talk on. What the one before has not sent is said here.
func (s *session) welcome(st *stream, welcome *pb.Welcome) {
	if s.active != nil {
		s.active.queue = nil
	}
	s.active = st
	st.welcomed = true
	if welcome.MaxResultBytes > 0 {
		s.maxResult.Store(int64(welcome.MaxResultBytes))
	}
	for _, verdict := range welcome.Verdicts {
		switch verdict.Standing {
		case pb.ClaimVerdict_STANDING_CONFIRMED:
			s.confirm(verdict.ClaimId)
		case pb.ClaimVerdict_STANDING_DEFERRED, pb.ClaimVerdict_STANDING_ANSWERED, pb.ClaimVerdict_STANDING_LOST:
			s.lose(verdict.ClaimId, verdict.Standing.String())
		default: // kept; where that is wrong, the next heartbeat_ack says so
		}
	}
	st.queue = s.outbox.items()
	for id, h := range s.held {
		if st.named[id] {
			s.accepted(h) // to name it was to accept it
		} else if !s.outbox.has(id) {
			s.accept(h) // it came on the stream before, after this one's hello
		}
	}
	st.drainDue = s.draining
}

// receive takes a claim, and one slot for it (2).
func (s *session) receive(st *stream, claim *pb.Claim) {
	if s.held[claim.ClaimId] != nil {
		if st == s.newest && !s.draining {
			st.grant++ // sent again, it took credit but takes no slot
		}
		return
	}
	h := &held{Claim: claim}
	s.held[claim.ClaimId] = h
	s.free--
	if s.draining || s.Tools[claim.Tool] == nil {
		s.release(h)
		return
	}
	s.accept(h)
}

func (s *session) accept(h *held) {
	if s.active != nil {
		s.active.queue = append(s.active.queue, item{claimID: h.ClaimId, accepts: h, size: claimIDSize})
	}
}

func (s *session) accepted(claims ...*held) {
	for _, h := range claims {
		h.told = true
		s.start(h)
	}
}

func (s *session) confirm(claimID string) {
	if h := s.held[claimID]; h != nil {
		h.told, h.confirmed = true, true
		s.start(h)
	}
}

// start starts the handler of a claim, once, as soon as it may.
func (s *session) start(h *held) {
	if !h.told || h.Confirm && !h.confirmed || h.started || h.over {
		return
	}
	h.started = true
	var ctx context.Context
	ctx, h.cancel = context.WithCancelCause(s.life)
	go s.run(ctx, h)
}

// say keeps an item until its ack, and sends it where there is a stream; if not, the next welcome does (5).
func (s *session) say(i item) {
	if s.outbox.put(i) && s.active != nil {
		s.active.queue = append(s.active.queue, i)
	}
}

// release hands back a claim whose handler has not started.
func (s *session) release(h *held) {
	s.say(item{claimID: h.ClaimId, size: claimIDSize})
	s.freeSlot(h)
}

// freeSlot marks that no handler runs for a claim any more, and passes its slot on (3).
func (s *session) freeSlot(h *held) {
	h.over = true
	s.free++
	if s.newest != nil && s.newest.greeted && !s.draining {
		s.newest.grant++ // before the hello it is counted there
	}
}

// lose drops a claim that has ended without our doing. One in the outbox waits for its ack, which alone counts (6).
func (s *session) lose(claimID, why string) {
	h := s.held[claimID]
	if h == nil || s.outbox.has(claimID) {
		return
	}
	delete(s.held, claimID)
	s.Log.Info("claim lost", "call", h.CallId, "because", why)
	if h.started {
		h.cancel(fmt.Errorf("%w: %s", ErrClaimLost, why))
	} else {
		s.freeSlot(h)
	}
}

// acknowledge is done with an item, and with its claim. Only a refused deferral leaves the claim with its handler,
// which has yet to answer.
func (s *session) acknowledge(ack *pb.Ack) {
	i, found := s.outbox.take(ack.ClaimId)
	h := s.held[ack.ClaimId]
	if !found || h == nil {
		return
	}
	var refusal error
	if ack.Problem != nil {
		refusal = fmt.Errorf("%s: %s", ack.Problem.Reason, ack.Problem.Message)
		s.Log.Warn("refused", "call", h.CallId, "because", refusal)
	}
	if i.deferral == nil || refusal == nil || h.over {
		delete(s.held, ack.ClaimId)
	}
	if i.deferral != nil {
		h.deferred <- refusal
	}
}

// drain takes no further claim, and hands back those whose handlers have not started (7).
func (s *session) drain() {
	s.update(func() {
		s.draining = true
		for _, h := range s.held {
			if !h.started && !h.over {
				s.release(h)
			}
		}
		if s.active != nil {
			s.active.drainDue = true
		}
	})
}
