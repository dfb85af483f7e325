package gpurecord

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.millstream.dev/internal/tools/testfuncs"
)

func full() *Record {
	return &Record{
		Device: "NVIDIA H200", Driver: "580.1", CUDA: "13.0", UCX: "1.21.0", Commit: "abc", Date: "2026-01-31",
		Tests: []Test{{Package: "m/p", Name: "TestGPUA", Seconds: 0.25}},
	}
}

func TestSaveLoad(t *testing.T) {
	name := filepath.Join(t.TempDir(), "gpu-run.json")
	if r, err := Load(name); r != nil || err != nil {
		t.Fatalf("no file: Load = %v, %v; want nil, nil", r, err)
	}
	want := full()
	if err := want.Save(name); err != nil {
		t.Fatal(err)
	}
	got, err := Load(name)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Load = %+v, %v; want %+v", got, err, want)
	}
	if err := os.WriteFile(name, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(name); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("half a file: error %v does not name it", err)
	}
}

func TestCheck(t *testing.T) {
	a := testfuncs.Func{Package: "m/p", Name: "TestGPUA", File: "p/a_test.go"}
	b := testfuncs.Func{Package: "m/p", Name: "TestGPUB", File: "p/b_test.go"}
	elsewhere := testfuncs.Func{Package: "m/q", Name: "TestGPUA", File: "q/a_test.go"}
	bad := full()
	bad.Driver, bad.Date = "", "yesterday"
	for _, c := range []struct {
		name   string
		record *Record
		tests  []testfuncs.Func
		want   []string
	}{
		{"no record yet", nil, []testfuncs.Func{a}, nil},
		{"record without tests", &Record{}, []testfuncs.Func{a}, nil},
		{"no GPU tests", full(), nil, nil},
		{"all there", full(), []testfuncs.Func{a}, nil},
		{"one missing", full(), []testfuncs.Func{a, b}, []string{"TestGPUB", "p/b_test.go"}},
		{"same name, other package", full(), []testfuncs.Func{elsewhere}, []string{"q/a_test.go"}},
		{"fields", bad, []testfuncs.Func{a}, []string{`"driver"`, "yesterday"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.record.Check(c.tests)
			if (err != nil) != (c.want != nil) {
				t.Fatalf("Check = %v, want an error: %t", err, c.want != nil)
			}
			for _, s := range c.want {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("the error %q does not name %s", err, s)
				}
			}
		})
	}
}
