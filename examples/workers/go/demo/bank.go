package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// entry is a line of the ledger: every request that reached the bank. One with a key that the bank has seen before
// moves no money: it gets the transfer of the first.
type entry struct {
	Kind     string `json:"kind"` // refund or charge
	Transfer string `json:"transfer"`
	Order    string `json:"order"`
	Cents    int    `json:"cents"`
	Key      string `json:"key,omitempty"`
	Repeated bool   `json:"repeated,omitempty"`
}

// bank stands for a bank outside: its ledger is a file that every worker process can reach. It books at once and
// confirms after a while, so that a worker can die between the two.
type bank struct {
	file    string
	confirm time.Duration
}

// refund pays back. Asked again with the same key, it answers with the transfer that was made.
func (b *bank) refund(ctx context.Context, order string, cents int, key string) (*entry, error) {
	entries, err := b.ledger()
	if err != nil {
		return nil, err
	}
	asked := &entry{Kind: "refund", Transfer: newTransfer(), Order: order, Cents: cents, Key: key}
	for _, known := range entries {
		if known.Key == key {
			asked.Transfer, asked.Repeated = known.Transfer, true
			return asked, b.book(asked)
		}
	}
	if err := b.book(asked); err != nil {
		return nil, err
	}
	return asked, pause(ctx, b.confirm)
}

// charge takes money from the customer's card. The card terminal knows no keys: asked twice, it charges twice.
func (b *bank) charge(ctx context.Context, order string, cents int) (*entry, error) {
	asked := &entry{Kind: "charge", Transfer: newTransfer(), Order: order, Cents: cents}
	if err := b.book(asked); err != nil {
		return nil, err
	}
	return asked, pause(ctx, b.confirm)
}

// ledger is everything that was asked of the bank, oldest first.
func (b *bank) ledger() ([]entry, error) {
	file, err := os.Open(b.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var entries []entry
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var one entry
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, err
		}
		entries = append(entries, one)
	}
	return entries, lines.Err()
}

func (b *bank) book(asked *entry) error {
	line, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(b.file), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(b.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

func newTransfer() string { return "tr_" + rand.Text()[:8] }
