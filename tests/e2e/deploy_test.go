package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"go.millstream.dev/cli"
)

const deploy = "../../deploy"

// accepts checks that a command line of a file is one that millstream takes.
func accepts(t *testing.T, where string, line []string) {
	t.Helper()
	cmd, rest, err := cli.Command().Find(line)
	if err != nil || cmd.Name() != line[0] {
		t.Errorf("%s: %q is no command: %v", where, line, err)
		return
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%s: %v: %v", where, line, err)
		return
	}
	if cmd.Args != nil {
		if err := cmd.Args(cmd, cmd.Flags().Args()); err != nil {
			t.Errorf("%s: %v: %v", where, line, err)
		}
	}
}

func parse(t *testing.T, name string, into any) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deploy, name))
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(text)
}

// composeFile has the fields of the Compose specification that the files use; others are errors.
type composeFile struct {
	Name     string
	Services map[string]struct {
		Image         string
		ContainerName string   `yaml:"container_name"`
		Command       []string `yaml:"command"`
		IPC           string   `yaml:"ipc"`
		PID           string   `yaml:"pid"`
		ShmSize       string   `yaml:"shm_size"`
		CapAdd        []string `yaml:"cap_add"`
		Volumes       []string
		Ports         []string
		DependsOn     []string `yaml:"depends_on"`
		Deploy        struct {
			Resources struct {
				Reservations struct {
					Devices []struct {
						Driver, Count string
						Capabilities  []string
					}
				}
			}
		}
	}
	Volumes map[string]struct{}
}

func TestComposeFiles(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(deploy, "compose", "*.yaml"))
	if err != nil || len(files) != 3 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		var f composeFile
		text := parse(t, "compose/"+name, &f)
		for service, s := range f.Services {
			where := name + ": " + service
			accepts(t, where, s.Command)
			if !slices.Contains([]string{"millstream", "millstream-cuda"}, s.Image) {
				t.Errorf("%s: image %s", where, s.Image)
			}
			for _, v := range s.Volumes {
				source, _, _ := strings.Cut(v, ":")
				if _, ok := f.Volumes[source]; !ok {
					t.Errorf("%s: volume %s is not declared", where, source)
				}
			}
			for _, d := range s.DependsOn {
				if _, ok := f.Services[d]; !ok {
					t.Errorf("%s depends on %s, which is not there", where, d)
				}
			}
			for _, ns := range []string{s.IPC, s.PID} {
				target, joins := strings.CutPrefix(ns, "container:")
				if joins && !slices.ContainsFunc(mapValues(f), func(c string) bool { return c == target }) {
					t.Errorf("%s joins %s, which no service is called", where, target)
				}
			}
			if s.Command[0] == "cuda-worker" {
				devices := s.Deploy.Resources.Reservations.Devices
				if len(devices) != 1 || devices[0].Driver != "nvidia" || devices[0].Count != "all" ||
					!slices.Contains(devices[0].Capabilities, "gpu") {
					t.Errorf("%s has GPUs %+v", where, devices)
				}
				if s.IPC != "host" && !strings.HasPrefix(s.IPC, "container:") && s.ShmSize == "" {
					t.Errorf("%s has Docker's 64 MB of /dev/shm", where)
				}
			}
			if (s.IPC == "host" || s.PID == "host") && !strings.Contains(text, "WARNING: not on hosts that several "+
				"tenants share") {
				t.Errorf("%s shares the host's namespaces and does not warn", where)
			}
		}
	}
	var shared composeFile
	parse(t, "compose/shared-ipc.yaml", &shared)
	if shared.Services["gpu0"].IPC != "shareable" || shared.Services["gpu1"].IPC != "container:millstream-gpu0" ||
		shared.Services["gpu1"].PID != "container:millstream-gpu0" {
		t.Errorf("%+v", shared.Services)
	}
}

func mapValues(f composeFile) []string {
	var names []string
	for _, s := range f.Services {
		names = append(names, s.ContainerName)
	}
	return names
}

// pod has the fields of a Kubernetes pod that the manifests use; others are errors.
type pod struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct {
		Name   string
		Labels map[string]string
	}
	Spec struct {
		ShareProcessNamespace bool `yaml:"shareProcessNamespace"`
		HostIPC               bool `yaml:"hostIPC"`
		HostPID               bool `yaml:"hostPID"`
		SecurityContext       struct {
			FSGroup int `yaml:"fsGroup"`
		} `yaml:"securityContext"`
		Containers []struct {
			Name, Image string
			Args        []string
			Ports       []struct {
				ContainerPort int `yaml:"containerPort"`
			}
			ReadinessProbe  *probe `yaml:"readinessProbe"`
			LivenessProbe   *probe `yaml:"livenessProbe"`
			Resources       struct{ Limits map[string]int }
			SecurityContext struct {
				Capabilities struct{ Add []string }
			} `yaml:"securityContext"`
			VolumeMounts []struct {
				Name      string
				MountPath string `yaml:"mountPath"`
				ReadOnly  bool   `yaml:"readOnly"`
			} `yaml:"volumeMounts"`
		}
		Volumes []struct {
			Name     string
			EmptyDir *struct {
				Medium    string
				SizeLimit string `yaml:"sizeLimit"`
			} `yaml:"emptyDir"`
			Secret *struct {
				SecretName string `yaml:"secretName"`
			}
		}
	}
}

