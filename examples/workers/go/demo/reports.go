package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"example.com/trunkline-worker/trunkline"
)

type job struct {
	CallID  string `json:"callId"`
	Attempt uint32 `json:"attempt"`
	Month   string `json:"month"`
}

// reportTools take reports on and leave their calls open, as examples/async-tools/worker.mjs does: the answer comes
// later, from another program, by the id of the call.
func reportTools() (map[string]trunkline.Handler, error) {
	return map[string]trunkline.Handler{"reports.render": trunkline.Typed(render)}, nil
}

func render(_ context.Context, call *trunkline.Call, in struct{ Month string }) (any, error) {
	// First the job, then the deferral: a crash between the two only takes the job on again.
	if err := saveJob(os.Getenv("JOBS_DIR"), job{call.CallId, call.Attempt, in.Month}); err != nil {
		return nil, err
	}
	if err := call.Defer(call.NewToken(), time.Hour); err != nil {
		return nil, err
	}
	fmt.Printf("took on the report of %s  (call %s, left open)\n", in.Month, call.CallId)
	return nil, nil
}

// saveJob keeps a job; again, for a call that is tried again, it replaces the one before.
func saveJob(folder string, one job) error {
	text, err := json.Marshal(one)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	file := filepath.Join(folder, strings.ReplaceAll(one.CallID, "/", "-")+".job.json")
	// In place at once: whoever lists the folder sees whole files.
	draft := file + ".draft"
	if err := os.WriteFile(draft, text, 0o644); err != nil {
		return err
	}
	return os.Rename(draft, file)
}
