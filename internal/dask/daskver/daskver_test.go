package daskver

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		release                   string
		client, worker, scheduler Verdict
	}{
		{"2026.8.0", Good, Good, Good},
		{"2026.7.1", Good, Good, Good},
		{"2025.7.0", Good, Good, Good},
		{"2025.5.1", Good, Good, Older},
		{"2025.4.1", Good, Good, Older},
		{"2025.4.1+12.gabcdef", Good, Good, Older},
		{"2025.4.0", Older, Older, Older},
		{"2024.12.1", Older, Older, Older},
		{"2026.8.1", Newer, Newer, Newer},
		{"2027.1.0rc1", Newer, Newer, Newer},
		{"2026.10", Newer, Newer, Newer},
		{"", Unknown, Unknown, Unknown},
		{"None", Unknown, Unknown, Unknown},
		{"1.2.3", Unknown, Unknown, Unknown},
		{"99999999999999999999.1.1", Unknown, Unknown, Unknown},
		{"2026.", Unknown, Unknown, Unknown},
	} {
		for role, want := range map[Role]Verdict{Client: c.client, Worker: c.worker, Scheduler: c.scheduler} {
			if got := role.Check(c.release); got != want {
				t.Errorf("%q for role %d: %d, not %d", c.release, role, got, want)
			}
			text := role.Message("the peer", c.release)
			if (text == "") != (want == Good) || want != Good &&
				(!strings.Contains(text, "the peer") || !strings.Contains(text, role.Tested())) {
				t.Errorf("%q for role %d: %q", c.release, role, text)
			}
		}
	}
}

// The range of releases is that of the interop tests.
func TestReleases(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "tests", "interop", "dask-versions.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			list = append(list, line)
		}
	}
	if list[0] != Client.Oldest() || list[0] != Worker.Oldest() || !slices.Contains(list, Scheduler.Oldest()) ||
		list[len(list)-1] != Newest {
		t.Errorf("%v are tested", list)
	}
	if !slices.IsSortedFunc(list, Compare) {
		t.Errorf("%v are not in order", list)
	}
}

func TestMismatch(t *testing.T) {
	base := Packages{"python": "3.11.7.final.0", "dask": "2026.7.1", "distributed": "2026.7.1", "numpy": "2.0.0",
		"lz4": ""}
	with := func(changes ...string) Packages {
		p := Packages{}
		for k, v := range base {
			p[k] = v
		}
		for i := 0; i < len(changes); i += 2 {
			if p[changes[i]] = changes[i+1]; changes[i+1] == "gone" {
				delete(p, changes[i])
			}
		}
		return p
	}
	for _, c := range []struct {
		name              string
		source, scheduler Packages
		workers           []Packages
		want              string
	}{
		{"nothing", base, base, []Packages{base, with()}, ""},
		{"no workers", base, nil, nil, ""},
		{"a Go client", Packages{}, base, []Packages{base}, ""},
		{"Go workers", base, nil, []Packages{{"millstream": "v1"}, {}}, ""},
		{"scheduler says little", base, Packages{"python": "3.11.7.final.0", "dask": "2026.7.1"}, []Packages{base}, ""},
		{"scheduler's numpy", base, with("numpy", "1.0"), []Packages{base}, ""},
		{"client", with("dask", "2026.8.0"), base, []Packages{base}, `
+---------+----------+-----------+----------+
| Package | Client   | Scheduler | Workers  |
+---------+----------+-----------+----------+
| dask    | 2026.8.0 | 2026.7.1  | 2026.7.1 |
+---------+----------+-----------+----------+`},
		{"scheduler", base, with("python", "3.12.0.final.0"), nil, `
+---------+----------------+----------------+---------+
| Package | Client         | Scheduler      | Workers |
+---------+----------------+----------------+---------+
| python  | 3.11.7.final.0 | 3.12.0.final.0 | None    |
+---------+----------------+----------------+---------+`},
		{"workers", base, nil, []Packages{with("numpy", "1.0"), base, with("lz4", "gone")}, `
+---------+--------+-----------+---------------------+
| Package | Client | Scheduler | Workers             |
+---------+--------+-----------+---------------------+
| lz4     | None   | -         | {'MISSING', 'None'} |
| numpy   | 2.0.0  | -         | {'1.0', '2.0.0'}    |
+---------+--------+-----------+---------------------+`},
		{"odd text", with("a\nb", strings.Repeat("ü", 100)), nil, []Packages{base}, `
+---------+--------------------------------------------------------------+-----------+---------+
| Package | Client                                                       | Scheduler | Workers |
+---------+--------------------------------------------------------------+-----------+---------+
| a?b     | ` + strings.Repeat("ü", 59) + `… | -         | MISSING |
+---------+--------------------------------------------------------------+-----------+---------+`},
	} {
		want := c.want
		if want != "" {
			want = "Mismatched versions found\n" + want
		}
		if got := Mismatch("Client", c.source, c.scheduler, c.workers); got != want {
			t.Errorf("%s:\n%s\nnot\n%s", c.name, got, want)
		}
	}
	many := Packages{"python": "3"}
	for i := range 1000 {
		many[strings.Repeat("x", i+1)] = "1"
	}
	if n := strings.Count(Mismatch("Client", many, nil, []Packages{base}), "\n"); n > maxRows+10 {
		t.Errorf("%d lines", n)
	}
}
