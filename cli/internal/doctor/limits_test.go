package doctor

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

func space(total, free uint64, err error) func(*Host) {
	return func(h *Host) { h.Space = func(string) (uint64, uint64, error) { return total, free, err } }
}

func limit(resource int, soft, hard uint64, err error) func(*Host) {
	return func(h *Host) {
		h.Limit = func(r int) (uint64, uint64, error) {
			if r != resource {
				return Unlimited, Unlimited, nil
			}
			return soft, hard, err
		}
	}
}

func TestSharedMemory(t *testing.T) {
	runCases(t, checkSharedMemory, []checkCase{
		{name: "large", want: want{OK, []string{"8 GiB free of 8 GiB"}}},
		{name: "docker's default", files: files{".dockerenv": ""}, change: space(64<<20, 64<<20, nil),
			want: want{Warn, []string{"64 MiB", "--shm-size=1g", "SIGBUS"}}},
		{name: "small on a machine", change: space(64<<20, 64<<20, nil), want: want{Warn, []string{"remount,size=1g"}}},
		{name: "small in a pod", files: files{"var/run/secrets/kubernetes.io/x": ""},
			change: space(64<<20, 64<<20, nil), want: want{Warn, []string{"emptyDir"}}},
		{name: "full", change: space(1<<30, 1<<20, nil), want: want{Warn,
			[]string{"nearly full: 1 MiB of 1 GiB", "ls -l /dev/shm"}}},
		{name: "absent", change: space(0, 0, errors.New("no such file")),
			want: want{Fail, []string{"no such file", "mount -t tmpfs"}}},
	})
}

func TestLockedMemory(t *testing.T) {
	hca := files{"sys/class/infiniband/mlx5_0/ports/1/state": ""}
	lim := func(soft uint64) func(*Host) { return limit(unix.RLIMIT_MEMLOCK, soft, soft, nil) }
	runCases(t, checkLockedMemory, []checkCase{
		{name: "unlimited", files: hca, want: want{OK, []string{"unlimited"}}},
		{name: "small without RDMA", change: lim(8 << 20), want: want{OK, []string{"8 MiB", "only with RDMA"}}},
		{name: "small with RDMA", files: hca, change: lim(8 << 20),
			want: want{Fail, []string{"8 MiB", "memlock unlimited", "LimitMEMLOCK"}}},
		{name: "finite with RDMA", files: hca, change: lim(4 << 30), want: want{Warn, []string{"4 GiB"}}},
		{name: "in a container", files: with(hca, ".dockerenv"), change: lim(64 << 10),
			want: want{Fail, []string{"--ulimit memlock=-1"}}},
		{name: "capability", files: files{"sys/class/infiniband/mlx5_0/x": "",
			"proc/self/status": "CapEff:\t0000000000004000\n"}, change: lim(64 << 10), want: want{OK, nil}},
		{name: "unreadable", change: limit(unix.RLIMIT_MEMLOCK, 0, 0, errors.New("denied")),
			want: want{Info, []string{"denied"}}},
	})
}

func TestOpenFiles(t *testing.T) {
	lim := func(soft, hard uint64, connections int) func(*Host) {
		return func(h *Host) { limit(unix.RLIMIT_NOFILE, soft, hard, nil)(h); h.Connections = connections }
	}
	runCases(t, checkOpenFiles, []checkCase{
		{name: "enough", change: lim(1024, 1<<20, 1000), want: want{OK, []string{"4128 needed for 1000 connections"}}},
		{name: "soft is raised to hard", change: lim(256, 8192, 1000), want: want{OK, []string{"limit 8192"}}},
		{name: "unlimited", change: lim(1024, Unlimited, 1<<20), want: want{OK, []string{"limit unlimited"}}},
		{name: "too few", change: lim(1024, 1024, 1000), want: want{Fail,
			[]string{"beyond about 224", "nofile 4128", "LimitNOFILE=4128"}}},
		{name: "hopeless", change: lim(64, 64, 1), want: want{Fail, []string{"beyond about 0"}}},
		{name: "in a container", files: files{".dockerenv": ""}, change: lim(1024, 1024, 1000),
			want: want{Fail, []string{"--ulimit nofile=4128"}}},
		{name: "negative count", change: lim(1024, 1024, -5), want: want{OK, nil}},
		{name: "unreadable", change: limit(unix.RLIMIT_NOFILE, 0, 0, errors.New("denied")),
			want: want{Info, []string{"denied"}}},
	})
}

func TestCPUs(t *testing.T) {
	cpus := func(n int) func(*Host) { return func(h *Host) { h.CPUs = n } }
	runCases(t, checkCPUs, []checkCase{
		{name: "two", want: want{OK, []string{"2 CPU"}}},
		{name: "one", change: cpus(1), want: want{Warn, []string{"1 CPU", "adaptive", "scheduler slice"}}},
		{name: "quota v2", files: files{"sys/fs/cgroup/cpu.max": "150000 100000\n"}, change: cpus(8),
			want: want{Warn, []string{"allows 1.5"}}},
		{name: "no quota v2", files: files{"sys/fs/cgroup/cpu.max": "max 100000\n"}, change: cpus(8),
			want: want{OK, nil}},
		{name: "quota v1", files: files{"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000",
			"sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, change: cpus(4),
			want: want{Warn, []string{"allows 0.5"}}},
		{name: "no quota v1", files: files{"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
			"sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, change: cpus(4), want: want{OK, nil}},
		{name: "wide quota", files: files{"sys/fs/cgroup/cpu.max": "400000 100000\n"}, change: cpus(8),
			want: want{OK, []string{"allows 4"}}},
	})
}
