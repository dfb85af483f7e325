package interop

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	daskconfig "go.millstream.dev/config"
	"go.millstream.dev/tests/interop/pypeer"
)

// daskCase is one question to peers/config_golden.py.
type daskCase struct {
	Op       string      `json:"op"`
	Text     string      `json:"text"`
	Key      string      `json:"key"`
	Paths    []string    `json:"paths"`
	Env      [][2]string `json:"env"`
	Defaults []string    `json:"defaults"`
	Steps    []daskStep  `json:"steps"`
}

// daskStep sets a key, or takes back the set with the number Restore.
type daskStep struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	Restore int    `json:"restore"`
}

type daskAnswer struct {
	Value json.RawMessage `json:"value"`
	Error string          `json:"error"`
}

// askDask runs one Python process over all cases.
func askDask(t *testing.T, cases []daskCase) []daskAnswer {
	t.Helper()
	input, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	var answers []daskAnswer
	if err := json.Unmarshal(runConfigPeer(t, "config_golden.py", input), &answers); err != nil {
		t.Fatal(err)
	}
	if len(answers) != len(cases) {
		t.Fatalf("%d answers to %d cases", len(answers), len(cases))
	}
	return answers
}

// runConfigPeer runs a script of peers without any configuration of its own.
func runConfigPeer(t *testing.T, script string, input []byte) []byte {
	t.Helper()
	python, err := pypeer.Python()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, filepath.Join("peers", script))
	empty := t.TempDir()
	cmd.Env = []string{"HOME=" + empty, "DASK_ROOT_CONFIG=" + empty, "PATH=" + os.Getenv("PATH"), "LD_LIBRARY_PATH=" +
		os.Getenv("LD_LIBRARY_PATH")}
	cmd.Stdin = bytes.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, stderr.String())
	}
	return stdout.Bytes()
}

func cfgBits(f float64) string {
	if math.IsNaN(f) {
		return "nan"
	}
	return fmt.Sprintf("%016x", math.Float64bits(f))
}

// cfgEncode writes a value as the script does.
func cfgEncode(v any) any {
	list := func(items []any) []any {
		all := make([]any, len(items))
		for i, item := range items {
			all[i] = cfgEncode(item)
		}
		return all
	}
	switch v := v.(type) {
	case nil, bool, string:
		return v
	case int64:
		return map[string]any{"i": fmt.Sprint(v)}
	case *big.Int:
		return map[string]any{"i": v.String()}
	case float64:
		return map[string]any{"f": cfgBits(v)}
	case complex128:
		return map[string]any{"c": []any{cfgBits(real(v)), cfgBits(imag(v))}}
	case []byte:
		return map[string]any{"b": hex.EncodeToString(v)}
	case daskconfig.List:
		return list(v)
	case daskconfig.Tuple:
		return map[string]any{"t": list(v)}
	case daskconfig.Set:
		items := list(v)
		slices.SortFunc(items, func(a, b any) int { return strings.Compare(cfgPythonJSON(a), cfgPythonJSON(b)) })
		return map[string]any{"set": items}
	case *daskconfig.Map:
		pairs := []any{}
		for e := range v.All() {
			pairs = append(pairs, []any{cfgEncode(e.Key), cfgEncode(e.Value)})
		}
		return map[string]any{"m": pairs}
	case daskconfig.Time:
		_, offset := v.Zone()
		return map[string]any{"time": v.Format("2006-01-02T15:04:05.000000"), "naive": v.Naive,
			"offset": float64(offset)}
	case daskconfig.Date:
		return map[string]any{"date": v.String()}
	}
	return fmt.Sprintf("%T", v)
}

// cfgPythonJSON is json.dumps, near enough to sort by.
func cfgPythonJSON(v any) string {
	b, _ := json.Marshal(v)
	return strings.NewReplacer(`":`, `": `, `,"`, `, "`).Replace(string(b))
}

// cfgSame compares what Python answered with a value of ours, order and all.
func cfgSame(t *testing.T, python json.RawMessage, ours any) (got, want string, ok bool) {
	t.Helper()
	var v any
	if err := json.Unmarshal(python, &v); err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(v)
	b, _ := json.Marshal(ours)
	return string(b), string(a), bytes.Equal(a, b)
}

// cfgCompare holds ours against Python's answers. Where Python fails, we must fail too, and the
// other way round.
func cfgCompare(t *testing.T, cases []daskCase, ours func(daskCase) (any, error)) {
	t.Helper()
	failed, wrong := 0, 0
	for i, a := range askDask(t, cases) {
		v, err := ours(cases[i])
		switch {
		case err != nil && a.Error == "":
			t.Errorf("%q: %v; Python reads %s", cases[i].Text, err, a.Value)
			wrong++
		case err == nil && a.Error != "":
			got, _ := json.Marshal(v)
			t.Errorf("%q: Python says %s; we read %s", cases[i].Text, a.Error, got)
			wrong++
		case err != nil:
			failed++
		default:
			if got, want, ok := cfgSame(t, a.Value, v); !ok {
				t.Errorf("%q %v %v:\n got %s\nwant %s", cases[i].Text, cases[i].Env, cases[i].Paths, got, want)
				wrong++
			}
		}
		if wrong > 20 {
			t.FailNow() // enough to see what is wrong
		}
	}
	t.Logf("%d cases, %d of them errors in both", len(cases), failed)
}

// cfgClose compares with a float of Python's, to a nanosecond.
func cfgClose(encoded string, seconds float64) bool {
	var u uint64
	if _, err := fmt.Sscanf(encoded, `{"f":"%x"}`, &u); err != nil {
		return false
	}
	return math.Abs(math.Float64frombits(u)-seconds) <= 1e-9*math.Max(1, math.Abs(seconds))
}
