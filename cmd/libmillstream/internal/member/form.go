package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.millstream.dev/clique"
	"go.millstream.dev/internal/task"
)

// A member forms its clique with the functions that package clique registers for workers.
const (
	prepareFn = "millstream.clique.prepare"
	rosterFn  = "millstream.clique.roster"
	formFn    = "millstream.clique.form"
)

// maxText bounds contacts and tickets together, in bytes.
const maxText = 32 << 20

// contact is the text that a member publishes.
type contact struct {
	settings
	Rank json.RawMessage `json:"rank"` // the entry of the roster
}

// settings must be equal on all ranks.
type settings struct {
	ID            string         `json:"id"`
	Backend       clique.Backend `json:"backend,omitempty"`
	Deterministic bool           `json:"deterministic,omitempty"`
	Timeout       time.Duration  `json:"timeout"`
}

func (m *Member) settings() settings {
	return settings{m.cfg.ID, m.cfg.Backend, m.cfg.Deterministic, m.cfg.Timeout}
}

// call calls a registered function with JSON.
func call(ctx context.Context, name string, in any) (string, error) {
	f, ok := task.Lookup(name)
	if !ok {
		return "", fmt.Errorf("member: no function %q; link package clique", name)
	}
	text, err := json.Marshal(in)
	if err != nil {
		return "", fmt.Errorf("member: %w", err)
	}
	out, err := f.Invoke(ctx, []*task.Value{task.NewValue(string(text))})
	if err != nil {
		return "", err
	}
	return out.(string), nil
}

// prepare creates the session of the clique and returns the contact.
func (m *Member) prepare(ctx context.Context) (string, error) {
	ctx, cancel := m.context(ctx)
	defer cancel()
	out, err := call(ctx, prepareFn, map[string]any{"id": m.cfg.ID, "keep": 2 * m.cfg.Timeout,
		"ucx": m.cfg.Backend != clique.Comm, "backend": m.cfg.Backend})
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(contact{m.settings(), json.RawMessage(out)})
	return string(b), err
}

// Ticket returns the ticket of a clique from the contacts of all its ranks. It does not depend on their order, so every
// rank can compute it.
func Ticket(contacts []string) (string, error) {
	if len(contacts) == 0 {
		return "", errors.New("member: no contacts; pass those of all ranks")
	}
	total := 0
	var first settings
	ranks := make([]json.RawMessage, len(contacts))
	for i, text := range contacts {
		if total += len(text); total > maxText {
			return "", fmt.Errorf("member: contacts of more than %d bytes", maxText)
		}
		var c contact
		if err := json.Unmarshal([]byte(text), &c); err != nil || len(c.Rank) == 0 {
			return "", fmt.Errorf("member: contact %d of %d is invalid: %.100q", i, len(contacts), text)
		}
		if i == 0 {
			first = c.settings
		}
		if c.settings != first {
			return "", fmt.Errorf("member: contact %d has other settings than contact 0: %+v, %+v; open all ranks "+
				"with the same ones", i, c.settings, first)
		}
		ranks[i] = c.Rank
	}
	return call(context.Background(), rosterFn, struct {
		settings
		Ranks []json.RawMessage `json:"ranks"`
	}{first, ranks})
}

// form connects the session to the ranks of a ticket and returns the name of the backend.
func (m *Member) form(ctx context.Context, ticket string) (backend string, err error) {
	var t struct {
		ID string `json:"id"`
	}
	if len(ticket) > maxText {
		return "", fmt.Errorf("member: ticket of %d bytes, maximum %d", len(ticket), maxText)
	}
	if err := json.Unmarshal([]byte(ticket), &t); err != nil {
		return "", fmt.Errorf("member: invalid ticket %.100q: %w", ticket, err)
	}
	if t.ID != m.cfg.ID {
		return "", fmt.Errorf("member: the ticket is of clique %.80q, this communicator of %q", t.ID, m.cfg.ID)
	}
	reply, err := call(ctx, formFn, json.RawMessage(ticket))
	if err != nil {
		return "", err
	}
	var formed struct {
		Error   string `json:"error"`
		Backend string `json:"backend"`
	}
	if err := json.Unmarshal([]byte(reply), &formed); err != nil {
		return "", fmt.Errorf("member: %w", err)
	}
	if formed.Error != "" {
		return "", errors.New(formed.Error)
	}
	return formed.Backend, nil
}
