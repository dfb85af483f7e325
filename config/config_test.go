package config

import (
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// load reads one file, if text is not empty, and variables.
func load(t *testing.T, text string, env ...string) *Config {
	t.Helper()
	c, err := tryLoad(t, text, env...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func tryLoad(t *testing.T, text string, env ...string) (*Config, error) {
	t.Helper()
	o := Options{Paths: []string{}, Env: append([]string{}, env...), Warn: func(Warning) {}}
	if text != "" {
		file := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		o.Paths = append(o.Paths, file)
	}
	return Load(o)
}

func TestSourcesAreRemembered(t *testing.T) {
	inherited, err := Serialize(mustParse("i: {j: 1}"))
	if err != nil {
		t.Fatal(err)
	}
	c := load(t, "a:\n  b: 1\n  c: 2\nwork-stealing: false\n", "DASK_A__C=3", "DASK_D={'e': 1}",
		"DASK_INTERNAL_INHERIT_CONFIG="+inherited)
	if _, err := c.Set(map[string]any{"a.x": 1, "tick-time": "1s"}); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"a.b": "c.yaml:2", "a.c": "DASK_A__C", "d.e": "DASK_D", "a.x": "set", "i.j": "DASK_INTERNAL_INHERIT_CONFIG",
		"distributed.comm.shard": "default", "distributed.scheduler.work-stealing": "c.yaml:4",
		"distributed.admin.tick.interval": "set",
	} {
		e, ok := c.Entry(key)
		if !ok || !strings.HasSuffix(e.Source.String(), want) {
			t.Errorf("%s comes from %q, want %q", key, e.Source, want)
		}
	}
	if e, _ := c.Entry("distributed.scheduler.work-stealing"); e.Source.Key != "work-stealing" {
		t.Errorf("the old key is %q", e.Source.Key)
	}
	if e, _ := c.Entry("distributed.admin.tick.interval"); e.Source.Key != "tick-time" {
		t.Errorf("the old key is %q", e.Source.Key)
	}
}

func TestLoadOrder(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Each names itself, and takes part in the key of every stronger one.
	places := []string{"etc/dask/a.yaml", "etc/dask/b.json", "etc/millstream/a.yaml", "venv/etc/dask/a.yaml",
		"home/.config/dask/a.yml", "home/.config/millstream/a.yaml", "dask.yaml", "ms/a.yaml"}
	for i, p := range places {
		var b strings.Builder
		for j := range i + 1 {
			fmt.Fprintf(&b, "\"k%d\": %d\n", j, i)
		}
		text := b.String()
		if strings.HasSuffix(p, "json") {
			text = "{" + strings.TrimSuffix(strings.ReplaceAll(text, "\n", ","), ",") + "}"
		}
		write(p, text)
	}
	c, err := Load(Options{Env: []string{
		"HOME=" + root + "/home", "DASK_ROOT_CONFIG=" + root + "/etc/dask", "MILLSTREAM_ROOT_CONFIG=" + root +
			"/etc/millstream", "VIRTUAL_ENV=" + root + "/venv",
		"DASK_CONFIG=" + root + "/dask.yaml", "MILLSTREAM_CONFIG=" + root + "/ms", "DASK_K7=99",
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range places[:7] {
		if got := c.Get(fmt.Sprintf("k%d", i), nil); got != int64(7) {
			t.Errorf("k%d is %v, not that of the strongest file", i, got)
		}
	}
	if got := c.Get("k7", nil); got != int64(99) {
		t.Errorf("k7 is %v, not that of the variable", got)
	}
	var got []string
	for _, f := range c.Files() {
		got = append(got, strings.TrimPrefix(f, root+"/"))
	}
	if !slices.Equal(got, places) {
		t.Errorf("files %v", got)
	}
}

func TestUnreadableFileIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "folder.yaml"), 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Options{Paths: []string{dir}, Env: []string{}, Warn: func(Warning) {}})
	if err != nil {
		t.Fatal(err)
	}
	if w := c.Warnings(); len(w) != 1 || !strings.Contains(w[0].String(), "folder.yaml: the file cannot be read and "+
		"is skipped") {
		t.Errorf("warnings %v", w)
	}
}

// A path in a variable that leads nowhere is a mistake worth a word.
func TestMissingPathIsReported(t *testing.T) {
	dir := t.TempDir()
	c, err := Load(Options{Env: []string{"HOME=" + dir, "VIRTUAL_ENV=" + dir, "DASK_ROOT_CONFIG=" + dir,
		"DASK_CONFIG=" + dir + "/typo.yaml", "MILLSTREAM_CONFIG="}, Warn: func(Warning) {}})
	if err != nil {
		t.Fatal(err)
	}
	if w := c.Warnings(); len(w) != 1 || w[0].String() != "DASK_CONFIG: "+dir+"/typo.yaml does not exist; nothing is "+
		"read from there" {
		t.Errorf("warnings %v", w)
	}
}

func TestWarnings(t *testing.T) {
	var heard []string
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("shuffle: p2p\ndistributed:\n  comm:\n    ucx: {tcp: true, nvlink: null, "+
		"reuse-endpoints: true, environment: {}}\nmilstream: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Options{Paths: []string{file}, Env: []string{"DASK_UCX__NET_DEVICES=eth0", "DASK_TICK_TIME=1s"},
		Warn: func(w Warning) { heard = append(heard, strings.TrimPrefix(w.String(), file)) }})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"DASK_TICK_TIME: the key tick_time has been renamed; write distributed.admin.tick.interval instead",
		":1: the key shuffle has been renamed; write dataframe.shuffle.method instead",
		":4: distributed.comm.ucx.tcp is deprecated; write distributed-ucxx.tcp instead",
		":4: distributed.comm.ucx.reuse-endpoints no longer has an effect; remove it",
		"DASK_UCX__NET_DEVICES: ucx.net_devices is deprecated; write " +
			"DASK_DISTRIBUTED_UCXX__ENVIRONMENT__NET_DEVICES instead",
		":5: section milstream is not read by Millstream or Dask; is millstream meant?",
	}
	if !slices.Equal(heard, want) {
		t.Errorf("heard\n%s\nwant\n%s", strings.Join(heard, "\n"), strings.Join(want, "\n"))
	}
	if len(c.Warnings()) != len(want) {
		t.Errorf("Warnings returns %d", len(c.Warnings()))
	}
	heard = nil
	if _, err := c.Set(map[string]any{"ucx.nvlink": true, "distributed.comm.ucx": map[string]any{"rdmacm": nil,
		"infiniband": true}, "worker-ttl": "1s"}); err != nil {
		t.Fatal(err)
	}
	want = []string{
		"set: distributed.comm.ucx.infiniband is deprecated; write distributed-ucxx.infiniband instead",
		"set: the key worker-ttl has been renamed; write distributed.scheduler.worker-ttl instead",
		"set: ucx.nvlink is deprecated; write distributed-ucxx.nvlink instead",
	}
	slices.Sort(heard)
	slices.Sort(want)
	if !slices.Equal(heard, want) {
		t.Errorf("Set: heard\n%s\nwant\n%s", strings.Join(heard, "\n"), strings.Join(want, "\n"))
	}
}

