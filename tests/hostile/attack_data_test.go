package hostile

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/dataconn"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/secure"
)

func init() {
	register(
		attack{name: "ports of data connections", targets: onTCP | onTLS | plain | journaled,
			run: by((*Rig).attackPorts)},
		attack{name: "scheduler file that is a FIFO", targets: onTCP | plain | journaled, run: by((*Rig).attackFIFO)},
	)
}

var (
	block = client.Func("hostile.block", func(_ context.Context, n int) ([]byte, error) {
		return make([]byte, n), nil
	})
	length = client.Func("hostile.length", func(_ context.Context, b []byte) (int, error) { return len(b), nil })
)

// attackPorts looks for ports of workers with data connections that other hosts reach, and shows used, stolen and
// forged invitations at them.
func (r *Rig) attackPorts(ctx context.Context) error {
	one, err := r.StartWorker("data-one", false, "--data-connections", "auto")
	if err != nil {
		return err
	}
	defer one.Kill()
	two, err := r.StartWorker("data-two", false, "--data-connections", "auto")
	if err != nil {
		return err
	}
	defer two.Kill()
	const size = 8 << 20
	made := block.Submit(ctx, r.honest, client.Val(size), client.WithWorkers("data-one"))
	defer made.Release()
	moved := length.Submit(ctx, r.honest, made, client.WithWorkers("data-two"))
	defer moved.Release()
	if n, err := moved.Result(ctx); err != nil || n != size {
		return fmt.Errorf("moved between the workers: got %d, %w, want %d", n, err, size)
	}
	for _, p := range []*Process{r.Scheduler, one, two} {
		ports, err := listening(p.PID())
		if err != nil {
			return err
		}
		if len(ports) == 0 {
			return fmt.Errorf("%s listens nowhere", p.Name)
		}
		for _, a := range ports {
			if !a.Addr().IsLoopback() {
				return fmt.Errorf("%s listens on %s of %v, want the loopback interface alone", p.Name, a, ports)
			}
		}
	}
	return r.attackInvitations(ctx, one.Address, two.Address)
}

func (r *Rig) attackInvitations(ctx context.Context, one, two string) error {
	invite := func(address string) (dataconn.Offer, error) {
		var reply dataconn.Reply
		c, err := r.Dial(ctx, address, secure.Worker)
		if err == nil {
			err = rpc.Call(ctx, c, dataconn.Op, nil, &reply)
		}
		if err == nil && (len(reply.Offers) != 1 || !strings.HasPrefix(reply.Offers[0].Address, "ucxx://127.0.0.1:")) {
			err = fmt.Errorf("data connections of %s: got %v, want one on the loopback interface", address,
				reply.Offers)
		}
		if err != nil {
			return dataconn.Offer{}, err
		}
		return reply.Offers[0], nil
	}
	a, err := invite(one)
	if err != nil {
		return err
	}
	b, err := invite(two)
	if err != nil {
		return err
	}
	show := func(invitation []byte, timeout time.Duration) error {
		c, err := comm.Default.Dial(ctx, a.Address, comm.DialConfig{Invitation: invitation, Timeout: timeout})
		if err != nil {
			return err
		}
		r.AtEnd(c.Abort)
		err = rpc.Call(ctx, c, "identity", nil, nil)
		if err == nil {
			return errors.New("a data connection serves identity")
		}
		if errors.As(err, new(*rpc.RemoteError)) {
			return nil // admitted, and refused an op that is not about data
		}
		return err
	}
	if err := show(a.Invitation, time.Minute); err != nil {
		return fmt.Errorf("an invitation: %w", err)
	}
	forged := slices.Clone(b.Invitation)
	forged[len(forged)-1] ^= 1
	for name, invitation := range map[string][]byte{"used": a.Invitation, "of another worker": b.Invitation,
		"forged": forged, "empty": nil} {
		if err := show(invitation, time.Second); err == nil { // refusals are tried again until then
			return fmt.Errorf("admitted with an invitation that is %s", name)
		}
	}
	return nil
}

// listening returns the addresses at which a process accepts TCP connections.
func listening(pid int) (out []netip.AddrPort, err error) {
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return nil, err
	}
	own := map[string]bool{}
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil {
			own[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
	}
	for _, name := range []string{"tcp", "tcp6"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			v := strings.Fields(lines.Text())
			if len(v) < 10 || v[3] != "0A" || !own[v[9]] {
				continue
			}
			a, err := parseKernelAddress(v[1])
			if err != nil {
				_ = f.Close()
				return nil, err
			}
			out = append(out, a)
		}
		if err := errors.Join(lines.Err(), f.Close()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// parseKernelAddress reads an address of /proc/net/tcp: words of four bytes in the order of the machine, little-endian
// here, and the port.
func parseKernelAddress(s string) (netip.AddrPort, error) {
	host, port, ok := strings.Cut(s, ":")
	b, err := hex.DecodeString(host)
	p, perr := hex.DecodeString(port)
	if !ok || err != nil || perr != nil || len(b)%4 != 0 || len(p) != 2 {
		return netip.AddrPort{}, fmt.Errorf("address %q of the kernel is not understood", s)
	}
	for i := 0; i < len(b); i += 4 {
		slices.Reverse(b[i : i+4])
	}
	a, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(a.Unmap(), uint16(p[0])<<8|uint16(p[1])), nil
}

// attackFIFO gives a worker a scheduler file that no process writes: it ends after --death-timeout.
func (r *Rig) attackFIFO(ctx context.Context) error {
	path, err := binary()
	if err != nil {
		return err
	}
	fifo := filepath.Join(r.dir, fmt.Sprintf("scheduler-%d.json", r.rounds))
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "worker", "--scheduler-file", fifo, "--death-timeout", "1s",
		"--no-nanny", "--no-python").CombinedOutput()
	if ctx.Err() != nil || err == nil || !strings.Contains(string(out), "--scheduler-file") {
		return fmt.Errorf("got %w, %v, %.500s; want an error that names --scheduler-file", err, ctx.Err(), out)
	}
	return nil
}
