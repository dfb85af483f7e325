package clique

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/collective"
	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/mem"
)

// deviceMessages sends device memory round the ranks: to devices and to hosts, short and long, and to itself.
func deviceMessages(ctx context.Context, r *deviceRank) error {
	next, prev := (r.Rank()+1)%r.Size(), (r.Rank()-1+r.Size())%r.Size()
	text := func(rank, n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i*3 + rank*101 + n)
		}
		return b
	}
	for round, n := range []int{0, 1, 1000, 8192, 8193, 1 << 20, 9<<20 + 5} {
		out, err := ncclBuffer(ctx, text(r.Rank(), n))
		if err != nil {
			return err
		}
		in, err := ncclBuffer(ctx, make([]byte, n+8))
		if err != nil {
			return err
		}
		tag := uint64(round)<<60 | 77
		sent := r.Start(ctx, sending(next, tag, collective.Memory{Buffer: out}))
		toHost := r.Start(ctx, sending(next, tag+1, collective.Memory{Buffer: out}))
		got := 0
		message := receiving(prev, tag, collective.Memory{Buffer: in})
		message.N = &got
		err = r.Do(ctx, message)
		if err != nil || got != n {
			return fmt.Errorf("%d bytes, want %d: %w", got, n, err)
		}
		have, err := ncclBytes(ctx, in)
		if err != nil {
			return err
		}
		if string(have[:n]) != string(text(prev, n)) {
			return fmt.Errorf("a message of %d bytes differs", n)
		}
		host := make([]byte, n)
		if err := r.Do(ctx, receiving(prev, tag+1, collective.Memory{Bytes: host})); err != nil ||
			string(host) != string(text(prev, n)) {
			return fmt.Errorf("a message of %d bytes differs on the host: %w", n, err)
		}
		if err := errors.Join(sent.Wait(ctx), toHost.Wait(ctx)); err != nil {
			return err
		}
		out.Release()
		in.Release()
	}
	return nil
}

// TestGPUDeviceMessages sends device memory between processes.
func TestGPUDeviceMessages(t *testing.T) {
	requireGPU(t)
	for _, setting := range deviceSettings {
		t.Run(setting, func(t *testing.T) { noErrors(t, runDeviceRanks(t, 2, setting, "messages", 0)) })
	}
}

// ones is a device buffer of n float32, all of one value.
func ones(ctx context.Context, n int, v float32) (*mem.Buffer, error) {
	x := make([]float32, n)
	for i := range x {
		x[i] = v
	}
	return ncclBuffer(ctx, elem.View(x))
}

// deviceUntil reduces until the group fails, and says so.
func deviceUntil(ctx context.Context, r *deviceRank) error {
	b, err := ones(ctx, r.order.Argument/4, 1)
	if err != nil {
		return err
	}
	defer b.Release()
	for i := 0; ; i++ {
		if err := r.Do(ctx, allReduceOf(b, b, collective.Max)); err != nil {
			var dead *collective.RankError
			if !errors.As(err, &dead) {
				return fmt.Errorf("after %d: %w", i, err)
			}
			return fmt.Errorf("rank %d is gone after %d at %d", dead.Rank, i, time.Now().UnixMilli())
		}
		if i == 5 {
			r.say("going")
		}
	}
}

// TestGPUDeviceDeath kills a rank in the middle of collectives: the others name it, and soon.
func TestGPUDeviceDeath(t *testing.T) {
	requireGPU(t)
	for _, size := range []int{4 << 10, 8 << 20} {
		for _, setting := range deviceSettings {
			t.Run(fmt.Sprintf("%s %d", setting, size), func(t *testing.T) {
				list := startDeviceRanks(t, 3, setting, "until", size)
				for _, p := range list {
					var a deviceAnswer
					must(t, p.answers.Decode(&a))
					if a.Text == "" {
						t.Fatalf("%+v", a)
					}
				}
				killed := time.Now()
				must(t, list[1].cmd.Process.Signal(syscall.SIGKILL))
				for _, r := range []int{0, 2} {
					err := list[r].end(t)
					if err == nil || !strings.HasPrefix(err.Error(), "rank 1 is gone") {
						t.Errorf("rank %d: %v", r, err)
						continue
					}
					var calls, at int64
					_, _ = fmt.Sscanf(err.Error(), "rank 1 is gone after %d at %d", &calls, &at)
					t.Logf("rank %d: %d calls, told %d ms after the kill", r, calls, at-killed.UnixMilli())
				}
			})
		}
	}
}