// probe is a request by which Kubernetes examines a container.
type probe struct {
	HTTPGet struct {
		Path string
		Port int
	} `yaml:"httpGet"`
	PeriodSeconds int `yaml:"periodSeconds"`
}

func TestKubernetesManifests(t *testing.T) {
	for _, name := range []string{"one-pod.yaml", "host-ipc.yaml"} {
		var p pod
		text := parse(t, "kubernetes/"+name, &p)
		if p.APIVersion != "v1" || p.Kind != "Pod" || p.Metadata.Name == "" {
			t.Errorf("%s: %s %s %q", name, p.APIVersion, p.Kind, p.Metadata.Name)
		}
		for _, c := range p.Spec.Containers {
			accepts(t, name+": "+c.Name, c.Args)
			for _, p := range []*probe{c.ReadinessProbe, c.LivenessProbe} {
				if (p != nil) != (c.Args[0] == "scheduler") {
					t.Errorf("%s: %s: got probe %v, want one of the scheduler only", name, c.Name, p)
				}
				if p != nil && (p.HTTPGet.Path != "/health" || p.HTTPGet.Port != 8787 ||
					!slices.Contains(c.Args, "0.0.0.0")) {
					t.Errorf("%s: %s: got %v of %v, want /health at port 8787 of all interfaces", name, c.Name, p,
						c.Args)
				}
			}
			for _, m := range c.VolumeMounts {
				if !strings.Contains(text, "{name: "+m.Name+", ") || !strings.HasPrefix(m.MountPath, "/") {
					t.Errorf("%s: volume %s at %s", name, m.Name, m.MountPath)
				}
			}
			if c.Args[0] == "cuda-worker" && c.Resources.Limits["nvidia.com/gpu"] < 1 {
				t.Errorf("%s: %s has no GPU", name, c.Name)
			}
		}
		if host := p.Spec.HostIPC; host != (name == "host-ipc.yaml") || host &&
			(!p.Spec.HostPID || !strings.Contains(text, "WARNING: not in clusters that several tenants share")) {
			t.Errorf("%s: hostIPC %v, hostPID %v", name, host, p.Spec.HostPID)
		}
		if !p.Spec.HostIPC && !p.Spec.ShareProcessNamespace {
			t.Errorf("%s: the containers do not see each other's processes", name)
		}
	}
}

// The images are made of Debian's packages, run as a user of their own, and name the binary that `make build` makes.
func TestContainerFiles(t *testing.T) {
	packages := []string{"libucx0", "libibverbs1", "ibverbs-providers", "librdmacm1", "ca-certificates", "libnuma1",
		"python3-pip"}
	for _, name := range []string{"Containerfile", "Containerfile.cuda"} {
		b, err := os.ReadFile(filepath.Join(deploy, name))
		if err != nil {
			t.Fatal(err)
		}
		words := map[string]string{} // last argument of each instruction
		text := strings.ReplaceAll(string(b), "\\\n", " ")
		for line := range strings.Lines(text) {
			instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			if instruction == "" || strings.HasPrefix(instruction, "#") {
				continue
			}
			if !slices.Contains([]string{"FROM", "ARG", "RUN", "ENV", "COPY", "USER", "ENTRYPOINT", "CMD"},
				instruction) {
				t.Errorf("%s: instruction %s", name, instruction)
			}
			words[instruction] = rest
			_, install, ok := strings.Cut(rest, "apt-get install -y --no-install-recommends ")
			if list, _, _ := strings.Cut(install, "&&"); ok {
				for p := range strings.FieldsSeq(list) {
					if !slices.Contains(packages, p) {
						t.Errorf("%s: package %s", name, p)
					}
				}
			}
		}
		if words["FROM"] != "debian:bookworm-slim" || words["USER"] != "millstream" ||
			words["ARG"] != "PROGRAM=bin/millstream" || words["COPY"] != "${PROGRAM} /usr/local/bin/millstream" ||
			words["ENTRYPOINT"] != `["millstream"]` {
			t.Errorf("%s: %q", name, words)
		}
	}
}
