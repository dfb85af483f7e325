package state

import (
	"fmt"
	"testing"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

func benchKeys(n int) []taskid.Key {
	keys := make([]taskid.Key, n)
	for i := range keys {
		keys[i] = taskid.NewKey(fmt.Sprintf("inc-%08x", i))
	}
	return keys
}

// BenchmarkLife measures a task without dependencies: assigned, run, freed.
func BenchmarkLife(b *testing.B) {
	for _, ready := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("queue=%d", ready), func(b *testing.B) {
			s := New(Config{Address: "tcp://10.0.0.9:1", Threads: 1})
			now := time.Unix(1, 0)
			keys := benchKeys(ready + 1000)
			spec := make([]byte, 60)
			var out Actions
			compute := ComputeTask{Stimulus: "compute-task-1700000000.123456", Spec: spec}
			success := ExecuteSuccess{Stimulus: "task-finished-1700000000.12345", Stored: Stored{NBytes: 28,
				TypeName: "int"}}
			free := FreeKeys{Stimulus: "free-keys-1700000000.123456", Keys: make([]taskid.Key, 1)}
			order := func(i int) {
				compute.Key, compute.RunID, compute.Priority[2] = keys[i%len(keys)], int64(i), float64(i)
				s.Apply(now, &compute, &out)
			}
			for i := range ready {
				order(i)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				key := s.executing.tasks[0].key
				success.Key = key
				s.Apply(now, &success, &out)
				free.Keys[0] = key
				s.Apply(now, &free, &out)
				order(i + ready)
			}
		})
	}
}

// BenchmarkFetch measures a task with two dependencies that are fetched from two of a number of peers.
func BenchmarkFetch(b *testing.B) {
	for _, peers := range []int{10, 1000} {
		b.Run(fmt.Sprintf("peers=%d", peers), func(b *testing.B) {
			s := New(Config{Address: "tcp://10.0.0.9:1", Threads: 1})
			now := time.Unix(1, 0)
			keys := benchKeys(3000)
			addresses := make([]string, peers)
			for i := range addresses {
				addresses[i] = fmt.Sprintf("tcp://10.0.%d.%d:4000", i/250+1, i%250)
			}
			var out Actions
			compute := ComputeTask{Spec: make([]byte, 60), Deps: []Dep{{NBytes: 100, WhoHas: make([]string, 1)},
				{NBytes: 100, WhoHas: make([]string, 2)}}}
			success := ExecuteSuccess{Stored: Stored{NBytes: 28, TypeName: "int"}}
			gathered := GatherSuccess{Data: make([]Stored, 0, 2)}
			free := FreeKeys{Keys: make([]taskid.Key, 3)}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				at := 3 * (i % 1000)
				compute.Key, compute.RunID = keys[at], int64(i)
				compute.Deps[0].Key, compute.Deps[1].Key = keys[at+1], keys[at+2]
				compute.Deps[0].WhoHas[0] = addresses[i%peers]
				compute.Deps[1].WhoHas[0], compute.Deps[1].WhoHas[1] = addresses[(i+1)%peers], addresses[(i+2)%peers]
				s.Apply(now, &compute, &out)
				var from [2]string
				var what [2]taskid.Key
				n := 0
				for _, a := range out.List() {
					if a.Kind == DoGather {
						from[n], what[n] = a.Peer.Address(), a.Tasks[0].Key()
						n++
					}
				}
				for j := range n {
					gathered.Peer, gathered.Data = from[j], append(gathered.Data[:0], Stored{Key: what[j], NBytes: 100})
					s.Apply(now, &gathered, &out)
				}
				success.Key = keys[at]
				s.Apply(now, &success, &out)
				free.Keys[0], free.Keys[1], free.Keys[2] = keys[at], keys[at+1], keys[at+2]
				s.Apply(now, &free, &out)
			}
			if s.Len() != 0 {
				b.Fatalf("%d tasks are left", s.Len())
			}
		})
	}
}
