package interop

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	daskconfig "go.millstream.dev/config"
)

var updateDocs = flag.Bool("update", false, "write docs/ucx-settings.md")

// ucxxCase is one configuration for peers/config_ucxx.py, and for us.
type ucxxCase struct {
	Env  map[string]string `json:"env"`
	YAML string            `json:"yaml"`
}

type ucxxAnswer struct {
	Value struct {
		Options     map[string]string `json:"options"`
		Pool        int64             `json:"pool"`
		MultiBuffer bool              `json:"multi_buffer"`
		Context     bool              `json:"context"`
	} `json:"value"`
	Error string `json:"error"`
}

func askUCXX(t *testing.T, cases []ucxxCase) []ucxxAnswer {
	t.Helper()
	for i := range cases {
		if cases[i].Env == nil {
			cases[i].Env = map[string]string{}
		}
	}
	input, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	var answers []ucxxAnswer
	if err := json.Unmarshal(runConfigPeer(t, "config_ucxx.py", input), &answers); err != nil {
		t.Fatal(err)
	}
	if len(answers) != len(cases) {
		t.Fatalf("%d answers to %d cases", len(answers), len(cases))
	}
	return answers
}

// cfgOurs is what Millstream makes of the same case.
func cfgOurs(t *testing.T, c ucxxCase) (*daskconfig.Settings, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(c.YAML), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{}
	for k, v := range c.Env {
		env = append(env, k+"="+v)
	}
	cfg, err := daskconfig.Load(daskconfig.Options{Paths: []string{file}, Env: env, Warn: func(daskconfig.Warning) {}})
	if err != nil {
		return nil, err
	}
	return cfg.Settings(daskconfig.Overrides{})
}

var ucxxSwitches = []string{"tcp", "nvlink", "infiniband", "rdmacm", "cuda-copy"}

// ucxxRow is one combination, each switch "" (not set), "true" or "false".
type ucxxRow struct {
	values  [5]string
	devices string
}

func (r ucxxRow) yaml() string {
	var b strings.Builder
	b.WriteString("distributed-ucxx:\n  version: 1\n")
	for i, v := range r.values {
		if v != "" {
			fmt.Fprintf(&b, "  %s: %s\n", ucxxSwitches[i], v)
		}
	}
	if r.devices != "" {
		fmt.Fprintf(&b, "  environment:\n    net-devices: %s\n", r.devices)
	}
	return b.String()
}

func ucxxRows(values, devices []string) []ucxxRow {
	rows := []ucxxRow{{}}
	for i := range ucxxSwitches {
		var next []ucxxRow
		for _, r := range rows {
			for _, v := range values {
				r.values[i] = v
				next = append(next, r)
			}
		}
		rows = next
	}
	var all []ucxxRow
	for _, d := range devices {
		for _, r := range rows {
			r.devices = d
			all = append(all, r)
		}
	}
	return all
}

// reason tells why ours differs from theirs, or that it must not.
func (r ucxxRow) reason() string {
	tcp, nvlink, ib, rdmacm, cuda := r.values[0] == "true", r.values[1] == "true", r.values[2] == "true",
		r.values[3] == "true", r.values[4] == "true"
	switch {
	case rdmacm && !ib:
		return "rdmacm needs infiniband"
	case nvlink && r.values[4] == "false":
		return "nvlink needs cuda-copy"
	case r.values[0] == "false" && (nvlink || ib || cuda):
		return "tcp is kept out"
	case ib && !nvlink && !cuda && r.values[4] != "false":
		return "infiniband moves GPU memory"
	case cuda && !tcp && !nvlink && !ib:
		return "cuda-copy alone is a choice too"
	case !tcp && !nvlink && !ib && slices.Contains(r.values[:], "false"):
		return "what is false is kept out"
	}
	return ""
}

