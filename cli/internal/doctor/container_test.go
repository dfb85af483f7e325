package doctor

import "testing"

func TestContainerKind(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files files
		env   string
		want  string
	}{
		{name: "machine", files: files{"proc/1/cgroup": "0::/init.scope"}, want: ""},
		{name: "docker file", files: files{".dockerenv": ""}, want: "Docker"},
		{name: "podman file", files: files{"run/.containerenv": ""}, want: "Podman"},
		{name: "kubernetes before docker", files: files{".dockerenv": ""}, env: "KUBERNETES_SERVICE_HOST=10.0.0.1",
			want: "Kubernetes"},
		{name: "kubernetes secret", files: files{"var/run/secrets/kubernetes.io/serviceaccount/token": ""},
			want: "Kubernetes"},
		{name: "cgroup v1 docker", files: files{"proc/1/cgroup": "9:cpu:/docker/0123abc"}, want: "Docker"},
		{name: "cgroup kubepods", files: files{"proc/self/cgroup": "0::/kubepods.slice/x"}, want: "Kubernetes"},
		{name: "cgroup podman", files: files{"proc/1/cgroup": "0::/machine.slice/libpod-1.scope"}, want: "Podman"},
		{name: "lxc", files: files{"proc/1/cgroup": "4:devices:/lxc/x"}, want: "LXC"},
		{name: "systemd's variable", env: "container=systemd-nspawn", want: "systemd-nspawn"},
		{name: "apptainer", env: "APPTAINER_CONTAINER=/x.sif", want: "Apptainer"},
		{name: "overlay root, cgroup v2", files: files{"proc/1/cgroup": "0::/",
			"proc/1/mounts": "proc /proc proc rw 0 0\noverlay / overlay rw 0 0\n"}, want: "overlay-rooted"},
		{name: "ext4 root", files: files{"proc/1/mounts": "/dev/sda1 / ext4 rw 0 0\noverlay /var/x overlay rw 0 0\n"},
			want: ""},
	} {
		h := machine(tc.files)
		if tc.env != "" {
			setenv(tc.env)(h)
		}
		if got := h.container(); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestNamespaces(t *testing.T) {
	const ipc, pid = "proc/self/ns/ipc", "proc/self/ns/pid"
	runCases(t, checkNamespaces, []checkCase{
		{name: "machine", want: want{OK, []string{"not in a private"}}},
		{name: "container sharing both", files: files{".dockerenv": ""},
			want: want{OK, []string{"Docker container that shares"}}},
		{name: "both private", files: files{".dockerenv": "", ipc: "->ipc:[4026532199]", pid: "->pid:[4026532200]"},
			want: want{Warn, []string{"this Docker container has its own IPC and PID namespace",
				"--ipc=host --pid=host", "TCP only", "CUDA IPC"}}},
		{name: "only PID private", files: files{".dockerenv": "", pid: "->pid:[4026532200]"},
			want: want{Warn, []string{"its own PID namespace", "`--pid=host`"}}},
		{name: "kubernetes", files: files{"var/run/secrets/kubernetes.io/x": "", ipc: "->ipc:[4026532199]"},
			want: want{Warn, []string{"hostIPC: true", "pod spec"}}},
		{name: "private without a container", files: files{ipc: "->ipc:[4026532199]"},
			want: want{Warn, []string{"this process has its own IPC"}}},
	})
}

func TestPtrace(t *testing.T) {
	const scope, status = "proc/sys/kernel/yama/ptrace_scope", "proc/self/status"
	noCMA := func(h *Host) { h.UCX.Transports = []string{"self", "tcp", "posix"} }
	runCases(t, checkPtrace, []checkCase{
		{name: "no yama", want: want{OK, nil}},
		{name: "0", files: files{scope: "0\n"}, want: want{OK, nil}},
		{name: "1", files: files{scope: "1\n"}, want: want{OK, []string{"UCX grants access"}}},
		{name: "2", files: files{scope: "2\n", status: "Name:\tx\nCapEff:\t0000000000000000\n"},
			want: want{Warn, []string{"ptrace scope 2", "ptrace_scope=1", "CAP_SYS_PTRACE"}}},
		{name: "2 with capability", files: files{scope: "2\n", status: "CapEff:\t0000000000080000\n"},
			want: want{OK, nil}},
		{name: "3", files: files{scope: "3\n"}, want: want{Warn, []string{"reboot"}}},
		{name: "blocked by seccomp", files: files{".dockerenv": ""}, change: noCMA,
			want: want{Info, []string{"not CMA", "--cap-add=SYS_PTRACE"}}},
		{name: "built without", change: noCMA, want: want{Info, []string{"--enable-cma"}}},
		{name: "no library", change: noUCX(nil), want: want{OK, nil}},
	})
	if machine(files{status: "CapEff:\tzz\n"}).capability(capSysPtrace) {
		t.Error("a broken status file grants a capability")
	}
}
