package comm_test

import (
	"runtime"
	"strings"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/config"
	"go.millstream.dev/secure"
)

func TestStagedModes(t *testing.T) {
	for text, want := range map[string]comm.StagedMode{"": comm.StagedAuto, "auto": comm.StagedAuto,
		"On": comm.StagedOn, "true": comm.StagedOn, "off": comm.StagedOff, "false": comm.StagedOff} {
		got, err := comm.ParseStagedMode(text)
		if got != want || err != nil {
			t.Errorf("%q is %v, %v", text, got, err)
		}
		if again, err := comm.ParseStagedMode(got.String()); again != got || err != nil {
			t.Errorf("%v reads as %v, %v", got, again, err)
		}
	}
	if _, err := comm.ParseStagedMode("perhaps"); err == nil ||
		!strings.Contains(err.Error(), "millstream.comm.staged") {
		t.Errorf("got %v", err)
	}
	for _, tc := range []struct {
		c    comm.StagedConfig
		want int
	}{
		{comm.StagedConfig{}, min(comm.DefaultStripes, max(2, runtime.GOMAXPROCS(0)/2))},
		{comm.StagedConfig{Stripes: 1}, 1},
		{comm.StagedConfig{Stripes: 1000}, comm.MaxStripes},
		{comm.StagedConfig{Mode: comm.StagedOff, Stripes: 3}, 1},
	} {
		if got := tc.c.StripeCount(); got != tc.want {
			t.Errorf("%+v: %d lines, want %d", tc.c, got, tc.want)
		}
	}
}

func TestStagedFromConfig(t *testing.T) {
	for _, tc := range []struct {
		mode, lines any
		want        comm.StagedConfig
		fails       string
	}{
		{nil, nil, comm.StagedConfig{}, ""},
		{"auto", 8, comm.StagedConfig{Stripes: 8}, ""},
		{true, nil, comm.StagedConfig{Mode: comm.StagedOn}, ""},
		{false, nil, comm.StagedConfig{Mode: comm.StagedOff}, ""},
		{"off", 1, comm.StagedConfig{Mode: comm.StagedOff, Stripes: 1}, ""},
		{"maybe", nil, comm.StagedConfig{}, "auto, on or off"},
		{7, nil, comm.StagedConfig{}, "auto, on or off"},
		{nil, 17, comm.StagedConfig{}, "staged-stripes"},
		{nil, -1, comm.StagedConfig{}, "staged-stripes"},
		{nil, "many", comm.StagedConfig{}, "staged-stripes"},
	} {
		c, err := config.Load(config.Options{Env: []string{"PATH="}, Paths: []string{}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Set(map[string]any{"millstream.comm.staged": tc.mode,
			"millstream.comm.staged-stripes": tc.lines}); err != nil {
			t.Fatal(err)
		}
		d, l, err := comm.FromConfig(c, secure.Worker)
		if tc.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("%v, %v: %v", tc.mode, tc.lines, err)
			}
			continue
		}
		if err != nil || d.Staged != tc.want || l.Staged != tc.want {
			t.Errorf("%v, %v: %+v and %+v, %v", tc.mode, tc.lines, d.Staged, l.Staged, err)
		}
	}
}