func TestSetAndRestore(t *testing.T) {
	c := load(t, "a: {b: 1}\n")
	before := c.Root()
	restore, err := c.Set(map[string]any{"a.b": 2, "a_x.y.z": []string{"p", "q"}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Get("a.b", nil) != int64(2) || Format(c.Get("a-x.y", nil)) != "{z: [p, q]}" {
		t.Errorf("set: %s", Format(c.Root()))
	}
	if !equal(before, load(t, "a: {b: 1}\n").Root()) {
		t.Error("a root that was handed out has changed")
	}
	restore()
	restore()
	if !equal(c.Root(), before) {
		t.Errorf("restored: %s", Format(c.Root()))
	}
	if _, err := c.Set(map[string]any{"a.b": 3, "a.b.c": 4}); err == nil ||
		!strings.Contains(err.Error(), "a.b is an integer (set), not a section") {
		t.Errorf("error %v", err)
	}
	if _, err := c.Set(map[string]any{"z": make(chan int)}); err == nil || !strings.Contains(err.Error(), "chan int") {
		t.Errorf("error %v", err)
	}
	if !equal(c.Root(), before) {
		t.Error("a failed Set has set something")
	}
}

// A library's defaults fill in, and move what is still a default.
func TestAddDefaults(t *testing.T) {
	c := load(t, "distributed: {comm: {shard: 1MiB}}\n")
	before := c.Root()
	c.AddDefaults(mustParse("distributed: {comm: {shard: 2MiB, offload: 20MiB, own: 1}}"))
	c.AddDefaults(mustParse("distributed: {comm: {own: 2}}"))
	for key, want := range map[string]any{"shard": "1MiB", "offload": "20MiB", "own": int64(2),
		"default-scheme": "tcp"} {
		if got := c.Get("distributed.comm."+key, nil); got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	if e, _ := lookup(before, "distributed.comm.own"); e.Value != nil {
		t.Error("a root that was handed out has changed")
	}
}

// Goroutines that set, restore and read leave what was there, and readers see whole values.
func TestConcurrentUse(t *testing.T) {
	c := load(t, "a: {b: 0, c: 0}\n")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 50 {
				restore, err := c.Set(map[string]any{fmt.Sprintf("a.k%d", i): n})
				if err != nil {
					t.Error(err)
					return
				}
				if got := c.Get(fmt.Sprintf("a.k%d", i), nil); got != int64(n) {
					t.Errorf("%v, want %d", got, n)
				}
				restore()
			}
		})
	}
	wg.Wait()
	if got := Format(c.Get("a", nil)); got != "{b: 0, c: 0}" {
		t.Errorf("left %s", got)
	}
}

