package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"strings"

	"github.com/spf13/cobra"

	"go.millstream.dev/config"
	"go.millstream.dev/internal/proc/cmdline"
)

const configLong = `Shows and checks the configuration that Millstream shares with Dask.

Values come from these places; a later one wins:
  defaults
  YAML and JSON files   /etc/dask, /etc/millstream, etc/dask of the Python
                        environment, ~/.config/dask, ~/.config/millstream,
                        $DASK_CONFIG, $MILLSTREAM_CONFIG
  DASK_* variables      DASK_DISTRIBUTED_UCXX__TCP=true is distributed-ucxx.tcp
  the program           config.Set; here --set
  flags
  UCX_* variables       for UCX's own settings

Within one place the newest spelling wins: distributed-ucxx over
distributed.comm.ucx and distributed.rmm over ucx and rmm. The older ones work,
and a warning names what to write instead.`

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		Short:   "Show, check and migrate the configuration",
		Long:    configLong,
		GroupID: groupStart,
		Example: `  millstream config show
  millstream config show distributed-ucxx --ucx
  millstream config check
  millstream config migrate ~/.config/dask/ucx.yaml --write`,
		Args: cmdline.NoSuchCommand,
		RunE: cmdline.ShowHelp,
	}
	cmd.AddCommand(configShowCommand(), configCheckCommand(), configMigrateCommand(), configDefaultsCommand(),
		configSchemaCommand())
	return cmd
}

// configSource is what show and check read.
type configSource struct {
	files    []string
	set      []string
	warnings []config.Warning // filled by load
}

func (s *configSource) flags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&s.files, "file", nil, "read this file or folder instead of the usual ones; may "+
		"be repeated")
	cmd.Flags().StringArrayVar(&s.set, "set", nil, "set KEY=VALUE as a program would, for example "+
		"distributed-ucxx.tcp=true; may be repeated")
}

// load reads the configuration and keeps its warnings for the command to show.
func (s *configSource) load(unchecked bool) (*config.Config, error) {
	o := config.Options{Unchecked: unchecked, Warn: func(w config.Warning) { s.warnings = append(s.warnings, w) }}
	if len(s.files) > 0 {
		o.Paths = s.files
	}
	cfg, err := config.Load(o)
	if err != nil {
		return nil, err
	}
	for _, kv := range s.set {
		key, text, ok := strings.Cut(kv, "=")
		if !ok || key == "" {
			return nil, cmdline.Usagef("--set %q: want KEY=VALUE", kv)
		}
		value, err := config.Interpret(text)
		if err != nil {
			return nil, cmdline.Usagef("--set %s: %v", kv, err)
		}
		if _, err := cfg.SetFrom(config.Source{Kind: config.KindSet, Name: "--set"},
			map[string]any{key: value}); err != nil {
			return nil, err
		}
	}
	return cfg, nil
}

func configDefaultsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "defaults",
		Short: "Print the defaults of Millstream's sections as a file to start from",
		Long: `Prints sections distributed-ucxx and millstream with their defaults and a comment on each key.
Section distributed-ucxx has the form that Python's distributed-ucxx gives it.`,
		Example: "  millstream config defaults > ~/.config/dask/millstream.yaml",
		Args:    cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), config.DefaultsYAML())
			return err
		},
	}
}

func configSchemaCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print what Millstream's sections may hold",
		Long: `Prints the JSON schema of sections distributed-ucxx and millstream, in YAML as Dask keeps its own.
Millstream checks these sections at start; all others belong to somebody else and are left alone.`,
		Example: `  millstream config schema
  millstream config schema --json > schema.json`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !asJSON {
				_, err := io.WriteString(cmd.OutOrStdout(), config.SchemaYAML())
				return err
			}
			v, err := config.ParseYAML("schema", []byte(config.SchemaYAML()))
			if err != nil {
				return err
			}
			return writeIndented(cmd.OutOrStdout(), jsonValue(v))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON, for editors")
	return cmd
}

func writeIndented(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// jsonValue turns a value of the configuration into one for encoding/json. What JSON does not
// have is written as text.
func jsonValue(v any) any {
	switch v := v.(type) {
	case nil, bool, int64, string:
		return v
	case *big.Int:
		return json.Number(v.String())
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return config.Format(v)
		}
		return v
	case config.List:
		return jsonList(v)
	case config.Tuple:
		return jsonList(v)
	case config.Set:
		return jsonList(v)
	case *config.Map:
		m := map[string]any{}
		for e := range v.All() {
			key, ok := e.Key.(string)
			if !ok {
				key = config.Format(e.Key)
			}
			m[key] = jsonValue(e.Value)
		}
		return m
	}
	return config.Format(v)
}

func jsonList(items []any) []any {
	all := make([]any, len(items))
	for i, item := range items {
		all[i] = jsonValue(item)
	}
	return all
}

func writeWarnings(w io.Writer, warnings []config.Warning) {
	for _, warning := range warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
}
