package fetch

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"

	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/internal/comm/peermem"
	_ "go.millstream.dev/internal/comm/tcp"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// lender serves a result, from its memory to those who request it: valid, or in a loan that has ended. It counts
// requests and loans.
func lender(t *testing.T, key string, value []byte, valid bool, requests, loans *atomic.Int64) string {
	t.Helper()
	getData := func(ctx context.Context, r *rpc.Request) (any, error) {
		requests.Add(1)
		v, err := task.EncodeValue(value)
		if err != nil {
			return nil, err
		}
		b := msgpack.AppendMapHeader(nil, 2)
		b = msgpack.AppendString(msgpack.AppendString(b, "status"), "OK")
		b = msgpack.AppendMapHeader(msgpack.AppendString(b, "data"), 1)
		b = msgpack.AppendInt(msgpack.AppendMarker(msgpack.AppendString(b, key), msgpack.Serialized), 1)
		m := &wire.Message{Frames: append([]wire.Frame{wire.HeapFrame(b), wire.HeapFrame(v.Header)}, v.Frames...)}
		if field, ok := r.Field(peermem.Field); ok {
			loan, err := peermem.Lend(ctx, nil, field, nil, m)
			if err != nil {
				return nil, err
			}
			if loan != nil {
				loans.Add(1)
			}
			defer loan.Return()
			if !valid {
				loan.Return()
			}
		}
		if err := r.Comm.Write(ctx, m); err != nil {
			return nil, err
		}
		ack, err := r.Comm.Read(ctx)
		if err == nil {
			ack.Release()
		}
		return rpc.NoReply, err
	}
	return serveAt(t, "tcp://127.0.0.1:0", map[string]rpc.Handler{"get_data": getData})
}

// A large result is read from the memory of its worker, or sent if that is not possible, and the user owns it.
func TestFetchFromMemory(t *testing.T) {
	for name, readable := range map[string]bool{"readable": true, "not readable": false} {
		t.Run(name, func(t *testing.T) {
			peermem.SameProcess.Store(true)
			t.Cleanup(func() { peermem.SameProcess.Store(false) })
			want := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
			var requests, loans atomic.Int64
			address := lender(t, "a", want, readable, &requests, &loans)
			f := newFetcher(t)
			keys := []*tracker.State{state(t, "a")}
			for range 2 {
				var got []byte
				missing, err := f.getData(t.Context(), address, keys, []int{0}, func(_ int, v Value) (err error) {
					got, err = As[[]byte](v)
					return err
				})
				if err != nil || len(missing) != 0 || !bytes.Equal(got, want) {
					t.Fatalf("got %d bytes, missing %v, %v, want %d bytes", len(got), missing, err, len(want))
				}
				clear(got) // it must not be memory of the worker
			}
			// If it cannot be read the first loan is in vain, and no other is requested.
			wantRequests, wantLoans := int64(2), int64(2)
			if !readable {
				wantRequests, wantLoans = 3, 1
			}
			if requests.Load() != wantRequests || loans.Load() != wantLoans {
				t.Errorf("got %d requests, %d loans, want %d, %d", requests.Load(), loans.Load(), wantRequests,
					wantLoans)
			}
			if sent := f.dataConns.fetched[address]; readable != (sent < 1<<20) {
				t.Errorf("got %d bytes over the connection", sent)
			}
		})
	}
}

// Equal keys get separate memory.
func TestRepeatedKeysOwnTheirMemory(t *testing.T) {
	a, b := state(t, "a"), state(t, "b")
	want := bytes.Repeat([]byte{7}, 1<<20)
	m := encoded(t, wire.NewDict("data", wire.NewDict("b", 1, "a", wire.Serialize{Value: want})))
	var got [][]byte
	_, err := takeData(m, []*tracker.State{a, a, b}, []int{0, 1, 2}, func(i int, v Value) error {
		if i == 2 {
			return nil
		}
		if !v.repeated {
			t.Errorf("future %d: want a repeated value", i)
		}
		x, err := As[[]byte](v)
		got = append(got, x)
		return err
	})
	if err != nil || len(got) != 2 || !bytes.Equal(got[0], want) || !bytes.Equal(got[1], want) {
		t.Fatalf("got %d values, %v, want 2 of %d bytes", len(got), err, len(want))
	}
	if &got[0][0] == &got[1][0] {
		t.Error("the results of two futures share memory")
	}
}
