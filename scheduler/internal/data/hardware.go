package data

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// hardwareRPC serves Client.benchmark_hardware: the mean bandwidths of disk, memory and network of all workers by the
// size of the data, in bytes per second. The network is measured between random pairs of workers.
func (s *Relay) hardwareRPC(ctx context.Context, _ *rpc.Request, _ struct{}) (msgpack.Map, error) {
	out := msgpack.Map{}
	for _, what := range []string{"disk", "memory"} {
		v, err := s.Broadcast(ctx, Broadcast{Msg: msgpack.MapOf("op", "benchmark_"+what), OnError: "raise"})
		if err != nil {
			return nil, err
		}
		var m means
		for _, p := range v.(msgpack.Map) {
			if err := m.add(p.Value); err != nil {
				return nil, fmt.Errorf("benchmark_%s on %v: %w", what, p.Key, err)
			}
		}
		out = append(out, msgpack.Pair{Key: what, Value: m.values()})
	}
	network, err := s.measureNetwork(ctx)
	if err != nil {
		return nil, err
	}
	return append(out, msgpack.Pair{Key: "network", Value: network}), nil
}

func (s *Relay) measureNetwork(ctx context.Context) (msgpack.Map, error) {
	var workers []target
	err := s.Loop.Do(ctx, func() { workers, _ = s.targets(&Broadcast{}) })
	if err != nil {
		return nil, err
	}
	// Neighbors in the list are often of one host.
	rand.Shuffle(len(workers), func(i, j int) { workers[i], workers[j] = workers[j], workers[i] })
	var a Answers
	defer a.Release()
	values, errs := make([]any, len(workers)/2), make([]error, len(workers)/2)
	var wg sync.WaitGroup
	for i := range values {
		from, to := workers[2*i].address, workers[2*i+1].address
		wg.Go(func() {
			values[i], errs[i] = s.Call(ctx, from, msgpack.MapOf("op", "benchmark_network", "address", to), &a)
		})
	}
	wg.Wait()
	var m means
	for i, v := range values {
		if errs[i] != nil {
			return nil, passOn("benchmark_network", workers[2*i].address, errs[i])
		}
		if err := m.add(wire.Clone(v)); err != nil {
			return nil, fmt.Errorf("benchmark_network on %s: %w", workers[2*i].address, err)
		}
	}
	return m.values(), nil
}

// means are mean values by name, in the order of the first values.
type means struct {
	names []string
	sums  map[string]float64
	n     map[string]int
}

// maxNames bounds the names that are accepted of workers.
const maxNames = 100

// add adds the values of a worker.
func (m *means) add(v any) error {
	values, ok := v.(msgpack.Map)
	if !ok {
		return fmt.Errorf("got %T, want a map of sizes to bytes per second", v)
	}
	if m.sums == nil {
		m.sums, m.n = map[string]float64{}, map[string]int{}
	}
	for _, p := range values {
		name, isText := p.Key.(string)
		x, isNumber := val.Number(p.Value)
		if !isText || !isNumber || math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("got %v: %v, want a size and bytes per second", p.Key, p.Value)
		}
		if m.n[name] == 0 {
			if len(m.names) >= maxNames {
				return fmt.Errorf("got more than %d sizes", maxNames)
			}
			m.names = append(m.names, name)
		}
		m.sums[name] += x
		m.n[name]++
	}
	return nil
}

func (m *means) values() msgpack.Map {
	out := msgpack.Map{}
	for _, name := range m.names {
		out = append(out, msgpack.Pair{Key: name, Value: m.sums[name] / float64(m.n[name])})
	}
	return out
}
