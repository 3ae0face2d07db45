// A worker with the tools that `npx trunkline conformance` calls: start from it, and put yours in their place.
package main

//go:generate npx @bufbuild/buf@1.75.0 generate

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"example.com/trunkline-worker/trunkline"
)

func echo(_ context.Context, call *trunkline.Call) (json.RawMessage, error) {
	return json.RawMessage(call.InputJson), nil // never parsed, so that no digit is lost
}

func fail(_ context.Context, _ *trunkline.Call, in trunkline.ToolError) (any, error) {
	return nil, &in
}

func crash(_ context.Context, _ *trunkline.Call, in struct{ Message string }) (any, error) {
	panic(in.Message)
}

func sleep(ctx context.Context, call *trunkline.Call, in struct{ MS float64 }) (any, error) {
	select {
	case <-time.After(time.Duration(in.MS * float64(time.Millisecond))):
		return map[string]bool{"slept": true}, nil
	case <-ctx.Done():
		fmt.Println("stopped", call.CallId)
		return nil, context.Cause(ctx)
	}
}

func deferred(_ context.Context, call *trunkline.Call, in struct {
	TimeoutMS int64 `json:"timeout_ms"`
}) (any, error) {
	token := call.NewToken() // a real tool stores it here, before anything can go wrong
	if err := call.Defer(token, time.Duration(in.TimeoutMS)*time.Millisecond); err != nil {
		return nil, err
	}
	fmt.Println("token", token) // and publishes it here, where it is good
	return nil, nil
}

func big(_ context.Context, _ *trunkline.Call, in struct{ Bytes int }) (any, error) {
	return strings.Repeat("x", in.Bytes), nil
}

func main() {
	tools := map[string]trunkline.Handler{
		"echo": echo, "fail": trunkline.Typed(fail), "crash": trunkline.Typed(crash),
		"sleep": trunkline.Typed(sleep), "defer": trunkline.Typed(deferred), "big": trunkline.Typed(big),
	}
	for name, handler := range tools {
		tools[name] = func(ctx context.Context, call *trunkline.Call) (json.RawMessage, error) {
			fmt.Println("started", call.CallId, call.Attempt)
			return handler(ctx, call)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	worker := trunkline.Worker{
		URL: env("TRUNKLINE_URL", "http://127.0.0.1:7788"), Key: os.Getenv("TRUNKLINE_KEY"),
		Name: env("TRUNKLINE_WORKER", "go"), Tools: tools, Log: slog.Default(),
	}
	var err error
	if worker.Slots, err = strconv.Atoi(env("TRUNKLINE_CONCURRENCY", "10")); err == nil {
		err = worker.Run(ctx)
	}
	if err != nil {
		slog.Error("the worker has ended", "because", err)
		os.Exit(1)
	}
}

func env(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}
