package hostile

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
)

// fewFiles is the limit of open files of the scheduler that is attacked.
const fewFiles = 200

func init() {
	register(attack{name: "all descriptors", targets: onTCP | onTLS | journaled, run: by((*Rig).attackDescriptors)})
}

// attackDescriptors opens more connections than a scheduler with few descriptors can have: comms, connections without a
// handshake and half requests of HTTP. Honest clients are served meanwhile, and the journal begins its next segment.
func (r *Rig) attackDescriptors(ctx context.Context) error {
	path, err := binary()
	if err != nil {
		return err
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		return err
	}
	journal := filepath.Join(r.dir, fmt.Sprintf("few-%d", r.rounds))
	p, err := r.launchWith("few descriptors", []string{shell, "-c",
		fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, fewFiles), path},
		[]string{"--port", "0", "--journal", journal})
	if err != nil {
		return err
	}
	defer p.Kill()
	dashboard, err := url.Parse(p.HTTP)
	if err != nil {
		return err
	}
	_, where := hostport(p.Address)
	for i := range 2 * fewFiles {
		if _, err := r.Dial(ctx, p.Address, secure.Client); err != nil {
			return fmt.Errorf("idle comm %d: %w", i, err)
		}
		if i%2 != 0 {
			continue
		}
		for _, to := range []string{where, dashboard.Host} {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
			if err != nil {
				return fmt.Errorf("connection %d to %s: %w", i, to, err)
			}
			r.AtEnd(func() { _ = c.Close() })
			if to == dashboard.Host {
				_, _ = c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n"))
			}
		}
	}
	dial, err := r.dialConfig(secure.Client)
	if err != nil {
		return err
	}
	pool := rpc.NewPool(comm.Default, rpc.PoolConfig{Dial: dial})
	defer func() { _ = pool.Close() }()
	large := strings.Repeat("x", 4<<20)
	for i := range 20 { // more than a segment of 64 MiB
		if err := pool.Call(ctx, p.Address, "variable_set", msgpack.MapOf("name", "honest", "client", "honest", "key",
			nil, "data", large), nil); err != nil {
			return fmt.Errorf("honest change %d: %w", i, err)
		}
	}
	if segments, err := filepath.Glob(filepath.Join(journal, "log-*")); err != nil || len(segments) < 2 {
		return fmt.Errorf("segments of the journal: got %v, %w, want at least 2", segments, err)
	}
	if !p.Alive() {
		return errors.New("the scheduler ended")
	}
	return nil
}
