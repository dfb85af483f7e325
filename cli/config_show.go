package cli

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"go.millstream.dev/config"
	"go.millstream.dev/ucx"
)

// configReport is the output of `millstream config show --json`.
type configReport struct {
	Files  []string      `json:"files"`
	Values []valueReport `json:"values"`
	// Settings are those of UCX and GPU memory, with their newest names.
	Settings []valueReport `json:"settings"`
	// Options are passed to UCX; Env are the UCX_* variables that UCX reads itself.
	Options     map[string]string `json:"options"`
	Env         map[string]string `json:"env"`
	CUDAContext bool              `json:"cuda_context"`
	MultiBuffer bool              `json:"multi_buffer"`
	PoolBytes   int64             `json:"pool_bytes"`
	Warnings    []string          `json:"warnings"`
	// UCX has the effective values of these options, TLS, SOCKADDR_TLS_PRIORITY and NET_DEVICES in a UCX context, and
	// Transports its transports; only with --ucx.
	UCX        map[string]string `json:"ucx,omitempty"`
	Transports []string          `json:"transports,omitempty"`
}

type valueReport struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Source string `json:"source"`
	Kind   string `json:"kind"`
	text   string
}

func configShowCommand() *cobra.Command {
	var source configSource
	var asJSON, withUCX, secrets bool
	var flags *ucxFlags
	cmd := &cobra.Command{
		Use:   "show [KEY]...",
		Short: "Show the effective values and the source of each",
		Long: `Show every value with its source, a file and line, a variable or a flag, and the resulting UCX settings.
KEY selects keys with this prefix. Every --enable-… flag has an opposite, --disable-….

With --ucx a UCX context is opened with these settings, and its effective values are shown.`,
		Example: `  millstream config show
  millstream config show distributed-ucxx distributed.comm.timeouts
  DASK_UCX__NVLINK=True millstream config show distributed-ucxx
  millstream config show --enable-infiniband --net-devices mlx5_0:1 --ucx --json`,
		RunE: func(cmd *cobra.Command, keys []string) error {
			overrides, err := flags.overrides()
			if err != nil {
				return err
			}
			cfg, err := source.load(false)
			if err != nil {
				return err
			}
			settings, err := cfg.Settings(overrides)
			if err != nil {
				return err
			}
			r := newConfigReport(cfg, settings, keys, secrets)
			if withUCX {
				if err := r.queryUCX(settings); err != nil {
					return err
				}
			}
			warnings := append(source.warnings, settings.Warnings...)
			if asJSON {
				for _, w := range warnings {
					r.Warnings = append(r.Warnings, w.String())
				}
				return writeIndented(cmd.OutOrStdout(), r)
			}
			writeWarnings(cmd.ErrOrStderr(), warnings)
			return r.write(cmd.OutOrStdout())
		},
	}
	source.flags(cmd)
	flags = addUCXFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "output as JSON")
	cmd.Flags().BoolVar(&secrets, "secrets", false, "passwords, tokens and other secrets in the output")
	cmd.Flags().BoolVar(&withUCX, "ucx", false, "effective values of a UCX context")
	return cmd
}

func newConfigReport(cfg *config.Config, s *config.Settings, keys []string, secrets bool) *configReport {
	r := &configReport{
		Files: append([]string{}, cfg.Files()...), Values: []valueReport{}, Settings: []valueReport{},
		Options: s.Options, Env: s.Env, CUDAContext: s.CUDAContext,
		MultiBuffer: s.UCX.MultiBuffer == config.On, PoolBytes: s.RMM.PoolSize, Warnings: []string{},
	}
	wanted := func(key string) bool {
		for _, k := range keys {
			k, key := strings.ReplaceAll(k, "_", "-"), strings.ReplaceAll(key, "_", "-")
			if key == k || strings.HasPrefix(key, strings.TrimSuffix(k, ".")+".") {
				return true
			}
		}
		return len(keys) == 0
	}
	r.values("", cfg.Root(), wanted, secrets)
	for _, v := range s.Values {
		if wanted(v.Key) {
			r.Settings = append(r.Settings, newValueReport(v.Key, v.Value, v.Source))
		}
	}
	return r
}

