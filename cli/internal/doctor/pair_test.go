package doctor

import (
	"errors"
	"strings"
	"testing"
)

func twoProcesses(ipc, pid, mnt, uid string) files {
	return files{
		"proc/10/ns/ipc": "->ipc:[1]", "proc/10/ns/pid": "->pid:[1]", "proc/10/ns/mnt": "->mnt:[1]",
		"proc/10/status": "Name:\ta\nUid:\t0\t0\t0\t0\n",
		"proc/20/ns/ipc": "->" + ipc, "proc/20/ns/pid": "->" + pid, "proc/20/ns/mnt": "->" + mnt,
		"proc/20/status": "Name:\tb\nUid:\t" + uid + "\t0\t0\t0\n",
	}
}

// What two processes share decides which transports are possible.
func TestBetween(t *testing.T) {
	for _, c := range []struct {
		name  string
		files files
		worst Severity
		texts []string
	}{
		{"one container", twoProcesses("ipc:[1]", "pid:[1]", "mnt:[1]", "0"), OK,
			[]string{"share their IPC namespace", "shared memory, CMA, CUDA IPC"}},
		{"shareable", twoProcesses("ipc:[1]", "pid:[1]", "mnt:[2]", "0"), Info,
			[]string{"different mount namespaces", "shared memory, CMA, CUDA IPC"}},
		{"only IPC", twoProcesses("ipc:[1]", "pid:[2]", "mnt:[2]", "0"), Warn,
			[]string{"different PID namespaces", "--pid=container:NAME", "shared memory, perhaps CUDA IPC, TCP"}},
		{"apart", twoProcesses("ipc:[2]", "pid:[2]", "mnt:[2]", "0"), Warn,
			[]string{"different IPC namespaces", "CUDA IPC (NVLink) is only reliable within one",
				"between them: perhaps CUDA IPC, TCP"}},
		{"users", twoProcesses("ipc:[1]", "pid:[1]", "mnt:[1]", "1000"), Warn, []string{"process 10 runs as user 0, " +
			"process 20 as 1000", "shared memory, CUDA IPC, TCP"}},
		{"gone", files{"proc/10/ns/ipc": "->ipc:[1]"}, Fail, []string{"no process 20"}},
		{"closed", files{"proc/10/ns/ipc": "->ipc:[1]", "proc/20/status": "x"}, Fail,
			[]string{"the namespaces of process 20 cannot be read", "as root"}},
	} {
		r := Between(machine(c.files), 10, 20)
		var all strings.Builder
		if err := r.WriteText(&all, false); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(all.String()), " ")
		for _, want := range c.texts {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", c.name, want, all.String())
			}
		}
		if r.Worst() != c.worst {
			t.Errorf("%s: %s\n%s", c.name, r.Worst(), all.String())
		}
	}
}

func TestBAR1(t *testing.T) {
	const gpu = "sys/bus/pci/devices/0000:01:00.0/resource"
	bars := func(end string) files {
		f := with(board)
		f[gpu] = "0x00000000f6000000 0x00000000f6ffffff 0x0000000000040200\n0x00000000e0000000 " + end +
			" 0x000000000014220c\n0x0 0x0 0x0\n"
		return f
	}
	runCases(t, checkBAR1, []checkCase{
		{name: "no GPU", want: want{NA, []string{"no GPU on the bus"}}},
		{name: "no resource", files: board, want: want{NA, nil}},
		{name: "small", files: bars("0x00000000efffffff"), want: want{Warn,
			[]string{"0000:01:00.0: 256 MiB", "Resizable BAR"}}},
		{name: "large", files: bars("0x00000020dfffffff"), want: want{OK, []string{"0000:01:00.0: 128 GiB"}}},
		{name: "nonsense", files: bars("0xzz"), want: want{Warn, []string{"16 MiB"}}},
	})
}

func TestDMABuf(t *testing.T) {
	both := with(board, nodeFile, cudaFile, "sys/class/infiniband/mlx5_0/ports/1/state")
	both["proc/driver/nvidia/version"] = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.1\n"
	both["proc/sys/kernel/osrelease"] = "6.1.0-amd64\n"
	old := with(both)
	old["proc/sys/kernel/osrelease"] = "5.4.0\n"
	closed := with(both)
	closed["proc/driver/nvidia/version"] = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.1\n"
	runCases(t, checkGPUDirect, []checkCase{
		{name: "all there", files: both, want: want{OK, []string{"GPUDirect RDMA: dma-buf"}}},
		{name: "old kernel", files: old, want: want{Warn, []string{"Linux 5.12", "modprobe nvidia_peermem"}}},
		{name: "closed driver", files: closed, want: want{Warn, []string{"open kernel modules"}}},
		{name: "old UCX", files: both, change: func(h *Host) {
			h.UCX.Version = "1.13.1"
		}, want: want{Warn, []string{"UCX 1.14"}}},
		{name: "no UCX", files: both, change: noUCX(nil), want: want{Warn, []string{"needs UCX"}}},
	})
}

