package nvrtc

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The library is opened once per process, so each choice of one gets a process of its own.
const childRole = "NVRTC_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childRole) != "" {
		if _, err := Compile(context.Background(), "", Options{}); err != nil {
			os.Stdout.WriteString(err.Error())
			if !errors.Is(err, ErrUnavailable) {
				os.Exit(2)
			}
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func inChild(t *testing.T, library string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childRole+"=1", "MILLSTREAM_NVRTC_LIBRARY="+library)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func TestChosenLibraryIsFinal(t *testing.T) {
	for library, want := range map[string]string{
		filepath.Join(t.TempDir(), "libnone.so"): "libnone.so",
		"libm.so.6":                              "it is not NVRTC",
	} {
		out := inChild(t, library)
		if strings.Contains(out, "without cgo") {
			return
		}
		for _, text := range []string{"nvrtc: NVRTC is not available", "MILLSTREAM_NVRTC_LIBRARY", want} {
			if !strings.Contains(out, text) {
				t.Errorf("%q does not say %q", out, text)
			}
		}
	}
}

// A stand-in library with the functions' names: what Compile hands over and how it tells of the compiler's complaints.
// The real one, where it is installed, compiles in TestGPUCompile and by `make kernels`.
const standIn = `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef struct { char text[4096]; int bad; } *program;
int nvrtcVersion(int *a, int *b) { *a = 12; *b = 7; return 0; }
const char *nvrtcGetErrorString(int r) { return r == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_OTHER"; }
int nvrtcCreateProgram(program *p, const char *src, const char *name, int n, const char *const *bodies, const char *const *names) {
	*p = calloc(1, sizeof **p);
	(*p)->bad = strstr(src, "bad") != NULL;
	sprintf((*p)->text, "%s|%s", src, name);
	for (int i = 0; i < n; i++) sprintf((*p)->text + strlen((*p)->text), "|%s=%s", names[i], bodies[i]);
	return 0;
}
int nvrtcDestroyProgram(program *p) { free(*p); *p = NULL; return 0; }
int nvrtcCompileProgram(program p, int n, const char *const *flags) {
	for (int i = 0; i < n; i++) sprintf(p->text + strlen(p->text), "|%s", flags[i]);
	return p->bad ? 6 : 0;
}
int nvrtcGetPTXSize(program p, size_t *n) { *n = strlen(p->text) + 1; return 0; }
int nvrtcGetPTX(program p, char *b) { strcpy(b, p->text); return 0; }
int nvrtcGetCUBINSize(program p, size_t *n) { *n = 3; return 0; }
int nvrtcGetCUBIN(program p, char *b) { memcpy(b, "\1\2\0", 3); return 0; }
int nvrtcGetProgramLogSize(program p, size_t *n) { *n = 32; return 0; }
int nvrtcGetProgramLog(program p, char *b) { strcpy(b, p->bad ? "line 1: it is bad\n" : " "); return 0; }
`

// (Opened once: repeated in one process, the test goes on with the first one's.)
func TestCompileHandsOver(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Fatalf("no C compiler: %v", err)
	}
	dir := t.TempDir()
	source, lib := filepath.Join(dir, "rtc.c"), filepath.Join(dir, "librtc.so")
	if err := os.WriteFile(source, []byte(standIn), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", lib, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("MILLSTREAM_NVRTC_LIBRARY", lib)
	info, err := Library()
	if err != nil {
		if strings.Contains(err.Error(), "without cgo") {
			return
		}
		t.Fatal(err)
	}
	if filepath.Base(info.Path) != filepath.Base(lib) || info.Version.String() != "12.7" || Available() != nil {
		t.Errorf("%+v", info)
	}
	ctx := t.Context()
	code, err := Compile(ctx, "source", Options{Name: "a.cu", Flags: []string{"-DX"},
		Headers: map[string]string{"b.h": "B", "a.h": "A"}})
	if err != nil || !code.PTX || code.Log != "" ||
		string(code.Image) != "source|a.cu|a.h=A|b.h=B|--gpu-architecture=compute_70|-DX" {
		t.Errorf("%v: %+v", err, code)
	}
	code, err = Compile(ctx, "source", Options{Arch: "sm_90"})
	if err != nil || code.PTX || string(code.Image) != "\x01\x02\x00" {
		t.Errorf("%v: %+v", err, code)
	}
	_, err = Compile(ctx, "bad", Options{Name: "a.cu"})
	var e *Error
	if !errors.As(err, &e) || e.Result != "NVRTC_ERROR_COMPILATION" ||
		!strings.Contains(err.Error(), "nvrtc: a.cu: NVRTC_ERROR_COMPILATION:\nline 1: it is bad") {
		t.Errorf("%v", err)
	}
	for text, o := range map[string]Options{"unknown architecture \"volta\"": {Arch: "volta"},
		"zero byte": {Flags: []string{"a\x00b"}}} {
		if _, err := Compile(ctx, "source", o); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v does not say %q", err, text)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Compile(ended, "source", Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
