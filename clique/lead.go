package clique

import (
	"context"
	"fmt"
	"time"

	"go.millstream.dev/client"
)

// A Python program forms cliques through one of the Go workers, the leader, which runs the functions below outside its
// tasks, as a client of the same scheduler. Python keeps a record of the clique and sends it with each request, so that
// leaders are stateless.

// record is the state of a clique that Python keeps. Times are in seconds.
type record struct {
	ID            string   `json:"id"`
	Name          string   `json:"name"`
	Backend       string   `json:"backend"` // as requested
	Carrier       string   `json:"carrier"` // as chosen
	Devices       string   `json:"devices"` // backend for device memory
	Why           string   `json:"why"`     // reason for Devices
	Deterministic bool     `json:"deterministic"`
	Timeout       float64  `json:"timeout"`
	Idle          float64  `json:"idle"`
	Members       []Member `json:"members"`
}

// leadRequest is a request to form or to reform a clique.
type leadRequest struct {
	record
	// Workers are the ranks of a new clique; Add and Size are those of ReformOptions.
	Workers []string `json:"workers"`
	Add     []string `json:"add"`
	Size    int      `json:"size"`
}

func (r record) options() Options {
	return Options{Name: r.Name, Backend: Backend(r.Backend), Deterministic: r.Deterministic,
		Timeout: seconds(r.Timeout), Idle: seconds(r.Idle)}
}

func seconds(s float64) time.Duration {
	if !(s > 0 && s < 1e9) {
		return 0 // the default
	}
	return time.Duration(s * float64(time.Second))
}

// record returns the record of the clique.
func (q *Clique) record() record {
	return record{ID: q.id, Name: q.opts.Name, Backend: string(q.opts.Backend), Carrier: q.backend, Devices: q.devices,
		Why: q.why, Deterministic: q.opts.Deterministic,
		Timeout: q.opts.Timeout.Seconds(), Idle: q.opts.Idle.Seconds(), Members: q.members}
}

// restore returns the clique of a record.
func (r record) restore(c *client.Client) (*Clique, error) {
	if err := checkID(r.ID); err != nil {
		return nil, err
	}
	if len(r.Members) == 0 || len(r.Members) > maxRanks {
		return nil, fmt.Errorf("clique %s: invalid record: %d members", r.ID, len(r.Members))
	}
	return &Clique{c: c, opts: r.options(), id: r.ID, members: r.Members, backend: r.Carrier, devices: r.Devices,
		why: r.Why}, nil
}

var (
	_ = lead("millstream.clique.lead.form", func(ctx context.Context, c *client.Client, in leadRequest) (any, error) {
		opts := in.options()
		opts.Workers = in.Workers
		q, err := Form(ctx, c, opts)
		if err != nil {
			return nil, err
		}
		return q.record(), nil
	})
	_ = lead("millstream.clique.lead.reform", func(ctx context.Context, c *client.Client, in leadRequest) (any, error) {
		old, err := in.restore(c)
		if err != nil {
			return nil, err
		}
		q, err := old.Reform(ctx, ReformOptions{Add: in.Add, Size: in.Size})
		if err != nil {
			return nil, err
		}
		return q.record(), nil
	})
	_ = lead("millstream.clique.lead.dissolve", func(ctx context.Context, c *client.Client, in leadRequest) (any,
		error) {
		q, err := in.restore(c)
		if err != nil {
			return nil, err
		}
		return struct{}{}, q.Dissolve(ctx)
	})
)

// lead registers a function that gets the client of the worker.
func lead(name string, f func(ctx context.Context, c *client.Client, in leadRequest) (any, error)) *client.Fn1[string,
	string] {
	return client.Func(name, func(ctx context.Context, text string) (string, error) {
		in, err := read[leadRequest](name, text)
		if err != nil {
			return "", err
		}
		c, err := client.FromContext(ctx)
		if err != nil {
			return "", err
		}
		ctx, cancel := context.WithTimeout(ctx, leadTime(in))
		defer cancel()
		out, err := f(ctx, c, in)
		if err != nil {
			return "", err
		}
		return write(out)
	})
}

// leadTime returns the time limit of a request to a leader: twice the timeout of Form, and the time to undo it.
func leadTime(in leadRequest) time.Duration {
	t := seconds(in.Timeout)
	if t == 0 {
		t = defaultTimeout
	}
	return 2*t + undoTime
}
