package clique

import (
	"strings"
	"testing"

	"go.millstream.dev/internal/task"
)

// ncclRank is a worker with a GPU and NCCL of its own.
func ncclRank(worker, boot, uuid string) prepared {
	return prepared{Member: Member{Worker: worker, UUID: uuid, GPU: 0}, Boot: boot, Device: gpu{NCCL: 22803}}
}

func TestChooseDevices(t *testing.T) {
	a, b := ncclRank("tcp://a:1", "a", "GPU-1"), ncclRank("tcp://a:2", "a", "GPU-2")
	far := ncclRank("tcp://b:1", "b", "GPU-1")
	farTrusted, aTrusted := far, a
	farTrusted.Trusted, aTrusted.Trusted = true, true
	same := ncclRank("tcp://a:3", "a", "GPU-1")
	ownHost := same
	ownHost.Device.HostID = "x"
	none, old, ancient := b, b, b
	none.Device = gpu{Ordinal: -1, NoNCCL: "no libnccl.so.2"}
	old.Device.NCCL = 21803
	ancient.Device = gpu{}
	for _, tc := range []struct {
		name          string
		wanted, host  Backend
		deterministic bool
		ranks         []prepared
		want          Backend
		words         string // in the reason or the error
	}{
		{"all have it", Auto, UCX, false, []prepared{a, b}, NCCL, "NCCL 2.28.3 is on every rank"},
		{"forced", NCCL, Comm, false, []prepared{a, b}, NCCL, "on every rank"},
		{"not requested", UCX, UCX, false, []prepared{a, b}, UCX, "as requested"},
		{"not requested", Comm, Comm, false, []prepared{a, b}, Comm, "as requested"},
		{"one lacks it", Auto, UCX, false, []prepared{a, none}, UCX, "worker tcp://a:2: no libnccl.so.2"},
		{"one lacks it, forced", NCCL, UCX, false, []prepared{a, none}, "",
			"NCCL cannot be used: worker tcp://a:2: no libnccl.so.2"},
		{"an older worker", NCCL, UCX, false, []prepared{a, ancient}, "", "worker tcp://a:2 sent no NCCL version"},
		{"other versions", NCCL, UCX, false, []prepared{a, old}, "",
			"worker tcp://a:1 has version 2.28.3, worker tcp://a:2 version 2.18.3"},
		{"one GPU", Auto, UCX, false, []prepared{a, same}, UCX, "workers tcp://a:1 and tcp://a:3 share a GPU (GPU-1)"},
		{"one GPU, no UCX", Auto, Comm, false, []prepared{a, same}, Comm, "share a GPU"},
		{"one GPU, forced", NCCL, UCX, false, []prepared{a, same}, "", "NCCL_HOSTID variables differ"},
		{"one GPU, own host ids", NCCL, UCX, false, []prepared{a, ownHost}, NCCL, ""},
		{"several machines", NCCL, Comm, false, []prepared{aTrusted, far}, "",
			"worker tcp://b:1 was not started with --data-connections=trusted"},
		{"several machines, trusted", Auto, UCX, false, []prepared{aTrusted, farTrusted}, NCCL, ""},
		{"deterministic", Auto, UCX, true, []prepared{a, b}, UCX, "order of reductions is not fixed"},
		{"deterministic, forced", NCCL, UCX, true, []prepared{a, b}, "", "Options.Deterministic"},
	} {
		got, why, err := chooseDevices(tc.wanted, tc.host, tc.deterministic, tc.ranks)
		if err != nil {
			why = err.Error()
		}
		if got != tc.want || (err == nil) != (tc.want != "") || !strings.Contains(why, tc.words) {
			t.Errorf("%s: %q, %s; want %q, %s", tc.name, got, why, tc.want, tc.words)
		}
	}
}

// A worker that was started without a GPU is not probed for one, unless NCCL is requested.
func TestLookForGPU(t *testing.T) {
	t.Setenv("NCCL_HOSTID", "me")
	t.Setenv("MILLSTREAM_CUDA_LIBRARY", "/nonexistent/libcuda.so.1")
	m := Member{GPU: -1}
	if g := probeGPU(new(task.Host), &m, Auto); g.Ordinal != -1 || g.HostID != "me" ||
		!strings.Contains(g.NoNCCL, "without a GPU") || m.UUID != "" {
		t.Errorf("%+v, %+v", g, m)
	}
}

// Ranks on one host are ordered by where their GPUs sit, before their numbers.
func TestOrderOfGPUs(t *testing.T) {
	in := []Member{
		{Worker: "tcp://a:1", Host: "tcp://a", GPU: 0, PCI: "0000:9b:00.0"},
		{Worker: "tcp://a:2", Host: "tcp://a", GPU: 0, PCI: "0000:3b:00.0"},
		{Worker: "tcp://a:3", Host: "tcp://a", GPU: -1},
	}
	order(in)
	if in[0].Worker != "tcp://a:3" || in[1].Worker != "tcp://a:2" || in[2].Worker != "tcp://a:1" {
		t.Errorf("%+v", in)
	}
}
