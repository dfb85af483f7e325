package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// place is one way to say a setting: a source and a spelling.
type place struct {
	name  string
	kind  Kind
	age   int // 0 is the newest spelling
	key   string
	write func(s *scene, key, value string)
}

// scene collects what the places say and loads it.
type scene struct {
	t     *testing.T
	files []string
	env   []string
	set   map[string]any
	over  Overrides
	// infiniband is what rdmacm needs to be on, where the test is not about infiniband.
	infiniband Switch
}

func (s *scene) file(key, value string) {
	var b strings.Builder
	parts := strings.Split(key, ".")
	for i, p := range parts {
		fmt.Fprintf(&b, "%s%s:", strings.Repeat("  ", i), p)
		if i < len(parts)-1 {
			b.WriteString("\n")
		}
	}
	fmt.Fprintf(&b, " %s\n", value)
	s.files = append(s.files, b.String())
}

func (s *scene) load() *Settings {
	s.t.Helper()
	dir := s.t.TempDir()
	for i, text := range s.files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	c, err := Load(Options{Paths: []string{dir}, Env: s.env, Warn: func(Warning) {}})
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := c.Set(s.set); err != nil {
		s.t.Fatal(err)
	}
	if s.over.UCX.InfiniBand == Unset {
		s.over.UCX.InfiniBand = s.infiniband
	}
	settings, err := c.Settings(s.over)
	if err != nil {
		s.t.Fatal(err)
	}
	return settings
}

// placesOf lists every place for the spellings of one setting, newest spelling first, and its
// flag.
func placesOf(spellings []string, flag func(o *Overrides, value string)) []place {
	var all []place
	for age, key := range spellings {
		all = append(all,
			place{"file " + key, KindFile, age, key, func(s *scene, key, value string) { s.file(key, value) }},
			place{"variable " + key, KindEnv, age, key, func(s *scene, key, value string) {
				s.env = append(s.env, inForm(key, Source{Kind: KindEnv})+"="+value)
			}},
			place{"Set " + key, KindSet, age, key, func(s *scene, key, value string) {
				v, err := Interpret(value)
				if err != nil {
					s.t.Fatal(err)
				}
				s.set[key] = v
			}})
	}
	return append(all, place{"flag", KindFlag, 0, "", func(s *scene, _, value string) { flag(&s.over, value) }})
}

// pairs runs every pair of places, in both orders of writing, and says which must win.
func pairs(t *testing.T, places []place, values [2]string, infiniband Switch, effective func(*Settings) string) {
	t.Helper()
	n := 0
	for i, strong := range places {
		for j, weak := range places {
			if i == j || weak.kind > strong.kind || weak.kind == strong.kind && weak.age <= strong.age {
				continue
			}
			for _, swap := range []bool{false, true} {
				s := &scene{t: t, set: map[string]any{}, infiniband: infiniband}
				if swap {
					strong.write(s, strong.key, values[0])
					weak.write(s, weak.key, values[1])
				} else {
					weak.write(s, weak.key, values[1])
					strong.write(s, strong.key, values[0])
				}
				if got := effective(s.load()); got != values[0] {
					t.Errorf("%s=%s and %s=%s give %s", strong.name, values[0], weak.name, values[1], got)
				}
				n++
			}
		}
	}
	if n < 2*len(places) {
		t.Errorf("only %d pairs", n)
	}
}

func TestPrecedenceOfSwitches(t *testing.T) {
	for _, key := range switchKeys {
		places := placesOf([]string{"distributed-ucxx." + key, "distributed.comm.ucx." + key, "ucx." + key},
			func(o *Overrides, value string) { *o.UCX.switchOf(key) = SwitchOf(value == "true") })
		infiniband := Unset
		if key == "rdmacm" {
			infiniband = On
		}
		for _, values := range [][2]string{{"true", "false"}, {"false", "true"}} {
			t.Run(key+"="+values[0], func(t *testing.T) {
				pairs(t, places, values, infiniband, func(s *Settings) string { return s.UCX.switchOf(key).String() })
			})
		}
	}
}

func (s *Settings) pool() string { return fmt.Sprint(s.RMM.PoolSize) }

