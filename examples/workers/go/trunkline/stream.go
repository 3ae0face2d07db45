package trunkline

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "example.com/trunkline-worker/gen/trunkline/v1"
)

const (
	// The largest frame that either side sends.
	maxFrame = 4 << 20
	// A frame is closed at this size, unless one item is larger.
	fullFrame = 256 << 10
	// How long a stream may take from its opening to its welcome.
	welcomeTimeout = 10 * time.Second
	// How long after its deadline a stream is left that said goaway and did not end.
	goawaySlack = 5 * time.Second
)

var (
	errSilent    = errors.New("the server was silent for three heartbeat intervals")
	errGoaway    = errors.New("the server said goaway")
	errOverdue   = errors.New("the server said goaway and did not end the stream")
	errNoWelcome = errors.New("the server gave no welcome")
)

type workClient = grpc.BidiStreamingClient[pb.WorkRequest, pb.WorkResponse]

// stream is one Work stream, on a connection of its own.
type stream struct {
	session *session
	conn    *grpc.ClientConn
	opened  time.Time
	wake    chan struct{} // there may be something to send
	left    chan struct{} // closed when the next stream is wanted: after a goaway, or at the end
	leave   func()

	// All below is guarded by session.mu.
	queue    []item
	named    map[string]bool // claims that its hello named
	grant    uint32
	greeted  bool // its hello was made
	welcomed bool
	beatDue  bool
	drainDue bool
	drained  bool
	closing  bool
	heard    bool
	replaced bool // the server said goaway
	err      error
}

func newStream(s *session, conn *grpc.ClientConn) *stream {
	left := make(chan struct{})
	return &stream{
		session: s, conn: conn, opened: time.Now(),
		wake: make(chan struct{}, 1), left: left, leave: sync.OnceFunc(func() { close(left) }),
	}
}

func (st *stream) outcome() (welcomed, replaced bool, err error) {
	st.session.mu.Lock()
	defer st.session.mu.Unlock()
	return st.welcomed, st.replaced, st.err
}

// run talks until the stream ends, and closes its connection.
func (st *stream) run(life context.Context) {
	ctx, cancel := context.WithCancelCause(life)
	err := st.talk(ctx, cancel)
	if cause := context.Cause(ctx); cause != nil {
		err = cause // what we gave up for, instead of "canceled"
	}
	cancel(nil)
	st.conn.Close()
	st.session.update(func() { st.session.ended(st, err) })
}

func (st *stream) talk(ctx context.Context, cancel context.CancelCauseFunc) error {
	late := time.AfterFunc(welcomeTimeout, func() { cancel(errNoWelcome) })
	defer late.Stop()
	rpc, err := pb.NewWorkerServiceClient(st.conn).Work(ctx, grpc.MaxCallRecvMsgSize(maxFrame))
	if err != nil {
		return err
	}
	go st.write(ctx, cancel, rpc)
	for {
		frame, err := rpc.Recv()
		if err != nil {
			return err
		}
		if welcome := frame.GetWelcome(); welcome != nil && late.Stop() {
			go st.beat(ctx, cancel, welcome.GetHeartbeatInterval().AsDuration())
		}
		if goaway := frame.GetGoaway(); goaway != nil {
			overdue := time.AfterFunc(goaway.GetDeadline().AsDuration()+goawaySlack, func() { cancel(errOverdue) })
			defer overdue.Stop()
		}
		st.session.update(func() { st.session.apply(st, frame) })
	}
}

// write sends whatever is ready, frame by frame; more gathers while one is being sent.
func (st *stream) write(ctx context.Context, drop context.CancelCauseFunc, rpc workClient) {
	for {
		frame, accepted, closing := st.next()
		switch {
		case frame != nil:
			if err := rpc.Send(frame); err != nil {
				if err != io.EOF { // that one means that Recv says why
					drop(err)
				}
				return
			}
			// Only now, when their acceptance is on its way, may handlers start (2).
			if len(accepted) > 0 {
				st.session.update(func() { st.session.accepted(accepted...) })
			}
		case closing:
			_ = rpc.CloseSend() // Recv sees how it ends
			return
		default:
			select {
			case <-st.wake:
			case <-ctx.Done():
				return
			}
		}
	}
}

// next makes the next frame; nil when there is nothing to say.
func (st *stream) next() (frame *pb.WorkRequest, accepted []*held, closing bool) {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if !st.greeted {
		st.greeted = true
		return &pb.WorkRequest{Hello: s.hello(st)}, nil, false
	}
	frame = &pb.WorkRequest{Grant: st.grant}
	st.grant = 0
	if st.welcomed { // until then grants only (1)
		accepted = st.fill(frame)
	}
	if proto.Size(frame) == 0 {
		return nil, nil, st.closing
	}
	return frame, accepted, false
}

// fill moves what is ready into a frame, up to its size; it returns the claims that this accepts.
func (st *stream) fill(frame *pb.WorkRequest) (accepted []*held) {
	size, taken := 0, 0
	if st.beatDue {
		st.beatDue = false
		frame.Heartbeat = st.session.heartbeat()
		size = len(frame.Heartbeat.Claims) * claimIDSize
	}
	for _, i := range st.queue {
		if size > 0 && size+i.size > fullFrame {
			break
		}
		i.put(frame)
		if i.accepts != nil {
			accepted = append(accepted, i.accepts)
		}
		size += i.size
		taken++
	}
	st.queue = st.queue[taken:]
	if st.drainDue && len(st.queue) == 0 { // what was to be said before it goes first
		st.drainDue = false
		frame.Drain = &pb.Drain{}
	}
	return accepted
}

// beat makes a heartbeat due in every interval, and drops a connection on which nothing was heard for three.
func (st *stream) beat(ctx context.Context, drop context.CancelCauseFunc, interval time.Duration) {
	if interval <= 0 {
		interval = 5 * time.Second
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	// Ticks are counted, not time: a process that stood still itself has had no chance to hear anything.
	for silent := 0; silent < 3; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		st.session.update(func() {
			st.beatDue = st == st.session.active
			silent++
			// A stream that was replaced gets no heartbeat, and so has no ack to send: its deadline bounds it.
			if st.heard || st.replaced && !st.beatDue {
				st.heard, silent = false, 0
			}
		})
	}
	drop(errSilent)
}

// poke lets the writer look for something to send.
func (st *stream) poke() {
	select {
	case st.wake <- struct{}{}:
	default: // it will look anyway
	}
}