func newValueReport(key string, value any, src config.Source) valueReport {
	return valueReport{key, jsonValue(value), src.String(), src.Kind.String(), config.Format(value)}
}

// secretKey matches keys whose values must not appear in reports. The second alternative is the variable with the whole
// configuration of the parent process.
var secretKey = regexp.MustCompile(
	`(?i)(password|passwd|secret|token|credential|api[-_]?key)[^.]*$|^internal[-_]inherit[-_]config$`)

// values adds all leaves in order.
func (r *configReport) values(prefix string, m *config.Map, wanted func(string) bool, secrets bool) {
	for e := range m.All() {
		name, ok := e.Key.(string)
		if !ok {
			name = config.Format(e.Key)
		}
		key := prefix + name
		if sub, ok := e.Value.(*config.Map); ok && sub.Len() > 0 {
			r.values(key+".", sub, wanted, secrets)
			continue
		}
		if !secrets && e.Value != nil && secretKey.MatchString(key) {
			e.Value = "(hidden; use --secrets)"
		}
		if wanted(key) {
			r.Values = append(r.Values, newValueReport(key, e.Value, e.Source))
		}
	}
}

// queryUCX opens a UCX context as Millstream does and reads its effective values.
func (r *configReport) queryUCX(s *config.Settings) error {
	c, err := ucx.NewContext(ucx.Config{Library: s.UCX.Library, Options: s.Options,
		PlainTransports: s.UCX.PlainTransports == config.On})
	if err != nil {
		return err
	}
	defer c.Close()
	info := c.Info()
	r.UCX, r.Transports = map[string]string{}, info.Transports
	for name, value := range info.Options {
		name = strings.TrimPrefix(name, "UCX_")
		_, asked := s.Options[name]
		if _, inEnv := s.Env[name]; asked || inEnv || name == "TLS" || name == "SOCKADDR_TLS_PRIORITY" ||
			name == "NET_DEVICES" {
			r.UCX[name] = value
		}
	}
	return nil
}

func (r *configReport) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, v := range r.Values {
		if v.Kind == config.KindDefault.String() && (strings.HasPrefix(v.Key, "distributed-ucxx.") ||
			strings.HasPrefix(v.Key, "millstream.")) {
			continue // listed below
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", v.Key, v.text, v.Source)
	}
	if len(r.Settings) > 0 {
		fmt.Fprintf(t, "\nUCX and GPU memory, from all spellings and flags\n")
		for _, v := range r.Settings {
			source := v.Source
			if v.Value == nil {
				source = "not set"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\n", v.Key, v.text, source)
		}
	}
	fmt.Fprintf(t, "\nResulting settings\n")
	for _, name := range sortedKeys(r.Options) {
		fmt.Fprintf(t, "UCX_%s\t%s\tsettings above\n", name, r.Options[name])
	}
	for _, name := range sortedKeys(r.Env) {
		fmt.Fprintf(t, "UCX_%s\t%s\tenvironment\n", name, r.Env[name])
	}
	fmt.Fprintf(t, "CUDA context\t%s\n", yesNo(r.CUDAContext))
	fmt.Fprintf(t, "multi-buffer\t%s\n", yesNo(r.MultiBuffer))
	fmt.Fprintf(t, "pool\t%d bytes\n", r.PoolBytes)
	if r.UCX != nil {
		fmt.Fprintf(t, "\nEffective values in UCX\n")
		for _, name := range sortedKeys(r.UCX) {
			fmt.Fprintf(t, "UCX_%s\t%s\n", name, r.UCX[name])
		}
		fmt.Fprintf(t, "transports\t%s\n", strings.Join(r.Transports, " "))
	}
	fmt.Fprintf(t, "\nFiles, in ascending order of precedence\n")
	for _, f := range r.Files {
		fmt.Fprintln(t, f)
	}
	if len(r.Files) == 0 {
		fmt.Fprintln(t, "none")
	}
	return t.Flush()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
