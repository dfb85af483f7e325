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

// configReport is what `millstream config show --json` prints.
type configReport struct {
	Files  []string      `json:"files"`
	Values []valueReport `json:"values"`
	// Settings are those of UCX and GPU memory under their newest names.
	Settings []valueReport `json:"settings"`
	// Options are what UCX is given, Env the UCX_* variables that it reads by itself.
	Options     map[string]string `json:"options"`
	Env         map[string]string `json:"env"`
	CUDAContext bool              `json:"cuda_context"`
	MultiBuffer bool              `json:"multi_buffer"`
	PoolBytes   int64             `json:"pool_bytes"`
	Warnings    []string          `json:"warnings"`
	// UCX is what a running UCX says about the options above and the usual three, and
	// Transports what it found with them; only with --ucx.
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
		Long: `Shows every value with the file and line, the variable or the flag that it came from, and what follows
for UCX. KEY limits that to keys which start with it. Every --enable-… flag has an opposite, --disable-….

With --ucx a UCX context is opened with the result, and UCX itself says what it uses.`,
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
				if err := r.ask(settings); err != nil {
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
	cmd.Flags().BoolVar(&asJSON, "json", false, "print everything as JSON")
	cmd.Flags().BoolVar(&secrets, "secrets", false, "also show passwords, tokens and the like")
	cmd.Flags().BoolVar(&withUCX, "ucx", false, "open a UCX context and show what UCX itself uses")
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

// secretKey is a key whose value is not for a report that is pasted somewhere. The second half
// is the variable that holds all of a parent's configuration.
var secretKey = regexp.MustCompile(
	`(?i)(password|passwd|secret|token|credential|api[-_]?key)[^.]*$|^internal[-_]inherit[-_]config$`)

// values lists the leaves in order.
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
			e.Value = "(hidden; --secrets shows it)"
		}
		if wanted(key) {
			r.Values = append(r.Values, newValueReport(key, e.Value, e.Source))
		}
	}
}

// ask opens a UCX context as Millstream would and asks it what it uses.
func (r *configReport) ask(s *config.Settings) error {
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
			continue // the list below has them
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", v.Key, v.text, v.Source)
	}
	if len(r.Settings) > 0 {
		fmt.Fprintf(t, "\nUCX and GPU memory, all spellings and flags taken together\n")
		for _, v := range r.Settings {
			source := v.Source
			if v.Value == nil {
				source = "not set"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\n", v.Key, v.text, source)
		}
	}
	fmt.Fprintf(t, "\nWhat follows\n")
	for _, name := range sortedKeys(r.Options) {
		fmt.Fprintf(t, "UCX_%s\t%s\tthe settings above\n", name, r.Options[name])
	}
	for _, name := range sortedKeys(r.Env) {
		fmt.Fprintf(t, "UCX_%s\t%s\tthe environment\n", name, r.Env[name])
	}
	fmt.Fprintf(t, "CUDA context\t%s\n", yesNo(r.CUDAContext))
	fmt.Fprintf(t, "multi-buffer\t%s\n", yesNo(r.MultiBuffer))
	fmt.Fprintf(t, "pool\t%d bytes\n", r.PoolBytes)
	if r.UCX != nil {
		fmt.Fprintf(t, "\nWhat UCX says\n")
		for _, name := range sortedKeys(r.UCX) {
			fmt.Fprintf(t, "UCX_%s\t%s\n", name, r.UCX[name])
		}
		fmt.Fprintf(t, "transports\t%s\n", strings.Join(r.Transports, " "))
	}
	fmt.Fprintf(t, "\nFiles read, the last wins\n")
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
