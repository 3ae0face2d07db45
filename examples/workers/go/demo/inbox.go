package main

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// question waits for a person, with the token that answers it.
type question struct {
	Name     string   `json:"name"` // short, for the person to type
	To       string   `json:"to"`
	Question string   `json:"question"`
	Options  []string `json:"options"`
	Token    string   `json:"token"`
}

// inbox is a folder with a file for each question; any process can read them. The tokens in it are secrets.
type inbox struct{ folder string }

// save keeps a question that nobody is shown yet: its token is not good before the call is deferred.
func (i inbox) save(q question) error {
	if err := os.MkdirAll(i.folder, 0o700); err != nil {
		return err
	}
	text, err := json.Marshal(q)
	if err != nil {
		return err
	}
	return os.WriteFile(i.path(q.Name, "draft"), text, 0o600)
}

// publish shows a saved question.
func (i inbox) publish(name string) error {
	return os.Rename(i.path(name, "draft"), i.path(name, "json"))
}

func (i inbox) path(name, ending string) string {
	return filepath.Join(i.folder, name+"."+ending)
}
