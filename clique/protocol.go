package clique

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/ucx"
)

// The functions by which a clique is formed run on workers beside the tasks (Dask's run), so
// that neither a thread of a worker nor its heartbeat waits for a rank that does not come.
// Arguments and results are JSON: Python writes and reads them, too.

// maxRequest bounds what a worker reads, in bytes: a roster of some ten thousand ranks.
const maxRequest = 32 << 20

// maxRanks bounds a clique.
const maxRanks = 16384

// prepareRequest asks a worker to make ready what it can know without the others.
type prepareRequest struct {
	ID string `json:"id"`
	// Keep is how long what was prepared waits for the roster.
	Keep time.Duration `json:"keep"`
	// UCX tells that the worker's UCX address is wanted.
	UCX bool `json:"ucx"`
	// Backend is what was asked for: it decides what of the worker's GPU is looked at.
	Backend Backend `json:"backend,omitempty"`
}

// prepared is a worker's part of the roster.
type prepared struct {
	Member
	// Boot identifies the machine, Trusted tells that lanes may leave it.
	Boot    string `json:"boot,omitempty"`
	Trusted bool   `json:"trusted,omitempty"`
	// UCX is how to reach a UCX worker for this clique alone. Without one, NoUCX says why.
	UCX   ucx.Contact `json:"ucx,omitzero"`
	NoUCX string      `json:"no_ucx,omitempty"`
	// Device is the worker's GPU.
	Device gpu `json:"device"`
	// Functions is the hash of the worker's functions.
	Functions string `json:"functions,omitempty"`
}

// formRequest is the roster, the same for every worker.
type formRequest struct {
	ID            string        `json:"id"`
	Name          string        `json:"name,omitempty"`
	Backend       string        `json:"backend"`
	Devices       string        `json:"devices,omitempty"` // what carries device memory
	Deterministic bool          `json:"deterministic,omitempty"`
	Timeout       time.Duration `json:"timeout"`
	Idle          time.Duration `json:"idle,omitempty"`
	Ranks         []prepared    `json:"ranks"`
}

// formed is a worker's answer to it.
type formed struct {
	// Error says why it has no part; "" if it has.
	Error string `json:"error,omitempty"`
	// Backend is what carries the data, as the engine calls it.
	Backend string `json:"backend,omitempty"`
}

type idRequest struct {
	ID string `json:"id"`
}

// stateReply tells what a worker knows about a clique.
type stateReply struct {
	Known bool `json:"known"`
	// Failed is the rank whose failure ended it, -1 while it works; Error says more.
	Failed int    `json:"failed"`
	Error  string `json:"error,omitempty"`
	// Joined is how many tasks have a part in it now.
	Joined int `json:"joined"`
}

// The functions. Their names are what travels; see also internal/dask/python/millstream/clique.py.
var (
	prepareFn = remote("millstream.clique.prepare", func(ctx context.Context, h *hub, in prepareRequest) (prepared,
		error) {
		return h.prepare(ctx, in)
	})
	formFn = remote("millstream.clique.form", func(ctx context.Context, h *hub, in formRequest) (formed, error) {
		backend, err := h.form(ctx, in)
		if err != nil {
			return formed{Error: err.Error()}, nil // with the others' answers, not in their place
		}
		return formed{Backend: backend}, nil
	})
	dissolveFn = remote("millstream.clique.dissolve", func(_ context.Context, h *hub, in idRequest) (stateReply,
		error) {
		return h.dissolve(in.ID), nil
	})
)

// remote registers a function that is given the worker's hub.
func remote[In, Out any](name string, f func(ctx context.Context, h *hub, in In) (Out, error)) *client.Fn1[string,
	string] {
	return client.Func(name, func(ctx context.Context, text string) (string, error) {
		h, err := hubOf(ctx)
		if err != nil {
			return "", err
		}
		in, err := read[In](name, text)
		if err != nil {
			return "", err
		}
		out, err := f(ctx, h, in)
		if err != nil {
			return "", err
		}
		return write(out)
	})
}

// read reads a request or an answer.
func read[T any](name, text string) (T, error) {
	var v T
	if len(text) > maxRequest {
		return v, fmt.Errorf("clique: %s: %d bytes, %d are allowed", name, len(text), maxRequest)
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return v, fmt.Errorf("clique: %s: %w", name, err)
	}
	return v, nil
}

func write(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// ask runs one of the functions on workers, at once, and returns their answers by address. It
// goes through the scheduler, so that a client need not reach the workers.
func ask[Out any](ctx context.Context, c *client.Client, f *client.Fn1[string, string], in any,
	workers []string) (map[string]Out, error) {
	text, err := write(in)
	if err != nil {
		return nil, err
	}
	answers, err := f.Run(ctx, c, text, workers...)
	if err != nil {
		return nil, err
	}
	out := make(map[string]Out, len(answers))
	for address, a := range answers {
		if out[address], err = read[Out](f.Name(), a); err != nil {
			return nil, fmt.Errorf("the answer of %s: %w", address, err)
		}
	}
	return out, nil
}

// checkID refuses what cannot be an id: it is a key of maps and a part of messages.
func checkID(id string) error {
	if id == "" || len(id) > 64 {
		return fmt.Errorf("clique: %.80q is no id of a clique: it has 1 to 64 bytes", id)
	}
	return nil
}
