package interop

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	daskconfig "go.millstream.dev/config"
)

// Keys that meet in many ways: both spellings of hyphens, sections and values of one name,
// and keys that Dask has renamed.
var cfgKeys = []string{"a", "b-c", "b_c", "d-e-f", "d_e_f", "d-e_f", "x", "distributed", "comm", "timeouts", "connect",
	"scheduler", "work-stealing", "work_stealing",
	"shuffle", "dataframe", "array", "rechunk-threshold", "rechunk", "threshold", "worker-ttl", "tick-time",
	"compression", "log-length", "p2p", "disk", "fuse-ave-width"}

func cfgFile(r *rand.Rand, depth int) string {
	var b strings.Builder
	used := map[string]bool{}
	for range 1 + r.IntN(5) {
		key := cfgKeys[r.IntN(len(cfgKeys))]
		// Both spellings of one key in one map are possible in Dask and mean two keys there.
		if norm := strings.ReplaceAll(key, "_", "-"); used[norm] {
			continue
		} else {
			used[norm] = true
		}
		indent := strings.Repeat("  ", depth)
		switch n := r.IntN(6); {
		case n < 3 && depth < 3:
			fmt.Fprintf(&b, "%s%s:\n%s", indent, key, cfgFile(r, depth+1))
		case n == 3:
			fmt.Fprintf(&b, "%s%s: [1, {p: q}, %d]\n", indent, key, r.IntN(9))
		default:
			fmt.Fprintf(&b, "%s%s: %s\n", indent, key, []string{"1", "yes", "null", "text", "1.5", "30s", "{}",
				"[]"}[r.IntN(8)])
		}
	}
	return b.String()
}

func cfgEnv(r *rand.Rand) [][2]string {
	var env [][2]string
	seen := map[string]bool{}
	for range r.IntN(5) {
		parts := make([]string, 1+r.IntN(3))
		for i := range parts {
			parts[i] = strings.ToUpper(strings.ReplaceAll(cfgKeys[r.IntN(len(cfgKeys))], "-", "_"))
		}
		name := "DASK_" + strings.Join(parts, "__")
		if r.IntN(8) == 0 {
			name = "OTHER_" + name
		}
		if !seen[name] {
			seen[name] = true
			env = append(env, [2]string{name, []string{"1", "True", "none", "text", "[1, 2]", "{'p': {'q': 1}}", "1e3",
				"30s"}[r.IntN(8)]})
		}
	}
	if r.IntN(6) == 0 {
		env = append(env, [2]string{"DASK_INTERNAL_INHERIT_CONFIG",
			"eyJhIjogMSwgImRpc3RyaWJ1dGVkIjogeyJjb21tIjogeyJ0aW1lb3V0cyI6IHsiY29ubmVjdCI6ICI1cyJ9fX0sICJ3IjogSW5maW5pdHl9"})
	}
	return env
}

func TestConfigCollectAsDask(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	root := t.TempDir()
	var cases []daskCase
	for i := range 200 {
		var paths []string
		for j := range r.IntN(4) {
			dir := filepath.Join(root, fmt.Sprintf("%d-%d", i, j))
			paths = append(paths, dir)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for k := range 1 + r.IntN(2) {
				name := filepath.Join(dir, []string{"a.yaml", "b.yml", "C.YAML", "d.json", ".yaml",
					"e.txt"}[(r.IntN(6)+k)%6])
				if err := os.WriteFile(name, []byte(cfgFile(r, 0)), 0o644); err != nil {
					t.Fatal(err)
				}
				if r.IntN(5) == 0 {
					paths = append(paths, name)
				}
			}
		}
		var defaults []string
		for range r.IntN(3) {
			defaults = append(defaults, cfgFile(r, 0))
		}
		cases = append(cases, daskCase{Op: "collect", Paths: paths, Env: cfgEnv(r), Defaults: defaults})
	}
	cfgCompareLoads(t, cases)
}

