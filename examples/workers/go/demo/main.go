// The tools of examples/host-tools and examples/async-tools in Go, on this example's worker. The demo's story is
// played with them: `npm run demo -- --workers python,go`.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"example.com/trunkline-worker/trunkline"
)

var parts = map[string]func() (map[string]trunkline.Handler, error){"shop": shopTools, "reports": reportTools}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 || parts[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: worker shop|reports NAME")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		slog.Error("the worker has ended", "because", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, part, name string) error {
	tools, err := parts[part]()
	if err != nil {
		return err
	}
	worker := trunkline.Worker{
		URL: os.Getenv("TRUNKLINE_URL"), Name: name, Slots: 10, Tools: tools, Log: slog.Default(),
	}
	fmt.Println(name, "takes calls")
	return worker.Run(ctx)
}

// millis is a setting of so many milliseconds.
func millis(name string, otherwise time.Duration) (time.Duration, error) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, nil
	}
	ms, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%s is %q; allowed is a number of milliseconds", name, text)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// pause waits, unless the claim is lost meanwhile.
func pause(ctx context.Context, length time.Duration) error {
	select {
	case <-time.After(length):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
