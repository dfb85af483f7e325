package interop

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	daskconfig "go.millstream.dev/config"
)

// cfgLeaves lists dotted keys and values of an encoded tree.
func cfgLeaves(t *testing.T, raw json.RawMessage) map[string]string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	var walk func(prefix string, v any)
	walk = func(prefix string, v any) {
		if m, ok := v.(map[string]any); ok && m["m"] != nil && len(m["m"].([]any)) > 0 {
			for _, pair := range m["m"].([]any) {
				kv := pair.([]any)
				walk(prefix+"."+fmt.Sprint(kv[0]), kv[1])
			}
			return
		}
		all[strings.TrimPrefix(prefix, ".")] = cfgPythonJSON(v)
	}
	walk("", v)
	return all
}

// The embedded defaults are those of the real packages: all of distributed-ucxx's, and of
// distributed's those that are there.
func TestConfigDefaultsAsPython(t *testing.T) {
	answers := askDask(t, []daskCase{
		{Op: "defaults", Text: "distributed_ucxx", Key: "distributed-ucxx.yaml"},
		{Op: "defaults", Text: "distributed", Key: "distributed.yaml"},
	})
	for _, a := range answers {
		if a.Error != "" {
			t.Fatal(a.Error)
		}
	}
	theirs := cfgLeaves(t, answers[0].Value)
	for k, v := range cfgLeaves(t, answers[1].Value) {
		theirs[k] = v
	}
	mine := map[string]string{}
	for _, d := range daskconfig.Defaults() {
		raw, err := json.Marshal(cfgEncode(d))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range cfgLeaves(t, raw) {
			if !strings.HasPrefix(k, "millstream.") {
				mine[k] = v
			}
		}
	}
	for k, v := range mine {
		if theirs[k] != v {
			t.Errorf("%s: our default %s, theirs %q", k, v, theirs[k])
		}
	}
	for k := range theirs {
		if _, ok := mine[k]; !ok && strings.HasPrefix(k, "distributed-ucxx.") {
			t.Errorf("%s has no default here", k)
		}
	}
}

// The schema has the keys and the types of distributed-ucxx's.
func TestConfigSchemaAsPython(t *testing.T) {
	a := askDask(t, []daskCase{{Op: "defaults", Text: "distributed_ucxx", Key: "distributed-ucxx-schema.yaml"}})[0]
	if a.Error != "" {
		t.Fatal(a.Error)
	}
	schema, err := daskconfig.ParseYAML("schema", []byte(daskconfig.SchemaYAML()))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(cfgEncode(schema))
	if err != nil {
		t.Fatal(err)
	}
	types := func(leaves map[string]string) map[string]string {
		all := map[string]string{}
		for k, v := range leaves {
			if strings.HasSuffix(k, ".type") && strings.HasPrefix(k, "properties.distributed-ucxx.") &&
				!strings.Contains(k, "additionalProperties") {
				all[k] = v
			}
		}
		return all
	}
	mine, theirs := types(cfgLeaves(t, raw)), types(cfgLeaves(t, a.Value))
	if len(theirs) < 10 || cfgPythonJSON(mine) != cfgPythonJSON(theirs) {
		t.Errorf("ours %v\ntheirs %v", mine, theirs)
	}
}
