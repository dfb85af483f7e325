package doctor

import (
	"errors"
	"testing"
)

func TestLibrary(t *testing.T) {
	missing := errors.New("dlopen: no such file")
	runCases(t, checkLibrary, []checkCase{
		{name: "found", want: want{OK, []string{"UCX 1.21.0 at /usr/lib/libucp.so.0"}}},
		{name: "too old", change: func(h *Host) {
			h.UCX.Version = "1.12.1"
		}, want: want{Fail, []string{"too old", "1.13"}}},
		{name: "newest major", change: func(h *Host) { h.UCX.Version = "2.0.0" }, want: want{OK, nil}},
		{name: "none", change: noUCX(missing), want: want{Fail, []string{"no UCX library", "apt-get install libucx0",
			"pip install libucx-cu12", "MILLSTREAM_UCX_LIBRARY", "dlopen: no such file"}}},
		{name: "none on EL", files: files{"etc/os-release": "ID=rhel"}, change: noUCX(missing),
			want: want{Fail, []string{"dnf install ucx"}}},
		{name: "named but absent", change: func(h *Host) {
			noUCX(missing)(h)
			setenv("MILLSTREAM_UCX_LIBRARY=/opt/x.so")(h)
		},
			want: want{Fail, []string{"/opt/x.so, which does not exist", "unset"}}},
		{name: "named but broken", files: files{"opt/x.so": ""}, change: func(h *Host) {
			noUCX(missing)(h)
			setenv("MILLSTREAM_UCX_LIBRARY=/opt/x.so")(h)
		},
			want: want{Fail, []string{"cannot be loaded", "ldd /opt/x.so"}}},
		{name: "present but broken", files: files{"usr/lib64/libucp.so.0": ""}, change: noUCX(missing),
			want: want{Fail, []string{"exists but cannot be loaded", "ldd /usr/lib64/libucp.so.0"}}},
		{name: "no cgo", change: func(h *Host) {
			h.NoCgo = true
		}, want: want{Fail, []string{"without cgo", "CGO_ENABLED=1", "gcc"}}},
	})
}

func TestDuplicates(t *testing.T) {
	const wheel = "venv/lib/python3.11/site-packages/libucx/lib/libucp.so.0"
	maps := "7f00-7f01 r-xp 00000000 08:01 12 /usr/lib/libucp.so.0.0.0\n7f02-7f03 r--p 00000000 08:01 12 " +
		"/usr/lib/libucp.so.0.0.0\n"
	runCases(t, checkDuplicates, []checkCase{
		{name: "none", want: want{OK, nil}},
		{name: "one", files: files{"usr/lib64/libucp.so.0": ""}, want: want{OK, nil}},
		{name: "one seen twice through merged usr", files: files{"lib64": "->usr/lib64", "usr/lib64/libucp.so.0": ""},
			want: want{OK, nil}},
		{name: "system and wheel", files: files{"usr/lib64/libucp.so.0": "", wheel: ""},
			change: setenv("VIRTUAL_ENV=/venv"),
			want: want{Info, []string{"2 UCX libraries", "/" + wheel, "/usr/lib64/libucp.so.0",
				"MILLSTREAM_UCX_LIBRARY=/usr/lib/libucp.so.0"}}},
		{name: "loaded once", files: files{"proc/self/maps": maps}, want: want{OK, nil}},
		{name: "loaded twice", files: files{"proc/self/maps": maps + "7f04-7f05 r-xp 00000000 08:01 13 /" + wheel +
			"\n7f06-7f07 rw-p 00000000 00:00 0\n"},
			want: want{Warn, []string{"2 UCX libraries are loaded", wheel,
				"MILLSTREAM_UCX_LIBRARY=/usr/lib/libucp.so.0.0.0"}}},
	})
}

func TestEnvironment(t *testing.T) {
	lint := func(h *Host) {
		h.LintEnv = func(env []string) []EnvProblem {
			var bad []EnvProblem
			for _, kv := range env {
				switch kv {
				case "UCX_TSL=tcp":
					bad = append(bad, EnvProblem{Warn, "UCX_TSL", "UCX ignores it", "did you mean UCX_TLS?"})
				case "UCX_FOO=1":
					bad = append(bad, EnvProblem{Fail, "UCX_FOO", "UCX ends the process", ""})
				}
			}
			return bad
		}
	}
	with := func(kv ...string) func(*Host) { return func(h *Host) { lint(h); setenv(kv...)(h) } }
	runCases(t, checkEnvironment, []checkCase{
		{name: "none set", change: lint, want: want{OK, []string{"UCX chooses"}}},
		{name: "known", change: with("UCX_TLS=tcp"), want: want{OK, []string{"1 UCX_* variables"}}},
		{name: "misspelt", change: with("UCX_TSL=tcp"), want: want{Warn, []string{"UCX_TSL", "UCX_TLS", "ignores"}}},
		{name: "unknown", change: with("UCX_FOO=1"), want: want{Fail,
			[]string{"UCX_FOO: UCX ends", "unset UCX_FOO", "millstream info --config"}}},
		{name: "no lint", change: func(h *Host) {
			setenv("UCX_TLS=tcp")(h)
			h.LintEnv = nil
		}, want: want{Info, []string{"not checked"}}},
	})
	if got := checkEnvironment(machine(nil, with("UCX_TSL=tcp", "UCX_FOO=1"))); len(got) != 2 {
		t.Errorf("two problems give %d findings", len(got))
	}
}
