package hostile

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.millstream.dev/client"
	"go.millstream.dev/comm"
	"go.millstream.dev/internal/testkit/freeport"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
	"go.millstream.dev/tests/dask/rig"
)

// Rig is a cluster of processes that is attacked: a scheduler, a worker without a nanny and a worker with one.
type Rig struct {
	setting
	// Scheduler, Worker and Nanny are processes; Nanny is the one of NannyWorker, an address.
	Scheduler, Worker, Nanny *Process
	// NannyWorker is the address of the nanny's worker.
	NannyWorker string
	// Journal is the folder of the scheduler's journal, "" without one; Certificates that of the certificates, ""
	// without.
	Journal, Certificates string
	// Full is the long form.
	Full bool

	t      testing.TB
	dir    string
	port   int
	tls    *secure.Security
	honest *client.Client
	kept   *client.Future[int] // a result that the honest client has since the start
	rounds int
	grown  string // by how much the memory of the processes grew in the last attack, for the log

	mu        sync.Mutex
	attackers []string        // addresses and names; guarded by mu
	closers   []func()        // ends what the attack has opened; guarded by mu
	ctx       context.Context // of the rig
}

// binary builds bin/millstream's program once, as users have it: without the race detector.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "millstream-hostile-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "millstream")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/millstream")
	cmd.Dir = rig.Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// newRig starts a cluster. It ends with the test.
func newRig(t testing.TB, s setting, full bool) *Rig {
	t.Helper()
	r := &Rig{setting: s, Full: full, t: t, dir: t.TempDir(), ctx: t.Context(), port: freeport.Port(t)}
	if s.journal {
		r.Journal = filepath.Join(r.dir, "journal")
	}
	if s.protocol == "tls" {
		ca, err := secure.NewCA(secure.CAConfig{})
		if err != nil {
			t.Fatal(err)
		}
		r.Certificates = filepath.Join(r.dir, "tls")
		if r.tls, err = ca.WriteFiles(r.Certificates); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.startScheduler(); err != nil {
		t.Fatal(err)
	}
	if err := r.ensureWorkers(r.ctx); err != nil {
		t.Fatal(err)
	}
	if err := r.begin(r.ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return r
}

// close ends the honest client.
func (r *Rig) close() {
	r.endAttack()
	if r.honest == nil {
		return
	}
	_ = r.honest.Close()
	r.honest = nil
}

// StartScheduler starts another scheduler of the built program with the rig's protocol and certificates. It ends with
// the test.
func (r *Rig) StartScheduler(name string, args ...string) (*Process, error) {
	path, err := binary()
	if err != nil {
		return nil, err
	}
	return r.launchScheduler(name, path, args)
}

func (r *Rig) launchScheduler(name, path string, args []string) (*Process, error) {
	return r.launchWith(name, []string{path}, args)
}

// launchWith starts a scheduler by a command, the program's path at its end.
func (r *Rig) launchWith(name string, command, args []string) (*Process, error) {
	python, err := rig.Current().Python()
	if err != nil {
		return nil, err
	}
	full := append(slices.Clone(command[1:]), "scheduler", "--protocol", r.protocol, "--host", "127.0.0.1",
		"--dashboard-address", "127.0.0.1:0", "--python", python)
	var mu sync.Mutex
	var address, http string
	p, err := startProcess(r.t, name, r.command(command[0], append(full, args...)...), func(line string) bool {
		mu.Lock()
		defer mu.Unlock()
		if rest, ok := strings.CutPrefix(line, "scheduler at "); ok {
			address = rest
		}
		if rest, ok := strings.CutPrefix(line, "dashboard at "); ok {
			http = rest
		}
		return address != "" && http != ""
	})
	if err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	p.Address, p.HTTP = address, strings.TrimSuffix(http, "/")
	return p, nil
}

func (r *Rig) startScheduler() (err error) {
	args := []string{"--port", fmt.Sprint(r.port)}
	if r.Journal != "" {
		args = append(args, "--journal", r.Journal)
	}
	r.Scheduler, err = r.StartScheduler("scheduler", args...)
	return err
}

// StartWorker starts a worker of this program, which has the honest client's function. Its address is in the process,
// the nanny's with a nanny. It ends with the test.
func (r *Rig) StartWorker(name string, nanny bool, args ...string) (*Process, error) {
	full := []string{"worker", r.Scheduler.Address, "--protocol", r.protocol, "--host", "127.0.0.1", "--name", name,
		"--nthreads", "2",
		"--no-dashboard", "--data-connections", "none", "--local-directory", r.dir, "--no-python",
		"--memory-limit", "0"}
	if !nanny {
		full = append(full, "--no-nanny")
	}
	p, err := startProcess(r.t, name, r.command("/proc/self/exe", append(full, args...)...), func(line string) bool {
		return strings.HasPrefix(line, "worker ") && strings.Contains(line, " at ")
	})
	if err != nil {
		return nil, err
	}
	var worker, watcher string
	err = until(r.ctx, "worker "+name+" is registered", func() bool {
		worker, watcher = r.find(name)
		return worker != ""
	})
	p.Address = worker
	if nanny {
		p.Address = watcher
	}
	return p, err
}

// find returns the addresses of a registered worker and of its nanny.
func (r *Rig) find(name string) (worker, nanny string) {
	var id msgpack.Map
	if err := r.honestCall(r.ctx, r.Scheduler.Address, "identity", msgpack.MapOf("n_workers", -1), &id); err != nil {
		return "", ""
	}
	workers, _ := id.Get("workers")
	list, _ := workers.(msgpack.Map)
	for _, w := range list {
		d, _ := w.Value.(msgpack.Map)
		if got := d.GetString("name"); got == name || strings.HasPrefix(got, name+"-") {
			return w.Key.(string), d.GetString("nanny")
		}
	}
	return "", ""
}

// ensureWorkers starts the workers that are not there, and waits for those that reconnect.
func (r *Rig) ensureWorkers(ctx context.Context) (err error) {
	if r.Worker == nil || !r.Worker.Alive() {
		if r.Worker, err = r.StartWorker("honest", false); err != nil {
			return err
		}
	}
	if r.Nanny == nil || !r.Nanny.Alive() {
		if r.Nanny, err = r.StartWorker("watched", true); err != nil {
			return err
		}
	}
	return until(ctx, "both workers are registered", func() bool {
		one, _ := r.find("honest")
		two, nanny := r.find("watched")
		if one == "" || two == "" {
			return false
		}
		r.Worker.Address, r.NannyWorker, r.Nanny.Address = one, two, nanny
		return true
	})
}

// command is a program with the rig's environment.
func (r *Rig) command(path string, args ...string) *exec.Cmd {
	if r.Certificates != "" {
		args = append(args, "--tls-dir", r.Certificates)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = r.dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "DASK_") && !strings.HasPrefix(v, "PYTHON") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "DASK_TEMPORARY_DIRECTORY="+r.dir)
	if r.protocol == "ucxx" {
		// A scheduler that is started again on its port finds connections of the last one there.
		cmd.Env = append(cmd.Env, "UCX_TLS=tcp,self", "UCX_TCP_CM_REUSEADDR=y")
	}
	return cmd
}

// dialConfig is how a peer connects in a role.
func (r *Rig) dialConfig(role secure.Role) (comm.DialConfig, error) {
	if r.tls == nil {
		return comm.DialConfig{}, nil
	}
	cfg, err := r.tls.Dial(role)
	return comm.DialConfig{TLS: cfg}, err
}

// processes are those that an attack is measured at.
func (r *Rig) processes() []*Process { return []*Process{r.Scheduler, r.Worker, r.Nanny} }
