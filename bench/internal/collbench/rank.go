package collbench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/collective"
	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/internal/collective/transport"
	_ "go.millstream.dev/internal/comm/tcp" // the ranks meet over it
	"go.millstream.dev/ucx"
	"go.millstream.dev/wire"
)

// command is the first line to a rank, when all addresses are known.
type command struct {
	Rank      int      `json:"rank"`
	Addresses []string `json:"addresses"`
	Setting   string   `json:"setting"`
	Sizes     []int64  `json:"sizes"`
	Seconds   float64  `json:"seconds"`
}

// hello is the first line of a rank.
type hello struct {
	Address string `json:"address"`
}

// line is the result of a competitor for one size.
type line struct {
	Size      int64   `json:"size"`
	Micros    float64 `json:"us"`
	Transport string  `json:"transport,omitempty"`
}

// Serve runs one rank: it prints its address, reads a command and measures; rank 0 prints the results.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	l, err := comm.Listen(ctx, "tcp://127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		return err
	}
	defer l.Close()
	if err := json.NewEncoder(out).Encode(hello{l.ContactAddr()}); err != nil {
		return err
	}
	var c command
	if err := json.NewDecoder(bufio.NewReader(in)).Decode(&c); err != nil {
		return fmt.Errorf("read command: %w", err)
	}
	if c.Rank < 0 || c.Rank >= len(c.Addresses) {
		return fmt.Errorf("invalid rank %d of %d", c.Rank, len(c.Addresses))
	}
	g, free, err := join(ctx, l, c)
	if err != nil {
		return err
	}
	defer free()
	for _, size := range c.Sizes {
		us, err := measure(ctx, g, int(size/4), time.Duration(c.Seconds*float64(time.Second)))
		if err != nil {
			return fmt.Errorf("%d bytes: %w", size, err)
		}
		if c.Rank == 0 {
			if err := json.NewEncoder(out).Encode(line{size, us, g.Backend()}); err != nil {
				return err
			}
		}
	}
	return g.Do(ctx, collective.Call{Code: collective.Barrier, Kind: collective.Uint8})
}

// join connects the ranks (the higher dials the lower) and creates the group.
func join(ctx context.Context, l comm.Listener, c command) (*collective.Group, func(), error) {
	peers := make([]comm.Comm, len(c.Addresses))
	for r := range c.Rank {
		p, err := comm.Dial(ctx, c.Addresses[r], comm.DialConfig{})
		if err != nil {
			return nil, nil, err
		}
		peers[r] = p
		if err := p.Write(ctx, &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte{byte(c.Rank)})}}); err != nil {
			return nil, nil, err
		}
	}
	for range len(peers) - 1 - c.Rank {
		p, err := l.Accept(ctx)
		if err != nil {
			return nil, nil, err
		}
		m, err := p.Read(ctx)
		if err != nil {
			return nil, nil, err
		}
		who := m.Body()
		if len(who) != 1 || int(who[0]) <= c.Rank || int(who[0]) >= len(peers) || peers[who[0]] != nil {
			return nil, nil, errors.New("connection of an unknown rank")
		}
		peers[who[0]] = p
		m.Release()
	}
	t, err := transport.NewComm(c.Rank, peers)
	if err != nil {
		return nil, nil, err
	}
	free := func() {}
	cfg := collective.Config{SharedMemory: collective.SharedOff}
	switch c.Setting {
	case "shm":
		cfg.SharedMemory = collective.SharedAuto
	case "ucx":
		u, err := ucx.NewContext(ucx.Config{})
		if err != nil {
			return nil, nil, err
		}
		w, err := u.NewWorker(ucx.WorkerConfig{})
		if err != nil {
			return nil, nil, err
		}
		free = func() { _ = u.Close() }
		if t, err = transport.NewUCX(ctx, t, w, nil); err != nil {
			return nil, nil, err
		}
	}
	g, err := collective.New(ctx, t, cfg)
	if err != nil {
		return nil, nil, err
	}
	return g, func() { _ = g.Close(); free() }, nil
}

// measure returns the time of one all-reduce of n float32 in microseconds on this rank. The programs of the peers do
// the same: a warm-up that also determines the number of calls, then that many consecutive calls.
func measure(ctx context.Context, g *collective.Group, n int, d time.Duration) (float64, error) {
	send, recv := make([]float32, n), make([]float32, n)
	for i := range send {
		send[i] = float32(g.Rank() + 1)
	}
	sum := collective.Call{Code: collective.AllReduce, Kind: collective.Float32, Op: collective.Sum,
		Send: collective.Memory{Bytes: elem.View(send)}, Recv: collective.Memory{Bytes: elem.View(recv)}}
	calls := func(k int) (time.Duration, error) {
		if err := g.Do(ctx, collective.Call{Code: collective.Barrier, Kind: collective.Uint8}); err != nil {
			return 0, err
		}
		begin := time.Now()
		for range k {
			if err := g.Do(ctx, sum); err != nil {
				return 0, err
			}
		}
		return time.Since(begin), nil
	}
	if _, err := calls(2); err != nil {
		return 0, err
	}
	warm, err := calls(5)
	if err != nil {
		return 0, err
	}
	count := []int64{max(int64(5*float64(d)/float64(warm+1)), 3)}
	m := collective.Memory{Bytes: elem.View(count)}
	if err := g.Do(ctx, collective.Call{Code: collective.Broadcast, Kind: collective.Int64, Send: m,
		Recv: m}); err != nil {
		return 0, err
	}
	took, err := calls(int(count[0]))
	if err != nil {
		return 0, err
	}
	want := float32(g.Size() * (g.Size() + 1) / 2)
	for _, i := range []int{0, n / 2, n - 1} {
		if recv[i] != want {
			return 0, fmt.Errorf("element %d is %v, want %v", i, recv[i], want)
		}
	}
	return float64(took.Nanoseconds()) / 1e3 / float64(count[0]), nil
}
