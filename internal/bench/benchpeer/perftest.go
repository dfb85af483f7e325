package benchpeer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// PerftestName is the name of the peer on the command line and in figures.
const PerftestName = "ucx_perftest"

// startTimeout bounds the time until the server listens, which is the start of UCX and takes seconds on a machine with
// GPUs.
const startTimeout = 30 * time.Second

// Perftest is an installed ucx_perftest with the UCX library to use, so that both sides of a comparison run the same
// code.
type Perftest struct {
	path       string
	libraryDir string
	environ    []string
}

// FindPerftest searches for the program: MILLSTREAM_PERFTEST, then next to the library (../bin in a wheel), then PATH.
// library is the libucp that Millstream uses; environ is the environment of the program. If there is none, the error is
// a [*MissingError].
func FindPerftest(library string, environ []string) (*Perftest, error) {
	p := &Perftest{environ: environ}
	if library != "" {
		p.libraryDir = filepath.Dir(library)
	}
	missing := &MissingError{Peer: PerftestName, Fix: "scripts/setup perftest"}
	if path := getenv(environ, "MILLSTREAM_PERFTEST"); path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			missing.Reason = "MILLSTREAM_PERFTEST is " + path + ": " + err.Error()
			missing.Fix = "unset MILLSTREAM_PERFTEST"
			return nil, missing
		}
		p.path = found
		return p, nil
	}
	var candidates []string
	if p.libraryDir != "" {
		for _, up := range []string{"..", "../.."} { // lib of a wheel, lib/x86_64-linux-gnu of Debian
			candidates = append(candidates, filepath.Join(p.libraryDir, up, "bin", PerftestName))
		}
	}
	for _, candidate := range append(candidates, PerftestName) {
		if path, err := exec.LookPath(candidate); err == nil {
			p.path = path
			return p, nil
		}
	}
	missing.Reason = "no ucx_perftest next to " + library + " or in PATH"
	return nil, missing
}

// Path returns the path of the program.
func (p *Perftest) Path() string { return p.path }

// PerftestRun is one measurement.
type PerftestRun struct {
	// Test is the option -t of the program, such as "tag_lat" or "ucp_am_bw".
	Test string
	// Size is the size of a message in bytes.
	Size int64
	// Iterations is the number of measured iterations, Warmup that of iterations before them.
	Iterations, Warmup int
	// Window is the number of outstanding operations; 0 selects the default.
	Window int
	// Memory is the option -m of the program: "", "host" or "cuda".
	Memory string
	// Env are the variables of the setting, as "NAME=value".
	Env []string
}

// PerftestResult is the last line of the program.
type PerftestResult struct {
	Iterations int64
	// MedianMicros and OverallMicros are the latency of one operation (half a round trip in ping-pong tests).
	MedianMicros, OverallMicros float64
	// OverallMiBps is the bandwidth; the program calls the unit MB/s.
	OverallMiBps float64
	// OverallRate is in messages per second.
	OverallRate float64
}

// Run starts server and client on 127.0.0.1 and returns the result of the client. Both have ended when it returns.
func (p *Perftest) Run(ctx context.Context, r PerftestRun) (PerftestResult, error) {
	const attempts = 3 // another process may take the free port first
	var err error
	for range attempts {
		var result PerftestResult
		if result, err = p.run(ctx, r); err == nil || !errors.Is(err, errPortTaken) {
			return result, err
		}
	}
	return PerftestResult{}, err
}

var errPortTaken = errors.New("port taken by another process")

