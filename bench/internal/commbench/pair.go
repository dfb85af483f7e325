package commbench

import (
	"context"
	"errors"
	"syscall"
	"time"

	"go.millstream.dev/internal/dask/commpeer"
)

// pair is a connected pair of server and client. In setting inproc one process is both.
type pair struct {
	server, client *commpeer.Process
	address        string
	each           map[string]float64 // seconds of one operation, by case; from the first round
}

func startPair(ctx context.Context, server, client commpeer.Starter, s Setting) (*pair, error) {
	p := &pair{each: map[string]float64{}}
	var err error
	if p.server, err = commpeer.Start(ctx, server, s.Env); err != nil {
		return nil, err
	}
	p.client = p.server
	if s.Name != inproc {
		if p.client, err = commpeer.Start(ctx, client, s.Env); err != nil {
			p.server.Stop()
			return nil, err
		}
	}
	a, err := p.server.Do(ctx, commpeer.Command{Do: "listen", Address: s.Address, Stripes: s.Stripes})
	if err == nil {
		p.address = a.Address
		_, err = p.client.Do(ctx, commpeer.Command{Do: "connect", Address: p.address, Stripes: s.Stripes})
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *pair) stop() {
	p.pause(false)
	if p.client != p.server {
		p.client.Stop()
	}
	p.server.Stop()
}

// pause stops the processes, or continues them. A pair that waits for its round must not use the processors: comms of
// distributed-ucxx poll while they wait.
func (p *pair) pause(on bool) {
	sig := syscall.SIGCONT
	if on {
		sig = syscall.SIGSTOP
	}
	for _, proc := range []*commpeer.Process{p.server, p.client} {
		_ = proc.Cmd().Process.Signal(sig)
	}
}

// round measures a case for about the given time and returns its figure.
func (p *pair) round(ctx context.Context, c Case, length time.Duration) (float64, error) {
	cmd := commpeer.Command{Do: "rtt", N: 100}
	if c.Size > 0 {
		cmd = commpeer.Command{Do: "echo", N: 1, Size: c.Size}
	}
	if p.each[c.Name] == 0 { // warm up, and measure the duration of one operation
		for range 2 {
			a, err := p.client.Do(ctx, cmd)
			if err != nil {
				return 0, err
			}
			p.each[c.Name] = a.Seconds / float64(cmd.N)
		}
	}
	if p.each[c.Name] <= 0 {
		return 0, errors.New("empty round")
	}
	cmd.N = max(cmd.N, int(length.Seconds()/p.each[c.Name]))
	a, err := p.client.Do(ctx, cmd)
	if err != nil {
		return 0, err
	}
	seconds := a.Seconds / float64(cmd.N)
	if c.Size > 0 {
		return 2 * float64(c.Size) / seconds / 1e9, nil
	}
	return seconds * 1e6, nil
}

// idleComms is the number of idle comms in idle-cpu.
const idleComms = 100

// idle measures the processor time of a server with many idle comms, in percent of a core.
func (p *pair) idle(ctx context.Context, length time.Duration) (float64, error) {
	if _, err := p.client.Do(ctx, commpeer.Command{Do: "idle", Address: p.address, N: idleComms}); err != nil {
		return 0, err
	}
	sleep := func(d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := sleep(time.Second); err != nil { // wait for the end of activity after connecting
		return 0, err
	}
	before, err := cpu(p.server.Cmd().Process.Pid)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := sleep(length); err != nil {
		return 0, err
	}
	after, err := cpu(p.server.Cmd().Process.Pid)
	if err != nil {
		return 0, err
	}
	return 100 * float64(after-before) / float64(time.Since(begin)), nil
}