// cfgCompareLoads holds Load against Dask's refresh: values in order, and who is warned of what.
func cfgCompareLoads(t *testing.T, cases []daskCase) {
	t.Helper()
	both := 0
	for i, a := range askDask(t, cases) {
		c := cases[i]
		got, warnings, err := cfgLoad(t, c)
		if err != nil || a.Error != "" {
			if (err != nil) != (a.Error != "") && !daskStumbles.MatchString(a.Error) {
				t.Errorf("%v %v %q:\n ours %v\n Python's %q", c.Env, c.Paths, c.Defaults, err, a.Error)
			}
			both++
			continue
		}
		var want struct {
			Config   json.RawMessage
			Warnings []string
		}
		if err := json.Unmarshal(a.Value, &want); err != nil {
			t.Fatal(err)
		}
		if got, want, ok := cfgSame(t, want.Config, cfgEncode(got)); !ok {
			t.Fatalf("%v %v %q:\n got %s\nwant %s", c.Env, c.Paths, c.Defaults, got, want)
		}
		if keys := daskWarned(t, want.Warnings); !slices.Equal(warnings, keys) {
			t.Errorf("%v %v:\n got %q\nwant %q", c.Env, c.Paths, warnings, keys)
		}
	}
	t.Logf("%d loads, %d of them errors in both", len(cases), both)
}

// daskStumbles are the errors of Dask's search for renamed keys when a section holds no map, such
// as `dataframe: yes`. Dask cannot be imported then; here the value is simply there.
var daskStumbles = regexp.MustCompile(`has no attribute 'pop'|indices must be integers|is not subscriptable`)

// daskWarned lists the keys that Dask warns of. When a replacement has been renamed too, Dask
// warns of it as if somebody had written it.
func daskWarned(t *testing.T, messages []string) []string {
	t.Helper()
	keys := []string{}
	for _, m := range messages {
		parts := strings.Split(m, "'")
		if len(parts) != 5 {
			t.Fatalf("a new form of warning: %q", m)
		}
		if parts[1] != "dataframe.shuffle.algorithm" {
			keys = append(keys, parts[1])
		}
	}
	slices.Sort(keys)
	return keys
}

func cfgLoad(t *testing.T, c daskCase) (*daskconfig.Map, []string, error) {
	t.Helper()
	o := daskconfig.Options{Paths: append([]string{}, c.Paths...), Env: []string{}, Defaults: []*daskconfig.Map{},
		Unchecked: true}
	warnings := []string{}
	o.Warn = func(w daskconfig.Warning) {
		if w.Key != "" && !slices.Contains(warnings, w.Key) {
			warnings = append(warnings, w.Key)
		}
	}
	for _, kv := range c.Env {
		o.Env = append(o.Env, kv[0]+"="+kv[1])
	}
	for _, text := range c.Defaults {
		m, err := daskconfig.ParseFile("defaults", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		o.Defaults = append(o.Defaults, m)
	}
	cfg, err := daskconfig.Load(o)
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(warnings)
	return cfg.Root(), warnings, nil
}

// Faults of files: what Dask refuses and what it leaves out.
func TestConfigFaultyFilesAsDask(t *testing.T) {
	dir := t.TempDir()
	var cases []daskCase
	for i, text := range []string{"a: 1", "", "# c", "- 1", "text", "1", "a: [", "a: 1\n---\nb: 1", "yes: 1",
		"a: {1: 2}", "a: [{1: 2}]", "a: \xff", "a: &x {b: *x}", "null", "~: 1", "a: !!python/name:os.system x"} {
		name := filepath.Join(dir, fmt.Sprintf("%d.yaml", i))
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, daskCase{Op: "collect", Paths: []string{name}})
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.yaml"), 0o755); err != nil {
		t.Fatal(err)
	}
	cases = append(cases, daskCase{Op: "collect", Paths: []string{filepath.Join(dir, "missing")}},
		daskCase{Op: "collect", Paths: []string{""}},
		daskCase{Op: "collect", Env: [][2]string{{"DASK_A", "1"}, {"DASK_A__B", "2"}}},
		daskCase{Op: "collect", Env: [][2]string{{"DASK_A__B", "2"}, {"DASK_A", "1"}}},
		daskCase{Op: "collect", Env: [][2]string{{"DASK_A", "None"}, {"DASK_A__B", "2"}}},
		daskCase{Op: "collect", Env: [][2]string{{"DASK_", "1"}, {"DASK___X", "2"}, {"DASK_A___B", "3"}}},
		daskCase{Op: "collect", Env: [][2]string{{"DASK_A", "{[1]: 2}"}}},
		daskCase{Op: "collect", Env: [][2]string{{"DASK_INTERNAL_INHERIT_CONFIG", "!"}}},
		daskCase{Op: "collect", Env: [][2]string{{"DASK_INTERNAL_INHERIT_CONFIG", "WzFd"}}},
		daskCase{Op: "collect", Env: [][2]string{{"DASK_CONFIG", "/x"}, {"DASK_ROOT_CONFIG", "/y"}}})
	cfgCompareLoads(t, cases)
}

