//go:build containers

package containers

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var (
	schedulerCommand = []string{"scheduler", "--tls-dir", "/cluster/certs", "--scheduler-file",
		"/cluster/scheduler.json", "--host", "0.0.0.0"}
	workerCommand = []string{"worker", "--tls-dir", "/cluster/certs", "--scheduler-file",
		"/cluster/scheduler.json", "--name"}
)

// TestVolumes checks the folders that the guides and Compose files mount volumes at. Docker gives a new volume the
// owner of the folder of the image, or root if the image has none.
func TestVolumes(t *testing.T) {
	build(t)
	for _, path := range []string{"/cluster", "/data"} {
		got := once(t, []string{"--entrypoint", "stat"}, []string{"-c", "%u:%g %a", path})
		if got != uid+":"+uid+" 700" {
			t.Errorf("%s of the image: got owner and mode %s, want %s:%s 700", path, got, uid, uid)
		}
	}
	data := volume(t, "journal")
	c := &cluster{t: t}
	c.start("test-journal", []string{"--volume", volume(t, "cluster") + ":/cluster", "--volume", data + ":/data"},
		append(schedulerCommand, "--journal", "/data/journal"))
	c.waitWorkers()
	got := once(t, []string{"--volume", data + ":/data", "--entrypoint", "stat"},
		[]string{"-c", "%u %a", "/data/journal"})
	if got != uid+" 700" {
		t.Errorf("journal: got owner and mode %s, want %s 700", got, uid)
	}
}

// TestNamespaces moves data between containers that share IPC and PID namespaces, between two that share none, and
// between workers of one container.
func TestNamespaces(t *testing.T) {
	build(t)
	c := &cluster{t: t}
	mount := []string{"--volume", volume(t, "namespaces") + ":/cluster"}
	c.start("test-scheduler", mount, schedulerCommand)
	shared := append([]string{"--ipc=shareable", "--shm-size=1g", "--cap-add=SYS_PTRACE"}, mount...)
	c.start("test-first", shared, append(slices.Clone(workerCommand), "first"))
	joined := append([]string{"--ipc=container:test-first", "--pid=container:test-first",
		"--cap-add=SYS_PTRACE"}, mount...)
	c.start("test-second", joined, append(slices.Clone(workerCommand), "second"))
	private := append([]string{"--ipc=private", "--shm-size=1g"}, mount...)
	c.start("test-private", private, append(slices.Clone(workerCommand), "pair", "--nworkers", "2"))
	c.waitWorkers("first", "second", "pair-0", "pair-1")
	pairs := c.transfers()
	if len(pairs) != 12 {
		t.Errorf("got %d pairs, want 12: %v", len(pairs), pairs)
	}
	for pair, f := range pairs {
		from, to, _ := strings.Cut(pair, " → ")
		if apart := strings.HasPrefix(from, "pair") != strings.HasPrefix(to, "pair"); apart {
			if f.Severity != "warn" || !strings.Contains(f.Title, "tcp") ||
				!strings.Contains(f.Detail, "IPC and PID namespaces") || !strings.Contains(f.Fix, "--ipc=shareable") {
				t.Errorf("containers without common namespaces: got %+v, want tcp and a fix", f)
			}
		} else if f.Severity != "ok" || !inMemory(f.Title) {
			t.Errorf("common namespaces: got %+v, want a transport through memory", f)
		}
	}
	// A container that is stopped moves its results away first and ends with status 0.
	podman(t, "stop", "--time", "60", "test-private")
	if got := podman(t, "inspect", "--format", "{{.State.ExitCode}}", "test-private"); got != "0" {
		t.Errorf("stopped workers: got status %s, want 0", got)
	}
	c.waitWorkers("first", "second")
}

// inMemory reports whether the transports in a finding are of one machine's memory.
func inMemory(title string) bool {
	return strings.Contains(title, "cma") || strings.Contains(title, "posix") || strings.Contains(title, "sysv") ||
		strings.Contains(title, "memory")
}

// service has the fields of a Compose service that say how a container is started.
type service struct {
	ContainerName string `yaml:"container_name"`
	Command       []string
	IPC, PID      string
	ShmSize       string   `yaml:"shm_size"`
	CapAdd        []string `yaml:"cap_add"`
	Volumes       []string
	DependsOn     []string `yaml:"depends_on"`
}

// flags returns the flags of podman for a service.
func (s service) flags(t *testing.T, volumes map[string]string) []string {
	t.Helper()
	var flags []string
	for name, value := range map[string]string{"ipc": s.IPC, "pid": s.PID,
		"shm-size": strings.TrimSuffix(s.ShmSize, "b")} {
		if value != "" {
			flags = append(flags, "--"+name, value)
		}
	}
	for _, capability := range s.CapAdd {
		flags = append(flags, "--cap-add", capability)
	}
	for _, v := range s.Volumes {
		source, target, _ := strings.Cut(v, ":")
		if volumes[source] == "" {
			volumes[source] = volume(t, source)
		}
		flags = append(flags, "--volume", volumes[source]+":"+target)
	}
	return flags
}

// cpuCommand returns the command of a service for a machine without GPUs, and the names of its workers: a GPU worker
// becomes an ordinary one, which has the same connections and files; one for all GPUs becomes two.
func (s service) cpuCommand(name string) (line, workers []string) {
	if s.Command[0] != "cuda-worker" {
		return s.Command, nil
	}
	command := []string{"worker"}
	for i := 1; i < len(s.Command); i++ {
		switch s.Command[i] {
		case "--enable-nvlink":
		case "--devices":
			i++
		default:
			command = append(command, s.Command[i])
		}
	}
	if slices.Contains(s.Command, "--devices") {
		return command, []string{name} // its --name
	}
	return append(command, "--name", name, "--nworkers", "2"), []string{name + "-0", name + "-1"}
}

// TestCompose starts the services of each Compose file by their commands, in the order of their dependencies, and moves
// data between the workers.
func TestCompose(t *testing.T) {
	build(t)
	files, err := filepath.Glob(filepath.Join(repository, "deploy/compose/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("got files %q, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var compose struct{ Services map[string]service }
			if err := yaml.Unmarshal(text, &compose); err != nil {
				t.Fatal(err)
			}
			c := &cluster{t: t}
			volumes := map[string]string{}
			started := map[string]bool{}
			var workers []string
			var start func(name string)
			start = func(name string) {
				s := compose.Services[name]
				if started[name] || len(s.Command) == 0 {
					return
				}
				started[name] = true
				for _, before := range s.DependsOn {
					start(before)
				}
				container := s.ContainerName
				if container == "" {
					container = "test-" + name
				}
				line, names := s.cpuCommand(name)
				c.start(container, s.flags(t, volumes), line)
				workers = append(workers, names...)
			}
			start("scheduler")
			for name := range compose.Services {
				start(name)
			}
			if len(started) != len(compose.Services) || len(workers) == 0 {
				t.Fatalf("started %v with workers %q, want all of %d services", started, workers, len(compose.Services))
			}
			c.waitWorkers(workers...)
			for pair, f := range c.transfers() {
				if f.Severity != "ok" || !inMemory(f.Title) {
					t.Errorf("%s: got %+v, want a transport through memory", pair, f)
				}
			}
		})
	}
}
