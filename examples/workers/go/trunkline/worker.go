// Package trunkline is a worker of a Trunkline server: it takes calls from a stream, runs their handlers, and
// brings the answers back, whatever happens to connections and servers. docs/protocol.md, "Being a worker", is
// what it follows; the numbers in comments are the steps there.
package trunkline

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A stream that asked to be replaced this soon is replaced with a pause, or both sides would go round in circles.
const young = time.Second

// Worker says which tools to run, and for which server.
type Worker struct {
	URL   string // http://HOST:PORT, or https://
	Key   string // sent as a bearer token; empty for a server without keys
	Name  string // for people
	Slots int    // how many handlers run at once, 1 to 10,000
	Tools map[string]Handler
	Log   *slog.Logger
}

// Run works until ctx is done. Then it takes no further call, hands back what has not started, finishes what runs,
// delivers the answers however long that takes, and returns nil. It returns an error when the server refuses the
// key; everything else is waited out. Handlers keep ctx's values, and outlive it.
func (w Worker) Run(ctx context.Context) error {
	target, security, err := address(w.URL)
	if err != nil {
		return err
	}
	if w.Slots < 1 || w.Slots > 10_000 {
		return fmt.Errorf("Slots is %d; allowed are 1 to 10,000", w.Slots)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	if w.Key != "" {
		life = metadata.AppendToOutgoingContext(life, "authorization", "Bearer "+w.Key)
	}
	s := newSession(w, life)
	defer context.AfterFunc(ctx, s.drain)()

	var retry backoff
	for {
		// A connection for each stream, so that one that is dead, or whose server leaves, carries nothing new (8, 9).
		conn, err := grpc.NewClient(target, security)
		if err != nil {
			return err
		}
		st := s.open(conn)
		<-st.left
		welcomed, replaced, err := st.outcome()
		if code := status.Code(err); code == codes.Unauthenticated || code == codes.PermissionDenied {
			return fmt.Errorf("the server refuses the key: %w", err)
		}
		if welcomed {
			retry = backoff{}
		}
		select {
		case <-s.done:
			return nil
		default:
		}
		if replaced && time.Since(st.opened) > young {
			continue
		}
		pause := retry.next(time.Now())
		w.Log.Warn("no stream", "because", err, "next try in", pause)
		select {
		case <-time.After(pause):
		case <-s.done:
			return nil
		}
	}
}

func address(text string) (target string, security grpc.DialOption, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", nil, err
	}
	if u.Port() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", nil, fmt.Errorf("URL is %q; allowed are http://HOST:PORT and https://HOST:PORT", text)
	}
	transport := insecure.NewCredentials()
	if u.Scheme == "https" {
		transport = credentials.NewTLS(nil)
	}
	return "dns:///" + u.Host, grpc.WithTransportCredentials(transport), nil
}
