package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.millstream.dev/comm/ucxcomm"
	daskconfig "go.millstream.dev/config"
	"go.millstream.dev/tests/interop/pypeer"
)

// multiBufferSources says multi-buffer in every place and spelling.
func multiBufferSources(t *testing.T, value string) map[string]*daskconfig.Settings {
	t.Helper()
	load := func(text string, env []string, set map[string]any, over daskconfig.Overrides) *daskconfig.Settings {
		t.Helper()
		o := daskconfig.Options{Paths: []string{}, Env: append([]string{}, env...), Warn: func(daskconfig.Warning) {}}
		if text != "" {
			file := filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			o.Paths = append(o.Paths, file)
		}
		cfg, err := daskconfig.Load(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cfg.Set(set); err != nil {
			t.Fatal(err)
		}
		s, err := cfg.Settings(over)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	none := daskconfig.Overrides{}
	return map[string]*daskconfig.Settings{
		"file, new":        load("distributed-ucxx: {multi-buffer: "+value+"}\n", nil, nil, none),
		"file, legacy":     load("distributed: {comm: {ucx: {multi-buffer: "+value+"}}}\n", nil, nil, none),
		"variable, new":    load("", []string{"DASK_DISTRIBUTED_UCXX__MULTI_BUFFER=" + value}, nil, none),
		"variable, legacy": load("", []string{"DASK_DISTRIBUTED__COMM__UCX__MULTI_BUFFER=" + value}, nil, none),
		"variable, old":    load("", []string{"DASK_UCX__MULTI_BUFFER=" + value}, nil, none),
		"Set":              load("", nil, map[string]any{"distributed-ucxx.multi-buffer": value == "True"}, none),
		"struct": load("", nil, nil,
			daskconfig.Overrides{UCX: daskconfig.UCX{MultiBuffer: daskconfig.SwitchOf(value == "True")}}),
	}
}

// The setting decides the form of frames on the wire: Python reads one form only, and it is
// not negotiated.
func TestConfigMultiBufferOnTheWire(t *testing.T) {
	sizes := []int{0, 1, 5000, 70_000}
	for _, value := range []string{"True", "False"} {
		r := newUCXRig(t, "ucxx", ucxcomm.Settings{}, "DASK_DISTRIBUTED_UCXX__MULTI_BUFFER="+value)
		for name, s := range multiBufferSources(t, value) {
			t.Run(fmt.Sprintf("%s, %s", value, name), func(t *testing.T) {
				sub := *r
				sub.T = t
				settings := ucxcomm.FromConfig(s)
				settings.Library = r.settings.Library
				sub.b = ucxcomm.New("ucxx", settings)
				l := sub.dial(false)
				read := l.post("read", l.command(nil))
				if err := l.c.Write(l.ctx, ucxDaskMessage(name, sizes)); err != nil {
					t.Fatal(err)
				}
				if err := checkNoise(l.wait(read).Frames, sizes); err != nil {
					t.Error(err)
				}
				write := l.post("write", l.command(pypeer.Command{"text": name, "frames": frameSpecs(sizes)}))
				m, err := l.c.Read(l.ctx)
				if err != nil {
					t.Fatal(err)
				}
				if err := checkUCXMessage(m, name, sizes); err != nil {
					t.Error(err)
				}
				m.Release()
				l.wait(write)
			})
		}
	}
}
