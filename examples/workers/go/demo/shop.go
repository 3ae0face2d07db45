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

// shop has what the tools work on.
type shop struct {
	crm   *crm
	delay time.Duration // how long a lookup takes
	bank  *bank
	inbox inbox
}

// shopTools are the shop's tools, as examples/host-tools/worker.mjs has them.
func shopTools() (map[string]trunkline.Handler, error) {
	customers, err := loadCRM(os.Getenv("DATA_DIR"))
	if err != nil {
		return nil, err
	}
	delay, err := millis("CRM_DELAY_MS", 250*time.Millisecond)
	if err != nil {
		return nil, err
	}
	confirm, err := millis("BANK_CONFIRM_MS", time.Second)
	if err != nil {
		return nil, err
	}
	state := os.Getenv("STATE_DIR")
	s := &shop{
		crm: customers, delay: delay,
		bank:  &bank{filepath.Join(state, "ledger.jsonl"), confirm},
		inbox: inbox{filepath.Join(state, "inbox")},
	}
	return map[string]trunkline.Handler{
		"crm.find_customer":   trunkline.Typed(s.findCustomer),
		"crm.list_orders":     trunkline.Typed(s.listOrders),
		"crm.find_order":      trunkline.Typed(s.findOrder),
		"bank.refund":         trunkline.Typed(s.refund),
		"bank.charge":         trunkline.Typed(s.charge),
		"bank.find_transfers": trunkline.Typed(s.findTransfers),
		"ask_user":            trunkline.Typed(s.askUser),
	}, nil
}

func (s *shop) findCustomer(ctx context.Context, call *trunkline.Call, in struct{ Email string }) (any, error) {
	note(call, in.Email)
	if err := pause(ctx, s.delay); err != nil {
		return nil, err
	}
	// The run acts for one shop: look among its customers only.
	if found := s.crm.findCustomer(call.Namespace, in.Email); found != nil {
		return found, nil
	}
	data := map[string]any{"code": "not_found", "didYouMean": s.crm.closestEmail(call.Namespace, in.Email)}
	return nil, refusal("no customer "+in.Email, data)
}

func (s *shop) listOrders(ctx context.Context, call *trunkline.Call, in struct{ Email string }) (any, error) {
	note(call, in.Email)
	if err := pause(ctx, s.delay); err != nil {
		return nil, err
	}
	return s.crm.listOrders(call.Namespace, in.Email), nil
}

func (s *shop) findOrder(_ context.Context, call *trunkline.Call, in struct{ ID string }) (any, error) {
	note(call, in.ID)
	if found := s.crm.findOrder(call.Namespace, in.ID); found != nil {
		return found, nil
	}
	return nil, refusal("no order "+in.ID, map[string]any{"code": "not_found"})
}

type payment struct {
	Order string
	Cents int
}

// refund may run again after a crash: the idempotency key, the same on every attempt, keeps it to one payment.
func (s *shop) refund(ctx context.Context, call *trunkline.Call, in payment) (any, error) {
	note(call, in.Order)
	return s.bank.refund(ctx, in.Order, in.Cents, call.CallId)
}

// charge is declared at_most_once, because there is no key to give.
func (s *shop) charge(ctx context.Context, call *trunkline.Call, in payment) (any, error) {
	note(call, in.Order)
	return s.bank.charge(ctx, in.Order, in.Cents)
}

func (s *shop) findTransfers(_ context.Context, call *trunkline.Call, in struct{ Order string }) (any, error) {
	note(call, in.Order)
	entries, err := s.bank.ledger()
	found := []entry{}
	for _, one := range entries {
		if one.Order == in.Order && !one.Repeated {
			found = append(found, one)
		}
	}
	return found, err
}

func (s *shop) askUser(_ context.Context, call *trunkline.Call, in struct {
	Question string
	Options  []string
}) (any, error) {
	note(call, fmt.Sprintf("%q", in.Question))
	runID, seq, _ := strings.Cut(call.CallId, "/")
	name := fmt.Sprintf("q%s-%s", seq, runID[len(runID)-4:])
	// Saved before anything can go wrong, shown once the token is good.
	token := call.NewToken()
	if err := s.inbox.save(question{name, call.Namespace, in.Question, in.Options, token}); err != nil {
		return nil, err
	}
	if err := call.Defer(token, 3*24*time.Hour); err != nil {
		return nil, err
	}
	// What is returned from here on is no answer: whoever holds the token answers.
	return nil, s.inbox.publish(name)
}

func refusal(message string, data map[string]any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return &trunkline.ToolError{Message: message, Data: text}
}

func note(call *trunkline.Call, what string) {
	fmt.Printf("%s %s  (key %s, attempt %d)\n", call.Tool, what, call.CallId, call.Attempt)
}
