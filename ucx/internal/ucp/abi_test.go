//go:build cgo

package ucp

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// release is a minor release of UCX 1.
type release int

func parseRelease(t *testing.T, s string) release {
	t.Helper()
	minor, ok := strings.CutPrefix(s, "1.")
	n, err := strconv.Atoi(minor)
	if !ok || err != nil {
		t.Fatalf("testdata/abi.txt: %q is no release", s)
	}
	return release(n)
}

type abiField struct {
	name         string
	offset, size int
	since        release
}

type abiStruct struct {
	name, ours string
	since      release
	size       map[release]int // from which release on
	fields     []abiField
}

// sizeIn returns the size that a release gives the struct.
func (s *abiStruct) sizeIn(r release) int {
	best, size := release(-1), 0
	for from, n := range s.size {
		if from <= r && from > best {
			best, size = from, n
		}
	}
	return size
}

type abiConst struct {
	name, ours string
	value      int64
	since      release
}

// abiTable is testdata/abi.txt: what the headers of all releases say.
type abiTable struct {
	structs []abiStruct
	consts  []abiConst
}

func readABI(t *testing.T) *abiTable {
	t.Helper()
	f, err := os.Open("testdata/abi.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("testdata/abi.txt: %v", err)
		}
		return n
	}
	since := func(w []string, i int) release {
		if len(w) > i {
			return parseRelease(t, w[i])
		}
		return 13
	}
	var table abiTable
	for sc := bufio.NewScanner(f); sc.Scan(); {
		w := strings.Fields(sc.Text())
		if len(w) == 0 || w[0] == "#" {
			continue
		}
		switch w[0] {
		case "struct":
			s := abiStruct{name: w[1], ours: w[2], since: parseRelease(t, w[3]), size: map[release]int{}}
			s.size[s.since] = number(w[4])
			for _, grown := range w[5:] {
				r, n, _ := strings.Cut(grown, ":")
				s.size[parseRelease(t, r)] = number(n)
			}
			table.structs = append(table.structs, s)
		case "field":
			s := &table.structs[len(table.structs)-1]
			s.fields = append(s.fields, abiField{w[1], number(w[2]), number(w[3]), since(w, 4)})
		case "const":
			table.consts = append(table.consts, abiConst{w[1], w[2], int64(number(w[3])), since(w, 4)})
		default:
			t.Fatalf("testdata/abi.txt: %q", sc.Text())
		}
	}
	if len(table.structs) < 20 || len(table.consts) < 80 {
		t.Fatalf("testdata/abi.txt has %d structs and %d constants", len(table.structs), len(table.consts))
	}
	return &table
}

const newest = release(22)

// cProgram compiles and runs a C program and returns the lines "key value …" it prints.
func cProgram(t *testing.T, include []string, headers, body string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	src := filepath.Join(dir, "abi.c")
	text := headers + "\n#include <stdio.h>\n#include <stddef.h>\nint main(void)\n{\n" + body + "    return 0;\n}\n"
	if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
		if _, err := exec.LookPath(cc); err != nil {
			cc = "gcc"
		}
	}
	args := []string{"-std=gnu11", "-D_GNU_SOURCE", "-o", filepath.Join(dir, "abi"), src}
	for _, i := range include {
		args = append(args, "-I", i)
	}
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cc, err, out)
	}
	out, err := exec.Command(filepath.Join(dir, "abi")).Output()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.Lines(string(out)) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), " ")
		got[k] = v
	}
	return got
}

// program writes C that prints the table's content under one set of names.
func (a *abiTable) program(r release, ours bool) string {
	var b strings.Builder
	for _, s := range a.structs {
		if s.since > r {
			continue
		}
		c := s.name
		if ours {
			c = s.ours
		}
		fmt.Fprintf(&b, "    printf(\"%s %%zu\\n\", sizeof(%s));\n", s.name, c)
		for _, f := range s.fields {
			if f.since <= r {
				fmt.Fprintf(&b, "    printf(\"%s.%s %%zu %%zu\\n\", offsetof(%s, %s), sizeof(((%s *)0)->%s));\n",
					s.name, f.name, c, f.name, c, f.name)
			}
		}
	}
	for _, k := range a.consts {
		if k.since > r {
			continue
		}
		c := k.name
		if ours {
			c = k.ours
		}
		fmt.Fprintf(&b, "    printf(\"%s %%lld\\n\", (long long)(%s));\n", strings.ReplaceAll(k.name, " ", ""), c)
	}
	return b.String()
}

func (a *abiTable) compare(t *testing.T, got map[string]string, r release, ours bool) {
	t.Helper()
	for _, s := range a.structs {
		if s.since > r {
			continue
		}
		if want := fmt.Sprint(s.sizeIn(r)); got[s.name] != want {
			t.Errorf("sizeof(%s) is %s in 1.%d, the table says %s", s.name, got[s.name], r, want)
		}
		for _, f := range s.fields {
			if f.since > r {
				continue
			}
			key := s.name + "." + f.name
			if want := fmt.Sprintf("%d %d", f.offset, f.size); got[key] != want {
				t.Errorf("%s: offset and size are %s in 1.%d, the table says %s", key, got[key], r, want)
			}
		}
	}
	for _, k := range a.consts {
		if k.since <= r && got[k.name] != fmt.Sprint(k.value) {
			t.Errorf("%s is %s in 1.%d, the table says %d", k.name, got[k.name], r, k.value)
		}
	}
}