func TestPrecedenceOfPool(t *testing.T) {
	places := placesOf([]string{"distributed-ucxx.rmm.pool-size", "distributed.rmm.pool-size", "rmm.pool-size"},
		func(o *Overrides, value string) { _, _ = fmt.Sscan(value, &o.RMM.PoolSize) })
	pairs(t, places, [2]string{"1000", "2000"}, Unset, (*Settings).pool)
	// What the old example shows is a legacy spelling too.
	places = placesOf([]string{"distributed-ucxx.rmm.pool-size", "distributed.comm.ucx.rmm.pool-size", "rmm.pool-size"},
		func(o *Overrides, value string) { _, _ = fmt.Sscan(value, &o.RMM.PoolSize) })
	pairs(t, places, [2]string{"1000", "2000"}, Unset, (*Settings).pool)
}

func TestPrecedenceOfNetDevices(t *testing.T) {
	places := placesOf([]string{"distributed-ucxx.environment.net-devices",
		"distributed.comm.ucx.environment.net-devices", "ucx.net-devices"},
		func(o *Overrides, value string) { o.UCX.NetDevices = value })
	pairs(t, places, [2]string{"mlx5_0:1", "eth0"}, Unset, func(s *Settings) string {
		return s.Effective("NET_DEVICES")
	})
	places = placesOf([]string{"distributed-ucxx.environment.rndv-thresh",
		"distributed.comm.ucx.environment.rndv-thresh", "ucx.environment.rndv-thresh"},
		func(o *Overrides, value string) { o.UCX.Environment = map[string]string{"rndv-thresh": value} })
	pairs(t, places, [2]string{"8192", "auto"}, Unset, func(s *Settings) string { return s.Effective("RNDV_THRESH") })
}

// UCX's own variables win over every place.
func TestPrecedenceOfUCXVariables(t *testing.T) {
	for _, c := range []struct {
		variable, value string
		places          []place
		write           string
	}{
		{"UCX_TLS", "self,tcp", placesOf([]string{"distributed-ucxx.nvlink", "distributed.comm.ucx.nvlink",
			"ucx.nvlink"},
			func(o *Overrides, _ string) { o.UCX.NVLink = On }), "true"},
		{"UCX_SOCKADDR_TLS_PRIORITY", "sockcm", placesOf([]string{"distributed-ucxx.tcp", "distributed.comm.ucx.tcp",
			"ucx.tcp"},
			func(o *Overrides, _ string) { o.UCX.TCP = On }), "true"},
		{"UCX_NET_DEVICES", "lo", placesOf([]string{"distributed-ucxx.environment.net-devices",
			"distributed.comm.ucx.environment.net-devices", "ucx.net-devices"},
			func(o *Overrides, v string) { o.UCX.NetDevices = v }), "eth0"},
		{"UCX_RNDV_THRESH", "1", placesOf([]string{"distributed-ucxx.environment.rndv-thresh",
			"distributed.comm.ucx.environment.rndv-thresh"},
			func(o *Overrides, v string) { o.UCX.Environment = map[string]string{"RNDV_THRESH": v} }), "2"},
	} {
		for _, p := range c.places {
			s := &scene{t: t, set: map[string]any{}, env: []string{c.variable + "=" + c.value}}
			p.write(s, p.key, c.write)
			option := strings.TrimPrefix(c.variable, "UCX_")
			settings := s.load()
			if got := settings.Effective(option); got != c.value {
				t.Errorf("%s=%s and %s give %q", c.variable, c.value, p.name, got)
			}
			if v, ok := settings.Options[option]; ok {
				t.Errorf("%s is set, and %s makes the option %q as well", c.variable, p.name, v)
			}
		}
	}
}

// A stronger source with an older spelling wins, and the user hears that Python differs.
func TestOlderSpellingOfStrongerSourceIsReported(t *testing.T) {
	s := &scene{t: t, set: map[string]any{}, env: []string{"DASK_DISTRIBUTED__COMM__UCX__TCP=true"}}
	s.file("distributed-ucxx.tcp", "false")
	settings := s.load()
	if settings.UCX.TCP != On {
		t.Error("the file won over the variable")
	}
	if len(settings.Warnings) != 1 || !strings.Contains(settings.Warnings[0].Text, "distributed-ucxx decides by the "+
		"spelling alone") {
		t.Errorf("warnings %v", settings.Warnings)
	}
	if got := settings.Warnings[0].Replacement; got != "DASK_DISTRIBUTED_UCXX__TCP" {
		t.Errorf("replacement %q", got)
	}
}

// Null is no value, in whatever spelling, as in distributed-ucxx.
func TestNullGivesWay(t *testing.T) {
	s := &scene{t: t, set: map[string]any{"distributed-ucxx.tcp": nil}}
	s.file("distributed.comm.ucx.tcp", "true")
	if settings := s.load(); settings.UCX.TCP != On {
		t.Error("null in the new spelling hides the legacy one")
	}
}