// All 486 combinations of true, false and not set: equal where distributed-ucxx is right, and
// different exactly where a reason is given.
func TestConfigTranslationAgainstDistributedUCXX(t *testing.T) {
	rows := ucxxRows([]string{"", "true", "false"}, []string{"", "mlx5_0:1"})
	var cases []ucxxCase
	for _, r := range rows {
		cases = append(cases, ucxxCase{YAML: r.yaml()})
	}
	differ := 0
	for i, a := range askUCXX(t, cases) {
		if a.Error != "" {
			t.Fatalf("%s: %s", cases[i].YAML, a.Error)
		}
		s, err := cfgOurs(t, cases[i])
		same := err == nil && cfgPythonJSON(s.Options) == cfgPythonJSON(a.Value.Options)
		if reason := rows[i].reason(); same != (reason == "") {
			t.Errorf("%s: ours %v, %v; theirs %v; reason to differ: %q", cases[i].YAML, s, err, a.Value.Options, reason)
		}
		if !same {
			differ++
		}
	}
	t.Logf("%d combinations, %d differ with a reason", len(rows), differ)
}

// docs/ucx-settings.md shows the combinations, ours beside theirs.
func TestConfigTranslationTable(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# UCX settings: ours beside distributed-ucxx's

Made by ` + "`go test ./tests/interop -run TestConfigTranslationTable -update`" + `, which runs the real distributed-ucxx for its columns; the test fails
when this file differs. What the settings mean is in [the guide](guide/configuration.md).

A dash is a setting that is left to UCX. Cells that differ are **bold**.

## Every combination of the switches

✓ is true, an empty cell not set. What is set to false is kept out by Millstream: ` + "`tcp: false`" + ` takes tcp from the list, which distributed-ucxx leaves in; switches that
are only false exclude (` + "`nvlink: false`" + ` is ` + "`UCX_TLS=^cuda_ipc`" + `), where distributed-ucxx sets nothing; a ` + "`UCX_TLS`" + ` that lets in what is false is an error.

`)
	writeCombinations(t, &b)
	b.WriteString("\n## Values\n\n")
	writeCases(t, &b, valueCases)
	b.WriteString("\n## Spellings\n\nEvery deprecated one works here, and a warning names its replacement.\n\n")
	writeCases(t, &b, spellingCases)
	path := filepath.Join("..", "..", "docs", "ucx-settings.md")
	if *updateDocs {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != b.String() {
		t.Errorf("docs/ucx-settings.md is not what the code and distributed-ucxx do; run go test ./tests/interop "+
			"-run TestConfigTranslationTable -update. It should be:\n%s", b.String())
	}
}

func writeCombinations(t *testing.T, b *strings.Builder) {
	rows := ucxxRows([]string{"", "true"}, []string{"", "mlx5_0:1"})
	var cases []ucxxCase
	for _, r := range rows {
		cases = append(cases, ucxxCase{YAML: r.yaml()})
	}
	b.WriteString("| tcp | nvlink | infini&shy;band | rdmacm | cuda-copy | net-devices | `UCX_TLS` | theirs | " +
		"`UCX_SOCKADDR_TLS_PRIORITY` | theirs | `UCX_NET_DEVICES` | theirs | why " +
		"|\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for i, a := range askUCXX(t, cases) {
		s, err := cfgOurs(t, cases[i])
		cells := make([]string, 0, 13)
		for _, v := range rows[i].values {
			cells = append(cells, strings.ReplaceAll(v, "true", "✓"))
		}
		cells = append(cells, rows[i].devices)
		for _, option := range []string{"TLS", "SOCKADDR_TLS_PRIORITY", "NET_DEVICES"} {
			mine, theirs := "error", cfgCell(a.Value.Options[option])
			if err == nil {
				mine = cfgCell(s.Options[option])
			}
			if mine != theirs {
				mine, theirs = "**"+mine+"**", "**"+theirs+"**"
			}
			cells = append(cells, mine, theirs)
		}
		cells = append(cells, rows[i].reason())
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
}

func cfgCell(v string) string {
	if v == "" {
		return "–"
	}
	return v
}