func TestConfigScopesAsDask(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var cases []daskCase
	for range 300 {
		c := daskCase{Op: "scopes", Text: cfgFile(r, 0)}
		sets := 0
		for range 2 + r.IntN(6) {
			if sets > 0 && r.IntN(3) == 0 {
				c.Steps = append(c.Steps, daskStep{Restore: r.IntN(sets)})
				continue
			}
			parts := make([]string, 1+r.IntN(3))
			for i := range parts {
				parts[i] = cfgKeys[r.IntN(len(cfgKeys))]
			}
			c.Steps = append(c.Steps, daskStep{Key: strings.Join(parts, "."),
				Value: []string{"1", "text", "{p: 1}", "null"}[r.IntN(4)], Restore: -1})
			sets++
		}
		cases = append(cases, c)
	}
	stops := 0
	for i, a := range askDask(t, cases) {
		c := cases[i]
		start, err := daskconfig.ParseFile("start", []byte(c.Text))
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := daskconfig.Load(daskconfig.Options{Paths: []string{}, Env: []string{},
			Defaults: []*daskconfig.Map{start}, Unchecked: true, Warn: func(daskconfig.Warning) {}})
		if err != nil {
			t.Fatal(err)
		}
		var states []any
		var restores []func()
		var failed error
		done := map[int]bool{}
		for _, s := range c.Steps {
			if s.Restore >= 0 {
				if done[s.Restore] {
					failed = fmt.Errorf("restored twice")
					break // Python takes it back a second time
				}
				done[s.Restore] = true
				restores[s.Restore]()
			} else {
				v, err := daskconfig.ParseYAML("value", []byte(s.Value))
				if err != nil {
					t.Fatal(err)
				}
				restore, err := cfg.Set(map[string]any{s.Key: v})
				if err != nil {
					failed = err
					break
				}
				restores = append(restores, restore)
			}
			states = append(states, cfgEncode(cfg.Root()))
		}
		if failed != nil {
			if a.Error == "" && !strings.Contains(failed.Error(), "twice") {
				t.Errorf("%q %v: %v; Python goes on", c.Text, c.Steps, failed)
			}
			stops++
			continue
		}
		if daskStumbles.MatchString(a.Error) {
			continue // it takes an insert back from what is no map any more
		}
		if a.Error != "" {
			t.Errorf("%q %v: Python says %s", c.Text, c.Steps, a.Error)
			continue
		}
		if got, want, ok := cfgSame(t, a.Value, states); !ok {
			t.Fatalf("%q %+v:\n got %s\nwant %s", c.Text, c.Steps, got, want)
		}
	}
	t.Logf("%d runs, %d of them stopped by an error", len(cases), stops)
}

func TestConfigGetAsDask(t *testing.T) {
	text := "a: {b-c: {d_e: 1, f: null}, s: text, l: [1]}\nx-y: 2\n"
	var cases []daskCase
	for _, key := range []string{"a", "a.b-c", "a.b_c", "a.b_c.d-e", "a.b-c.d_e", "a.b_c.f", "a.b_c.f.g", "a.s",
		"a.s.t", "a.l", "a.l.0", "x-y", "x_y", "x", "", "a.", "nope", "a.b.c"} {
		cases = append(cases, daskCase{Op: "get", Text: text, Key: key})
	}
	cfgCompare(t, cases, func(c daskCase) (any, error) {
		start, err := daskconfig.ParseFile("start", []byte(c.Text))
		if err != nil {
			return nil, err
		}
		cfg, err := daskconfig.Load(daskconfig.Options{Paths: []string{}, Env: []string{},
			Defaults: []*daskconfig.Map{start}, Unchecked: true})
		if err != nil {
			return nil, err
		}
		return cfgEncode(cfg.Get(c.Key, "absent")), nil
	})
}

