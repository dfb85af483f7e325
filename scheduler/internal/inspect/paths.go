package inspect

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.millstream.dev/internal/comm/flow"
	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
)

// Bounds of the descriptions of workers: those that one page requests, the time for each, how long they are kept, and
// their number.
const (
	describeMost  = 32
	describeTime  = 2 * time.Second
	describeKeep  = 5 * time.Minute
	describeLimit = 4096
)

// paths explains why pairs of workers do not use a faster transport. It keeps what workers have said about themselves.
type paths struct {
	mu      sync.Mutex
	members map[string]described // by address; guarded by mu
}

// described is a worker and when it was asked.
type described struct {
	flow.Member
	at time.Time
}

// direct are transports within a machine that no other is faster than.
var direct = []string{"cuda_ipc", "cma", "xpmem", "knem", "sysv", "posix", "inproc"}

// explain sets the reasons of pairs. describe asks a worker about itself. Pairs of workers that have not been asked yet
// have no reason; a later page has it.
func (p *paths) explain(ctx context.Context, describe func(context.Context, string) flow.Member,
	pairs []dashboard.Pair) {
	var ask []string
	now := time.Now()
	wanted := map[string]bool{}
	p.mu.Lock()
	for i := range pairs {
		if fast(&pairs[i]) {
			continue
		}
		for _, address := range []string{pairs[i].From, pairs[i].To} {
			if m, ok := p.members[address]; wanted[address] || ok && now.Sub(m.at) < describeKeep {
				continue
			}
			wanted[address] = true
			if len(ask) < describeMost {
				ask = append(ask, address)
			}
		}
	}
	p.mu.Unlock()
	answers := make([]flow.Member, len(ask))
	var asking sync.WaitGroup
	for i, address := range ask {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, describeTime)
			defer cancel()
			answers[i] = describe(ctx, address)
		})
	}
	asking.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.members == nil || len(p.members) > describeLimit {
		p.members = map[string]described{}
	}
	for i, address := range ask {
		p.members[address] = described{answers[i], now}
	}
	for i := range pairs {
		x := &pairs[i]
		from, ok1 := p.members[x.From]
		to, ok2 := p.members[x.To]
		if fast(x) || !ok1 || !ok2 || from.Name == "" || to.Name == "" {
			continue
		}
		f := flow.Flow{From: from.Member, To: to.Member, Scheme: x.Scheme}
		if strings.HasPrefix(x.Scheme, "ucx") && !strings.HasPrefix(x.Transport, "ucx") {
			f.Transports = []string{x.Transport}
		}
		_, x.Reason, _ = f.Faster()
	}
}

// fast reports whether a pair uses one of the fastest transports.
func fast(p *dashboard.Pair) bool {
	for _, name := range direct {
		if p.Transport == name {
			return true
		}
	}
	return false
}

// describeWorker asks a worker about its data connections. The name of an address that is no worker is "".
func (s *source) describeWorker(ctx context.Context, address string) flow.Member {
	type worker struct {
		name   string
		python bool
	}
	w, err := loop.Ask(ctx, s.Loop, func() (worker, error) {
		w := s.Inspector.Workers.ByAddress[address]
		if w == nil {
			return worker{}, nil
		}
		return worker{peers.NameText(w.Name), w.Incarnation == ""}, nil
	})
	m := flow.Member{Name: w.name, Address: address}
	if err != nil || w.name == "" {
		return flow.Member{}
	}
	if w.python {
		m.Silent = "it is not a Millstream worker"
		return m
	}
	var d struct { // see worker.Diagnosis
		Boot          string   `rpc:"boot"`
		IPC           string   `rpc:"ipc"`
		PID           string   `rpc:"pid"`
		DataAddresses []string `rpc:"data_addresses"`
		Trusted       bool     `rpc:"trusted"`
		UCX           string   `rpc:"ucx"`
		GPU           string   `rpc:"gpu"`
		Registry      any      `rpc:"registry,optional"`
		Transfers     any      `rpc:"transfers,optional"`
	}
	if err := s.Pool.Call(ctx, address, "millstream-diagnosis", nil, &d); err != nil {
		m.Silent = err.Error()
		return m
	}
	m.Boot, m.IPC, m.PID, m.NoUCX, m.GPU = d.Boot, d.IPC, d.PID, d.UCX, d.GPU
	m.DataAddresses, m.Trusted = d.DataAddresses, d.Trusted
	return m
}