// Each flow between workers is reported with its connection, its speed, and why it was not faster.
func TestJudge(t *testing.T) {
	a := Member{Name: "a", Address: "tls://10.0.0.1:1", Boot: "x", IPC: "i", PID: "p",
		DataAddresses: []string{"ucxx://127.0.0.1:5"}}
	b := a
	b.Name = "b"
	change := func(m Member, f func(*Member)) Member { f(&m); return m }
	for _, c := range []struct {
		name string
		flow Flow
		want want
	}{
		{"data connection", Flow{From: a, To: b, Scheme: "ucxx", Rate: 5e9}, want{OK,
			[]string{"a → b: ucxx, 5.00 GB/s"}}},
		{"not used", Flow{From: a, To: b, Scheme: "tls", Rate: 1e9}, want{Warn, []string{"did not use them", "logs"}}},
		{"no data connections", Flow{From: a, To: change(b, func(m *Member) { m.DataAddresses = nil }), Scheme: "tls"},
			want{Warn, []string{"b was started without data connections", "--data-connections auto"}}},
		{"no data connections on the first", Flow{From: change(a, func(m *Member) { m.DataAddresses = nil }), To: b,
			Scheme: "tcp"}, want{Warn, []string{"a was started without data connections"}}},
		{"no UCX", Flow{From: a, To: change(b, func(m *Member) { m.NoUCX = "no libucp" }), Scheme: "tcp"},
			want{Warn, []string{"b cannot use UCX: no libucp"}}},
		{"namespaces", Flow{From: a, To: change(b, func(m *Member) { m.IPC, m.PID = "j", "q" }), Scheme: "ucxx"},
			want{Warn, []string{"different IPC and PID namespaces", "container:NAME"}}},
		{"machines", Flow{From: a, To: change(b, func(m *Member) { m.Boot = "y" }), Scheme: "tls"},
			want{Info, []string{"different machines", "--data-connections trusted"}}},
		{"trusted and unused", Flow{From: change(a, func(m *Member) {
			m.Trusted = true
		}), To: change(b, func(m *Member) { m.Boot, m.Trusted = "y", true }), Scheme: "tls"},
			want{Warn, []string{"trusted data connections and did not use"}}},
		{"machines over ucxx", Flow{From: a, To: change(b, func(m *Member) { m.Boot = "y" }), Scheme: "ucxx"},
			want{OK, nil}},
		{"Python", Flow{From: change(a, func(m *Member) { m.Silent = "unknown operation" }), To: b},
			want{Info, []string{"a did not describe its connections", "unknown connection"}}},
		{"inner", Flow{From: a, To: b, Scheme: "ucxx", Transports: []string{"cma", "posix"}, Rate: 5e9},
			want{OK, []string{"a → b: ucxx (cma, posix), 5.00 GB/s"}}},
		{"inner tcp", Flow{From: a, To: b, Scheme: "ucxx", Transports: []string{"tcp"}},
			want{Warn, []string{"no shared memory", "UCX_TLS"}}},
		{"inner tcp to another machine", Flow{From: a, To: change(b, func(m *Member) {
			m.Boot = "y"
		}), Scheme: "ucxx", Transports: []string{"tcp"}}, want{OK, nil}},
		{"device", Flow{From: a, To: b, Device: true, Landed: true, Scheme: "ucxx",
			Transports: []string{"cuda_ipc", "posix"}, Rate: 2e11}, want{OK, []string{"a → b: device memory, ucxx " +
			"(cuda_ipc, posix), 200.00 GB/s"}}},
		{"device without ipc", Flow{From: a, To: b, Device: true, Landed: true, Scheme: "ucxx",
			Transports: []string{"cma", "posix"}}, want{Warn,
			[]string{"no cuda_ipc", "--disable-nvlink", "gpu-peers"}}},
		{"device to another machine", Flow{From: a, To: change(b, func(m *Member) {
			m.Boot = "y"
		}), Device: true, Landed: true, Scheme: "ucxx", Transports: []string{"tcp"}},
			want{Info, []string{"no InfiniBand", "gpudirect"}}},
		{"device across namespaces", Flow{From: a, To: change(b, func(m *Member) {
			m.IPC, m.PID = "j", "q"
		}), Device: true, Landed: true, Scheme: "ucxx", Transports: []string{"cuda_ipc", "tcp"}}, want{OK, nil}},
		{"device staged across namespaces", Flow{From: a, To: change(b, func(m *Member) {
			m.IPC, m.PID = "j", "q"
		}), Device: true, Landed: true, Scheme: "ucxx", Transports: []string{"tcp"}},
			want{Warn, []string{"UCX uses tcp", "container:NAME"}}},
		{"device over tcp", Flow{From: a, To: b, Device: true, Scheme: "tls"},
			want{Warn, []string{"arrived in host memory: tls does not transfer device memory"}}},
		{"device by RDMA", Flow{From: a, To: change(b, func(m *Member) {
			m.Boot = "y"
		}), Device: true, Landed: true, Scheme: "ucxx", Transports: []string{"rc_mlx5"}}, want{OK, nil}},
		{"one process", Flow{From: a, To: b, Scheme: "inproc"}, want{OK, nil}},
		{"nothing", Flow{From: a, To: b, Err: errors.New("refused")},
			want{Fail, []string{"nothing arrived", "refused"}}},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, Judge([]Flow{c.flow}).Findings, c.want) })
	}
}