// Libraries add defaults one after the other; a value that is still a default follows them.
func TestConfigAddDefaultsAsDask(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	var cases []daskCase
	for range 300 {
		c := daskCase{Op: "layered", Text: cfgFile(r, 1)}
		for range 1 + r.IntN(4) {
			c.Defaults = append(c.Defaults, cfgFile(r, 1))
		}
		cases = append(cases, c)
	}
	for i, a := range askDask(t, cases) {
		c := cases[i]
		start := filepath.Join(t.TempDir(), "start.yaml")
		// The keys are those of one section, so that Dask's renames stay out of it.
		if err := os.WriteFile(start, []byte("s:\n"+c.Text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := daskconfig.Load(daskconfig.Options{Paths: []string{start}, Env: []string{},
			Defaults: []*daskconfig.Map{}, Unchecked: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range c.Defaults {
			d, err := daskconfig.ParseFile("d", []byte("s:\n"+text))
			if err != nil {
				t.Fatal(err)
			}
			cfg.AddDefaults(d)
		}
		if a.Error != "" {
			if !strings.Contains(a.Error, "is not iterable") && !strings.Contains(a.Error, "indices must be") &&
				!strings.Contains(a.Error, "has no attribute 'get'") {
				t.Errorf("%q %q: Python says %s", c.Text, c.Defaults, a.Error)
			}
			continue // a default that is no section meets one that is: Python stops
		}
		if got, want, ok := cfgSame(t, a.Value, cfgEncode(cfg.Get("s", nil))); !ok {
			t.Fatalf("%q %q:\n got %s\nwant %s", c.Text, c.Defaults, got, want)
		}
	}
}

// Ours are Dask's search paths with /etc/millstream and the like in between.
func TestConfigPathsAsDask(t *testing.T) {
	var cases []daskCase
	for _, env := range [][][2]string{
		{{"HOME", "/h"}}, {{"HOME", "/h"}, {"DASK_CONFIG", "/c"}}, {{"HOME", "/h"}, {"DASK_ROOT_CONFIG", "/r"}},
		{{"HOME", "/h"}, {"DASK_ROOT_CONFIG", ""}, {"DASK_CONFIG", ""}},
		{{"HOME", "/h"}, {"DASK_CONFIG", "/etc/dask"}}, {{"HOME", "/h"}, {"DASK_ROOT_CONFIG", "/h/.config/dask"}},
	} {
		cases = append(cases, daskCase{Op: "paths", Key: "/v", Env: env})
	}
	for i, a := range askDask(t, cases) {
		env := []string{"VIRTUAL_ENV=/v"}
		for _, kv := range cases[i].Env {
			env = append(env, kv[0]+"="+kv[1])
		}
		got := slices.DeleteFunc(daskconfig.SearchPaths(env), func(p string) bool {
			return strings.Contains(p, "millstream")
		})
		if got, want, ok := cfgSame(t, a.Value, got); !ok {
			t.Errorf("%v: %s, want %s", cases[i].Env, got, want)
		}
	}
}

func TestConfigSerializeAsDask(t *testing.T) {
	texts := []string{"a: 1\nb: {c: [1, 2.5, .inf, null, true, 'é\"', -.inf]}\nbig: 99999999999999999999\nf: 1.0\n",
		"{}", "a: 1.0e+300"}
	var cases []daskCase
	for _, text := range texts {
		cases = append(cases, daskCase{Op: "serialize", Text: text})
	}
	var back []daskCase
	for i, a := range askDask(t, cases) {
		var theirs string
		if err := json.Unmarshal(a.Value, &theirs); err != nil {
			t.Fatal(err)
		}
		want, err := daskconfig.ParseFile("x", []byte(texts[i]))
		if err != nil {
			t.Fatal(err)
		}
		got, err := daskconfig.Deserialize(theirs)
		if err != nil {
			t.Fatal(err)
		}
		if g, w := cfgPythonJSON(cfgEncode(got)), cfgPythonJSON(cfgEncode(want)); g != w {
			t.Errorf("%s, want %s", g, w)
		}
		ours, err := daskconfig.Serialize(want)
		if err != nil {
			t.Fatal(err)
		}
		back = append(back, daskCase{Op: "collect", Env: [][2]string{{"DASK_INTERNAL_INHERIT_CONFIG", ours}}})
	}
	cfgCompareLoads(t, back)
}

// All of Dask's renames are known here, in Dask's order; an older Dask may know fewer.
func TestConfigRenamesAsDask(t *testing.T) {
	var theirs [][2]string
	if err := json.Unmarshal(askDask(t, []daskCase{{Op: "renames"}})[0].Value, &theirs); err != nil {
		t.Fatal(err)
	}
	if len(theirs) < 40 {
		t.Fatalf("only %d renames", len(theirs))
	}
	ours := slices.DeleteFunc(daskconfig.Renames(), func(r [2]string) bool { return !slices.Contains(theirs, r) })
	if !slices.Equal(ours, theirs) {
		t.Errorf("ours %v\nDask's %v", ours, theirs)
	}
}