// deviceWrong calls what does not fit on rank 1: all ranks get the same error, and go on.
func deviceWrong(ctx context.Context, r *deviceRank) error {
	b, err := ones(ctx, 1<<16, float32(1+r.Rank()))
	if err != nil {
		return err
	}
	defer b.Release()
	short := b.Slice(0, 1<<17)
	defer short.Release()
	m := collective.Memory{Buffer: b}
	for i, wrong := range []collective.Call{
		allReduceOf(short, short, collective.Sum),
		{Code: collective.AllReduce, Kind: collective.Int32, Op: collective.Sum, Send: m, Recv: m},
		allReduceOf(b, b, collective.Min),
		{Code: collective.Broadcast, Kind: collective.Float32, Root: 9, Send: m, Recv: m},
	} {
		call := allReduceOf(b, b, collective.Sum)
		if r.Rank() == 1 {
			call = wrong
		}
		var mismatch *collective.MismatchError
		if err := r.Do(ctx, call); !errors.As(err, &mismatch) {
			return fmt.Errorf("case %d: %v", i, err)
		}
	}
	if err := r.Do(ctx, allReduceOf(b, b, collective.Sum)); err != nil {
		return err
	}
	want := make([]float32, 1<<16)
	for i := range want {
		want[i] = float32(r.Size() * (r.Size() + 1) / 2)
	}
	got, err := ncclBytes(ctx, b)
	if err == nil && string(got) != string(elem.View(want)) {
		err = errors.New("the sum after the errors is wrong")
	}
	return err
}

// TestGPUDeviceMismatch: what does not fit together is an error on every rank, and no end.
func TestGPUDeviceMismatch(t *testing.T) {
	requireGPU(t)
	noErrors(t, runDeviceRanks(t, 3, "shm", "wrong", 0))
}

// deviceRounds measures an all-reduce by the size; and beside it the same by messages of UCX and one kernel.
func deviceRounds(ctx context.Context, r *deviceRank) error {
	s, err := cuda.NewStream(device, cuda.StreamConfig{})
	if err != nil {
		return err
	}
	defer s.Close()
	carrier := collective.NewDeviceCarrier(r.Group, device)
	r.SetCarrier(carrier)
	for _, size := range []int{8, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20, 8 << 20, 64 << 20} {
		n := size / 4
		send, err := ones(ctx, n, 1)
		if err != nil {
			return err
		}
		recv, err := ones(ctx, n, 0)
		if err != nil {
			return err
		}
		peer := 1 - r.Rank()
		ways := []func() error{func() error {
			err := r.Do(ctx, allReduceOf(send, recv, collective.Sum))
			if err != nil {
				return err
			}
			return recv.WaitReady(ctx)
		}, func() error {
			got := r.Start(ctx, receiving(peer, 1, collective.Memory{Buffer: recv}))
			if err := r.Do(ctx, sending(peer, 1, collective.Memory{Buffer: send})); err != nil {
				return err
			}
			if err := got.Wait(ctx); err != nil {
				return err
			}
			e, err := collective.FoldDevice(s, recv, []*mem.Buffer{recv, send}, collective.Float32, collective.Sum)
			if err != nil {
				return err
			}
			return e.Wait(ctx)
		}}
		line := fmt.Sprintf("%9d B:", size)
		for _, way := range ways {
			var times []time.Duration
			for i := range 25 {
				if err := r.Do(ctx, collective.Call{Code: collective.Barrier, Kind: collective.Uint8}); err != nil {
					return err
				}
				begin := time.Now()
				if err := way(); err != nil {
					return err
				}
				if i >= 5 {
					times = append(times, time.Since(begin))
				}
			}
			m := median(times)
			line += fmt.Sprintf("  %8.1f µs %7.2f GB/s (least %.1f)", float64(m.Nanoseconds())/1e3,
				float64(size)/float64(m.Nanoseconds()), float64(times[0].Nanoseconds())/1e3)
		}
		if err := r.Do(ctx, collective.Call{Code: collective.Barrier, Kind: collective.Uint8}); err != nil {
			return err
		}
		begin := time.Now()
		const calls = 50
		for range calls {
			if err := ways[0](); err != nil {
				return err
			}
		}
		row := time.Since(begin) / calls
		line += fmt.Sprintf("  in a row %8.1f µs %7.2f GB/s", float64(row.Nanoseconds())/1e3,
			float64(size)/float64(row.Nanoseconds()))
		if k, ok := carrier.(interface{ Staged() error }); ok && k.Staged() != nil {
			line += "  " + k.Staged().Error()
		}
		got, err := ncclBytes(ctx, recv)
		if err != nil {
			return err
		}
		want := make([]float32, n)
		for i := range want {
			want[i] = 2
		}
		if string(got) != string(elem.View(want)) {
			return errors.New("the sum is wrong")
		}
		if r.Rank() == 0 {
			r.say("%s", line)
		}
		send.Release()
		recv.Release()
	}
	return nil
}

// TestGPUDeviceRounds prints what an all-reduce of two processes on the GPU takes, by the size.
func TestGPUDeviceRounds(t *testing.T) {
	requireGPU(t)
	noErrors(t, runDeviceRanks(t, 2, "ucx", "rounds", 0))
}
