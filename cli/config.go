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

const configLong = `Show and check the configuration, which Millstream shares with Dask.

Values come from these sources, in ascending order of precedence:
  defaults
  YAML and JSON files   /etc/dask, /etc/millstream, etc/dask of the Python
                        environment, ~/.config/dask, ~/.config/millstream,
                        $DASK_CONFIG, $MILLSTREAM_CONFIG
  DASK_* variables      DASK_DISTRIBUTED_UCXX__TCP=true is distributed-ucxx.tcp
  the program           config.Set; here --set
  flags
  UCX_* variables       for settings of UCX

Within one source the newest spelling takes precedence: distributed-ucxx over
distributed.comm.ucx and distributed.rmm over ucx and rmm. Older spellings work,
with a warning that names the replacement.`

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

// configSource specifies what show and check read.
type configSource struct {
	files    []string
	set      []string
	warnings []config.Warning // set by load
}

func (s *configSource) flags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&s.files, "file", nil, "file or folder to read instead of the default ones; may "+
		"be repeated")
	cmd.Flags().StringArrayVar(&s.set, "set", nil, "setting KEY=VALUE, as by a program, such as "+
		"distributed-ucxx.tcp=true; may be repeated")
}

// load reads the configuration and keeps the warnings for the command.
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
		Short: "Print the defaults as a configuration file",
		Long: `Print the sections distributed-ucxx and millstream with their defaults and a comment for each key.
Section distributed-ucxx has the form of the Python package distributed-ucxx.`,
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
		Short: "Print the schema of the configuration",
		Long: `Print the JSON schema of the sections distributed-ucxx and millstream, in YAML like the schema of Dask.
Millstream checks these sections at start and ignores all others.`,
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
	cmd.Flags().BoolVar(&asJSON, "json", false, "output as JSON, for editors")
	return cmd
}

func writeIndented(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// jsonValue converts a configuration value for encoding/json. Values that JSON does not support become text.
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
