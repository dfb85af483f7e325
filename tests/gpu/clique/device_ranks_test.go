package clique

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/collective"
	"go.millstream.dev/internal/collective/transport"
	_ "go.millstream.dev/internal/comm/tcp" // the ranks meet over it
	"go.millstream.dev/ucx"
	"go.millstream.dev/wire"
)

// The engine's collectives on device memory among processes, without a cluster: each rank is this test binary in a
// role.

// deviceRole makes the test binary a rank.
const deviceRole = "MILLSTREAM_DEVICE_RANK"

// deviceOrder is what a rank reads, once all addresses are known.
type deviceOrder struct {
	Rank      int
	Addresses []string
	Setting   string // "shm": shared memory and comms; "ucx"; "tcp": nothing but comms
	Do        string // a name in deviceRoles
	Argument  int
}

// deviceAnswer is what a rank prints: its address, lines of text, its end.
type deviceAnswer struct {
	Address, Text, Err string
	Done               bool
}

// deviceRank is what a role works with.
type deviceRank struct {
	*collective.Group
	order deviceOrder
	out   *json.Encoder
}

func (r *deviceRank) say(format string, args ...any) {
	_ = r.out.Encode(deviceAnswer{Text: fmt.Sprintf("rank %d: ", r.Rank()) + fmt.Sprintf(format, args...)})
}

// deviceRoles are what ranks do, by name.
var deviceRoles = map[string]func(ctx context.Context, r *deviceRank) error{
	"product":  deviceProduct,
	"messages": deviceMessages,
	"rounds":   deviceRounds,
	"until":    deviceUntil,
	"wrong":    deviceWrong,
}

func init() {
	if os.Getenv(deviceRole) == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out := json.NewEncoder(os.Stdout)
	end := deviceAnswer{Done: true}
	if err := serveDevice(ctx, out); err != nil {
		end.Err = err.Error()
	}
	_ = out.Encode(end)
	os.Exit(0)
}

func serveDevice(ctx context.Context, out *json.Encoder) error {
	l, err := comm.Listen(ctx, "tcp://127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		return err
	}
	defer l.Close()
	if err := out.Encode(deviceAnswer{Address: l.ContactAddr()}); err != nil {
		return err
	}
	var o deviceOrder
	if err := json.NewDecoder(bufio.NewReader(os.Stdin)).Decode(&o); err != nil {
		return err
	}
	t, free, err := deviceTransport(ctx, l, o)
	if err != nil {
		return err
	}
	defer free()
	cfg := collective.Config{Deterministic: true, SharedMemory: collective.SharedAuto}
	if o.Setting == "tcp" {
		cfg.SharedMemory = collective.SharedOff
	}
	g, err := collective.New(ctx, t, cfg)
	if err != nil {
		return err
	}
	defer g.Close()
	g.SetCarrier(collective.NewDeviceCarrier(g, device))
	role := deviceRoles[o.Do]
	if role == nil {
		return fmt.Errorf("nothing is called %q", o.Do)
	}
	if err := role(ctx, &deviceRank{g, o, out}); err != nil {
		g.Abort(err)
		return err
	}
	return g.Do(ctx, collective.Call{Code: collective.Barrier, Kind: collective.Uint8})
}

// deviceTransport connects the ranks, the higher dialing the lower.
func deviceTransport(ctx context.Context, l comm.Listener, o deviceOrder) (t transport.Transport, free func(),
	err error) {
	peers := make([]comm.Comm, len(o.Addresses))
	for r := range o.Rank {
		if peers[r], err = comm.Dial(ctx, o.Addresses[r], comm.DialConfig{}); err != nil {
			return nil, nil, err
		}
		if err := peers[r].Write(ctx,
			&wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte{byte(o.Rank)})}}); err != nil {
			return nil, nil, err
		}
	}
	for range len(peers) - 1 - o.Rank {
		p, err := l.Accept(ctx)
		if err != nil {
			return nil, nil, err
		}
		m, err := p.Read(ctx)
		if err != nil {
			return nil, nil, err
		}
		peers[m.Body()[0]] = p
		m.Release()
	}
	if t, err = transport.NewComm(o.Rank, peers); err != nil || o.Setting != "ucx" {
		return t, func() {}, err
	}
	c, err := ucx.NewContext(ucx.Config{})
	if err != nil {
		return nil, nil, err
	}
	w, err := c.NewWorker(ucx.WorkerConfig{})
	if err != nil {
		return nil, nil, err
	}
	t, err = transport.NewUCX(ctx, t, w, nil)
	return t, func() { _ = c.Close() }, err
}

// deviceProcess is the test's hold on a rank.
type deviceProcess struct {
	cmd     *exec.Cmd
	answers *json.Decoder
}

// startDeviceRanks starts processes and lets them begin; the caller waits for their ends with deviceEnd.
func startDeviceRanks(t testing.TB, ranks int, setting, do string, argument int) []*deviceProcess {
	t.Helper()
	list := make([]*deviceProcess, ranks)
	in := make([]*json.Encoder, ranks)
	addresses := make([]string, ranks)
	for r := range list {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), deviceRole+"=1")
		cmd.Stderr = os.Stderr
		w, err := cmd.StdinPipe()
		must(t, err)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		list[r], in[r] = &deviceProcess{cmd, json.NewDecoder(out)}, json.NewEncoder(w)
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	for r, p := range list {
		var a deviceAnswer
		must(t, p.answers.Decode(&a))
		addresses[r] = a.Address
	}
	for r := range list {
		must(t, in[r].Encode(deviceOrder{r, addresses, setting, do, argument}))
	}
	return list
}

// end reads what a rank says until its end, and returns its error.
func (p *deviceProcess) end(t testing.TB) error {
	for {
		var a deviceAnswer
		if err := p.answers.Decode(&a); err != nil {
			return fmt.Errorf("the process ended: %w", err)
		}
		if a.Text != "" {
			t.Log(a.Text)
		}
		if a.Done {
			if a.Err != "" {
				return errors.New(a.Err)
			}
			return nil
		}
	}
}

// runDeviceRanks runs a role to its end on all ranks, whose errors it returns.
func runDeviceRanks(t testing.TB, ranks int, setting, do string, argument int) []error {
	t.Helper()
	list := startDeviceRanks(t, ranks, setting, do, argument)
	errs := make([]error, ranks)
	var all sync.WaitGroup
	for r, p := range list {
		all.Go(func() { errs[r] = p.end(t) })
	}
	all.Wait()
	return errs
}

func noErrors(t testing.TB, errs []error) {
	t.Helper()
	for r, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// median of durations.
func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
