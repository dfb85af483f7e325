package interop

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// settingCase is one input of which the docs show the effect, ours and theirs.
type settingCase struct {
	input string // as shown
	ucxxCase
}

func cfgYAML(text string) settingCase {
	return settingCase{"`" + strings.ReplaceAll(text, "\n", "` and `") + "`", ucxxCase{YAML: text}}
}

func cfgVars(kv ...string) settingCase {
	env := map[string]string{}
	for _, s := range kv {
		name, value, _ := strings.Cut(s, "=")
		env[name] = value
	}
	return settingCase{"`" + strings.Join(kv, " ") + "`", ucxxCase{Env: env}}
}

var valueCases = []settingCase{
	cfgYAML(`distributed-ucxx: {tcp: "no"}`),
	cfgYAML(`distributed-ucxx: {tcp: no}`),
	cfgVars("DASK_DISTRIBUTED_UCXX__TCP=no"),
	cfgVars("DASK_DISTRIBUTED_UCXX__TCP=1"),
	cfgYAML(`distributed-ucxx: {tcp: maybe}`),
	cfgYAML(`distributed-ucxx: {tpc: true}`),
	cfgYAML(`distributed-ucxx: {environment: {rndv-thresh: 8192}}`),
	cfgYAML(`distributed-ucxx: {environment: {tls: [tcp, self]}}`),
	cfgYAML(`distributed-ucxx: {environment: {UCX_TLS: tcp}}`),
	cfgYAML(`distributed-ucxx: {tcp: true, environment: {tls: all}}`),
	cfgYAML(`distributed-ucxx: {infiniband: true, environment: {net-devices: auto}}`),
	cfgYAML(`distributed-ucxx: {environment: {net-devices: auto}}`),
	cfgYAML(`distributed-ucxx: {infiniband: true, cuda-copy: false}`),
	cfgYAML(`distributed-ucxx: {nvlink: true, tcp: false}`),
	cfgYAML(`distributed-ucxx: {nvlink: true, cuda-copy: false}`),
	cfgYAML(`distributed-ucxx: {tcp: false, infiniband: false}`),
	cfgYAML(`distributed-ucxx: {rdmacm: false}`),
	cfgVars("UCX_TLS=self,tcp", "DASK_DISTRIBUTED_UCXX__TCP=false"),
	cfgYAML(`distributed-ucxx: {nvlink: true, create-cuda-context: false}`),
	cfgYAML(`distributed-ucxx: {create-cuda-context: true}`),
	cfgYAML(`distributed-ucxx: {multi-buffer: true}`),
	cfgYAML(`distributed-ucxx: {rmm: {pool-size: 1GB}}`),
	cfgYAML(`distributed-ucxx: {rmm: {pool-size: 1.5 GiB}}`),
	cfgYAML(`distributed-ucxx: {rmm: {pool-size: 1GBB}}`),
	cfgYAML(`distributed-ucxx: {environment: {rndv-thresh: "1"}}` + "\n" +
		`distributed: {comm: {ucx: {environment: {net-devices: eth0}}}}`),
	cfgVars("UCX_TLS=self,tcp", "DASK_DISTRIBUTED_UCXX__NVLINK=true"),
	cfgVars("UCX_NET_DEVICES=lo", "DASK_DISTRIBUTED_UCXX__ENVIRONMENT__NET_DEVICES=eth0"),
}

var spellingCases = []settingCase{
	cfgYAML("distributed-ucxx: {nvlink: true}"),
	cfgYAML("distributed_ucxx: {nvlink: true}"),
	cfgYAML("distributed: {comm: {ucx: {nvlink: true}}}"),
	cfgYAML("distributed: {ucx: {nvlink: true}}"),
	cfgYAML("ucx: {nvlink: true}"),
	cfgVars("DASK_DISTRIBUTED_UCXX__NVLINK=true"),
	cfgVars("DASK_DISTRIBUTED__COMM__UCX__NVLINK=true"),
	cfgVars("DASK_DISTRIBUTED__UCX__NVLINK=true"),
	cfgVars("DASK_UCX__CUDA_COPY=True", "DASK_UCX__TCP=True"),
	cfgVars("DASK_UCX__NVLINK=True"),
	cfgVars("DASK_UCX__INFINIBAND=True", "DASK_UCX__RDMACM=True", "DASK_UCX__NET_DEVICES=mlx5_0:1"),
	cfgVars("DASK_UCX__TCP=True", "DASK_DISTRIBUTED__COMM__UCX__NVLINK=True"),
	cfgYAML("distributed: {comm: {ucx: {environment: {net-devices: eth0}}}}"),
	cfgVars("DASK_DISTRIBUTED_UCXX__ENVIRONMENT__NET_DEVICES=eth0"),
	cfgYAML("distributed-ucxx: {tcp: false}\ndistributed: {comm: {ucx: {tcp: true}}}"),
	cfgYAML("distributed-ucxx: {rmm: {pool-size: 1GB}}"),
	cfgYAML("distributed: {rmm: {pool-size: 1GB}}"),
	cfgYAML("distributed: {comm: {ucx: {rmm: {pool-size: 1GB}}}}"),
	cfgYAML("rmm: {pool-size: 1GB}"),
	cfgVars("DASK_DISTRIBUTED_UCXX__RMM__POOL_SIZE=1GB"),
	cfgVars("DASK_DISTRIBUTED__RMM__POOL_SIZE=1GB"),
	cfgVars("DASK_RMM__POOL_SIZE=1GB"),
}

// writeCases writes a table of inputs and their effects.
func writeCases(t *testing.T, b *strings.Builder, cases []settingCase) {
	var plain []ucxxCase
	for _, c := range cases {
		plain = append(plain, c.ucxxCase)
	}
	b.WriteString("| input | ours | theirs |\n|---|---|---|\n")
	for i, a := range askUCXX(t, plain) {
		theirs := cfgEffect(a.Value.Options, a.Value.Pool, a.Value.MultiBuffer, a.Value.Context)
		if a.Error != "" {
			if !strings.HasPrefix(a.Error, "TypeError") && !strings.HasPrefix(a.Error, "ValueError") {
				t.Errorf("%s: %s", cases[i].input, a.Error) // the script's fault, not that of distributed-ucxx
			}
			theirs = "`" + a.Error + "`"
		}
		s, err := cfgOurs(t, cases[i].ucxxCase)
		var mine string
		if err != nil {
			_, text, _ := strings.Cut(err.Error(), ": ")
			mine = "`" + text + "`"
		} else {
			options := map[string]string{}
			maps.Copy(options, s.Options)
			maps.Copy(options, s.Env)
			mine = cfgEffect(options, s.RMM.PoolSize, s.UCX.MultiBuffer.String() == "true", s.CUDAContext)
		}
		if mine != theirs {
			mine, theirs = "**"+mine+"**", "**"+theirs+"**"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", strings.ReplaceAll(cases[i].input, "|", `\|`), mine, theirs)
	}
}

// cfgEffect tells what follows from settings.
func cfgEffect(options map[string]string, pool int64, multi, context bool) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(options)) {
		parts = append(parts, fmt.Sprintf("`UCX_%s=%s`", name, options[name]))
	}
	if pool > 0 {
		parts = append(parts, fmt.Sprintf("pool of %d bytes", pool))
	}
	if multi {
		parts = append(parts, "multi-buffer")
	}
	if context {
		parts = append(parts, "CUDA context")
	}
	if len(parts) == 0 {
		return "–"
	}
	return strings.Join(parts, ", ")
}