func TestTypedGetters(t *testing.T) {
	c := load(t, "t: {q: 'no', n: 12, f: 1.5, s: text, l: [1, x], b: 12GB, d: 500ms, z: null, big: "+
		"99999999999999999999, m: {a: 1}, w: 30.0, secs: 2}\n")
	check := func(name string, got any, err error, want any, wantErr string) {
		t.Helper()
		switch {
		case wantErr == "" && err != nil, wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr)):
			t.Errorf("%s: error %v, want %q", name, err, wantErr)
		case Format(fmt.Sprint(got)) != Format(fmt.Sprint(want)):
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	b, err := c.Bool("t.q", true)
	check("Bool", b, err, false, "")
	b, err = c.Bool("t.n", true)
	check("Bool of 12", b, err, true, "c.yaml:1: t.n: 12 is not a boolean; write true or false")
	n, err := c.Int("t.n", 0)
	check("Int", n, err, 12, "")
	n, err = c.Int("t.w", 0)
	check("Int of 30.0", n, err, 30, "")
	n, err = c.Int("t.big", 7)
	check("Int of a large one", n, err, 7, "64 bits")
	f, err := c.Float("t.n", 0)
	check("Float", f, err, 12, "")
	f, err = c.Float("t.big", 0)
	check("Float of a large one", f, err, 1e20, "")
	f, err = c.Float("t.s", 3)
	check("Float of a text", f, err, 3, `t.s: the text "text" is not a number`)
	s, err := c.String("t.f", "")
	check("String", s, err, "1.5", "")
	s, err = c.String("t.m", "")
	check("String of a map", s, err, "", "an object is not a string")
	l, err := c.Strings("t.l", nil)
	check("Strings", l, err, []string{"1", "x"}, "")
	l, err = c.Strings("t.s", nil)
	check("Strings of one", l, err, []string{"text"}, "")
	size, err := c.Bytes("t.b", 0)
	check("Bytes", size, err, 12_000_000_000, "")
	size, err = c.Bytes("t.s", 5)
	check("Bytes of a text", size, err, 5, `"text" is not a number of bytes`)
	d, err := c.Duration("t.d", 0)
	check("Duration", d, err, 500*time.Millisecond, "")
	d, err = c.Duration("t.secs", 0)
	check("Duration of a number", d, err, 2*time.Second, "")
	d, err = c.Duration("t.l", time.Hour)
	check("Duration of a list", d, err, time.Hour, "a list is not a time")
	d, err = c.Duration("t.z", time.Minute)
	check("null", d, err, time.Minute, "")
	d, err = c.Duration("nowhere", time.Minute)
	check("missing", d, err, time.Minute, "")
}

func TestGoValues(t *testing.T) {
	c := load(t, "")
	type name string
	_, err := c.Set(map[string]any{"v": map[string]any{
		"a": uint8(1), "b": float32(0.5), "c": name("x"), "d": 1500 * time.Millisecond, "e": []int{1, 2},
		"f": map[string]string{"y": "2", "x": "1"}, "g": uint64(1 << 63), "h": On, "i": Unset,
		"j": time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC), "k": [2]bool{true, false}, "l": big.NewInt(5),
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := "{a: 1, b: 0.5, c: x, d: 1.5, e: [1, 2], f: {x: \"1\", y: \"2\"}, g: 9223372036854775808, h: true, i: " +
		"null, j: 2020-01-02T03:04:05Z, k: [true, false], l: 5}"
	if got := Format(c.Get("v", nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