func (p *Perftest) run(ctx context.Context, r PerftestRun) (PerftestResult, error) {
	fail := func(err error) (PerftestResult, error) {
		return PerftestResult{}, fmt.Errorf("%s -t %s -s %d: %w", p.path, r.Test, r.Size, err)
	}
	if r.Test == "" || r.Size < 0 || r.Iterations < 1 {
		return fail(errors.New("missing test name, size or iterations"))
	}
	// Both children end with this context.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	port, err := freePort(ctx)
	if err != nil {
		return fail(err)
	}
	env := p.environment(r.Env)
	portArgs := []string{"-p", strconv.Itoa(port)}
	server, err := start(ctx, env, p.path, portArgs...)
	if err != nil {
		return fail(err)
	}
	// cancel must run before this wait.
	defer func() { cancel(); server.wait() }()
	if err := waitListening(ctx, port, server); err != nil {
		return fail(err)
	}
	client, err := start(ctx, env, p.path, append(append([]string{"127.0.0.1"}, portArgs...), r.arguments()...)...)
	if err != nil {
		return fail(err)
	}
	if err := client.wait(); err != nil {
		if ctx.Err() != nil {
			return fail(context.Cause(ctx))
		}
		if strings.Contains(err.Error(), "connect() failed") {
			err = errPortTaken // another process listened there
		}
		return fail(err)
	}
	result, err := parsePerftest(client.stdout.String())
	if err != nil {
		return fail(err)
	}
	return result, nil
}

func (r PerftestRun) arguments() []string {
	args := []string{
		"-t", r.Test, "-s", strconv.FormatInt(r.Size, 10),
		"-n", strconv.Itoa(r.Iterations), "-w", strconv.Itoa(r.Warmup),
		"-f", "-v", // only final numbers, as CSV
	}
	if r.Window > 0 {
		args = append(args, "-O", strconv.Itoa(r.Window))
	}
	if r.Memory != "" {
		args = append(args, "-m", r.Memory)
	}
	return args
}

// environment puts the folder of the library first in LD_LIBRARY_PATH: binaries of wheels have no run path and would
// use the library of the system.
func (p *Perftest) environment(extra []string) []string {
	env := append(slices.Clone(p.environ), extra...)
	if p.libraryDir == "" {
		return env
	}
	path := p.libraryDir
	if old := getenv(p.environ, "LD_LIBRARY_PATH"); old != "" {
		path += ":" + old
	}
	return append(env, "LD_LIBRARY_PATH="+path)
}

// parsePerftest parses the CSV output: a heading with the names of the columns, then the last line.
func parsePerftest(text string) (PerftestResult, error) {
	var heading, values []string
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ",")
		if slices.Contains(fields, "iterations") {
			heading = fields
		} else if len(heading) > 0 && len(fields) == len(heading) {
			values = fields
		}
	}
	if values == nil {
		return PerftestResult{}, fmt.Errorf("no result line in output %q", strings.TrimSpace(text))
	}
	column := func(name string) (float64, error) {
		i := slices.IndexFunc(heading, func(h string) bool { return h == name || strings.HasSuffix(h, name) })
		if i < 0 {
			return 0, fmt.Errorf("no column %q in %q", name, strings.Join(heading, ","))
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(values[i]), 64)
		if err != nil {
			return 0, fmt.Errorf("column %q: %w", name, err)
		}
		return v, nil
	}
	var r PerftestResult
	var iterations float64
	for _, c := range []struct {
		name string
		into *float64
	}{
		{"iterations", &iterations}, {"percentile_lat", &r.MedianMicros}, {"overall_lat", &r.OverallMicros},
		{"overall_bw", &r.OverallMiBps}, {"overall_mr", &r.OverallRate},
	} {
		v, err := column(c.name)
		if err != nil {
			return PerftestResult{}, err
		}
		*c.into = v
	}
	r.Iterations = int64(iterations)
	return r, nil
}

func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// waitListening waits for a socket in state LISTEN. The server would take a test connection for the client.
func waitListening(ctx context.Context, port int, server *process) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("server not listening on port "+
		"%d after %v", port, startTimeout))
	defer cancel()
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for !listening(port) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if server.ended() {
			if strings.Contains(server.stdout.String()+server.stderr.String(), "Address already in use") {
				return errPortTaken
			}
			return fmt.Errorf("server exited: %w", cmpErr(server.wait(), errors.New("without an error")))
		}
	}
	return nil
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// listening searches the socket tables of the kernel.
func listening(port int) bool {
	const stateListen = "0A"
	suffix := fmt.Sprintf(":%04X", port)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		found := false
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) > 3 && strings.HasSuffix(fields[1], suffix) && fields[3] == stateListen {
				found = true
				break
			}
		}
		f.Close()
		if found {
			return true
		}
	}
	return false
}

func getenv(environ []string, name string) string {
	for _, kv := range slices.Backward(environ) {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v
		}
	}
	return ""
}