// TestABI compares abi.h with what the headers of every supported release say. abi.h has
// the longest form of each struct, which is the newest release's.
func TestABI(t *testing.T) {
	table := readABI(t)
	got := cProgram(t, []string{"."}, `#include "abi.h"`, table.program(newest, true))
	table.compare(t, got, newest, true)
	for _, s := range table.structs {
		for r := s.since; r <= newest; r++ {
			if s.sizeIn(r) > s.sizeIn(newest) {
				t.Errorf("%s shrank after 1.%d", s.name, r)
			}
			for _, f := range s.fields {
				if f.since <= r && f.offset+f.size > s.sizeIn(r) {
					t.Errorf("%s.%s lies behind the end of the struct in 1.%d", s.name, f.name, r)
				}
			}
		}
	}
}

// Every constant of abi.h is in the table, so that none is used unchecked.
func TestABITableComplete(t *testing.T) {
	table := readABI(t)
	known := map[string]bool{}
	for _, k := range table.consts {
		name, _, _ := strings.Cut(k.ours, "(")
		known[name] = true
	}
	for _, s := range table.structs {
		known[s.ours] = true
	}
	text, err := os.ReadFile("abi.h")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range regexp.MustCompile(`(?m)^(?:#define |    )(UX_[A-Z0-9_]+)(?:\(n\))?(?: =|[ ])`).FindAllStringSubmatch(string(text), -1) {
		switch m[1] {
		case "UX_BIT", "UX_IS_ERR", "UX_PTR_STATUS", "UX_FUNCS":
			continue
		}
		if n++; !known[m[1]] {
			t.Errorf("abi.h: %s is not in testdata/abi.txt", m[1])
		}
	}
	if n < 80 {
		t.Errorf("found only %d constants in abi.h", n)
	}
	for _, m := range regexp.MustCompile(`(?m)\} (ux_[a-z_]+);$`).FindAllStringSubmatch(string(text), -1) {
		if !known[m[1]] {
			t.Errorf("abi.h: struct %s is not in testdata/abi.txt", m[1])
		}
	}
}

// headerTrees returns the include directories of real headers: those of every release that scripts/setup has unpacked
// into MILLSTREAM_UCX_VERSIONS (default .local/ucx; VERSION/lib and VERSION/include), of the system, and of
// MILLSTREAM_UCX_HEADERS (directories with ucp/api, or with include/ucp/api, separated by colons). A release without
// headers is an error, as is a directory of releases without any.
func headerTrees(t *testing.T) []string {
	t.Helper()
	versions := os.Getenv("MILLSTREAM_UCX_VERSIONS")
	if versions == "" {
		versions = filepath.Join("..", "..", "..", ".local", "ucx")
	}
	libs, err := filepath.Glob(filepath.Join(versions, "*", "lib", "libucp.so.0"))
	if err != nil {
		t.Fatal(err)
	}
	if len(libs) == 0 {
		t.Fatalf("no release of UCX in %s, want VERSION/lib and VERSION/include: run scripts/setup test", versions)
	}
	tree := func(dir string) (string, bool) {
		for _, include := range []string{dir, filepath.Join(dir, "include")} {
			if _, err := os.Stat(filepath.Join(include, "ucp/api/ucp.h")); err == nil {
				return include, true
			}
		}
		return "", false
	}
	var dirs []string
	for _, lib := range libs {
		release := filepath.Dir(filepath.Dir(lib))
		dir, ok := tree(release)
		if !ok {
			t.Errorf("%s has no include/ucp/api/ucp.h: remove it and run scripts/setup test", release)
			continue
		}
		dirs = append(dirs, dir)
	}
	for _, d := range append([]string{"/usr", "/usr/local"},
		filepath.SplitList(os.Getenv("MILLSTREAM_UCX_HEADERS"))...) {
		if dir, ok := tree(d); ok && d != "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// TestABIHeaders compares the table with the real headers.
func TestABIHeaders(t *testing.T) {
	table := readABI(t)
	const headers = "#include <ucp/api/ucp.h>\n#include <ucs/config/types.h>"
	for _, dir := range headerTrees(t) {
		t.Run(filepath.Base(filepath.Dir(dir)), func(t *testing.T) {
			v := cProgram(t, []string{dir}, headers, `    printf("minor %d\n", UCP_API_MINOR);`+"\n")
			minor, err := strconv.Atoi(v["minor"])
			if err != nil || minor < 13 {
				t.Fatalf("%s: headers of version 1.%s; 1.13 is the oldest that is supported", dir, v["minor"])
			}
			got := cProgram(t, []string{dir}, headers, table.program(release(minor), false))
			if release(minor) > newest {
				// A newer release may have grown; what is used must be where it was.
				for i := range table.structs {
					s := &table.structs[i]
					if n, err := strconv.Atoi(got[s.name]); err == nil && n >= s.sizeIn(newest) {
						s.size[release(minor)] = n
					}
				}
			}
			table.compare(t, got, release(minor), false)
			t.Logf("%s: UCX 1.%d", dir, minor)
		})
	}
}
