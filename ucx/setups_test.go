package ucx

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/internal/comm/ucxenv"
)

func init() { roles["setup"] = trySetup }

// quietUCX keeps UCX's own warnings, which go to stdout, from between a helper's lines.
const quietUCX = "UCX_LOG_LEVEL=fatal"

// trySetup listens and connects by socket address within the environment that it was
// started in, on the interface that UCXPY_IFNAME names where there is one.
func trySetup(c *control) error {
	host := "127.0.0.1"
	if a, err := Address(""); err != nil {
		c.say("interface %v", err)
	} else {
		c.say("interface %s", a)
		if a.IsLoopback() {
			host = a.String()
		}
	}
	transports, err := messageBySocket(host)
	if err != nil {
		c.say("fails %s", strings.ReplaceAll(err.Error(), "\n", " "))
		return nil
	}
	c.say("works %s", strings.Join(transports, " "))
	return nil
}

// messageBySocket moves a message between two workers and returns the connecting side's transports.
func messageBySocket(host string) ([]string, error) {
	ctx, cancel := roleContext()
	defer cancel()
	wa, doneA, err := roleWorker(Config{})
	if err != nil {
		return nil, err
	}
	defer doneA()
	wb, doneB, err := roleWorker(Config{})
	if err != nil {
		return nil, err
	}
	defer doneB()
	l, err := wb.ListenSocket(ctx, host+":0")
	if err != nil {
		// Connecting must not end the process either.
		if _, err2 := wa.DialSocket(ctx, host+":9", nil); err2 == nil {
			return nil, fmt.Errorf("listening fails (%w), connecting to nobody works", err)
		}
		return nil, err
	}
	defer l.Close()
	got := make(chan error, 1)
	b := make([]byte, 5)
	go func() {
		if _, err := l.Accept(ctx); err != nil {
			got <- err
			return
		}
		_, err := wb.Recv(ctx, Bytes(b), 1, FullMask)
		got <- err
	}()
	ep, err := wa.DialSocket(ctx, l.Addr().String(), nil)
	if err != nil {
		return nil, err
	}
	if err := ep.Send(ctx, Bytes([]byte("hello")), 1); err != nil {
		return nil, err
	}
	if err := <-got; err != nil {
		return nil, err
	}
	if string(b) != "hello" {
		return nil, fmt.Errorf("received %q", b)
	}
	transports, err := ep.Transports()
	var names []string
	for _, transport := range transports {
		names = append(names, transport.Name)
	}
	return names, err
}

// thisHost is what the linter may know about this machine.
func thisHost(t *testing.T) ucxenv.Host {
	t.Helper()
	c := openContext(t, Config{})
	h := ucxenv.Host{Version: c.Info().Library.Version}
	h.Options = slices.Sorted(maps.Keys(c.Info().Options))
	for _, tl := range c.Info().Transports {
		name, _, _ := strings.Cut(tl, "/")
		h.Transports = append(h.Transports, name)
	}
	h.NetDevices, h.RDMA = ucxenv.ReadNetDevices(os.DirFS("/sys"))
	return h
}

// The set-ups that the first UCX-Py guides gave live on in scripts. UCX has lost the
// transport they name, and with it alone for connections UCX ends the process: here such
// a set-up works or is refused, and the linter's repair of it works.
func TestSetupsOfFirstGuides(t *testing.T) {
	const refused = "export UCX_SOCKADDR_TLS_PRIORITY="
	host := thisHost(t)
	for _, c := range []struct {
		name  string
		env   []string
		says  string // the error
		fixed string // UCX_TLS after the repair, on a host without RDMA
	}{
		{"tcp and CUDA", []string{"UCX_TLS=tcp,sockcm,cuda_copy,cuda_ipc", "UCX_SOCKADDR_TLS_PRIORITY=sockcm",
			"UCXPY_IFNAME=eth0"}, refused, "tcp,cuda_copy,cuda_ipc"},
		{"InfiniBand and CUDA", []string{"UCX_TLS=sockcm,cuda_copy,cuda_ipc", "UCX_SOCKADDR_TLS_PRIORITY=sockcm",
			"UCXPY_IFNAME=ib0"}, `UCX_TLS="sockcm,cuda_copy,cuda_ipc"`, "tcp,cuda_copy,cuda_ipc"},
		{"tcp", []string{"UCX_TLS=tcp,sockcm", "UCX_SOCKADDR_TLS_PRIORITY=sockcm", "UCXPY_IFNAME=eno0"}, refused,
			"tcp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := startHelper(t, "setup", append(slices.Clone(c.env), quietUCX)...)
			h.hear("interface")
			fails := strings.Join(h.hear("fails"), " ")
			// With a GPU a context comes about, and connections are refused instead.
			if !strings.Contains(fails, c.says) && !strings.Contains(fails, refused) {
				t.Errorf("the error says neither %q nor %q: %s", c.says, refused, fails)
			}
			h.quit()

			found := ucxenv.Lint(c.env, host)
			for _, name := range []string{"UCX_TLS", "UCX_SOCKADDR_TLS_PRIORITY"} {
				if !slices.ContainsFunc(found, func(f ucxenv.Finding) bool { return f.Var == name && len(f.Set) > 0 }) {
					t.Errorf("no replacement for %s among %v", name, found)
				}
			}
			repaired := ucxenv.Repair(c.env, found)
			t.Logf("repaired: %q", repaired)
			if !slices.Contains(repaired, "UCX_TLS="+c.fixed) && !host.RDMA {
				t.Errorf("repaired to %q, without UCX_TLS=%s", repaired, c.fixed)
			}
			// The interface is this host's loopback instead of the guide's.
			h = startHelper(t, "setup", append(repaired, "UCXPY_IFNAME=lo", quietUCX)...)
			if got := h.hear("interface"); got[0] != "127.0.0.1" {
				t.Errorf("UCXPY_IFNAME=lo is %q", got)
			}
			if transports := h.hear("works"); !slices.Contains(transports, "tcp") && !host.RDMA {
				t.Errorf("transports %q", transports)
			}
			h.quit()
		})
	}
}

// An interface that is not there is an error that says which are.
func TestSetupWithMissingInterface(t *testing.T) {
	h := startHelper(t, "setup", "UCXPY_IFNAME=nosuch0", quietUCX)
	if got := strings.Join(h.hear("interface"), " "); !strings.Contains(got, "nosuch0") ||
		!strings.Contains(got, "lo") {
		t.Errorf("the error names neither the missing interface nor those that exist: %s", got)
	}
	h.hear("works")
	h.quit()
}
