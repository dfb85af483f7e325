package clique

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/ucx"
)

// The functions that form a clique run on workers outside the tasks (Dask's run), so that neither a thread of a worker
// nor its heartbeat waits for a rank that does not connect. Arguments and results are JSON, because Python uses them,
// too.

// maxRequest bounds a request, in bytes. A roster of ten thousand ranks fits.
const maxRequest = 32 << 20

// maxRanks bounds the number of ranks of a clique.
const maxRanks = 16384

// prepareRequest asks a worker to prepare what does not depend on the other ranks.
type prepareRequest struct {
	ID string `json:"id"`
	// Keep is how long the prepared session waits for the roster.
	Keep time.Duration `json:"keep"`
	// UCX requests a UCX address.
	UCX bool `json:"ucx"`
	// Backend is the requested backend; it determines what is probed of the worker's GPU.
	Backend Backend `json:"backend,omitempty"`
}

// prepared is the entry of a worker in the roster.
type prepared struct {
	Member
	// Boot identifies the machine, Trusted reports whether UCX data may leave it.
	Boot    string `json:"boot,omitempty"`
	Trusted bool   `json:"trusted,omitempty"`
	// UCX is the contact of a UCX worker for this clique only. If there is none, NoUCX is the reason.
	UCX   ucx.Contact `json:"ucx,omitzero"`
	NoUCX string      `json:"no_ucx,omitempty"`
	// Device describes the GPU of the worker.
	Device gpu `json:"device"`
	// Address is where the other ranks connect to this one, if that is not the address of the worker.
	Address string `json:"address,omitempty"`
	// Functions is the hash of the function registry of the worker.
	Functions string `json:"functions,omitempty"`
}

// formRequest is the roster, the same for every worker.
type formRequest struct {
	ID            string        `json:"id"`
	Name          string        `json:"name,omitempty"`
	Backend       string        `json:"backend"`
	Devices       string        `json:"devices,omitempty"` // backend for device memory
	Deterministic bool          `json:"deterministic,omitempty"`
	Timeout       time.Duration `json:"timeout"`
	Idle          time.Duration `json:"idle,omitempty"`
	Ranks         []prepared    `json:"ranks"`
}

// rosterRequest asks for the roster of entries that were collected by the caller.
type rosterRequest struct {
	ID            string        `json:"id"`
	Backend       Backend       `json:"backend,omitempty"` // as requested
	Deterministic bool          `json:"deterministic,omitempty"`
	Timeout       time.Duration `json:"timeout"`
	Ranks         []prepared    `json:"ranks"`
}

// roster checks the entries and returns their roster, which does not depend on the order of the entries.
func (in rosterRequest) roster() (formRequest, error) {
	out := formRequest{ID: in.ID, Deterministic: in.Deterministic, Timeout: in.Timeout, Ranks: in.Ranks}
	if err := checkID(in.ID); err != nil {
		return out, err
	}
	if len(in.Ranks) == 0 || len(in.Ranks) > maxRanks {
		return out, fmt.Errorf("clique %s: %d ranks: want 1 to %d", in.ID, len(in.Ranks), maxRanks)
	}
	seen := make(map[string]bool, len(in.Ranks))
	for _, r := range in.Ranks {
		if r.Worker == "" || seen[r.Worker] {
			return out, fmt.Errorf("clique %s: two ranks are named %q; names must be unique", in.ID, r.Worker)
		}
		seen[r.Worker] = true
	}
	host := in.Backend
	if host == NCCL {
		host = Auto
	}
	if _, _, err := out.complete(in.Backend, host); err != nil {
		return out, fmt.Errorf("clique %s: %w", in.ID, err)
	}
	return out, nil
}

// formed is the reply to a formRequest.
type formed struct {
	// Error is the reason why the worker could not become a rank, "" on success.
	Error string `json:"error,omitempty"`
	// Backend is the name of the backend for host memory.
	Backend string `json:"backend,omitempty"`
}

type idRequest struct {
	ID string `json:"id"`
}

// stateReply is the state of a clique on a worker.
type stateReply struct {
	Known bool `json:"known"`
	// Failed is the rank whose failure ended the clique, -1 while it is usable; Error is the reason.
	Failed int    `json:"failed"`
	Error  string `json:"error,omitempty"`
	// Joined is the number of tasks that have joined.
	Joined int `json:"joined"`
}

// Functions on workers. internal/dask/python/millstream/clique.py uses their names.
var (
	prepareFn = remote("millstream.clique.prepare", func(ctx context.Context, h *hub, in prepareRequest) (prepared,
		error) {
		return h.prepare(ctx, in)
	})
	formFn = remote("millstream.clique.form", func(ctx context.Context, h *hub, in formRequest) (formed, error) {
		backend, err := h.form(ctx, in)
		if err != nil {
			return formed{Error: err.Error()}, nil // so that the replies of other workers are kept
		}
		return formed{Backend: backend}, nil
	})
	// Processes that are not Millstream workers (cmd/libmillstream) exchange their entries themselves, and each
	// computes the same roster from all of them.
	_ = client.Func("millstream.clique.roster", func(_ context.Context, text string) (string, error) {
		in, err := read[rosterRequest]("millstream.clique.roster", text)
		if err != nil {
			return "", err
		}
		out, err := in.roster()
		if err != nil {
			return "", err
		}
		return write(out)
	})
	dissolveFn = remote("millstream.clique.dissolve", func(_ context.Context, h *hub, in idRequest) (stateReply,
		error) {
		return h.dissolve(in.ID), nil
	})
)

// remote registers a function that gets the hub of the worker.
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

// read decodes a request or a reply.
func read[T any](name, text string) (T, error) {
	var v T
	if len(text) > maxRequest {
		return v, fmt.Errorf("clique: %s: %d bytes exceed the limit of %d", name, len(text), maxRequest)
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

// request calls a function on workers concurrently and returns the replies by address. Requests pass through the
// scheduler, so that the client need not reach the workers.
func request[Out any](ctx context.Context, c *client.Client, f *client.Fn1[string, string], in any,
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
			return nil, fmt.Errorf("reply of %s: %w", address, err)
		}
	}
	return out, nil
}

// checkID checks the ID of a clique, which is used as a map key and in messages.
func checkID(id string) error {
	if id == "" || len(id) > 64 {
		return fmt.Errorf("clique: invalid clique id %.80q: want 1 to 64 bytes", id)
	}
	return nil
}
